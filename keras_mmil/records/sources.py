"""Nested records from wherever people keep them, as batches of Arrow structs."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet

from keras_mmil.records import json_files
from keras_mmil.records.plain import to_arrow

__all__ = ["Batch", "batches", "check_top"]

_ROWS = 10_000  # of lists of dicts
_PARQUET_ROWS = 2**16


class Batch(NamedTuple):
    """Some records.

    Attributes:
        first: number of the first of them, from 0.
        records: StructArray, or a struct of structs if they are of several types.
    """

    first: int
    records: pa.Array


def batches(source: Any, columns: Iterable[str] | None = None) -> Iterator[Batch]:
    """Records in batches.

    Args:
        source: a list of dicts; the path of a .json, .jsonl or .ndjson file, which may end in .gz,
            of a Parquet file, or of a folder of Parquet files; a pandas DataFrame; or Arrow's
            Table, RecordBatch or StructArray.
        columns: names of fields at the top, where others need not be read; None for all.

    Raises:
        TypeError: if it is none of these.
        ValueError: if a file ends in something else, or is damaged; it names the record.
        FileNotFoundError: if there is no such file.
    """
    wanted = None if columns is None else list(columns)
    first = 0
    for records in _arrays(source, wanted):
        check_top(records, first)
        yield Batch(first, records)
        first += len(records)


def check_top(records: pa.Array, first: int) -> None:
    """Raise TypeError where what should be records are values or lists."""
    if pa.types.is_struct(records.type) and not records.null_count:
        names = [field.name for field in records.type]
        if not any(name.startswith("\0") for name in names):
            return
    for number, record in enumerate(records, first):
        value = record.as_py()
        if isinstance(value, dict) and any(name.startswith("\0") for name in value):
            value = next((x for x in value.values() if x is not None), None)
        if not isinstance(value, dict):
            raise TypeError(
                f"Expected records, such as dicts. Received: {type(value).__name__} as record "
                f"{number}"
            )


def _arrays(source: Any, columns: list[str] | None) -> Iterator[pa.Array]:
    if isinstance(source, str | Path):
        return _of_path(Path(source), columns)
    if isinstance(source, pa.Table | pa.RecordBatch):
        return _of_table(source)
    if isinstance(source, pa.Array):
        return iter([source])
    if hasattr(source, "columns") and hasattr(source, "to_dict"):
        return _of_data_frame(source)
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise TypeError(
            "Expected a list of dicts, a path, a DataFrame or an Arrow table. "
            f"Received: {type(source).__name__}"
        )
    return _of_objects(source)


def _of_objects(objects: Iterable[Any]) -> Iterator[pa.Array]:
    objects, first = iter(objects), 0
    while some := list(itertools.islice(objects, _ROWS)):
        yield to_arrow(some)
        first += len(some)


def _of_table(table: pa.Table | pa.RecordBatch) -> Iterator[pa.Array]:
    if isinstance(table, pa.RecordBatch):
        yield table.to_struct_array()
        return
    for batch in table.to_batches(max_chunksize=_PARQUET_ROWS):
        yield batch.to_struct_array()


def _of_data_frame(frame: Any) -> Iterator[pa.Array]:
    names = [str(name) for name in frame.columns]
    try:
        table = pa.Table.from_pandas(frame.set_axis(names, axis=1), preserve_index=False)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return _of_objects(frame.set_axis(names, axis=1).to_dict("records"))
    return _of_table(table)


def _of_path(path: Path, columns: list[str] | None) -> Iterator[pa.Array]:
    if path.is_dir():
        files = sorted(path.rglob("*.parquet"))
        if not files:
            raise FileNotFoundError(f"Expected Parquet files in a folder. Received: {path}")
        return itertools.chain.from_iterable(_of_parquet(file, columns) for file in files)
    if not path.exists():
        raise FileNotFoundError(f"Expected a file of records. Received: {path}")
    endings = path.suffixes
    is_packed = endings[-1:] == [".gz"]
    ending = (endings[:-1] if is_packed else endings)[-1:]
    if ending == [".parquet"] and not is_packed:
        return _of_parquet(path, columns)
    if ending in ([".jsonl"], [".ndjson"]):
        return json_files.lines(path)
    if ending == [".json"]:
        return json_files.document(path)
    raise ValueError(
        "Expected a file that ends in .parquet, .json, .jsonl or .ndjson (the latter also .gz). "
        f"Received: {path}"
    )


def _of_parquet(path: Path, columns: list[str] | None) -> Iterator[pa.Array]:
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"Expected a Parquet file. Received: {path} ({error})") from error
    with file:
        if columns is not None:
            known = set(file.schema_arrow.names)
            columns = [name for name in columns if name in known]
        for batch in file.iter_batches(batch_size=_PARQUET_ROWS, columns=columns):
            yield batch.to_struct_array()

"""Nested records from wherever people keep them, as batches of Arrow structs."""

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from keras_mmil._support.types import Ints
from keras_mmil.records import arrow, csv_files, json_files, parquet
from keras_mmil.records.plain import in_batches, name_of

__all__ = ["Batch", "batches"]

_ROWS = 2**16


class Batch(NamedTuple):
    """Some records.

    Attributes:
        numbers: of the records, from 0.
        records: array of structs or maps.
    """

    numbers: range | Ints
    records: pa.Array

    def part(self, places: slice | Ints) -> "Batch":
        """Those at some places."""
        if isinstance(places, slice):
            return Batch(self.numbers[places], self.records[places])
        numbers = (
            np.arange(self.numbers.start, self.numbers.stop)
            if isinstance(self.numbers, range)
            else self.numbers
        )
        return Batch(numbers[places], self.records.take(pa.array(places)))


def batches(source: Any, wanted: parquet.Wanted | None = None) -> Iterator[Batch]:
    """Records in batches.

    Args:
        source: a list of dicts; the path of a .json, .jsonl or .ndjson file, which may end in .gz,
            of a Parquet file, of a folder of Parquet files, or of a .csv file, which is read as a
            whole; a pandas DataFrame; or Arrow's Table, RecordBatch or StructArray.
        wanted: what needs to be read of files in which parts can be left out; None for all.

    Raises:
        TypeError: if it is none of these.
        ValueError: if a file ends in something else, or is damaged; it names the record.
        FileNotFoundError: if there is no such file.
    """
    first = 0
    with _naming(source):
        for records in _arrays(source, wanted):
            _check(records, first)
            if len(records):
                yield Batch(range(first, first + len(records)), records)
            first += len(records)


@contextlib.contextmanager
def _naming(source: Any) -> Iterator[None]:
    """Name the file in the message of an error of its records, where it is not."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not isinstance(source, str | os.PathLike) or str(source) in str(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{error}, in {source}") from error


def _check(records: pa.Array, first: int) -> None:
    """Raise TypeError where what should be records are values or lists."""
    arrow.check_depth(records.type)
    is_record = np.zeros(len(records), bool)
    found = arrow.alternatives(records, "")
    for type_, values in found.items():
        if type_ == "record":
            is_record = arrow.as_numpy(values.is_valid())
    if is_record.all():
        return
    number = int(np.argmin(is_record))
    types = [type_ for type_, values in found.items() if values[number].is_valid]
    raise TypeError(
        f"Expected records, such as dicts. Received: {''.join(types) or 'null'} as record "
        f"{first + number}"
    )


def _arrays(source: Any, wanted: parquet.Wanted | None) -> Iterator[pa.Array]:
    if isinstance(source, str | os.PathLike):
        return _of_path(Path(source), wanted)
    if isinstance(source, pa.Array):
        return iter([source])
    if isinstance(source, pa.ChunkedArray):
        return source.iterchunks()
    if hasattr(source, "set_axis"):  # pandas
        return _of_data_frame(source)
    if hasattr(source, "__arrow_c_stream__"):  # also polars, DuckDB ...
        return _of_table(pa.table(source))
    if isinstance(source, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([source]))
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise TypeError(
            "Expected a list of dicts, a path, a DataFrame or an Arrow table. "
            f"Received: {type(source).__name__}"
        )
    return in_batches(source)


def _of_table(table: pa.Table) -> Iterator[pa.Array]:
    for batch in table.to_batches(max_chunksize=_ROWS):
        yield batch.to_struct_array()


def _of_data_frame(frame: Any) -> Iterator[pa.Array]:
    names = [name_of(name) for name in frame.columns]
    for i, name in enumerate(names):
        if (first := names.index(name)) < i:
            one, two = frame.columns[first], frame.columns[i]
            raise ValueError(
                f"Expected columns whose names differ as texts. Received: {one!r} and {two!r}"
            )
    frame = frame.set_axis(names, axis=1)
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return in_batches(frame.to_dict("records"))
    return _of_table(table)


def _of_path(path: Path, wanted: parquet.Wanted | None) -> Iterator[pa.Array]:
    if path.is_dir():
        files = sorted(path.rglob("*.parquet"))
        if not files:
            raise FileNotFoundError(f"Expected Parquet files in a folder. Received: {path}")
        return itertools.chain.from_iterable(parquet.records(file, wanted) for file in files)
    if not path.exists():
        raise FileNotFoundError(f"Expected a file of records. Received: {path}")
    endings = path.suffixes
    is_packed = endings[-1:] == [".gz"]
    ending = (endings[:-1] if is_packed else endings)[-1:]
    if ending == [".parquet"] and not is_packed:
        return parquet.records(path, wanted)
    if ending == [".csv"] and not is_packed:
        return _of_table(csv_files.table(path))
    if ending in ([".jsonl"], [".ndjson"]):
        return json_files.lines(path)
    if ending == [".json"]:
        return json_files.document(path)
    raise ValueError(
        "Expected a file that ends in .parquet, .csv, .json, .jsonl or .ndjson (the last three "
        "also .gz). "
        f"Received: {path}"
    )

"""Nested records from wherever people keep them, as batches of Arrow structs."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from keras_mmil._support.types import Ints
from keras_mmil.records import arrow, csv_files, json_files, parquet
from keras_mmil.records.files import Files, Found, are_paths, ending, found_files
from keras_mmil.records.keyed import joined
from keras_mmil.records.plain import in_batches, name_of, to_arrow

__all__ = ["Batch", "batches", "whole"]

_ROWS = 2**16
_EXPECTED = (
    "Expected a list of dicts, a path or several, a dict of columns, a DataFrame or an Arrow table"
)
_HINT = "; [record] is a list of one record"


class Batch(NamedTuple):
    """Some records.

    Attributes:
        numbers: of the records, from 0.
        records: array of structs or maps.
        lines: the lines that they are in, from 1, if they are of a file with a record in each line.
        file: the file that they are of, to be named in errors; "" for none.
        offset: the number of the first record of that file.
    """

    numbers: range | Ints
    records: pa.Array
    lines: range | Ints | None = None
    file: str = ""
    offset: int = 0

    def part(self, places: slice | Ints) -> "Batch":
        """Those at some places."""
        taken = places if isinstance(places, slice) else pa.array(places)
        records = self.records[places] if isinstance(places, slice) else self.records.take(taken)
        lines = None if self.lines is None else _at(self.lines, places)
        return Batch(_at(self.numbers, places), records, lines, self.file, self.offset)

    def named(self, place: int) -> str:
        """What the record at a place is called in errors."""
        where = f" of {self.file}" if self.file else ""
        if self.lines is None:
            return f"record {self.numbers[place] - self.offset}{where}"
        return f"line {self.lines[place]}{where}"


def _at(numbers: range | Ints, places: slice | Ints) -> range | Ints:
    if isinstance(places, slice):
        return numbers[places]
    return np.asarray(numbers)[places]


class _Read(NamedTuple):
    """Records as they are read: see `Batch`."""

    records: pa.Array
    lines: range | Ints | None = None
    file: str = ""


def batches(
    source: Any,
    wanted: parquet.Wanted | None = None,
    types: Mapping[str, str] | None = None,
) -> Iterator[Batch]:
    """Records in batches.

    Args:
        source: a list of records: dicts, dataclasses, named tuples or NumPy records; the path of a
            .json, .jsonl, .ndjson, .csv or .tsv file, which may end in .gz or .zst, or of a Parquet
            file; of a folder of such files, a pattern, or a list of paths; `Files`; a dict of
            columns; a pandas or Polars DataFrame; a structured array of NumPy; Arrow's Table,
            RecordBatch or StructArray; or anything else with Arrow's interface.
        wanted: what needs to be read of files in which parts can be left out; None for all.
        types: the types of fields at the top, by name, for files that do not say: those of CSV.

    Raises:
        TypeError: if it is none of these.
        ValueError: if a file ends in something else, is damaged, holds a record that is larger than
            it may be, or does not fit in memory; it names the file, and the line or the record.
        FileNotFoundError: if there is no such file.
    """
    return (batch for batch in _batches(source, wanted, types or {}) if len(batch.records))


def whole(source: Any, types: Mapping[str, str] | None = None) -> pa.Array:
    """All records of a source, an array of structs or maps, which can be taken apart.

    Args:
        source, types: as of `batches`.

    Raises:
        FileNotFoundError, TypeError, ValueError: as `batches`.
    """
    found = [batch.records for batch in _batches(source, None, types or {})]
    return joined([records for records in found if len(records)] or found[:1], "")


def _batches(
    source: Any, wanted: parquet.Wanted | None, types: Mapping[str, str]
) -> Iterator[Batch]:
    """Records in batches, which may be empty."""
    first = offset = 0
    file = ""
    for read in _arrays(source, wanted, types):
        if read.file != file:
            file, offset = read.file, first
        numbers = range(first, first + len(read.records))
        with _naming(file):
            records = arrow.plain_types(read.records)
            batch = Batch(numbers, records, read.lines, file, offset)
            _check(batch)
        yield batch
        first += len(records)


@contextlib.contextmanager
def _naming(file: str) -> Iterator[None]:
    """Name the file in the message of an error of its records, where it is not."""
    try:
        yield
    except MemoryError as error:
        if not file:
            raise
        raise ValueError(f"Expected records that fit in memory. Received: {file}") from error
    except (TypeError, ValueError) as error:
        if file in str(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{error}, in {file}") from error


def _check(batch: Batch) -> None:
    """Raise TypeError where what should be records are values or lists."""
    arrow.check_depth(batch.records.type)
    is_record = np.zeros(len(batch.records), bool)
    found = arrow.alternatives(batch.records, "")
    for type_, values in found.items():
        if type_ == "record":
            is_record = arrow.as_numpy(values.is_valid())
    if is_record.all():
        return
    place = int(np.argmin(is_record))
    types = [type_ for type_, values in found.items() if values[place].is_valid]
    raise TypeError(
        f"Expected records, such as dicts. Received: {''.join(types) or 'null'} as "
        f"{batch.named(place)}"
    )


def _arrays(
    source: Any, wanted: parquet.Wanted | None, types: Mapping[str, str]
) -> Iterator[_Read]:
    if isinstance(source, Files):
        return _of_files(source, wanted, types)
    if are_paths(source):
        return _of_files(Files(source), wanted, types)
    return map(_Read, _of_memory(source))


def _of_memory(source: Any) -> Iterator[pa.Array]:
    if isinstance(source, pa.Array):
        return iter([source])
    if isinstance(source, pa.ChunkedArray):
        return source.iterchunks()
    if isinstance(source, pa.RecordBatch):
        return _of_table(pa.Table.from_batches([source]))
    if hasattr(source, "set_axis") and hasattr(source, "columns"):  # pandas
        return _of_data_frame(source)
    if hasattr(source, "collect_schema") and hasattr(source, "collect"):  # lazy, of Polars
        source = source.collect()
    if hasattr(source, "__arrow_c_stream__") and not hasattr(source, "set_axis"):
        return _of_stream(source)
    if hasattr(source, "__arrow_c_array__"):
        return iter([pa.array(source)])
    if isinstance(source, np.ndarray) and source.dtype.names:
        return _of_columns({name: source[name] for name in source.dtype.names})
    if isinstance(source, Mapping):
        return _of_columns(source)
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise TypeError(f"{_EXPECTED}. Received: {type(source).__name__}")
    return in_batches(source)


def _of_stream(source: Any) -> Iterator[pa.Array]:
    """The records of what has Arrow's interface, such as a DataFrame or a Series of Polars."""
    try:
        reader = pa.RecordBatchReader.from_stream(source)
    except pa.ArrowInvalid as error:
        raise TypeError(
            f"Expected records. Received: a {type(source).__name__} of others"
        ) from error
    return _of_reader(reader)


def _of_reader(reader: pa.RecordBatchReader) -> Iterator[pa.Array]:
    yield arrow.no_records(reader.schema)  # for its fields
    for batch in reader:
        for first in range(0, len(batch), _ROWS):
            yield batch[first : first + _ROWS].to_struct_array()


def _of_columns(columns: Mapping[Any, Any]) -> Iterator[pa.Array]:
    """The rows of columns by name."""
    sizes: dict[str, int] = {}
    for name, column in columns.items():
        if isinstance(column, str | bytes | Mapping) or not hasattr(column, "__len__"):
            raise TypeError(
                f"{_EXPECTED}. Received: a dict with a {type(column).__name__} for {name!r}{_HINT}"
            )
        sizes[str(name)] = len(column)
    if len(set(sizes.values())) != 1 or len(sizes) < len(columns):
        shown = ", ".join(f"{name!r} of {n}" for name, n in list(sizes.items())[:12])
        raise TypeError(
            f"{_EXPECTED}. Received: a dict, whose columns are {shown or 'none'}{_HINT}"
        )
    if all(_holds_records(column) for column in columns.values()):
        raise TypeError(
            f"{_EXPECTED}. Received: a dict of lists of records; `Schema.infer_tables` takes tables"
            f"{_HINT}"
        )
    arrays = [_column(column, str(name)) for name, column in columns.items()]
    return iter([pa.StructArray.from_arrays(arrays, list(sizes))])


def _holds_records(column: Any) -> bool:
    return isinstance(column, list | tuple) and len(column) > 0 and isinstance(column[0], Mapping)


def _column(column: Any, name: str) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    if isinstance(column, pa.Array):
        return column
    if isinstance(column, np.ndarray) and column.dtype.names:
        inner = {each: column[each] for each in column.dtype.names}
        arrays = [_column(x, f"{name}.{each}") for each, x in inner.items()]
        return pa.StructArray.from_arrays(arrays, list(inner))
    return to_arrow(list(column), name)


def _of_table(table: pa.Table) -> Iterator[pa.Array]:
    yield arrow.no_records(table.schema)  # for its fields
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


def _of_files(
    files: Files, wanted: parquet.Wanted | None, types: Mapping[str, str]
) -> Iterator[_Read]:
    found = found_files(files.paths)
    kind = ending(found[0].path)
    if files.records is not None and kind != ".json":
        raise ValueError(f"Expected .json files, for records={files.records!r}. Received: {files}")
    if files.decimal is not None and kind not in (".csv", ".tsv"):
        raise ValueError(
            f"Expected .csv or .tsv files, for decimal={files.decimal!r}. Received: {files}"
        )
    if kind in (".csv", ".tsv"):
        paths = [each.path for each in found]
        with _naming(str(files)):
            tables = [csv_files.texts(path) for path in paths]
            table = csv_files.typed(tables, paths, types, files.decimal)
        if any(each.constants for each in found):
            raise ValueError(f"Expected no folders such as year=2024 around CSV. Received: {files}")
        yield from (_Read(records) for records in _of_table(table))
        return
    for each in found:
        name = str(each.path)
        with _naming(name):
            for records, lines in _of_file(each.path, files, wanted, is_alone=len(found) == 1):
                yield _Read(_with(records, each, wanted), lines, name)


def _of_file(
    path: Path, files: Files, wanted: parquet.Wanted | None, is_alone: bool
) -> Iterator[tuple[pa.Array, range | Ints | None]]:
    kind = ending(path)
    if kind == ".parquet":
        return ((records, None) for records in parquet.records(path, wanted))
    if kind == ".json":
        return json_files.document(path, files.records, is_alone)
    return iter(json_files.lines(path))


def _with(records: pa.Array, file: Found, wanted: parquet.Wanted | None) -> pa.Array:
    """Records with what the folders of their file say of them."""
    names = [field.name for field in records.type] if pa.types.is_struct(records.type) else []
    added = {
        name: value
        for name, value in file.constants.items()
        if name not in names and (wanted is None or name in wanted)
    }
    if not added:
        return records
    if not pa.types.is_struct(records.type):
        raise ValueError(f"Expected records with fields. Received: others in {file.path}")
    at = pa.array(np.zeros(len(records), np.int64))
    arrays = [*records.flatten(), *(value.take(at) for value in added.values())]
    return pa.StructArray.from_arrays(arrays, [*names, *added], mask=records.is_null())

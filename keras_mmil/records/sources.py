"""Nested records from wherever people keep them, as batches of Arrow structs."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from keras_mmil._support.types import Ints
from keras_mmil.records import arrow, csv_files, json_files, parquet
from keras_mmil.records.files import DataFile, Files, are_paths, ending, list_files
from keras_mmil.records.to_arrow import in_batches, joined, name_of, to_arrow

__all__ = ["Batch", "batches", "read_all"]

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
        lines: the line of each record, from 1, in files with a record in each line.
        file: the name of their file, for errors; "" for none.
        offset: the number of the first record of that file.
    """

    numbers: range | Ints
    records: pa.Array
    lines: range | Ints | None = None
    file: str = ""
    offset: int = 0

    def part(self, places: slice | Ints) -> "Batch":
        """The records at some places."""
        if isinstance(places, slice):
            records, numbers = self.records[places], self.numbers[places]
            lines = None if self.lines is None else self.lines[places]
        else:
            records, numbers = self.records.take(pa.array(places)), np.asarray(self.numbers)[places]
            lines = None if self.lines is None else np.asarray(self.lines)[places]
        return Batch(numbers, records, lines, self.file, self.offset)

    def named(self, place: int) -> str:
        """The name of the record at a place, for errors."""
        where = f" of {self.file}" if self.file else ""
        if self.lines is None:
            return f"record {self.numbers[place] - self.offset}{where}"
        return f"line {self.lines[place]}{where}"


def batches(
    source: Any, wanted: parquet.Wanted | None = None, types: Mapping[str, str] | None = None
) -> Iterator[Batch]:
    """Records in batches.

    Args:
        source: see `Schema.infer`.
        wanted: the columns to read of files in which others can be skipped; None for all.
        types: the types of fields at the top, by name, for files that do not know them: CSV.

    Raises:
        TypeError: if `source` is no source of records.
        ValueError: if a file has another ending, is damaged, has a record that is too large, or
            does not fit in memory; it names the file, and the line or the record.
        FileNotFoundError: if there is no such file.
    """
    return (batch for batch in _batches(source, wanted, types or {}) if len(batch.records))


def read_all(source: Any, types: Mapping[str, str] | None = None) -> pa.Array:
    """All records of a source, an array of structs or maps: see `batches`."""
    arrays = [batch.records for batch in _batches(source, None, types or {})]
    return joined([records for records in arrays if len(records)] or arrays[:1], "")


def _batches(
    source: Any, wanted: parquet.Wanted | None, types: Mapping[str, str]
) -> Iterator[Batch]:
    """Records in batches, which may be empty."""
    first = offset = 0
    file = ""
    for array, lines, name in _arrays(source, wanted, types):
        if name != file:
            file, offset = name, first
        numbers = range(first, first + len(array))
        with _naming(file):
            records = arrow.plain_types(array)
            batch = Batch(numbers, records, lines, file, offset)
            _check(batch)
        yield batch
        first += len(records)


@contextlib.contextmanager
def _naming(file: str) -> Iterator[None]:
    """Name the file in the message of errors, where it is not named."""
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
    by_type = arrow.alternatives(batch.records, "")
    if "record" in by_type:
        is_record = arrow.as_numpy(by_type["record"].is_valid())
    if is_record.all():
        return
    place = int(np.argmin(is_record))
    types = [type_ for type_, values in by_type.items() if values[place].is_valid]
    raise TypeError(
        f"Expected records, such as dicts. Received: {''.join(types) or 'null'} as "
        f"{batch.named(place)}"
    )


def _arrays(
    source: Any, wanted: parquet.Wanted | None, types: Mapping[str, str]
) -> Iterator[tuple[pa.Array, range | Ints | None, str]]:
    """Records, their lines, and the name of their file: see `Batch`."""
    if isinstance(source, Files):
        return _of_files(source, wanted, types)
    if are_paths(source):
        return _of_files(Files(source), wanted, types)
    return ((records, None, "") for records in _of_memory(source))


def _of_memory(source: Any) -> Iterator[pa.Array]:
    if isinstance(source, pa.Array):
        return iter([source])
    if isinstance(source, pa.ChunkedArray):
        return source.iterchunks()
    if isinstance(source, pa.RecordBatch):
        return _of_reader(pa.Table.from_batches([source]).to_reader())
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
    if all(
        isinstance(x, list | tuple) and x and isinstance(x[0], Mapping) for x in columns.values()
    ):
        raise TypeError(
            f"{_EXPECTED}. Received: a dict of lists of records; `Schema.infer_tables` takes tables"
            f"{_HINT}"
        )
    arrays = [_column(column, str(name)) for name, column in columns.items()]
    return iter([pa.StructArray.from_arrays(arrays, list(sizes))])


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
    return _of_reader(table.to_reader())


def _of_files(
    files: Files, wanted: parquet.Wanted | None, types: Mapping[str, str]
) -> Iterator[tuple[pa.Array, range | Ints | None, str]]:
    data_files = list_files(files.paths)
    kind = ending(data_files[0].path)
    if files.records is not None and kind != ".json":
        raise ValueError(f"Expected .json files, for records={files.records!r}. Received: {files}")
    if files.decimal is not None and kind not in (".csv", ".tsv"):
        raise ValueError(
            f"Expected .csv or .tsv files, for decimal={files.decimal!r}. Received: {files}"
        )
    if kind in (".csv", ".tsv"):
        paths = [each.path for each in data_files]
        with _naming(str(files)):
            tables = [csv_files.texts(path) for path in paths]
            table = csv_files.typed(tables, paths, types, files.decimal)
        if any(each.constants for each in data_files):
            raise ValueError(f"Expected no folders such as year=2024 around CSV. Received: {files}")
        yield from ((records, None, "") for records in _of_reader(table.to_reader()))
        return
    for each in data_files:
        arrays: Iterator[tuple[pa.Array, range | Ints | None]]
        with _naming(str(each.path)):
            if kind == ".parquet":
                arrays = ((records, None) for records in parquet.records(each.path, wanted))
            elif kind == ".json":
                is_alone = len(data_files) == 1
                arrays = json_files.document(each.path, files.records, is_alone)
            else:
                arrays = json_files.lines(each.path)
            for records, lines in arrays:
                yield _with_constants(records, each, wanted), lines, str(each.path)


def _with_constants(records: pa.Array, file: DataFile, wanted: parquet.Wanted | None) -> pa.Array:
    """Records with the fields that the names of their file's folders hold."""
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

"""Records in Parquet files, of which only the wanted columns are read."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from keras_mmil.records import arrow
from keras_mmil.records.files import LIMIT, largest_record

__all__ = ["Wanted", "records"]

_ROWS = 2**16
_LARGE_GROUP = 2**14  # rows of a row group that is a batch of its own
_SMALL = 4  # bytes a value, in columns that are indices of few different texts
_BATCH = 2**26  # bytes of a batch
_WIDTH = 8  # bytes of a value in memory, at least, with its place in the bags
_RATIO = 100  # the content may be so many times as large as the file,
_FREE = 4  # and in any case as large as so many of the largest records

# The wanted parts of fields, by name: True for all.
Wanted: TypeAlias = Mapping[str, "bool | Wanted"]


def records(path: Path, wanted: Wanted | None) -> Iterator[pa.Array]:
    """The records of a file, batch by batch.

    Raises ValueError, which names the file and the record, if the file is damaged, or holds far
    more than its size suggests.
    """
    first = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            columns = None if wanted is None else _columns(file, wanted)
            sizes = _Sizes(path, file, columns)
            texts = sorted({*_texts(file), *sizes.repeated()})
        with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            groups = list(range(file.num_row_groups))
            # Arrow cannot read dictionaries in bags across row groups.
            for some in [[group] for group in groups] if texts else [groups]:
                for batch in file.iter_batches(sizes.rows, row_groups=some, columns=columns):
                    batch.validate(full=True)  # texts in a damaged file may be no UTF-8
                    yield from sizes.parts(batch.to_struct_array())
                    first += len(batch)
            if not first and columns is None:
                yield arrow.no_records(file.schema_arrow)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"Expected a complete Parquet file. Received: {path}: {error}, in record {first} or "
            "later"
        ) from error


class _Sizes:
    """Limits the content of a file, before and while it is read; `rows` is the size of a batch."""

    def __init__(
        self, path: Path, file: pyarrow.parquet.ParquetFile, columns: list[str] | None
    ) -> None:
        self._where = path
        self._most = max(_FREE * largest_record(), _RATIO * path.stat().st_size)
        self._texts = 0  # bytes so far
        self._of_few: dict[str, list[int]] = {}  # columns of texts, and how many are in each group
        self._are_repeated = False
        about, size, at_once, packed = file.metadata, 0, 0, 0
        for i in range(len(file.schema)):
            column = file.schema.column(i)
            if columns is not None and not any(
                column.path == each or column.path.startswith(f"{each}.") for each in columns
            ):
                continue
            chunks = [about.row_group(j).column(i) for j in range(about.num_row_groups)]
            n = sum(chunk.num_values for chunk in chunks)
            size += n * _WIDTH
            # What is in no list is read batch by batch, however few rows the file has.
            at_once += n * (_WIDTH if column.max_repetition_level else _WIDTH // 4)
            inside = sum(chunk.total_uncompressed_size for chunk in chunks)
            packed += inside
            is_of_few = any(chunk.has_dictionary_page for chunk in chunks)
            if is_of_few and column.physical_type == "BYTE_ARRAY" and n * inside > self._most:
                self._of_few[column.path] = [chunk.num_values for chunk in chunks]
        self._check(max(at_once, packed))
        n_rows = max(about.num_rows, 1)
        self.rows = int(np.clip(_BATCH * n_rows // max(size, 1), 1, _ROWS))

    def repeated(self) -> list[str]:
        """The columns of long texts that repeat, and may be far larger than the file."""
        columns = []
        if self._of_few:
            with pyarrow.parquet.ParquetFile(self._where, read_dictionary=[*self._of_few]) as file:
                for path, sizes in self._of_few.items():
                    longest = (_longest(file, group, path) for group in range(len(sizes)))
                    if sum(n * m for n, m in zip(sizes, longest, strict=True)) > self._most:
                        columns.append(path)
        self._are_repeated = bool(columns)
        return columns

    def _check(self, size: int) -> None:
        if size > self._most:
            raise ValueError(
                f"Expected a Parquet file of no more than {self._most >> 20} MiB of values, "
                f"{_RATIO} times its size, or a larger {LIMIT} in the environment. "
                f"Received: {size >> 20} MiB in {self._where}"
            )

    def parts(self, records: pa.Array) -> Iterator[pa.Array]:
        """Records in parts whose texts, written out, have a moderate size."""
        size = _written_out(records) if self._are_repeated else 0
        self._texts += size
        self._check(self._texts)
        n = max(1, len(records) * _BATCH // max(size, _BATCH))
        for first in range(0, len(records), n):
            yield records[first : first + n]


def _longest(file: pyarrow.parquet.ParquetFile, group: int, path: str) -> int:
    """The length, in bytes, of the longest text in the dictionary of a row group."""
    for batch in file.iter_batches(1, row_groups=[group], columns=[path]):
        lengths = [pc.max(_lengths(array)).as_py() for array in _of_few(batch.to_struct_array())]
        return max((length or 0 for length in lengths), default=0)
    return 0


def _written_out(array: pa.Array) -> int:
    """The size of the texts in dictionaries, written out, in bytes."""
    size = 0
    for each in _of_few(array):
        indices, n = pc.value_counts(each.indices.drop_null()).flatten()
        size += pc.sum(pc.multiply(_lengths(each).take(indices), n), min_count=0).as_py()
    return size


def _lengths(array: pa.DictionaryArray) -> pa.Array:
    return pc.binary_length(array.dictionary).fill_null(0).cast(pa.int64())


def _of_few(array: pa.Array) -> Iterator[pa.DictionaryArray]:
    """The dictionaries of texts inside an array."""
    if pa.types.is_dictionary(array.type):
        if not pa.types.is_primitive(array.type.value_type):
            yield array
    elif pa.types.is_struct(array.type):
        for field in array.flatten():
            yield from _of_few(field)
    elif pa.types.is_map(array.type):
        yield from _of_few(array.keys)
        yield from _of_few(array.items)
    elif pa.types.is_nested(array.type):
        yield from _of_few(array.flatten())


def _texts(file: pyarrow.parquet.ParquetFile) -> list[str]:
    """The columns of few different texts, which are faster to read as dictionaries."""
    groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    if len(groups) > 1 and file.metadata.num_rows < _LARGE_GROUP * len(groups):
        return []
    columns = []
    for i in range(len(file.schema)):
        column = file.schema.column(i)
        chunks = [group.column(i) for group in groups]
        size = sum(chunk.total_uncompressed_size for chunk in chunks)
        is_small = size < _SMALL * sum(chunk.num_values for chunk in chunks)
        if is_small and column.logical_type.type == "STRING":
            columns.append(column.path)
    return columns


def _columns(file: pyarrow.parquet.ParquetFile, wanted: Wanted) -> list[str]:
    is_wanted = list(_of_struct(file.schema_arrow, wanted))
    paths = [file.schema.column(i).path for i in range(len(file.schema))]
    if len(paths) != len(is_wanted):
        return [name for name in file.schema_arrow.names if name in wanted]
    return [path for path, is_it in zip(paths, is_wanted, strict=True) if is_it]


def _of_struct(fields: pa.Schema | pa.StructType, wanted: Wanted | bool) -> Iterator[bool]:
    """Whether each column of a file below some fields is wanted, in their order.

    One column of each wanted field is, to show whether something is there: the structure of the
    field may differ from what is wanted.
    """
    for field in fields:
        inner = wanted if isinstance(wanted, bool) else wanted.get(field.name, False)
        columns = list(_of_type(field.type, inner))
        if inner and not any(columns):
            columns[:1] = [True]
        yield from columns


def _of_type(type_: pa.DataType, wanted: Wanted | bool) -> Iterator[bool]:
    if pa.types.is_struct(type_):
        yield from _of_struct(type_, wanted)
    elif pa.types.is_map(type_):
        yield from _of_type(type_.key_type, wanted is not False)
        yield from _of_type(type_.item_type, wanted is not False)
    elif pa.types.is_nested(type_):
        yield from _of_type(type_.value_type, wanted)
    else:
        yield wanted is not False

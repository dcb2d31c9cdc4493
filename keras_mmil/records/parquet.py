"""Records in Parquet files, of which only the wanted columns are read."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from keras_mmil.records import arrow
from keras_mmil.records.opening import LIMIT, largest_record

__all__ = ["Wanted", "records"]

_ROWS = 2**16
_LARGE_GROUP = 2**14  # rows of a row group that make a batch of their own
_SMALL = 4  # bytes a value, in columns that are indices of few different texts
_BATCH = 2**26  # bytes of a batch
_WIDTH = 8  # bytes of a value in memory, at least, with its place in the bags
_RATIO = 100  # how much more than the file what is in it may be
_FREE = 4  # largest records that a file may be in any case

# By the names of fields which parts of them are wanted: True for all.
Wanted: TypeAlias = Mapping[str, "bool | Wanted"]


def records(path: Path, wanted: Wanted | None) -> Iterator[pa.Array]:
    """The records of a file, batch by batch.

    Raises:
        ValueError: if the file is damaged, or holds far more than its size lets expect; it names
            the file and the record.
    """
    first = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            columns = None if wanted is None else _columns(file, wanted)
            sizes = _Sizes(path, file, columns)
            texts = sorted({*_texts(file), *sizes.repeated()})
        with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            groups = list(range(file.num_row_groups))
            # Arrow makes no batches with dictionaries in bags of several row groups.
            for some in [[group] for group in groups] if texts else [groups]:
                for batch in file.iter_batches(sizes.rows, row_groups=some, columns=columns):
                    batch.validate(full=True)  # texts in a damaged file may be no UTF-8
                    found = batch.to_struct_array()
                    yield from sizes.parts(found)
                    first += len(batch)
            if not first and columns is None:
                yield arrow.no_records(file.schema_arrow)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"Expected a whole Parquet file. Received: {path}: {error}, in record {first} or later"
        ) from error


class _Sizes:
    """How much is in a file, before and while it is read.

    Attributes:
        rows: of a batch, so that it is of about `_BATCH` bytes.
    """

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
            # What is in no list is read batch by batch, however few rows there are in the file.
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
        """The columns of texts that may be far more than the file, as long ones are repeated."""
        found = []
        if self._of_few:
            with pyarrow.parquet.ParquetFile(self._where, read_dictionary=[*self._of_few]) as file:
                for path, sizes in self._of_few.items():
                    longest = (_longest(file, group, path) for group in range(len(sizes)))
                    if sum(n * m for n, m in zip(sizes, longest, strict=True)) > self._most:
                        found.append(path)
        self._are_repeated = bool(found)
        return found

    def _check(self, size: int) -> None:
        if size > self._most:
            raise ValueError(
                f"Expected a Parquet file of no more than {self._most >> 20} MiB of values, "
                f"{_RATIO} times its size, or a larger {LIMIT} in the environment. "
                f"Received: {size >> 20} MiB in {self._where}"
            )

    def parts(self, records: pa.Array) -> Iterator[pa.Array]:
        """Records in parts whose repeated texts are of a moderate size, written out."""
        size = _written_out(records) if self._are_repeated else 0
        self._texts += size
        self._check(self._texts)
        n = max(1, len(records) * _BATCH // max(size, _BATCH))
        for first in range(0, len(records), n):
            yield records[first : first + n]


def _longest(file: pyarrow.parquet.ParquetFile, group: int, path: str) -> int:
    """The length of the longest text of those that are written once in a row group, in bytes."""
    for batch in file.iter_batches(1, row_groups=[group], columns=[path]):
        found = [pc.max(_lengths(array)).as_py() for array in _of_few(batch.to_struct_array())]
        return max((length or 0 for length in found), default=0)
    return 0


def _written_out(array: pa.Array) -> int:
    """How many bytes the texts in dictionaries are."""
    size = 0
    for each in _of_few(array):
        indices, n = pc.value_counts(each.indices.drop_null()).flatten()
        size += pc.sum(pc.multiply(_lengths(each).take(indices), n), min_count=0).as_py()
    return size


def _lengths(array: pa.DictionaryArray) -> pa.Array:
    return pc.binary_length(array.dictionary).fill_null(0).cast(pa.int64())


def _of_few(array: pa.Array) -> Iterator[pa.DictionaryArray]:
    """The arrays of texts inside an array that are indices of few different ones."""
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
    """The columns of texts that are faster to read as dictionaries: of few different ones."""
    groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    if len(groups) > 1 and file.metadata.num_rows < _LARGE_GROUP * len(groups):
        return []
    found = []
    for i in range(len(file.schema)):
        column = file.schema.column(i)
        chunks = [group.column(i) for group in groups]
        size = sum(chunk.total_uncompressed_size for chunk in chunks)
        is_small = size < _SMALL * sum(chunk.num_values for chunk in chunks)
        if is_small and column.logical_type.type == "STRING":
            found.append(column.path)
    return found


def _columns(file: pyarrow.parquet.ParquetFile, wanted: Wanted) -> list[str]:
    is_wanted = list(_of_struct(file.schema_arrow, wanted))
    paths = [file.schema.column(i).path for i in range(len(file.schema))]
    if len(paths) != len(is_wanted):
        return [name for name in file.schema_arrow.names if name in wanted]
    return [path for path, is_it in zip(paths, is_wanted, strict=True) if is_it]


def _of_struct(fields: pa.Schema | pa.StructType, wanted: Wanted | bool) -> Iterator[bool]:
    """Whether each leaf in some fields is wanted, in the order of the columns of a file.

    Of a field that is wanted one is in any case, if only to say that there is something: it may be
    of another structure than what is wanted.
    """
    for field in fields:
        inner = wanted if isinstance(wanted, bool) else wanted.get(field.name, False)
        leaves = list(_of_type(field.type, inner))
        if inner and not any(leaves):
            leaves[:1] = [True]
        yield from leaves


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

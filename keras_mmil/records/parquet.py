"""Records in Parquet files, of which only the wanted columns are read."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from keras_mmil.records.opening import LIMIT, largest_record

__all__ = ["Wanted", "records"]

_ROWS = 2**16
_LARGE_GROUP = 2**14  # rows of a row group that make a batch of their own
_SMALL = 4  # bytes a value, in columns that are indices of few different texts
_BATCH = 2**26  # bytes of a batch
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 8}  # others at least 8 bytes a value
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
            texts = sorted({*_texts(file), *sizes.repeated})
        with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            groups = list(range(file.num_row_groups))
            # Arrow makes no batches with dictionaries in bags of several row groups.
            for some in [[group] for group in groups] if texts else [groups]:
                for batch in file.iter_batches(sizes.rows, row_groups=some, columns=columns):
                    batch.validate(full=True)  # texts in a damaged file may be no UTF-8
                    found = batch.to_struct_array()
                    yield from sizes.parts(found)
                    first += len(batch)
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
        repeated: the columns of texts that may be far more than the file, where they are repeated.
    """

    def __init__(
        self, path: Path, file: pyarrow.parquet.ParquetFile, columns: list[str] | None
    ) -> None:
        self._path = path
        self._most = max(_FREE * largest_record(), _RATIO * path.stat().st_size)
        self._texts = 0  # bytes so far
        self.repeated: list[str] = []
        about, size, packed = file.metadata, 0, 0
        for i in range(len(file.schema)):
            column = file.schema.column(i)
            if columns is not None and not any(
                column.path == each or column.path.startswith(f"{each}.") for each in columns
            ):
                continue
            chunks = [about.row_group(j).column(i) for j in range(about.num_row_groups)]
            n = sum(chunk.num_values for chunk in chunks)
            size += n * _WIDTHS.get(column.physical_type, 8)
            inside = sum(chunk.total_uncompressed_size for chunk in chunks)
            packed += inside
            if column.physical_type == "BYTE_ARRAY" and n * inside > self._most:
                self.repeated.append(column.path)
        self._check(max(size, packed))
        n_rows = max(about.num_rows, 1)
        self.rows = int(np.clip(_BATCH * n_rows // max(size, 1), 1, _ROWS))

    def _check(self, size: int) -> None:
        if size > self._most:
            raise ValueError(
                f"Expected a Parquet file of no more than {self._most >> 20} MiB of values, "
                f"{_RATIO} times its size, or a larger {LIMIT} in the environment. "
                f"Received: {size >> 20} MiB in {self._path}"
            )

    def parts(self, records: pa.Array) -> Iterator[pa.Array]:
        """Records in parts whose repeated texts are of a moderate size, written out."""
        size = _written_out(records) if self.repeated else 0
        self._texts += size
        self._check(self._texts)
        n = max(1, len(records) * _BATCH // max(size, _BATCH))
        for first in range(0, len(records), n):
            yield records[first : first + n]


def _written_out(array: pa.Array) -> int:
    """How many bytes the texts in dictionaries are."""
    type_ = array.type
    if pa.types.is_dictionary(type_):
        if not pa.types.is_string(type_.value_type) and not pa.types.is_binary(type_.value_type):
            return 0
        lengths = pc.binary_length(array.dictionary).fill_null(0).cast(pa.int64())
        counts = pc.value_counts(array.indices.drop_null())
        indices, n = counts.flatten()
        return pc.sum(pc.multiply(lengths.take(indices), n), min_count=0).as_py()
    if pa.types.is_struct(type_):
        return sum(map(_written_out, array.flatten()))
    if pa.types.is_map(type_):
        return _written_out(array.keys) + _written_out(array.items)
    if pa.types.is_nested(type_):
        return _written_out(array.flatten())
    return 0


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
    """Whether each leaf in some fields is wanted, in the order of the columns of a file."""
    for field in fields:
        inner = wanted if isinstance(wanted, bool) else wanted.get(field.name, False)
        yield from _of_type(field.type, inner)


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

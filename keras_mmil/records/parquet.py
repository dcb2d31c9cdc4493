"""Records in Parquet files, of which only the wanted columns are read."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet

__all__ = ["Wanted", "records"]

_ROWS = 2**16
_LARGE_GROUP = 2**14  # rows of a row group that make a batch of their own
_SMALL = 4  # bytes a value, in columns that are indices of few different texts

# By the names of fields which parts of them are wanted: True for all.
Wanted: TypeAlias = Mapping[str, "bool | Wanted"]


def records(path: Path, wanted: Wanted | None) -> Iterator[pa.Array]:
    """The records of a file, batch by batch.

    Raises:
        ValueError: if the file is damaged; it names the record.
    """
    first = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            texts = _texts(file)
        with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            columns = None if wanted is None else _columns(file, wanted)
            groups = list(range(file.num_row_groups))
            # Arrow makes no batches with dictionaries in bags of several row groups.
            for some in [[group] for group in groups] if texts else [groups]:
                for batch in file.iter_batches(_ROWS, row_groups=some, columns=columns):
                    batch.validate(full=True)  # texts in a damaged file may be no UTF-8
                    yield batch.to_struct_array()
                    first += len(batch)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"Expected a whole Parquet file. Received: {path}: {error}, in record {first} or later"
        ) from error


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

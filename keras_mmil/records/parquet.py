"""Records in Parquet files, of which only the wanted columns are read."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet

__all__ = ["Wanted", "records"]

_ROWS = 2**16

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
            columns = None if wanted is None else _columns(file, wanted)
            for batch in file.iter_batches(batch_size=_ROWS, columns=columns):
                yield batch.to_struct_array()
                first += len(batch)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(
            f"Expected a whole Parquet file. Received: {path}: {error}, in record {first} or later"
        ) from error


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

"""Blocks of rows of Parquet files: the unit of work, whatever the number of workers."""

import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet

from keras_mmil._support.checks import positive_int
from keras_mmil._support.files import part_of
from keras_mmil._support.types import Config, PathLike
from keras_mmil.io.manifest import MANIFEST, Manifest, check_size
from keras_mmil.io.parquet import READ_ARGUMENTS, ROWS

__all__ = ["Block", "Columns", "Data", "InputFile", "blocks_of", "files_of", "read"]

# Parquet files: a path, a pattern such as "in/*.parquet", a folder, or several of those.
Data: TypeAlias = PathLike | Iterable[PathLike]
# From the schema of a file to the names of the columns to read; ValueError if some are missing.
Columns: TypeAlias = Callable[[pa.Schema], Sequence[str]]


@dataclass(frozen=True)
class InputFile:
    """A Parquet file.

    Attributes:
        path: absolute.
        bytes: its size.
        rows: how many there are.
        footer: SHA-256 of its end, which says what is in it and where.
        schema: of its columns.
    """

    path: str
    bytes: int
    rows: int
    footer: str
    schema: pa.Schema

    def to_dict(self) -> Config:
        """What tells it from others, for JSON; the folder does not matter."""
        known = {"bytes": self.bytes, "rows": self.rows, "footer": self.footer}
        return {"name": Path(self.path).name, **known}


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a file.

    Attributes:
        number: among all blocks.
        file: path of the file.
        start: number of the first row in the file.
        rows: how many.
    """

    number: int
    file: str
    start: int
    rows: int

    def __str__(self) -> str:
        return f"rows {self.start} to {self.start + self.rows - 1} of {self.file}"

    def to_dict(self) -> Config:
        """Its attributes."""
        return asdict(self)


def files_of(data: Data, columns: Columns) -> list[InputFile]:
    """Parquet files, looked at, but not read: folders and patterns in the order of their names.

    Of a folder that `keras_mmil.io.write` made, all that was written must be there.

    Args:
        data: what the user gives.
        columns: raises ValueError for files without the columns that are to be read.

    Raises:
        FileNotFoundError: if there are none.
        ValueError: if one is damaged, lacks columns, or a folder is not complete; or if there are
            no rows.
    """
    several = [data] if isinstance(data, str | os.PathLike) else list(data)
    paths = [path for each in several for path in _paths(os.fspath(each))]
    if not paths:
        raise FileNotFoundError(f"Expected Parquet files. Received: {data!r}, with none")
    files = [_looked_at(path) for path in paths]
    for file in files:
        try:
            columns(file.schema)
        except ValueError as error:
            raise ValueError(f"{error}, in {file.path}") from error
    if not sum(file.rows for file in files):
        raise ValueError(f"Expected at least one row. Received: {data!r}, files without any")
    return files


def blocks_of(files: Iterable[InputFile], size: int) -> list[Block]:
    """The rows of files in blocks of at most `size`, in their order.

    Raises:
        ValueError: if `size` is no integer ≥ 1.
    """
    size = positive_int("block_size", size)
    found: list[Block] = []
    for file in files:
        for start in range(0, file.rows, size):
            rows = min(size, file.rows - start)
            found.append(Block(len(found), file.path, start, rows))
    return found


def read(block: Block, columns: Columns) -> pa.RecordBatch:
    """The rows of a block.

    Args:
        block: which rows.
        columns: names those to read.

    Raises:
        ValueError: if the file is damaged, lacks columns, or is not what it was.
    """
    try:
        with pa.parquet.ParquetFile(block.file, **READ_ARGUMENTS) as file:
            names = list(columns(file.schema_arrow))
            found = list(_batches(file, block, names))
        n = sum(map(len, found))
        if n != block.rows:
            raise ValueError(f"it has {n} of {block.rows} rows")
        table = pa.Table.from_batches(found).select(names).combine_chunks()
        (whole,) = table.to_batches()
        return whole
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"Expected a whole Parquet file. Received: {block}: {error}") from error


def _batches(
    file: pa.parquet.ParquetFile, block: Block, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Parts of the block, from those row groups that have some."""
    stop = block.start + block.rows
    groups: list[int] = []
    first = at = 0
    for i in range(file.num_row_groups):
        end = at + file.metadata.row_group(i).num_rows
        if end > block.start and at < stop:
            first = at if not groups else first
            groups.append(i)
        at = end
    for batch in file.iter_batches(ROWS, row_groups=groups, columns=names):
        begin, end = max(block.start - first, 0), min(stop - first, len(batch))
        if begin < end:
            yield batch.slice(begin, end - begin)
        first += len(batch)
        if first >= stop:
            return


def _paths(given: str) -> list[Path]:
    """The files that a path or pattern stands for."""
    folder = Path(given).absolute()
    if (folder / MANIFEST).is_file():
        manifest = Manifest.read(folder)
        if not manifest.is_complete or manifest.format != "parquet":
            raise ValueError(
                "Expected Parquet files that were written to their end. "
                f"Received: {folder}, {manifest.format} files, {manifest.is_complete=}"
            )
        for shard in manifest.shards:
            check_size(folder / shard.file, shard)
        return [folder / shard.file for shard in manifest.shards]
    if folder.is_dir():
        found = [str(path) for path in folder.glob("*.parquet")]
    elif folder.exists():
        return [folder]
    else:
        found = glob.glob(given, recursive=True)
    return [Path(path).absolute() for path in sorted(found) if part_of(path) is None]


def _looked_at(path: Path) -> InputFile:
    try:
        with pa.parquet.ParquetFile(path) as file:
            rows, schema, size = file.metadata.num_rows, file.schema_arrow, path.stat().st_size
        with open(path, "rb") as raw:
            raw.seek(-8, os.SEEK_END)
            length = int.from_bytes(raw.read(4), "little")
            raw.seek(-min(length + 8, size), os.SEEK_END)
            footer = hashlib.sha256(raw.read()).hexdigest()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"Expected a whole Parquet file. Received: {path}: {error}") from error
    return InputFile(str(path), size, rows, footer, schema)

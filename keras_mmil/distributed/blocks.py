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
    """A Parquet file; `footer` is the SHA-256 of its end, which lists its contents."""

    path: str
    bytes: int
    rows: int
    footer: str
    schema: pa.Schema

    def to_dict(self) -> Config:
        """What identifies it, whatever its folder, for JSON."""
        known = {"bytes": self.bytes, "rows": self.rows, "footer": self.footer}
        return {"name": Path(self.path).name, **known}


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a file, from row `start` on; `number` is among all blocks."""

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
    """The metadata of Parquet files; folders and patterns are sorted by name.

    Raises FileNotFoundError if there are none; ValueError if a file is damaged or lacks columns, a
    folder that `keras_mmil.io.write` made is not complete, or there are no rows.
    """
    several = [data] if isinstance(data, str | os.PathLike) else list(data)
    paths = [path for each in several for path in _paths_of(os.fspath(each))]
    if not paths:
        raise FileNotFoundError(f"Expected Parquet files. Received: {data!r}, with none")
    files = [_read_metadata(path) for path in paths]
    for file in files:
        try:
            columns(file.schema)
        except ValueError as error:
            raise ValueError(f"{error}, in {file.path}") from error
    if not sum(file.rows for file in files):
        raise ValueError(f"Expected at least one row. Received: {data!r}, files without any")
    return files


def blocks_of(files: Iterable[InputFile], size: int) -> list[Block]:
    """The rows of files in blocks of at most `size`, in their order."""
    size = positive_int("block_size", size)
    blocks: list[Block] = []
    for file in files:
        for start in range(0, file.rows, size):
            rows = min(size, file.rows - start)
            blocks.append(Block(len(blocks), file.path, start, rows))
    return blocks


def read(block: Block, columns: Columns) -> pa.RecordBatch:
    """Read the rows of a block; ValueError if the file is damaged or has changed."""
    try:
        with pa.parquet.ParquetFile(block.file, **READ_ARGUMENTS) as file:
            names = list(columns(file.schema_arrow))
            parts = list(_batches(file, block, names))
        n = sum(map(len, parts))
        if n != block.rows:
            raise ValueError(f"it has {n} of {block.rows} rows")
        table = pa.Table.from_batches(parts).select(names).combine_chunks()
        (batch,) = table.to_batches()
        return batch
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"Expected a whole Parquet file. Received: {block}: {error}") from error


def _batches(
    file: pa.parquet.ParquetFile, block: Block, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of the block, from the row groups that have some."""
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


def _paths_of(pattern: str) -> list[Path]:
    """The files of a path or pattern."""
    folder = Path(pattern).absolute()
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
        paths = [str(path) for path in folder.glob("*.parquet")]
    elif folder.exists():
        return [folder]
    else:
        paths = glob.glob(pattern, recursive=True)
    return [Path(path).absolute() for path in sorted(paths) if part_of(path) is None]


def _read_metadata(path: Path) -> InputFile:
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

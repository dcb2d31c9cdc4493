"""What a folder of files holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_mmil._support.types import PathLike
from keras_mmil.io.layout import Part
from keras_mmil.io.manifest import Manifest
from keras_mmil.io.shards import check_content

__all__ = ["Info", "info", "readable"]

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


@dataclass(frozen=True, repr=False)
class Info:
    """What a folder holds, which is printed as a table.

    Attributes:
        folder: the folder.
        format: of its files, "parquet" or "tfrecord".
        n_top_bags: how many top-bags there are.
        n_files: how many files.
        n_bytes: size of the files.
        n_tensor_bytes: that of their tensors, in memory.
        element_spec: of the Dataset that `read` returns.
        is_complete: whether all was written.
        parts: the tensors, by name.
    """

    folder: Path
    format: str
    n_top_bags: int
    n_files: int
    n_bytes: int
    n_tensor_bytes: int
    element_spec: Any
    is_complete: bool
    parts: tuple[Part, ...]

    def __repr__(self) -> str:
        width = max(len(part.name) for part in self.parts)
        kind = "Parquet" if self.format == "parquet" else "TFRecord"
        head = (
            f"{self.folder.name}: {self.n_top_bags:,} top-bags in {self.n_files:,} {kind} "
            f"file{'s' * (self.n_files != 1)}, {readable(self.n_bytes)} "
            f"({readable(self.n_tensor_bytes)} as tensors)"
        )
        if not self.is_complete:
            head += ", not yet complete"
        return "\n".join([head, *(f"  {part.name:{width}}  {part}" for part in self.parts)])


def info(folder: PathLike, verify: bool = False) -> Info:
    """What the files of a folder hold, by the manifest.

    Args:
        folder: what `write` was given.
        verify: whether to compare all files with their checksums, before a long training, say;
            `read` does not compare them again in this process.

    Raises:
        FileNotFoundError: if nothing was written to the folder.
        ValueError: if the manifest is damaged, or with `verify` a file is, or is missing.
    """
    folder = Path(folder).absolute()
    manifest = Manifest.read(folder)
    for shard in manifest.shards if verify else ():
        check_content(folder / shard.file, shard)
    return Info(
        folder,
        manifest.format,
        manifest.top_bags,
        len(manifest.shards),
        sum(shard.bytes for shard in manifest.shards),
        sum(shard.tensor_bytes for shard in manifest.shards),
        manifest.layout.element_spec,
        manifest.is_complete,
        manifest.layout.parts,
    )


def readable(n_bytes: int) -> str:
    """A number of bytes with a unit."""
    size, unit = float(n_bytes), _UNITS[0]
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            break
        size /= 1000
    return f"{size:.3g} {unit}" if size < 100 else f"{size:,.0f} {unit}"

"""The manifest of a folder, what it says about the files, and checks of the files."""

import importlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_mmil._support.checks import check_int
from keras_mmil._support.digests import checksum_of_file
from keras_mmil._support.state import decode, encode, read_state, write_state
from keras_mmil._support.types import Config, PathLike
from keras_mmil.io.layout import Layout, TensorLayout

__all__ = [
    "MANIFEST",
    "Info",
    "Manifest",
    "Shard",
    "check_content",
    "check_size",
    "file_name",
    "info",
    "module_of",
    "readable_size",
]

_FORMATS = ("parquet", "tfrecord")
MANIFEST = "manifest.json"
_FORMAT = "keras-mmil shards"
_VERSION = 1
_MAX_INT = 2**63 - 1
_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_ERRORS = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)

# Files that this process has checked: path, inode, size, time and checksum.
_checked: set[tuple[str, int, int, int, str]] = set()
_lock = threading.Lock()


@dataclass(frozen=True)
class Shard:
    """A file of top-bags.

    Attributes:
        file: its name.
        top_bags: their number.
        bytes: size of the file.
        tensor_bytes: size of its tensors in memory.
        sha256: checksum of the file, hexadecimal.
        content: digest of its tensors, the same in all formats, hexadecimal.
    """

    file: str
    top_bags: int
    bytes: int
    tensor_bytes: int
    sha256: str
    content: str


@dataclass(frozen=True)
class Manifest:
    """What a folder holds.

    Attributes:
        format: of the files, "parquet" or "tfrecord".
        layout: of batches of its top-bags.
        top_bags_per_file: of each shard but the last, which may have fewer.
        top_bags_per_group: how many are written at a time.
        shards: in the order of the data.
        is_complete: whether all data were written.
    """

    format: str
    layout: Layout
    top_bags_per_file: int
    top_bags_per_group: int
    shards: tuple[Shard, ...] = ()
    is_complete: bool = False

    @property
    def top_bags(self) -> int:
        """The number of top-bags in all shards."""
        return sum(shard.top_bags for shard in self.shards)

    def write(self, folder: Path) -> None:
        """Write it to a folder in place of an older one, atomically."""
        content = {
            "files": self.format,
            "complete": self.is_complete,
            "top_bags": self.top_bags,
            "top_bags_per_file": self.top_bags_per_file,
            "top_bags_per_group": self.top_bags_per_group,
            **self.layout.to_dict(),
            "shards": encode(self.shards),
        }
        write_state(folder / MANIFEST, _FORMAT, _VERSION, content)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """The manifest of a folder, or FileNotFoundError, or ValueError if it is not valid."""
        path = folder / MANIFEST
        content = read_state(path, _FORMAT, _VERSION)
        try:
            return _decoded(content)
        except _ERRORS as error:
            why = f"{type(error).__name__} {error}" if isinstance(error, KeyError) else error
            raise ValueError(
                f"Expected a manifest as it was written. Received: {path}, where {why}"
            ) from error


def module_of(format: str) -> Any:
    """The module of a format, with the functions `writer` and `epoch`, or ValueError."""
    if format not in _FORMATS:
        raise ValueError(f"Expected one of the formats {_FORMATS}. Received: format={format!r}")
    return importlib.import_module(f"keras_mmil.io.{format}")


def file_name(number: int, format: str) -> str:
    """The name of a shard."""
    return f"part-{number:05d}.{format}"


def _decoded(content: Config) -> Manifest:
    """The manifest in JSON content, which may be wrong even if its checksum is right."""
    if content["files"] not in _FORMATS or not isinstance(content["complete"], bool):
        raise ValueError(f"the files are {content['files']!r}")
    sizes = {
        name: check_int(name, content[name], 1, _MAX_INT)
        for name in ("top_bags_per_file", "top_bags_per_group")
    }
    shards = decode(tuple[Shard, ...], content["shards"], where="shards")
    for i, shard in enumerate(shards):
        if shard.file != file_name(i, content["files"]):  # nor one outside the folder
            raise ValueError(f"shard {i} is {shard.file!r}")
        check_int("top_bags", shard.top_bags, 1, sizes["top_bags_per_file"])
        for name in ("bytes", "tensor_bytes"):
            check_int(name, getattr(shard, name), 1, _MAX_INT)
    manifest = Manifest(
        content["files"],
        Layout.from_dict(content),
        **sizes,
        shards=shards,
        is_complete=content["complete"],
    )
    if manifest.top_bags != content["top_bags"] or manifest.top_bags > _MAX_INT:
        raise ValueError("the number of top-bags is not the sum of those of the shards")
    if manifest.format == "tfrecord":
        _check_dense(manifest)
    return manifest


def _check_dense(manifest: Manifest) -> None:
    """Raise ValueError if rows are larger than the files: TensorFlow would allocate them."""
    for part in manifest.layout.parts:
        for shard in manifest.shards:
            if not part.ragged_rank and part.size * shard.top_bags > shard.bytes:
                raise ValueError(f"{part.name} has {part} in a file of {shard.bytes} bytes")


# The files --------------------------------------------------------------------------------------


def check_size(path: Path, shard: Shard) -> None:
    """Raise ValueError if a file is missing or of another size."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ValueError(
            f"Expected a shard. Received: no file {path} ({error.strerror})"
        ) from error
    if size != shard.bytes:
        raise ValueError(
            f"Expected a shard of {shard.bytes:,} bytes. Received: {path}, of {size:,}: it is "
            "damaged, or of other data"
        )


def check_content(path: Path, shard: Shard) -> None:
    """Raise ValueError if a file is missing or has another checksum.

    A process reads a file for this once, as long as its size and time stay the same.
    """
    check_size(path, shard)
    status = path.stat()
    state = (str(path), status.st_ino, status.st_size, status.st_mtime_ns, shard.sha256)
    if state in _checked:
        return
    if checksum_of_file(path) != shard.sha256:
        raise ValueError(
            f"Expected a shard as it was written. Received: {path}, with another checksum: it is "
            "damaged, or of other data"
        )
    with _lock:
        _checked.add(state)


@dataclass(frozen=True, repr=False)
class Info:
    """What a folder holds; prints as a table.

    Attributes:
        folder: its path.
        format: of the files, "parquet" or "tfrecord".
        n_top_bags: number of top-bags.
        n_files: number of files.
        n_bytes: size of the files.
        n_tensor_bytes: size of their tensors in memory.
        element_spec: of the Dataset that `read` returns.
        is_complete: whether all data were written.
        parts: the tensors, with `name`, `dtype`, `ragged_rank` and `inner_shape`.
    """

    folder: Path
    format: str
    n_top_bags: int
    n_files: int
    n_bytes: int
    n_tensor_bytes: int
    element_spec: Any
    is_complete: bool
    parts: tuple[TensorLayout, ...]

    def __repr__(self) -> str:
        width = max(len(part.name) for part in self.parts)
        kind = "Parquet" if self.format == "parquet" else "TFRecord"
        head = (
            f"{self.folder.name}: {self.n_top_bags:,} top-bags in {self.n_files:,} {kind} "
            f"file{'s' * (self.n_files != 1)}, {readable_size(self.n_bytes)} "
            f"({readable_size(self.n_tensor_bytes)} as tensors)"
        )
        if not self.is_complete:
            head += ", not yet complete"
        return "\n".join([head, *(f"  {part.name:{width}}  {part}" for part in self.parts)])


def info(folder: PathLike, verify: bool = False) -> Info:
    """What the files of a folder hold, according to the manifest.

    Args:
        folder: that of `write`.
        verify: whether to compare all files with their checksums, such as before a long training;
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


def readable_size(n_bytes: int) -> str:
    """A number of bytes with a unit, as text."""
    size, unit = float(n_bytes), _UNITS[0]
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            break
        size /= 1000
    return f"{size:.3g} {unit}" if size < 100 else f"{size:,.0f} {unit}"

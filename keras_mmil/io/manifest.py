"""What is in the files of a folder: `manifest.json`, which is written last."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from keras_mmil._support.atomic import write_json
from keras_mmil._support.checks import check_int
from keras_mmil._support.digests import checksum_of_json
from keras_mmil._support.types import Config
from keras_mmil._version import __version__
from keras_mmil.io.layout import Layout

__all__ = ["FORMATS", "MANIFEST", "Manifest", "Shard", "file_name"]

FORMATS = ("parquet", "tfrecord")
MANIFEST = "manifest.json"
_FORMAT = "keras-mmil shards"
_VERSION = 1
_MAX_BYTES = 2**28  # of a manifest: a million shards
_MAX_INT = 2**63 - 1
_ERRORS = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True)
class Shard:
    """A file of top-bags.

    Attributes:
        file: its name.
        top_bags: how many.
        bytes: its size.
        tensor_bytes: that of its tensors, in memory.
        sha256: checksum of the file, hexadecimal.
        content: digest of what is in it, whatever the format, hexadecimal.
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
        top_bags_per_file: how many a shard has; the last one may have fewer.
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
        """How many there are in all shards."""
        return sum(shard.top_bags for shard in self.shards)

    def write(self, folder: Path) -> None:
        """Write it to a folder, so that it replaces the old one at once."""
        content = {
            "library": __version__,
            "files": self.format,
            "complete": self.is_complete,
            "top_bags": self.top_bags,
            "top_bags_per_file": self.top_bags_per_file,
            "top_bags_per_group": self.top_bags_per_group,
            **self.layout.to_dict(),
            "shards": [asdict(shard) for shard in self.shards],
        }
        head = {"format": _FORMAT, "version": _VERSION, "sha256": checksum_of_json(content)}
        write_json(folder / MANIFEST, head | content)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """The manifest of a folder.

        Raises:
            FileNotFoundError: if there is none.
            ValueError: if it is damaged, of another version, or of something else.
        """
        path = folder / MANIFEST
        if not path.is_file():
            raise FileNotFoundError(
                f"Expected a folder that `keras_mmil.io.write` made. Received: no file {path}"
            )
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise ValueError(f"it is larger than {_MAX_BYTES} bytes")
            content = json.loads(path.read_bytes().decode("utf-8"))
            _check_head(content)
            return _decoded(content)
        except _ERRORS as error:
            why = f"{type(error).__name__} {error}" if isinstance(error, KeyError) else error
            raise ValueError(
                f"Expected a manifest as it was written. Received: {path}, where {why}"
            ) from error


def file_name(number: int, format: str) -> str:
    """The name of a shard."""
    return f"part-{number:05d}.{format}"


def _check_head(content: Any) -> None:
    """Take the head off, and check it."""
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise ValueError(f"the format is not {_FORMAT!r}")
    version, seal = content.pop("version", None), content.pop("sha256", None)
    if version != _VERSION:
        raise ValueError(f"the version of the format is {version!r}, and not {_VERSION}")
    if seal != checksum_of_json(content):
        raise ValueError("the checksum is another one")


def _decoded(content: Config) -> Manifest:
    """The manifest that JSON stands for: its checksum may be right, but not what it says."""
    if content["files"] not in FORMATS or not isinstance(content["complete"], bool):
        raise ValueError(f"the files are {content['files']!r}")
    sizes = {
        name: check_int(name, content[name], 1, _MAX_INT)
        for name in ("top_bags_per_file", "top_bags_per_group")
    }
    manifest = Manifest(
        content["files"],
        Layout.from_dict(content),
        **sizes,
        shards=tuple(_shard(i, each, content) for i, each in enumerate(content["shards"])),
        is_complete=content["complete"],
    )
    if manifest.top_bags != content["top_bags"] or manifest.top_bags > _MAX_INT:
        raise ValueError("the number of top-bags is not the sum of those of the shards")
    if manifest.format == "tfrecord":
        _check_dense(manifest)
    return manifest


def _shard(number: int, content: Config, manifest: Config) -> Shard:
    shard = Shard(**content)
    if shard.file != file_name(number, manifest["files"]):  # nor one outside the folder
        raise ValueError(f"shard {number} is {shard.file!r}")
    check_int("top_bags", shard.top_bags, 1, manifest["top_bags_per_file"])
    for name in ("bytes", "tensor_bytes"):
        check_int(name, getattr(shard, name), 1, _MAX_INT)
    if not all(isinstance(each, str) for each in (shard.sha256, shard.content)):
        raise TypeError(f"the checksums of shard {number} are no texts")
    return shard


def _check_dense(manifest: Manifest) -> None:
    """Refuse rows that are larger than the files: TensorFlow makes room for them unseen."""
    for part in manifest.layout.parts:
        for shard in manifest.shards:
            if not part.ragged_rank and part.size * shard.top_bags > shard.bytes:
                raise ValueError(f"{part.name} has {part} in a file of {shard.bytes} bytes")

"""A folder of results: what is computed of which blocks, and which of them are there."""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from keras_mmil._support.digests import checksum_of_file, checksum_of_json
from keras_mmil._support.files import atomic_write, part_of, remove_abandoned, write_json
from keras_mmil._support.types import Config
from keras_mmil.distributed.blocks import Block
from keras_mmil.io.parquet import WRITTEN

__all__ = ["Job", "digest_of"]

# Programs that read a folder of Parquet files leave out what begins so.
_NAME = "_job.json"
_FORMAT = "keras-mmil batch job"
_VERSION = 1
_KEY = b"keras-mmil"  # in the metadata of each file


@dataclass(frozen=True)
class Job:
    """Results of blocks, each in a Parquet file of its own, which is whole or absent.

    Attributes:
        folder: where they are.
        content: all that they depend on, for JSON.
    """

    folder: Path
    content: Config

    @property
    def digest(self) -> str:
        """The SHA-256 of `content`."""
        return checksum_of_json(self.content)

    def begin(self) -> None:
        """Make the folder, or continue what is in it, if that is the same.

        Raises:
            ValueError: if it holds something else, or results of something else: it says what.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / _NAME
        if path.exists():
            self._check_same(path)
            return
        held = [each.name for each in self.folder.iterdir() if part_of(each) is None]
        if held:
            raise ValueError(
                f"Expected a new or empty folder. Received: {self.folder} with {sorted(held)[:3]}"
            )
        self._write(is_complete=False)

    def end(self) -> None:
        """Note that all results are there."""
        self._write(is_complete=True)
        remove_abandoned(self.folder / _NAME)

    def path_of(self, block: Block) -> Path:
        """The file of the results of a block."""
        return self.folder / f"block-{block.number:06d}.parquet"

    def write(self, block: Block, found: pa.RecordBatch) -> None:
        """Write the results of a block, in place of those that may be there."""
        about = json.dumps({"job": self.digest, **block.to_dict()})
        schema = found.schema.with_metadata({_KEY: about.encode()})
        with (
            atomic_write(self.path_of(block)) as part,
            pa.parquet.ParquetWriter(part, schema, **WRITTEN) as file,
        ):
            file.write_batch(found.cast(schema))

    def lacks(self, block: Block) -> bool:
        """Whether the results of a block are missing, damaged, or of another job.

        The file is read, and its pages are compared with their checksums.
        """
        path = self.path_of(block)
        if not path.exists():
            return True
        with contextlib.suppress(pa.ArrowException, OSError, ValueError):
            with pa.parquet.ParquetFile(path, page_checksum_verification=True) as file:
                about = json.loads((file.schema_arrow.metadata or {}).get(_KEY, b"null"))
                rows = sum(map(len, file.iter_batches()))
            # The folder of the data may be another one.
            expected = {"job": self.digest, **block.to_dict(), "file": None}
            return not (
                isinstance(about, dict)
                and {**about, "file": None} == expected
                and rows == block.rows
            )
        return True

    def _write(self, is_complete: bool) -> None:
        head = {"format": _FORMAT, "version": _VERSION, "complete": is_complete}
        write_json(self.folder / _NAME, {**head, "digest": self.digest, "job": self.content})

    def _check_same(self, path: Path) -> None:
        try:
            held = json.loads(path.read_bytes().decode("utf-8"))
            if held["format"] != _FORMAT or held["version"] != _VERSION:
                raise ValueError(f"another format, {held['format']!r} {held['version']!r}")
            known: Config = dict(held["job"])
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"Expected a job in {path}. Received: {error!r}") from error
        differing = sorted(
            name
            for name in known.keys() | self.content.keys()
            if known.get(name) != self.content.get(name)
        )
        if differing:
            shown = ", ".join(f"{name}={_brief(self.content.get(name))}" for name in differing)
            raise ValueError(
                f"Expected the job that {self.folder} holds, to continue, or another folder. "
                f"Received: {shown} instead of "
                f"{', '.join(_brief(known.get(name)) for name in differing)}"
            )


def digest_of(files: Iterable[Path]) -> str:
    """The SHA-256 of the names and contents of files."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name} {checksum_of_file(path)}\n".encode())
    return digest.hexdigest()


def _brief(value: object) -> str:
    text = repr(value)
    if isinstance(value, Sequence) and not isinstance(value, str) and len(text) > 60:
        return f"{len(value)} others"
    return text if len(text) <= 60 else f"{text[:57]}…"

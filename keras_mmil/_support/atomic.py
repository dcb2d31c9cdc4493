"""Files that are either complete or absent."""

import contextlib
import errno
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_mmil._support.types import PathLike

__all__ = [
    "part_of",
    "remove_abandoned",
    "remove_parts",
    "replacing",
    "replacing_folder",
    "without_nan",
    "write_json",
]

_PART = re.compile(r"part-[0-9a-f]{16}-(.+)")
# A part that was not written to for this many seconds belongs to a process that was killed.
_ABANDONED = 6 * 60 * 60
_CANNOT_SYNC_FOLDERS = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


@contextlib.contextmanager
def replacing(path: PathLike) -> Iterator[Path]:
    """Give a path to write to, beside `path`, which replaces `path` when the block has ended.

    Where the block raises, what it wrote is removed and `path` stays as it was. Any number of
    threads, processes and machines may write the same file: each writes a file of its own, and the
    last one to finish wins. What killed processes left in the folder is removed by the next write
    there after six hours, so a block must not pause for longer: it may find its file gone, for
    instance after its machine was asleep, and then raises FileNotFoundError.
    """
    path = Path(path)
    part = _new_part(path)
    try:
        yield part
        with open(part, "rb+") as file:  # on the disk before it gets its name
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(path.parent)
    remove_abandoned(_parts(path.parent), path)


@contextlib.contextmanager
def replacing_folder(path: PathLike) -> Iterator[Path]:
    """Give a new folder beside `path`, which replaces the folder `path` when the block has ended.

    Where the block raises, what it wrote is removed and `path` stays as it was. One process at a
    time may write a folder; one that is killed between two renamings leaves the old folder, under
    the name of a part, and no `path`.
    """
    path = Path(path)
    part, old = _new_part(path), _new_part(path)
    part.mkdir(parents=True)
    try:
        yield part
        if path.exists():
            path.rename(old)
        part.rename(path)
    finally:
        for folder in (part, old):
            shutil.rmtree(folder, ignore_errors=True)
    _sync_folder(path.parent)


def write_json(path: PathLike, content: object) -> None:
    """Write a JSON file that people can read, too.

    Raises:
        ValueError: if a number is not finite, which JSON does not know: see `without_nan`.
    """
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def without_nan(content: Any) -> Any:
    """Dicts, lists and tuples with None in place of numbers that are not finite."""
    if isinstance(content, dict):
        return {name: without_nan(value) for name, value in content.items()}
    if isinstance(content, list):
        return [without_nan(value) for value in content]
    if isinstance(content, tuple):
        return tuple(without_nan(value) for value in content)
    return None if isinstance(content, float) and not math.isfinite(content) else content


def part_of(path: PathLike) -> str | None:
    """The name of the file that a path was to replace; None if `replacing` did not give it."""
    match = _PART.fullmatch(Path(path).name)
    return None if match is None else match[1]


def remove_parts(folder: PathLike) -> None:
    """Remove what killed processes left in a folder, which no other process may be writing to."""
    for part in _parts(folder):
        part.unlink(missing_ok=True)


def remove_abandoned(paths: Iterable[Path], written: Path) -> None:
    """Remove those files and folders that are hours older than a file written just now."""
    for path in paths:
        # Another process may remove it, too; and another user's file is not ours to remove.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            # Both times are by the clock of the disk, which may be another machine's.
            if written.stat().st_mtime - path.stat().st_mtime > _ABANDONED:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _new_part(path: Path) -> Path:
    """A new name beside a path, for what is to replace it."""
    # Before the name, as Keras goes by the ending. Random, as threads share their process's id, and
    # containers that share a folder may all be process 1.
    return path.with_name(f"part-{secrets.token_hex(8)}-{path.name}")


def _parts(folder: PathLike) -> list[Path]:
    return [path for path in Path(folder).glob("part-*") if part_of(path) and path.is_file()]


def _sync_folder(folder: PathLike) -> None:
    """Write a folder's new names to the disk where the system can: Windows cannot."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC_FOLDERS:  # as some network disks answer
            raise
    finally:
        os.close(descriptor)

"""Files that are whole or absent, JSON, folders of one process at a time, and text files."""

import codecs
import contextlib
import errno
import json
import math
import os
import re
import secrets
import shutil
import threading
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO

import numpy as np
import numpy.typing as npt

from keras_mmil._support.types import PathLike

_PART = re.compile(r"part-[0-9a-f]{16}-(.+)")
_ABANDONED = 6 * 60 * 60  # seconds after which what has not been written to is a killed process's
_CANNOT_SYNC_FOLDERS = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
_LOCK = ".lock"
_LONG = 10_000  # characters of a value in JSON, from which on it is not indented
_holders: dict[Path, int] = {}  # the thread that holds a folder, by its absolute path
UTF_8 = "utf-8-sig"  # also without the byte-order mark
_LONGEST = 10_000  # characters of a line of ints


# Whole or absent --------------------------------------------------------------------------------


@contextlib.contextmanager
def atomic_write(path: PathLike) -> Iterator[Path]:
    """Give a path beside `path` to write to, which replaces `path` at the end of the block.

    If the block raises, `path` stays as it was. Any number of threads, processes and machines may
    write the same file: each writes its own, and the last to finish wins.
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


@contextlib.contextmanager
def atomic_folder(path: PathLike) -> Iterator[Path]:
    """Give a new folder beside `path`, which replaces the folder `path` at the end of the block.

    If the block raises, `path` stays as it was. One process at a time may write a folder. If it is
    killed between two renamings, the old folder has the name of a part, and there is no `path`.
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


def part_of(path: PathLike) -> str | None:
    """The name of the file that a path was to replace; None if it is not from `atomic_write`."""
    match = _PART.fullmatch(Path(path).name)
    return None if match is None else match[1]


def remove_parts(folder: PathLike) -> None:
    """Remove the parts in a folder that no other process writes to."""
    for part in _parts(folder):
        part.unlink(missing_ok=True)


def remove_abandoned(written: Path, others: Iterable[Path] = ()) -> None:
    """Remove parts beside a file, and others, that are six hours older than it.

    Call it when a folder is opened or finished, with a file that was written just now.
    """
    for path in (*_parts(written.parent), *others):
        # Another process may remove it, too; and another user's file is not ours to remove.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            # Both times are by the clock of the disk, which may be another machine's.
            if written.stat().st_mtime - path.stat().st_mtime > _ABANDONED:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _new_part(path: Path) -> Path:
    # Before the name, as Keras goes by the ending. Random, as threads share their process's id, and
    # containers that share a folder may all be process 1.
    return path.with_name(f"part-{secrets.token_hex(8)}-{path.name}")


def _parts(folder: PathLike) -> list[Path]:
    return [path for path in Path(folder).glob("part-*") if part_of(path) and path.is_file()]


def _sync_folder(folder: PathLike) -> None:
    """Write a folder's new names to the disk, if the system can: Windows cannot."""
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


# JSON -------------------------------------------------------------------------------------------


def write_json(path: PathLike, content: object) -> None:
    """Write an indented JSON file, with null for NaN and infinity; long values are one line."""
    with atomic_write(path) as part:
        part.write_text(_indented(content) + "\n", encoding="utf-8")


def _indented(content: object) -> str:
    """JSON, a line for each part; of a dict, values of over 10,000 characters are one line."""
    if not isinstance(content, dict) or not content:
        return to_json(content, indent=1)
    lines = []
    for key, value in content.items():
        short = to_json({key: value})[1:-1]
        is_short = len(short) <= _LONG
        lines.append(to_json({key: value}, indent=1)[2:-2] if is_short else f" {short}")
    return "{\n" + ",\n".join(lines) + "\n}"


def to_json(content: object, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """Content as JSON, with null for NaN and infinity, which JSON lacks."""
    return json.dumps(finite(content), indent=indent, sort_keys=sort_keys, allow_nan=False)


def parse_json(text: str) -> Any:
    """Content of JSON; ValueError for NaN and infinity, which Python's reader takes."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def finite(content: Any) -> Any:
    """Content for JSON: None for NaN and infinity, lists for tuples."""
    if isinstance(content, dict):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


# Locks ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this thread, which may hold it repeatedly, and make it if missing.

    The system releases it when the process ends, killed or not. Abandoned parts are removed.

    Raises:
        BlockingIOError: if another process holds the folder; the message names it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place, thread = folder.resolve(), threading.get_ident()
    if _holders.get(place) == thread:
        yield
        return
    with open(folder / _LOCK, "a+", encoding="utf-8") as file:
        try:
            _lock(file.fileno())
        except (BlockingIOError, PermissionError) as error:
            file.seek(0)
            raise BlockingIOError(
                "Expected a folder in which no other training runs. "
                f"Received: {folder}, in use by process {file.read().strip()}"
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        remove_abandoned(folder / _LOCK)
        _holders[place] = thread
        try:
            yield
        finally:
            del _holders[place]


def _lock(file: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        # Beyond the text, which stays readable to others.
        os.lseek(file, 1 << 20, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# Text -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_text(path: PathLike, encoding: str = UTF_8) -> Iterator[TextIO]:
    """Open a text file, with its line ends as they are, for a `with` statement.

    Raises:
        ValueError: in the block, if the file is in another encoding; names the line.
    """
    with open(path, newline="", encoding=encoding) as file:
        try:
            yield file
        except UnicodeError as error:
            line, reason = _undecodable(path, encoding)
            raise ValueError(
                f"Expected text in the encoding {encoding!r}; if it is in another, say "
                f"`encoding=`. Received: {path}, line {line}: {reason}"
            ) from error


def _undecodable(path: PathLike, encoding: str) -> tuple[int, object]:
    """The first line that cannot be decoded, counted from 1, and why."""
    decoder = codecs.getincrementaldecoder(encoding)()
    number = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                decoder.decode(line)
            except UnicodeError as error:
                return number, getattr(error, "reason", error)
    return number, "the text breaks off"


def parse_ints(file: TextIO, n_columns: int, source: object) -> npt.NDArray[np.int64]:
    """The comma-separated ints of an open text file, int64 [lines, n_columns].

    Empty lines are skipped. `source` names the file in errors.

    Raises:
        ValueError: if a line is anything but this many ints.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how NumPy says that it is no int
        warnings.filterwarnings("ignore", message="loadtxt: input contained no data")
        try:
            found = np.loadtxt(_lines(file), np.int64, comments=None, delimiter=",", ndmin=2)
        except (ValueError, DeprecationWarning) as error:
            why = str(error).partition(";")[0]  # and not what to do with NumPy about it
            raise ValueError(f"Expected ints. Received: {source} ({why})") from error
    if found.size and found.shape[1] != n_columns:
        raise ValueError(
            f"Expected lines of {n_columns} ints. Received: {source} with {found.shape[1]} ints"
        )
    return found.reshape(-1, n_columns)


def _lines(file: TextIO) -> Iterator[str]:
    """The lines of a file; one that is far too long is not held in memory."""
    while line := file.readline(_LONGEST):
        if len(line) == _LONGEST:
            raise ValueError(f"a line of {_LONGEST} characters or more")
        yield line

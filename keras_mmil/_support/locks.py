"""Folders that one process at a time works in."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

__all__ = ["locked"]

_LOCK = ".lock"
# The thread that holds a folder, by its absolute path.
_holders: dict[Path, int] = {}


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this thread, which may hold it repeatedly, and make it if missing.

    The system releases it when the process ends, killed or not.

    Raises:
        BlockingIOError: if another training is in the folder, which the message names.
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

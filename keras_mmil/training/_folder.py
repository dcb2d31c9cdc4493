"""Whose the folder of a training is: of one process at a time, and of one set of data."""

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_mmil._support.atomic import write_json
from keras_mmil._support.digests import add_to_digest

__all__ = ["check_settings", "fingerprint", "locked", "write_settings"]

_LOCK, _SETTINGS = ".lock", "training.json"
_held = threading.local()  # `folders`: those that this thread holds


def fingerprint(x: Any) -> str:
    """A digest of tensors, arrays or nests of them, which differs where any value does."""
    digest = hashlib.blake2b(digest_size=16)
    add_to_digest(digest, x)
    return digest.hexdigest()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this thread. The system releases it when the process ends, killed or not.

    Where the thread holds it already, that goes on.

    Raises:
        BlockingIOError: if another training is in the folder, which the message names.
    """
    held: set[Path] = _held.__dict__.setdefault("folders", set())
    place = folder.resolve()
    if place in held:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack, open(folder / _LOCK, "a+", encoding="utf-8") as file:
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
        held.add(place)
        stack.callback(held.remove, place)
        yield


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


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Keep what decides the outcome of the training in a folder."""
    write_json(folder / _SETTINGS, settings)


def check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Compare with what the training in a folder was started with.

    Raises:
        ValueError: if anything differs, or nothing is known of that training.
    """
    path = folder / _SETTINGS
    try:
        theirs = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(theirs, dict):
            raise ValueError("no dict")
    except (FileNotFoundError, ValueError, RecursionError) as error:
        raise ValueError(
            f"Expected a training with its settings, to resume it; train anew, with resume=False "
            f"or in another folder. Received: {path} ({error!r})"
        ) from error
    names = sorted(theirs.keys() | settings.keys())
    others = [name for name in names if theirs.get(name) != settings.get(name)]
    if others:
        told = ", ".join(
            f"{name}={settings.get(name)!r:.40} (before: {theirs.get(name)!r:.40})"
            if not isinstance(settings.get(name), str)
            else f"other {name}"
            for name in others
        )
        raise ValueError(
            f"Expected the same data and settings as in the training in {folder}, to resume it. "
            f"Received: {told}"
        )

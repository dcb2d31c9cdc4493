"""Results kept in Keras's cache: checked when read, made again if damaged."""

import hashlib
import os
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np

from keras_mmil._support import archives
from keras_mmil._support.files import atomic_write, remove_abandoned
from keras_mmil._support.types import Array

__all__ = ["cached", "read_arrays", "write_arrays"]

T = TypeVar("T")

_SEAL = b"sha256:"
_DIGITS = 64  # of a checksum


def cached(
    path: Path,
    *,
    make: Callable[[], T],
    read: Callable[[Path], T],
    write: Callable[[Path, T], None],
) -> T:
    """The result of `make`: read from the file `path` if it exists, else made and written to it.

    If the file is damaged, the result is made again, and if it cannot be written, it is made in
    every call; a warning says so.

    Args:
        path: the file; of several, the one that is written last.
        make: function without arguments.
        read: function of a path, which raises `ValueError` for what `make` cannot have made.
        write: function of a path and of what `make` returned.
    """
    if os.path.exists(path):
        try:
            return read(path)
        except (OSError, ValueError) as error:
            warnings.warn(
                f"The cached file {path} is damaged, and what it holds is made anew ({error})",
                stacklevel=2,
            )
    made = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, made)
    except OSError as error:
        warnings.warn(
            f"The cached file {path} cannot be written, and what it is to hold will be made again "
            f"next time ({error})",
            stacklevel=2,
        )
    return made


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays atomically to a `.npz` file that ends with its own checksum."""
    with atomic_write(path) as part:
        np.savez(part, **arrays)  # type: ignore[arg-type]  # no array is `allow_pickle`
        with zipfile.ZipFile(part, "a") as archive:
            archive.comment = _SEAL + bytes(_DIGITS)  # the end of the file
        with open(part, "rb+") as stream:
            digest = _digest(stream, os.fstat(stream.fileno()).st_size - _DIGITS)
            stream.seek(-_DIGITS, os.SEEK_END)
            stream.write(digest)
    remove_abandoned(path)


def read_arrays(path: Path, names: Iterable[str]) -> dict[str, Array]:
    """The arrays of a file that `write_arrays` wrote, in the order of `names`.

    Raises:
        ValueError: if a byte of the file is not as it was written, or an array is missing.
    """
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        digest = _digest(stream, max(size - _DIGITS, 0))
        if stream.read() != digest:
            raise ValueError(f"Expected a file that ends with its checksum. Received: {path}")
    return archives.read_npz(path, dict.fromkeys(names))


def _digest(stream: BinaryIO, n_bytes: int) -> bytes:
    """Hexadecimal digits of the SHA-256 of the next bytes, as bytes."""
    digest = hashlib.sha256()
    while chunk := stream.read(min(n_bytes, 2**20)):
        digest.update(chunk)
        n_bytes -= len(chunk)
    return digest.hexdigest().encode()

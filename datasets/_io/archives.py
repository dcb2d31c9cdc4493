"""Zip archives and NumPy's `.npz` files, read with bounded memory and clear errors on damage."""

import contextlib
import lzma
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import numpy as np

from keras_mmil._support.types import Array, PathLike

__all__ = ["opened", "read_npz"]

_DENSEST = 1032  # bytes that a byte of a deflated file stands for, at most
_LARGEST_DICTIONARY = 2**27  # bytes, of LZMA: twice that of the best compression of xz
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    KeyError,  # a file that the archive does not have
    NotImplementedError,  # an unknown method of compression
    RuntimeError,  # "is encrypted"
    UnicodeError,
)
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@contextlib.contextmanager
def opened(path: PathLike) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive for a `with` statement, in whose block damage becomes a `ValueError`.

    A file in the archive that claims to be larger than could be packed into it counts as damage.

    Raises:
        ValueError: if the archive is damaged in any way.
    """
    try:
        with open(path, "rb") as stream, zipfile.ZipFile(stream) as archive:
            most = _DENSEST * os.fstat(stream.fileno()).st_size
            for info in archive.infolist():
                if info.file_size > most:
                    raise zipfile.BadZipFile(f"{info.filename!r} of {info.file_size:,} bytes")
                if info.compress_type == zipfile.ZIP_LZMA:
                    _check_dictionary(stream, info)
                archive.open(info).close()  # has the name that the directory says
            yield archive
    except _DAMAGED as error:
        raise ValueError(
            f"Expected a whole archive; delete it and get it again. Received: {path} ({error})"
        ) from error


def _check_dictionary(stream: BinaryIO, info: zipfile.ZipInfo) -> None:
    """Refuse a file whose header asks for a dictionary of a size that no compressor uses."""
    stream.seek(info.header_offset + 26)  # of the local header, where the lengths of its end are
    lengths = stream.read(4)
    skipped = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    stream.seek(skipped + 5, os.SEEK_CUR)  # version and length of LZMA's properties; the first
    size = int.from_bytes(stream.read(4), "little")
    if size > _LARGEST_DICTIONARY:
        raise zipfile.BadZipFile(f"{info.filename!r} with an LZMA dictionary of {size:,} bytes")


def read_npz(path: PathLike, shapes: Mapping[str, tuple[int, ...] | None]) -> dict[str, Array]:
    """Arrays of a NumPy `.npz` file, which is never unpickled.

    Args:
        path: the file.
        shapes: the wanted arrays: from their names to their shapes, or None for any shape.

    Returns:
        Dict from names to arrays, in the order of `shapes`.

    Raises:
        ValueError: if the file is damaged, or an array is missing or of another shape.
    """
    try:
        with opened(path) as archive:
            arrays = {name: _read_array(archive, f"{name}.npy") for name in shapes}
    except Exception as error:  # whatever NumPy makes of a damaged header
        raise ValueError(
            f"Expected a NumPy .npz file with the arrays {sorted(shapes)}; delete the file and get "
            f"it again. Received: {path} ({error.__cause__ or error})"
        ) from error
    for name, shape in shapes.items():
        if shape is not None and arrays[name].shape != shape:
            raise ValueError(
                f"Expected an array `{name}` of shape {shape} in {path}. "
                f"Received: shape={arrays[name].shape}"
            )
    return arrays


def _read_array(archive: zipfile.ZipFile, name: str) -> Array:
    info = archive.getinfo(name)
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"version {version} of {name}")
        shape, _, dtype = _HEADERS[version](file)
        if dtype.hasobject:
            raise ValueError(f"{name} holds Python objects, which are pickled")
        # The header decides what is allocated; and all is read, so that its checksum is verified.
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != (
            info.file_size - file.tell()
        ):
            raise ValueError(f"{name} is said to be of shape {shape} and {dtype}, and is not")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)

"""Zip archives and NumPy's `.npz` files, read with bounded memory and clear errors on damage."""

import contextlib
import lzma
import math
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, BinaryIO

import numpy as np

from keras_mmil._support.types import Array, PathLike

__all__ = ["opened", "read_npy", "read_npz"]

_DENSEST = 1032  # bytes that a byte of a deflated file stands for, at most
# What is larger must not be packed more densely: real files of this size are not.
_LARGE, _DENSE = 2**26, 100
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

    A file in the archive that claims to be larger than could be packed into it counts as damage, as
    does one of more than 64 MiB that is packed into less than a hundredth of it.

    Raises:
        ValueError: if the archive is damaged in any way.
    """
    try:
        with open(path, "rb") as stream, zipfile.ZipFile(stream) as archive:
            most = _DENSEST * os.fstat(stream.fileno()).st_size
            for info in archive.infolist():
                is_bomb = info.file_size > max(_LARGE, _DENSE * info.compress_size)
                if info.file_size > most or is_bomb:
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


def read_npz(
    path: PathLike, shapes: Mapping[str, tuple[int, ...] | None] | None = None
) -> dict[str, Array]:
    """Arrays of a NumPy `.npz` file, which is never unpickled.

    Args:
        path: the file.
        shapes: the wanted arrays: from their names to their shapes, or None for any shape; None for
            whatever arrays there are.

    Returns:
        Dict from names to arrays, in the order of `shapes`, or of the file.

    Raises:
        ValueError: if the file is damaged, or an array is missing or of another shape.
    """
    try:
        with opened(path) as archive:
            if shapes is None:
                names = [name.removesuffix(".npy") for name in archive.namelist()]
                shapes = dict.fromkeys(names)
            arrays = {name: _read_array(archive, f"{name}.npy") for name in shapes}
    except Exception as error:  # whatever NumPy makes of a damaged header
        raise ValueError(
            f"Expected a NumPy .npz file with the arrays {sorted(shapes or ())}; delete the file "
            f"and get it again. Received: {path} ({error.__cause__ or error})"
        ) from error
    for name, shape in shapes.items():
        if shape is not None and arrays[name].shape != shape:
            raise ValueError(
                f"Expected an array `{name}` of shape {shape} in {path}. "
                f"Received: shape={arrays[name].shape}"
            )
    return arrays


def read_npy(path: PathLike) -> Array:
    """The array of a NumPy `.npy` file, which is never unpickled.

    Raises:
        FileNotFoundError: if it is not there.
        ValueError: if it is damaged, as far as can be told without a checksum.
    """
    with open(path, "rb") as file:
        try:
            return _array_in(file, "it", os.fstat(file.fileno()).st_size)
        except Exception as error:  # whatever NumPy makes of a damaged header
            raise ValueError(f"Expected a NumPy .npy file. Received: {path} ({error})") from error


def _read_array(archive: zipfile.ZipFile, name: str) -> Array:
    info = archive.getinfo(name)
    with archive.open(info) as file:
        return _array_in(file, name, info.file_size)


def _array_in(file: BinaryIO | IO[bytes], name: str, n_bytes: int) -> Array:
    """The array of an open `.npy` file of so many bytes."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of {name}")
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which are pickled")
    # The header decides what is allocated; and all is read, so that its checksum is verified.
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != n_bytes - file.tell():
        raise ValueError(f"{name} is said to be of shape {shape} and {dtype}, and is not")
    file.seek(0)
    array = np.lib.format.read_array(file, allow_pickle=False)
    # Of numbers that are no characters, NumPy makes texts that end Python, or a SystemError.
    if dtype.kind == "U" and array.size:
        codes = np.ascontiguousarray(array).view(dtype.byteorder + "u4")
        if codes.max(initial=0) > sys.maxunicode:
            raise ValueError(f"{name} holds texts of {codes.max()}, which is no character")
    return array

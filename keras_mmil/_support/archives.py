"""Zip archives, NumPy's files and saved networks, read in bounded memory, with clear errors."""

import contextlib
import lzma
import math
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array, PathLike

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
_WEIGHTS = "model.weights.h5"
_CHUNK = 2**20  # bytes
# How many times as large as in the file, where they may be stored in half the bits, weights can be;
# and bytes of those that are not stored, such as of metrics.
_UNPACKED, _NOT_STORED = 4, 2**24
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@contextlib.contextmanager
def open_zip(path: PathLike) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive for a `with` statement; damage is a ValueError, also in the block.

    Damage is also a member that claims to be larger than could be packed into the archive, or one
    of more than 64 MiB that is packed into less than a hundredth of its size.
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
    """Raise BadZipFile if a member asks for a dictionary of a size that no compressor uses."""
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

    `shapes` are those of the wanted arrays by name, None for any shape; or None for all arrays, in
    the order of the file. ValueError if the file is damaged, or an array is missing or of another
    shape.
    """
    try:
        with open_zip(path) as archive:
            if shapes is None:
                names = [name.removesuffix(".npy") for name in archive.namelist()]
                shapes = dict.fromkeys(names)
            arrays = {}
            for name in shapes:
                info = archive.getinfo(f"{name}.npy")
                with archive.open(info) as file:
                    arrays[name] = _array_in(file, info.filename, info.file_size)
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
    """The array of a NumPy `.npy` file, which is never unpickled; a damaged one is a ValueError."""
    with open(path, "rb") as file:
        try:
            return _array_in(file, "it", os.fstat(file.fileno()).st_size)
        except Exception as error:  # whatever NumPy makes of a damaged header
            raise ValueError(f"Expected a NumPy .npy file. Received: {path} ({error})") from error


def _array_in(file: BinaryIO | IO[bytes], name: str, n_bytes: int) -> Array:
    """The array of an open `.npy` file of `n_bytes` bytes."""
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


def load_network(path: PathLike) -> keras.Model:
    """Load a network from a `.keras` file of `Model.save`, without executing code in it.

    Keras's own function trusts the file: it allocates whatever weights the configuration asks for,
    and its errors do not name the file.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged in any way, asks for larger weights than it holds, or for
            unknown layers.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"Expected a saved network. Received: no file {path}")
    with open_zip(path) as archive:
        names = archive.namelist()
        for name in names:
            with archive.open(name) as member:  # to the end, where the checksum is
                while member.read(_CHUNK):
                    pass
        stored = archive.getinfo(_WEIGHTS).file_size if _WEIGHTS in names else 0
    try:
        with tf.variable_creator_scope(_Room(_UNPACKED * stored + _NOT_STORED)):
            return keras.models.load_model(path)
    except Exception as error:  # whatever a damaged configuration leads to
        why = str(error).strip().partition("\n")[0]
        raise ValueError(
            "Expected a saved network that is whole, of layers that are known. "
            f"Received: {path} ({type(error).__name__}: {why:.300})"
        ) from error


class _Room:
    """Makes variables of at most `n_bytes` together."""

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes

    def __call__(self, next_creator: Any, **arguments: Any) -> tf.Variable:
        value = arguments["initial_value"]
        if callable(value):  # its shape is known from a graph, which computes nothing
            graph = tf.function(value, autograph=False).get_concrete_function()
            value = graph.structured_outputs
        else:
            value = tf.convert_to_tensor(value)
        self.n_bytes -= math.prod(value.shape) * value.dtype.size
        if self.n_bytes < 0:
            raise ValueError(f"weights {tuple(value.shape)}, which are larger than the file's")
        return next_creator(**arguments)

"""Networks in Keras's own files, read with bounded memory and clear errors on damage."""

import math
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support import archives
from keras_mmil._support.types import PathLike

__all__ = ["load_network"]

_WEIGHTS = "model.weights.h5"
_CHUNK = 2**20  # bytes
# How many times as large as in the file, where they may be stored in half the bits, weights can be;
# and bytes of those that are not stored, such as of metrics.
_UNPACKED, _NOT_STORED = 4, 2**24


def load_network(path: PathLike) -> keras.Model:
    """Load a network that `Model.save` wrote; code in the file is not executed.

    Keras's own function trusts the file: it makes room for whatever weights the configuration asks
    for, and its errors say what broke, but not in which file.

    Args:
        path: a file that ends in .keras.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if the file is damaged in any way, asks for larger weights than it holds, or
            for layers that are not known.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"Expected a saved network. Received: no file {path}")
    with archives.opened(path) as archive:
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
    """Makes variables as long as there is room for them.

    Args:
        n_bytes: of all variables.
    """

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

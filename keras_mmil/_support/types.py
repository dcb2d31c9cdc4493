"""Types that signatures speak of. Those of TensorFlow and Keras are Any to type checkers."""

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

__all__ = ["Array", "Config", "Ints", "PathLike", "Seed", "Shape", "Tensors"]

Array: TypeAlias = npt.NDArray[Any]
Ints: TypeAlias = npt.NDArray[np.integer[Any]]
PathLike: TypeAlias = str | os.PathLike[str]
Shape: TypeAlias = tuple[int | None, ...]
Seed: TypeAlias = int | np.random.SeedSequence | None
Config: TypeAlias = dict[str, Any]
# What a functional model takes: one tensor, or several by name.
Tensors: TypeAlias = tf.RaggedTensor | tf.Tensor | Array | Mapping[str, Any]

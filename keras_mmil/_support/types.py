"""Types of signatures, of which TensorFlow's and Keras's are Any, and values that mean missing."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

Array: TypeAlias = npt.NDArray[Any]
Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Ints: TypeAlias = npt.NDArray[np.integer[Any]]
PathLike: TypeAlias = str | os.PathLike[str]
Shape: TypeAlias = tuple[int | None, ...]
Seed: TypeAlias = int | Sequence[int] | np.random.SeedSequence | None
Config: TypeAlias = dict[str, Any]
# What a functional model takes: one tensor, or several by name.
Tensors: TypeAlias = tf.RaggedTensor | tf.Tensor | Array | Mapping[str, Any]
# Labels or weights of top-bags: of one output, or of each of several.
Labels: TypeAlias = tf.Tensor | Array | Sequence[Any] | Mapping[str, Any] | None
LearningRate: TypeAlias = float | keras.optimizers.schedules.LearningRateSchedule

# What stands for a missing value in tensors that have no NaN.
MISSING_TEXT = "\0"
MISSING_INT = -(2**63)

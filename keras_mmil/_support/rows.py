"""Top-bags of one tensor or array, as `keras_mmil.ragged` selects, joins and subsamples them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array, Bools, Floats, Ints

__all__ = ["as_tensor", "concat_rows", "drawn_members", "keep_members", "n_rows", "take_rows"]


def n_rows(part: Any) -> int:
    """Number of top-bags that a tensor, an array, or anything that has a length leads with."""
    shape = getattr(part, "shape", None)
    if shape is None and hasattr(part, "__len__"):
        return len(part)
    if not shape or not len(shape):  # a TensorShape is true even if it is that of a scalar
        raise ValueError(f"Expected top-bags, or an array of one entry each. Received: {part!r}")
    return shape[0]


def as_tensor(part: tf.RaggedTensor | tf.Tensor | Array) -> tf.RaggedTensor | tf.Tensor:
    """A tensor, ragged or not, as it is; an array as a tensor."""
    return part if tf.is_tensor(part) else tf.convert_to_tensor(part)


def take_rows(
    part: tf.RaggedTensor | tf.Tensor | Array, rows: Ints
) -> tf.RaggedTensor | tf.Tensor | Array:
    """The top-bags of these numbers."""
    return tf.gather(part, rows) if tf.is_tensor(part) else part[rows]


def drawn_members(scores: Floats, rate: float, splits: Ints) -> Bools:
    """Which members stay where each is left out at a rate, and of each bag at least one stays.

    Args:
        scores: random, from 0 to 1, `[members]`; those of at least the rate stay, and the highest
            of each bag.
        rate: probability of being left out.
        splits: row splits of the bags `[bags + 1]`.

    Returns:
        bool `[members]`.
    """
    sizes = np.diff(splits)
    highest = np.maximum.reduceat(scores, splits[:-1][sizes > 0]) if scores.size else scores
    return (scores >= rate) | (scores == np.repeat(highest, sizes[sizes > 0]))


def keep_members(part: tf.RaggedTensor, level: int, stay: Bools) -> tf.RaggedTensor:
    """A RaggedTensor with those members of its bags of a level that stay, bool `[members]`."""
    if level:
        return part.with_values(keep_members(part.values, level - 1, stay))
    return tf.ragged.boolean_mask(part, tf.RaggedTensor.from_row_splits(stay, part.row_splits))


def concat_rows(
    parts: Sequence[tf.RaggedTensor | tf.Tensor | Array],
) -> tf.RaggedTensor | tf.Tensor | Array:
    """The top-bags of several tensors, or arrays, of one dtype and depth."""
    kinds = {(_kind(part), getattr(part, "ragged_rank", 0)) for part in parts}
    if len(kinds) > 1:
        raise ValueError(f"Expected parts of one dtype and depth. Received: {sorted(kinds)}")
    if not any(map(tf.is_tensor, parts)):
        return np.concatenate(parts)
    if isinstance(parts[0], tf.RaggedTensor):
        parts = [tf.RaggedTensor.with_row_splits_dtype(part, tf.int64) for part in parts]
    return tf.concat(parts, axis=0)


def _kind(part: tf.RaggedTensor | tf.Tensor | Array) -> str:
    """The dtype of a tensor or array; for strings of NumPy, of any length, it is their kind."""
    if not hasattr(part, "shape"):
        raise TypeError(f"Expected tensors or arrays. Received: {type(part).__name__}")
    return "str" if getattr(part.dtype, "kind", None) == "U" else part.dtype.name

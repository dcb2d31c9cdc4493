"""Top-bags of one tensor or array, as `keras_mmil.ragged` selects, joins and subsamples them."""

import numpy as np
import tensorflow as tf

__all__ = ["as_tensor", "concat_rows", "leave_out", "n_rows", "stay", "take_rows"]


def n_rows(part):
    """Number of top-bags that a tensor or array leads with."""
    shape = getattr(part, "shape", None)
    if shape is None and hasattr(part, "__len__"):
        return len(part)
    if not shape or not len(shape):  # a TensorShape is true even if it is that of a scalar
        raise ValueError(f"Expected top-bags, or an array of one entry each. Received: {part!r}")
    return shape[0]


def as_tensor(part):
    """A tensor, ragged or not, as it is; an array as a tensor."""
    return part if tf.is_tensor(part) else tf.convert_to_tensor(part)


def take_rows(part, rows):
    """The top-bags of these numbers."""
    return tf.gather(part, rows) if tf.is_tensor(part) else part[rows]


def stay(lots, rate, splits):
    """Which members stay: those with high lots, and the highest of each bag."""
    sizes = np.diff(splits)
    highest = np.maximum.reduceat(lots, splits[:-1][sizes > 0]) if lots.size else lots
    return (lots >= rate) | (lots == np.repeat(highest, sizes[sizes > 0]))


def leave_out(part, level, stay):
    """A RaggedTensor with those members of its bags of a level that stay, bool [members]."""
    if level:
        return part.with_values(leave_out(part.values, level - 1, stay))
    return tf.ragged.boolean_mask(part, tf.RaggedTensor.from_row_splits(stay, part.row_splits))


def _kind(part):
    """The dtype of a tensor or array; for strings of NumPy, of any length, it is their kind."""
    if not hasattr(part, "shape"):
        raise TypeError(f"Expected tensors or arrays. Received: {type(part).__name__}")
    return "str" if getattr(part.dtype, "kind", None) == "U" else part.dtype.name


def concat_rows(parts):
    """The top-bags of several tensors, or arrays, of one dtype and depth."""
    kinds = {(_kind(part), getattr(part, "ragged_rank", 0)) for part in parts}
    if len(kinds) > 1:
        raise ValueError(f"Expected parts of one dtype and depth. Received: {sorted(kinds)}")
    if not any(map(tf.is_tensor, parts)):
        return np.concatenate(parts)
    if not isinstance(parts[0], tf.RaggedTensor):
        return tf.concat(parts, axis=0)
    return tf.concat([part.with_row_splits_dtype(tf.int64) for part in parts], axis=0)

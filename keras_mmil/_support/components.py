"""Checks of the components of bags."""

import numpy as np
import tensorflow as tf

from keras_mmil._support.nested_lists import position

__all__ = ["check_dtype", "check_equal", "check_ids", "check_positive", "check_ragged_like"]


def check_ids(x):
    """Checks that `x` is a RaggedTensor of integers of at least 0."""
    if not isinstance(x, tf.RaggedTensor) or x.dtype not in (tf.int32, tf.int64):
        kind = type(x).__name__
        raise TypeError(
            "Expected bags of ids, a RaggedTensor of int32 or int64 (features stand beside them). "
            f"Received: {kind} of dtype {getattr(x, 'dtype', None)}"
        )
    if x.flat_values.shape.rank != 1:
        raise ValueError(f"Expected single integers as instances. Received: shape={x.shape}")
    lowest = x.flat_values.numpy().min(initial=0)
    if lowest < 0:
        raise ValueError(f"Expected ids of at least 0. Received: id={lowest}")


def check_ragged_like(bags, name, part, depth):
    """Checks that a component has the outermost `depth` levels of `bags`, and nothing else."""
    if not isinstance(part, tf.RaggedTensor):
        raise TypeError(f"Expected a RaggedTensor. Received: {name} of type {type(part).__name__}")
    fits = part.ragged_rank == depth and part.flat_values.shape.rank == 1
    pairs = zip(part.nested_row_splits, bags.nested_row_splits, strict=False)
    if not fits or not all(np.array_equal(ours, theirs) for ours, theirs in pairs):
        raise ValueError(
            f"Expected the sizes of the outermost {depth} levels of the bags, {bags.shape}. "
            f"Received: {name} of other sizes, shape {part.shape}"
        )


def check_dtype(name, part, dtype):
    """Checks the dtype of a component."""
    if part.dtype != dtype:
        raise TypeError(f"Expected {dtype.name}. Received: {name} of {part.dtype.name}")


def check_positive(name, counts):
    """Checks that a component holds positive, finite floats."""
    check_dtype(name, counts, tf.float32)
    values = counts.flat_values.numpy()
    wrong = values[~(values > 0) | np.isinf(values)]  # NaN is not above 0 either
    if wrong.size:
        raise ValueError(
            f"Expected positive, finite multiplicities; {wrong.size} are not. "
            f"Received: {name} with {wrong[0]}"
        )


def check_equal(name, keys, prints):
    """Checks that sub-bags of equal keys have equal fingerprints.

    Args:
        name: of the component.
        keys: int64 RaggedTensor.
        prints: int64 `[sub-bags]`.
    """
    flat = keys.flat_values.numpy()
    _, first, which = np.unique(flat, return_index=True, return_inverse=True)
    unequal = np.flatnonzero(prints != prints[first[which]])
    if unequal.size:
        lengths = [np.diff(splits) for splits in keys.nested_row_splits]
        pair = first[which[unequal[0]]], unequal[0]
        places = " and ".join(name + position(i, lengths) for i in pair)
        raise ValueError(
            "Expected equal keys only of sub-bags of equal members and counts; `Bags.from_ragged` "
            f"makes such keys. Received: key {flat[unequal[0]]} of different sub-bags, {places}"
        )

"""The components of `Bags`: what they are called, and checks that they fit together."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil._support.splits import first_difference, path_to
from keras_mmil.bags import multisets

__all__ = [
    "LevelNames",
    "check_dtype",
    "check_ids",
    "check_keys",
    "check_positive",
    "check_same_sizes",
    "input_names",
    "level_names",
]


class LevelNames(NamedTuple):
    """Names of the components of `Bags`, from the instances upwards.

    Attributes:
        counts: of the counts of each level.
        keys: of the keys of each level but the instances.
    """

    counts: list[str]
    keys: list[str]


def level_names(depth: int) -> LevelNames:
    """The names of the counts of each level, and of the keys of each inner level, upwards."""
    inner = ["" if level == 1 else f"_{level}" for level in range(1, depth)]
    return LevelNames(
        counts=["counts", *(f"sub_bag_counts{suffix}" for suffix in inner)],
        keys=[f"sub_bag_keys{suffix}" for suffix in inner],
    )


def input_names(depth: int) -> tuple[str, ...]:
    """Names of the components of `Bags` of a nesting depth, the keys of `Bags.inputs`.

    `("bags", "counts")`, then for each inner level, counted from the instances upwards,
    `"sub_bag_counts"` and `"sub_bag_keys"`, `"sub_bag_counts_2"` and `"sub_bag_keys_2"`, and so on.
    """
    (counts, *inner_counts), keys = level_names(depth)
    inner = [name for pair in zip(inner_counts, keys, strict=True) for name in pair]
    return ("bags", counts, *inner)


def check_ids(x: tf.RaggedTensor) -> None:
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


def check_same_sizes(bags: tf.RaggedTensor, name: str, part: tf.RaggedTensor, depth: int) -> None:
    """Checks that a component has the outermost `depth` levels of `bags`, and nothing else."""
    if not isinstance(part, tf.RaggedTensor):
        raise TypeError(f"Expected a RaggedTensor. Received: {name} of type {type(part).__name__}")
    fits = part.ragged_rank == depth and part.flat_values.shape.rank == 1
    if not fits or first_difference(part, bags) is not None:
        raise ValueError(
            f"Expected the sizes of the outermost {depth} levels of the bags, {bags.shape}. "
            f"Received: {name} of other sizes, shape {part.shape}"
        )


def check_dtype(name: str, part: tf.RaggedTensor, dtype: tf.DType) -> None:
    """Checks the dtype of a component."""
    if part.dtype != dtype:
        raise TypeError(f"Expected {dtype.name}. Received: {name} of {part.dtype.name}")


def check_positive(name: str, counts: tf.RaggedTensor) -> None:
    """Checks that a component holds positive, finite floats."""
    check_dtype(name, counts, tf.float32)
    values = counts.flat_values.numpy()
    wrong = values[~(values > 0) | np.isinf(values)]  # NaN is not above 0 either
    if wrong.size:
        raise ValueError(
            f"Expected positive, finite multiplicities; {wrong.size} are not. "
            f"Received: {name} with {wrong[0]}"
        )


def check_keys(inputs: Mapping[str, tf.RaggedTensor]) -> None:
    """Checks that sub-bags of equal keys are equal, in whatever top-bag: else they would be merged.

    Equal are sub-bags with the same ids, or equal members, and the same counts of each. They are
    compared by 64-bit hashes of their content, independent of those that keys are.

    Args:
        inputs: dict of eager RaggedTensors as `Bags.inputs`, with any of its counts and keys; the
            ids may have a last axis, of windows.

    Raises:
        ValueError: if equal keys stand for unequal sub-bags.
    """
    bags = inputs["bags"]
    names = level_names(bags.ragged_rank)
    if all(inputs.get(name) is None for name in names.keys):
        return
    prints = bags.flat_values.numpy()
    splits = [part.numpy() for part in reversed(bags.nested_row_splits)]
    for row_splits, counts_name, keys_name in zip(splits, names.counts, names.keys, strict=False):
        counts = inputs.get(counts_name)
        weights = np.ones(len(prints)) if counts is None else counts.flat_values.numpy()
        prints = multisets.fingerprints(prints, weights, row_splits, salt=1)
        if inputs.get(keys_name) is not None:
            _check_equal(keys_name, inputs[keys_name], prints)


def _check_equal(name: str, keys: tf.RaggedTensor, prints: npt.NDArray[np.int64]) -> None:
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
        places = " and ".join(name + path_to(i, lengths) for i in pair)
        raise ValueError(
            "Expected equal keys only of sub-bags of equal members and counts; `Bags.from_ragged` "
            f"makes such keys. Received: key {flat[unequal[0]]} of different sub-bags, {places}"
        )

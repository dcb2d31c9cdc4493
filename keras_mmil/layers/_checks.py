"""What layers check of their inputs, and how they read older configurations."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.types import Config
from keras_mmil.layers._types import Nested

__all__ = [
    "ReadsOldConfigs",
    "assert_in_same_bags",
    "assert_same_splits",
    "check_ids",
    "check_nested_alike",
    "splits_of",
]


# The width of a window was `positions` in BagLayer and ConcatDense, and `size` in TextBags.
_NEW_NAMES = {"positions": "window_size", "size": "window_size"}


class ReadsOldConfigs(keras.Layer):
    """Base of layers that had another name for an argument."""

    @classmethod
    def from_config(cls, config: Config) -> Any:
        """The layer of a configuration, possibly one saved by an older version."""
        return super().from_config({_NEW_NAMES.get(name, name): config[name] for name in config})


def check_ids(layer: keras.Layer, **tensors: Nested | keras.KerasTensor | None) -> None:
    """Raise ValueError for ids that are not integers, as floats would be truncated; skip None."""
    for name, x in tensors.items():
        dtype = None if x is None else keras.backend.standardize_dtype(x.dtype)
        if dtype is not None and not keras.backend.is_int_dtype(dtype):
            raise ValueError(
                f"{type(layer).__name__} '{layer.name}' expected integer ids. "
                f"Received: {name}.dtype={dtype}"
            )


def splits_of(structure: Nested, item_rank: int = 0) -> list[tf.Tensor]:
    """The K row splits of [batch, (n₁), …, (n_K), *item], outermost first, also of dense axes."""
    is_ragged = isinstance(structure, tf.RaggedTensor)
    splits = list(structure.nested_row_splits) if is_ragged else []
    flat = structure.flat_values if is_ragged else structure
    n_axes = flat.shape.rank - item_rank
    if n_axes > 1:
        sizes = tf.shape(flat, tf.int64)[:n_axes]
        for axis in range(1, n_axes):
            splits.append(tf.range(tf.reduce_prod(sizes[:axis]) + 1) * sizes[axis])
    return splits


def check_nested_alike(layer: keras.Layer, columns: Sequence[Any], what: str) -> None:
    """Raise ValueError for columns, `what` they are, that are in different numbers of bags."""
    if len({len(x.shape) for x in columns}) > 1:
        shapes = [tuple(x.shape) for x in columns]
        raise ValueError(
            f"{type(layer).__name__} '{layer.name}' expected {what} that are nested alike. "
            f"Received: {shapes=}"
        )


def assert_in_same_bags(
    layer: keras.Layer, columns: Sequence[Nested], names: Iterable[str], what: str
) -> None:
    """Raise an error for columns, `what` they are, in bags of other sizes than the first one."""
    first, *others = map(splits_of, columns)
    pairs = {name: (first, splits) for name, splits in zip(names, others, strict=True)}
    expected = f"{type(layer).__name__} '{layer.name}' expected {what} in bags of the same sizes"
    assert_same_splits(pairs, expected)


def assert_same_splits(
    pairs: Mapping[str, tuple[Sequence[tf.Tensor], Sequence[tf.Tensor]]], expected: str
) -> None:
    """Raise ValueError for row splits that are known to differ, else check them in the graph.

    Splits that are the same tensor (as after `with_values`) cost nothing; the others are compared
    in one operation. `pairs` maps the name of an input to the splits of each level that it should
    have, and to its own; `expected` is the first sentence of the error message.
    """
    different: list[tuple[tf.Tensor, tf.Tensor]] = []
    for name, (right, received) in pairs.items():
        new = [(a, b) for a, b in zip(right, received, strict=False) if a is not b]
        if len(right) != len(received):
            raise ValueError(
                f"{expected}, nested {len(right)} times. "
                f"Received: {name} nested {len(received)} times"
            )
        if not all(a.shape.is_compatible_with(b.shape) for a, b in new):
            raise ValueError(f"{expected}. Received: {name} with another number of bags")
        different += new
    if not different:
        return
    right, received = map(_joined, zip(*different, strict=True))
    # Both begin with the sizes, so comparing the common part is enough.
    n = tf.minimum(tf.size(right), tf.size(received))
    are_equal = tf.reduce_all(tf.equal(right[:n], received[:n]))
    message = f"{expected}. Received: bags of other sizes in {' or '.join(pairs)}"
    # The conditional of `tf.debugging.assert_equal` costs more than the comparison.
    tf.raw_ops.Assert(condition=are_equal, data=[message])


def _joined(splits: Sequence[tf.Tensor]) -> tf.Tensor:
    """Row splits end to end after their sizes, so that different lists give different tensors."""
    splits = [tf.cast(x, tf.int64) for x in splits]
    sizes = tf.stack([tf.size(x, tf.int64) for x in splits])
    return tf.concat([sizes, *splits], axis=0)

"""What a layer checks of its inputs: shapes, ids, and bags of the same sizes."""

from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from keras_mmil._support.types import Shape
from keras_mmil.layers._types import Nested

__all__ = [
    "assert_same_splits",
    "check_bag_arguments",
    "check_bag_shapes",
    "check_ids",
    "splits_of",
]


def check_bag_arguments(layer: keras.Layer) -> None:
    """Raise ValueError where the arguments of a `BagLayer` do not go together."""
    units, vocabulary_size, window_size = layer.units, layer.vocabulary_size, layer.window_size
    n_aggregations = len(layer.aggregations)
    if units is None and (vocabulary_size, window_size) != (None, None):
        raise ValueError(
            "Expected units where ids stand for one-hot vectors, or several rows for one "
            f"instance. Received: units=None, {vocabulary_size=}, {window_size=}"
        )
    if layer.empty not in ("learned", "zeros"):
        raise ValueError(f"Expected 'learned' or 'zeros'. Received: empty={layer.empty!r}")
    if units is not None and units % n_aggregations:
        raise ValueError(
            f"Expected units that split evenly between {n_aggregations} aggregations. "
            f"Received: units={units}"
        )


def check_bag_shapes(layer: keras.Layer, inputs_shape: Shape, members_shape: Shape | None) -> None:
    """Raise ValueError where the inputs of a bag-layer have the wrong rank.

    Args:
        layer: the `BagLayer`.
        inputs_shape: of the bags, or of the distinct rows where there are members.
        members_shape: of the members, or None.
    """
    is_ids, window_size = layer.vocabulary_size is not None, layer.window_size

    def expect(right: bool, expected: str, **received: Shape | None) -> None:
        if not right:
            ((name, shape),) = received.items()
            shown = f"{name}=None" if shape is None else f"{name}.shape={tuple(shape)}"
            raise ValueError(f"BagLayer '{layer.name}' expected {expected}. Received: {shown}")

    rank = 0 if is_ids else 1
    if members_shape is None:
        axes = "ids [batch, (n)]" if is_ids else "[batch, (n), features]"
        right = len(inputs_shape) >= 2 + rank
        expect(right, f"bags, {axes} or deeper", inputs=inputs_shape)
        needed = f"members, {window_size} rows for each instance"
        expect(window_size is None, needed, members=None)
        return
    axes = "ids [rows]" if is_ids else "[rows, features]"
    expect(len(inputs_shape) == 1 + rank, f"distinct rows, {axes}", inputs=inputs_shape)
    if window_size is None:
        right, axes = len(members_shape) >= 2, "[batch, (n)]"
    else:
        right = len(members_shape) >= 3 and members_shape[-1] == window_size
        axes = f"[batch, (n), {window_size}]"
    expect(right, f"bags of row ids, {axes} or deeper", members=members_shape)


def check_ids(layer: keras.Layer, **tensors: Nested | keras.KerasTensor | None) -> None:
    """Raise ValueError where ids, of instances or of rows, are no integers; None is left out.

    Floats would be cut off without a word on their way to an embedding or a table.
    """
    for name, x in tensors.items():
        dtype = None if x is None else keras.backend.standardize_dtype(x.dtype)
        if dtype is not None and not keras.backend.is_int_dtype(dtype):
            raise ValueError(
                f"{type(layer).__name__} '{layer.name}' expected integer ids. "
                f"Received: {name}.dtype={dtype}"
            )


def splits_of(structure: Nested, item_rank: int = 0) -> list[tf.Tensor]:
    """Row splits of the bags of each level, outermost first; those of dense axes are made.

    Args:
        structure: RaggedTensor or dense tensor [batch, (n₁), …, (n_K), *item].
        item_rank: rank of its items.

    Returns:
        List of K tensors of ints.
    """
    is_ragged = isinstance(structure, tf.RaggedTensor)
    splits = list(structure.nested_row_splits) if is_ragged else []
    flat = structure.flat_values if is_ragged else structure
    n_axes = flat.shape.rank - item_rank
    if n_axes > 1:
        sizes = tf.shape(flat, tf.int64)[:n_axes]
        for axis in range(1, n_axes):
            splits.append(tf.range(tf.reduce_prod(sizes[:axis]) + 1) * sizes[axis])
    return splits


def assert_same_splits(
    pairs: Mapping[str, tuple[Sequence[tf.Tensor], Sequence[tf.Tensor]]], expected: str
) -> None:
    """Raise where row splits are not equal: statically where that is known, else in the graph.

    Splits that are one tensor cost nothing, as those of a RaggedTensor and of another that was made
    from it by `with_values`. All others are compared at once.

    Args:
        pairs: dict from names to pairs of lists of row splits: the right ones, of the bags of each
            level, and those received by that name.
        expected: what was expected.

    Raises:
        ValueError: if there are more or fewer levels, or other known numbers of bags.
        InvalidArgumentError: if the splits differ.
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
    # As both begin with the sizes, it is enough to compare what both have.
    n = tf.minimum(tf.size(right), tf.size(received))
    are_equal = tf.reduce_all(tf.equal(right[:n], received[:n]))
    message = f"{expected}. Received: bags of other sizes in {' or '.join(pairs)}"
    # Not `tf.debugging.assert_equal`, whose conditional costs more than the comparison.
    tf.raw_ops.Assert(condition=are_equal, data=[message])


def _joined(splits: Sequence[tf.Tensor]) -> tf.Tensor:
    """Row splits end to end, behind their sizes, so that no two lists of them are joined alike."""
    splits = [tf.cast(x, tf.int64) for x in splits]
    sizes = tf.stack([tf.size(x, tf.int64) for x in splits])
    return tf.concat([sizes, *splits], axis=0)

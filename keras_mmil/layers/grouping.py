"""How the rows of a bag-layer's input are grouped into bags."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil._support.rows import bags_of_members
from keras_mmil._support.types import Array, Ints, Shape
from keras_mmil.layers._checks import assert_same_splits, splits_of
from keras_mmil.layers._types import Nested

__all__ = [
    "Grouping",
    "bag_of_each",
    "depth_of",
    "drop_absent",
    "flat_columns",
    "group",
    "with_innermost",
    "with_rows",
]

Held = TypeVar("Held")  # members and weights: a tensor or None in a layer, an array in NumPy
Wrap: TypeAlias = Callable[[tf.Tensor], Nested]


@dataclass(frozen=True, eq=False)
class Grouping(Generic[Held]):
    """Bags of rows, as lists of their members.

    In a layer it holds tensors, and None for what goes without saying. `numpy` fills that in, and
    makes arrays of all.

    Attributes:
        members: row of each member, int [members]; None where member i is row i.
        row_splits: members `row_splits[b]` to `row_splits[b + 1]` are in bag b, int [bags + 1].
        weights: multiplicity or importance of each member, float [members]; None where all are 1.
            A member of weight 0 is not in the bag.
        n_rows: number of rows.
    """

    members: Held
    row_splits: tf.Tensor | Ints
    weights: Held
    n_rows: tf.Tensor | int

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.row_splits) - 1

    @cached_property
    def bag_ids(self) -> Ints:
        """Bag of each member, [members]; of a grouping of arrays."""
        return bags_of_members(self.row_splits)

    @cached_property
    def is_empty(self: "Grouping[Array]") -> npt.NDArray[np.bool_]:
        """Which bags have no member, bool [bags]; of a grouping of arrays."""
        return np.bincount(self.bag_ids, self.weights, minlength=self.n_bags) == 0

    def numpy(self) -> "Grouping[Array]":
        """The same in arrays: members and row splits of int64, weights of float32."""
        row_splits = tf.cast(self.row_splits, tf.int64).numpy()
        if self.members is None:
            members = np.arange(row_splits[-1])
        else:
            members = tf.cast(self.members, tf.int64).numpy()
        if self.weights is None:
            weights = np.ones(len(members), np.float32)
        else:
            weights = tf.cast(self.weights, tf.float32).numpy()
        return Grouping(members, row_splits, weights, int(self.n_rows))


def group(
    structure: Nested,
    item_rank: int,
    weights: Nested | None = None,
    n_rows: tf.Tensor | int | None = None,
) -> tuple[tf.Tensor, Grouping[tf.Tensor | None], Wrap]:
    """Read the innermost bags of a nested structure.

    Args:
        structure: a RaggedTensor or dense tensor; its innermost axis before the items is the bag.
        item_rank: rank of an item: 1 for vectors, 0 for ids.
        weights: like `structure`, but scalar items; or None.
        n_rows: number of rows, where the items are ids of rows; None where they are the rows.

    Returns:
        items: flat, [instances, ...].
        grouping: their `Grouping`.
        wrap: a function that puts one value per bag, [bags, ...], back into the structure around
            the bags.

    Raises:
        ValueError or InvalidArgumentError: if the weights are bags of other sizes, or negative.
    """
    ragged = isinstance(structure, tf.RaggedTensor)
    flat = structure.flat_values if ragged else structure
    if ragged and flat.shape.rank == 1 + item_rank:
        items, row_splits = flat, structure.nested_row_splits[-1]
        wrap = _wrap_ragged(structure)
    else:  # bags of equal size: a dense axis, perhaps inside ragged ones
        leading = tf.shape(flat)[: flat.shape.rank - 1 - item_rank]
        size = tf.shape(flat)[flat.shape.rank - 1 - item_rank]
        items = tf.reshape(
            flat, tf.concat([[-1], tf.shape(flat)[flat.shape.rank - item_rank :]], 0)
        )
        row_splits = tf.range(tf.reduce_prod(leading) + 1) * size
        wrap = _wrap_dense(structure, leading)
    if weights is not None:
        assert_same_splits(
            {"weights": (splits_of(structure, item_rank), splits_of(weights))},
            "Expected one weight for each instance, in bags of the same sizes",
        )
        weights = weights.flat_values if isinstance(weights, tf.RaggedTensor) else weights
        weights = tf.reshape(weights, [-1])
        tf.debugging.assert_non_negative(
            weights, message="Expected weights ≥ 0, without NaN. Received: weights"
        )
    members = None if n_rows is None else items
    n_rows = row_count(items) if n_rows is None else n_rows
    return items, Grouping(members, row_splits, weights, n_rows), wrap


def row_count(rows: tf.Tensor) -> tf.Tensor | int:
    """Number of rows of a tensor: an int where it is known."""
    return tf.shape(rows)[0] if rows.shape[0] is None else rows.shape[0]


def bag_of_each(row_splits: tf.Tensor) -> tf.Tensor:
    """The bag of each instance, sorted: ints [instances], from row splits [bags + 1].

    `tf.ragged.row_splits_to_segment_ids` makes a mask of all bags by the largest one instead.
    """
    n = row_splits[-1]
    begins = row_splits[1:-1]  # a bag begins: the instances from here on are of the next
    jumps = tf.scatter_nd(begins[:, None], tf.ones_like(begins), [n + 1])
    return tf.cumsum(jumps)[:-1]


def drop_absent(
    items: tf.Tensor, row_ids: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Leave out the instances of weight 0, which are not in the bag."""
    present = weights > 0

    def masked() -> tuple[tf.Tensor, ...]:
        return tuple(tf.boolean_mask(x, present) for x in (items, row_ids, weights))

    return tf.cond(tf.reduce_all(present), lambda: (items, row_ids, weights), masked)


def depth_of(shape: Shape) -> int:
    """Number of bag axes of a symbolic ragged shape: the unknown axes after the batch, plus it."""
    known = [axis for axis, size in enumerate(shape) if axis > 0 and size is not None]
    return known[0] if known else len(shape)


def flat_columns(columns: Sequence[Nested]) -> list[tf.Tensor]:
    """The values of columns, with or without bags: [n] each."""
    flat = (getattr(x, "flat_values", x) for x in columns)
    # No operation where none is needed: records can have hundreds of columns.
    return [x if x.shape.rank == 1 else tf.reshape(x, [-1]) for x in flat]


def with_innermost(ragged: tf.RaggedTensor, values: tf.Tensor) -> Nested:
    """`ragged` with its innermost bags, [bags, ...], replaced by `values` [bags, ...]."""
    if ragged.ragged_rank == 1:
        return values
    return ragged.with_values(with_innermost(ragged.values, values))


def with_rows(structure: Nested, rows: tf.Tensor, item_rank: int = 1) -> Nested:
    """A nested structure with other items: `rows` [instances, units] in the order of its own.

    Args:
        structure: a RaggedTensor or dense tensor.
        rows: one for each item.
        item_rank: rank of the items of `structure`: 1 for vectors, 0 for ids.
    """
    is_ragged = isinstance(structure, tf.RaggedTensor)
    flat = structure.flat_values if is_ragged else structure
    n_axes = flat.shape.rank - item_rank
    items = rows
    if n_axes != 1:
        items = tf.reshape(rows, tf.concat([tf.shape(flat)[:n_axes], tf.shape(rows)[1:]], axis=0))
        items = tf.ensure_shape(items, [*flat.shape[:n_axes], *rows.shape[1:]])
    return structure.with_flat_values(items) if is_ragged else items


def _wrap_ragged(structure: tf.RaggedTensor) -> Wrap:
    return lambda values: with_innermost(structure, values)


def _wrap_dense(structure: Nested, leading: tf.Tensor) -> Wrap:
    def wrap(values: tf.Tensor) -> Nested:
        shape = tf.concat([leading, tf.shape(values)[1:]], 0)
        dense = tf.ensure_shape(
            tf.reshape(values, shape), [None] * leading.shape[0] + values.shape[1:].as_list()
        )
        if isinstance(structure, tf.RaggedTensor):
            return structure.with_flat_values(dense)
        return dense

    return wrap

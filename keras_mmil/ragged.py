"""Nested bags as RaggedTensors: made, taken apart, and selected by top-bag.

Nested bags of depth K are a RaggedTensor with K ragged dimensions after that of the top-bags: ids
`[B, (n), (m)]`, vectors `[B, (n), (m), d]` and images `[B, (n), (m), h, w]` all have depth 2.

All functions work on the host, on eager tensors. `take`, `split`, `concat` and `shuffle` also take
arrays, and tuples and dicts of these and tensors, so that examples and their labels stay together.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from numbers import Real
from typing import Any, TypeAlias, TypeVar

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil._support.checks import check_number, is_int
from keras_mmil._support.rows import (
    concat_rows,
    first_difference,
    keep_members,
    n_rows,
    path_to,
    row_splits,
    sampled_members,
    take_rows,
)
from keras_mmil._support.types import Array, Bools, Ints, Seed

__all__ = [
    "check_finite",
    "concat",
    "depth",
    "from_flat",
    "from_nested_lists",
    "lookup",
    "n_top_bags",
    "nested_lengths",
    "row_splits",
    "shuffle",
    "split",
    "subsample",
    "take",
    "to_nested_lists",
]


T = TypeVar("T")
_Values: TypeAlias = tuple[Array, list[Ints]]  # of all instances; and the sizes of all bags


def depth(x: tf.RaggedTensor) -> int:
    """Nesting depth K of the RaggedTensor `x`: 1 for bags of instances, 2 for bags of bags, ..."""
    return _ragged(x).ragged_rank


def nested_lengths(x: tf.RaggedTensor) -> tuple[Ints, ...]:
    """Sizes of all bags of the RaggedTensor `x`: K int64 arrays, from the top-bags inwards."""
    splits = [part.numpy().astype(np.int64) for part in _ragged(x).nested_row_splits]
    return tuple(map(np.diff, splits))


def n_top_bags(x: Any) -> int:
    """Number of top-bags that `x` (a tensor, an array, or a tuple or dict of those) leads with.

    Raises:
        ValueError: if the parts of `x` lead with different numbers of top-bags.
    """
    sizes = [n_rows(part) for part in tf.nest.flatten(x)]
    if len(set(sizes)) != 1:
        raise ValueError(
            f"Expected parts that lead with the same number of top-bags. Received: sizes={sizes}"
        )
    return sizes[0]


# Building and taking apart ----------------------------------------------------------------------


def from_flat(
    values: tf.Tensor | npt.ArrayLike, nested_lengths: Sequence[npt.ArrayLike]
) -> tf.RaggedTensor:
    """Nested bags from the values of all instances and the sizes of all bags.

    Args:
        values: array or tensor `[instances, ...]`, ordered by top-bag, then sub-bag, and so on.
        nested_lengths: K integer arrays from the top-bags inwards: the number of members of each
            top-bag `[B]`, the number of members of each of those, and so on.

    Returns:
        RaggedTensor `[B, (n), (m), ...]` of depth K, with int64 row splits.

    Raises:
        ValueError: if there are no lengths, or they are negative or do not fit together.
    """
    levels = [np.asarray(lengths) for lengths in nested_lengths]
    values = tf.convert_to_tensor(values)
    if not levels:
        raise ValueError("Expected the sizes of the top-bags at least. Received: nested_lengths=()")
    n_members = [len(lengths) for lengths in levels[1:]] + [n_rows(values)]
    for level, (lengths, n) in enumerate(zip(levels, n_members, strict=True)):
        # np.asarray([]) is of floats, hence the test of size.
        if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
            raise ValueError(
                "Expected a one-dimensional array of integers for each level. "
                f"Received: nested_lengths[{level}]={lengths!r}"
            )
        if (lengths < 0).any() or lengths.sum() != n:
            raise ValueError(
                f"Expected sizes of at least 0 that sum to the number of members, {n}. "
                f"Received: nested_lengths[{level}]={lengths!r}, of sum {lengths.sum()}"
            )
    splits = [row_splits(lengths) for lengths in levels]
    return tf.RaggedTensor.from_nested_row_splits(values, splits, validate=False)


def from_nested_lists(
    x: Sequence[Any] | Array,
    inner_shape: Sequence[int] | None = None,
    depth: int | None = None,
    dtype: npt.DTypeLike | tf.DType = None,
) -> tf.RaggedTensor:
    """Nested bags from nested Python lists, much faster than `tf.ragged.constant`.

    Args:
        x: lists (or tuples) of numbers or of NumPy arrays, nested equally deep everywhere.
        inner_shape: shape of an instance. By default a number is an instance of shape `()`, and an
            array is a bag whose first axis runs over its instances. With `inner_shape`, the
            innermost lists of numbers are axes of instances, and an array may be a single instance.
        depth: nesting depth K, needed only where no list reaches down to an instance.
        dtype: dtype of the values. By default that of the arrays; for numbers bool, int64 or
            `keras.config.floatx()`.

    Returns:
        RaggedTensor `[B, (n), (m), *inner_shape]` of depth K, with int64 row splits.

    Raises:
        TypeError: if `x` is not a list, or holds anything but numbers and numeric arrays.
        ValueError: if the lists are nested unevenly, or the instances differ in shape.

    Example:

    >>> from_nested_lists([[[1, 2], [3]], []])
    <tf.RaggedTensor [[[1, 2], [3]], []]>
    """
    values, lengths = _flatten(x, inner_shape, depth)
    return from_flat(values if dtype is None else tf.cast(values, dtype), lengths)


def to_nested_lists(x: tf.RaggedTensor) -> list[Any]:
    """The RaggedTensor `x` as nested Python lists, the inverse of `from_nested_lists`."""
    return _ragged(x).to_list()


def lookup(x: tf.RaggedTensor) -> Callable[[tuple[int, ...]], Any]:
    """A function that returns instances and bags of them by position: a fast `x[position].numpy()`.

    Args:
        x: RaggedTensor of depth K.

    Returns:
        Function from a position, a tuple of the non-negative indices of a top-bag, its member, and
        so on: K + 1 of them for an instance, K for a bag of instances [n, ...]. It raises
        IndexError for any other.
    """
    splits = [part.numpy() for part in _ragged(x).nested_row_splits]
    values = x.flat_values.numpy()

    def at(position: tuple[int, ...]) -> Any:
        start, stop = 0, x.shape[0]
        for level, index in enumerate(position):
            row = start + index
            if not start <= row < stop:
                raise IndexError(f"Expected a position within the bags. Received: {position}")
            start, stop = splits[level][row : row + 2] if level < len(splits) else (row, row)
        if len(position) < len(splits):
            raise IndexError(f"Expected at least {len(splits)} indices. Received: {position}")
        return values[start:stop] if len(position) == len(splits) else values[start]

    return at


# Selection by top-bag ---------------------------------------------------------------------------


def take(x: T, indices: slice | Sequence[int] | Ints | Bools) -> T:
    """Select top-bags.

    Args:
        x: RaggedTensor, tensor or array, or a tuple or dict of those, leading with the top-bags.
        indices: slice, integer array or boolean mask `[B]`, as in NumPy.

    Returns:
        The selected top-bags, in the form of `x`.

    Raises:
        IndexError: if an index is out of range, or a mask is of the wrong length.
    """
    rows = np.arange(n_top_bags(x))
    indices = indices if isinstance(indices, slice) else np.asarray(indices)
    # np.asarray([]) is of floats, which NumPy does not take for indices.
    rows = rows[:0] if getattr(indices, "shape", None) == (0,) else rows[indices]
    if rows.ndim != 1:
        raise IndexError(
            f"Expected a slice or a one-dimensional array of indices. Received: indices={indices!r}"
        )
    return tf.nest.map_structure(lambda part: take_rows(part, rows), x)


def split(x: T, sizes: float | Sequence[int], seed: Seed = None) -> tuple[T, ...]:
    """Split top-bags into several parts.

    Args:
        x: RaggedTensor, tensor or array, or a tuple or dict of those, leading with the top-bags.
        sizes: the fraction of the top-bags in the first of two parts, between 0 and 1; or the
            numbers of top-bags in each part, which sum to the number of top-bags.
        seed: integer to shuffle with before the split; None keeps the order.

    Returns:
        Tuple of parts, each in the form of `x`.
    """
    n = n_top_bags(x)
    sizes = _part_sizes(sizes, n)
    order = np.arange(n) if seed is None else np.random.default_rng(seed).permutation(n)
    return tuple(take(x, part) for part in np.split(order, np.cumsum(sizes)[:-1]))


def _part_sizes(sizes: Any, n: int) -> Sequence[int]:
    if isinstance(sizes, Real) and not is_int(sizes):
        first = round(check_number("sizes", sizes, 0, 1) * n)
        return [first, n - first]
    are_sizes = np.ndim(sizes) == 1 and all(is_int(size) and size >= 0 for size in sizes)
    if not are_sizes or sum(sizes) != n:
        raise ValueError(
            f"Expected a fraction, or sizes of at least 0 that sum to the number of top-bags, {n}. "
            f"Received: sizes={sizes}"
        )
    return sizes


def shuffle(x: T, seed: Seed = None) -> T:
    """The top-bags of `x` in random order, the same for the same integer `seed`."""
    return take(x, np.random.default_rng(seed).permutation(n_top_bags(x)))


def concat(parts: Sequence[T]) -> T:
    """Join top-bags.

    Args:
        parts: non-empty list of RaggedTensors, tensors or arrays, or of tuples or dicts of those,
            all of the same form.

    Returns:
        The top-bags of all parts, in their form.

    Raises:
        ValueError: if there are no parts, or their depths or dtypes differ.
    """
    if not parts:
        raise ValueError(f"Expected at least one part. Received: parts={parts}")
    return tf.nest.map_structure(lambda *leaves: concat_rows(leaves), *parts)


def subsample(x: T, rates: Sequence[float], seed: Seed = None) -> T:
    """Leave members out of their bags at random; at least one of each bag stays.

    Args:
        x: RaggedTensor; or a tuple or dict of RaggedTensors, one of which has all levels of bags
            and the others its outer levels.
        rates: for each level, from the top-bags inwards, the probability from 0 to 1 that a member
            of such a bag is left out, with all that is in it.
        seed: integer; None for random each time.

    Returns:
        The same number of top-bags, in the form of `x`.

    Raises:
        ValueError: if there is not a rate for each level, one is out of range, or the parts have
            bags of different sizes.
    """
    parts = tf.nest.flatten(x)
    deepest = max(range(len(parts)), key=lambda i: depth(parts[i]))
    for i, part in enumerate(parts):
        if first_difference(part, parts[deepest]) is not None:
            raise ValueError(
                f"Expected parts with bags of the same sizes, {parts[deepest].shape}. "
                f"Received: part {i} with others, {part.shape}"
            )
    if len(rates) != depth(parts[deepest]) or not all(0 <= rate <= 1 for rate in rates):
        raise ValueError(
            f"Expected {depth(parts[deepest])} rates from 0 to 1. Received: rates={rates}"
        )
    rng = np.random.default_rng(seed)
    for level, rate in enumerate(rates):
        splits = parts[deepest].nested_row_splits[level].numpy()
        stay = sampled_members(rng.random(splits[-1]), rate, splits)
        parts = [keep_members(part, level, stay) if depth(part) > level else part for part in parts]
    return tf.nest.pack_sequence_as(x, parts)


# Checks -----------------------------------------------------------------------------------------


def check_finite(x: tf.RaggedTensor | tf.Tensor | Array, name: str = "x") -> None:
    """Raise ValueError if `x`, a RaggedTensor or array, holds NaN or infinity."""
    values = np.asarray(getattr(x, "flat_values", x))
    if values.dtype.kind in "biu":
        return
    bad = ~np.isfinite(values)
    if bad.any():
        first = np.argwhere(bad)[0]
        lengths = nested_lengths(x) if isinstance(x, tf.RaggedTensor) else ()
        where = path_to(first[0], lengths) + "".join(f"[{i}]" for i in first[1:])
        raise ValueError(
            f"Expected finite values in `{name}`, found {bad.sum()} that are NaN or infinite. "
            f"Received: {name}{where}={values[tuple(first)]}"
        )


def _ragged(x: Any) -> tf.RaggedTensor:
    if not isinstance(x, tf.RaggedTensor):
        raise TypeError(f"Expected a RaggedTensor. Received: x of type {type(x).__name__}")
    return x


# Nested lists -----------------------------------------------------------------------------------


def _flatten(x: Any, inner_shape: Sequence[int] | None, depth: int | None) -> _Values:
    """The values of all instances in nested lists, and the sizes of all bags."""
    if isinstance(x, np.ndarray) and x.dtype == object:
        x = x.tolist()
    if not isinstance(x, list | tuple):
        raise TypeError(f"Expected nested lists. Received: x={x!r} of type {type(x).__name__}")
    lengths, leaves = _peel(x)
    if not leaves:
        values, lengths = _no_values(inner_shape or (), lengths, depth)
    elif isinstance(leaves[0], np.ndarray):
        values, lengths = _stack_arrays(leaves, inner_shape, lengths)
    else:
        values, lengths = _stack_numbers(leaves, inner_shape or (), lengths)
    if depth not in (None, len(lengths)) or not lengths:
        raise ValueError(f"Expected lists of depth {depth or 1}. Received: depth {len(lengths)}")
    return values, lengths


def _peel(x: Sequence[Any]) -> tuple[list[Ints], Sequence[Any]]:
    """The lengths of the lists at every level, and what the innermost lists hold."""
    lengths: list[Ints] = []
    items = x
    while items:
        kinds = {kind: issubclass(kind, list | tuple) for kind in set(map(type, items))}
        if not any(kinds.values()):
            break
        if not all(kinds.values()):
            first = next(i for i, item in enumerate(items) if not kinds[type(item)])
            raise ValueError(
                "Expected lists nested equally deep everywhere, found lists beside other things. "
                f"Received: x{path_to(first, lengths)}={items[first]!r}"
            )
        lengths.append(np.fromiter(map(len, items), np.int64, len(items)))
        items = list(chain.from_iterable(items))
    return lengths, items


def _no_values(inner_shape: Sequence[int], lengths: list[Ints], depth: int | None) -> _Values:
    missing = max(0, (depth or 1) - len(lengths))
    lengths = lengths + [np.zeros(0, np.int64)] * missing
    return np.zeros((0, *inner_shape), keras.config.floatx()), lengths


def _stack_arrays(
    arrays: Sequence[Any], inner_shape: Sequence[int] | None, lengths: list[Ints]
) -> _Values:
    for i, array in enumerate(arrays):
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise TypeError(f"Expected numeric arrays. Received: x{path_to(i, lengths)}={array!r}")
    inner_shape = arrays[0].shape[1:] if inner_shape is None else tuple(inner_shape)
    are_bags = arrays[0].ndim == len(inner_shape) + 1
    for i, array in enumerate(arrays):
        if (array.shape[1:] if are_bags else array.shape) != inner_shape:
            raise ValueError(
                f"Expected instances of shape {inner_shape}. "
                f"Received: x{path_to(i, lengths)} of shape {array.shape}"
            )
    if are_bags:
        lengths = [*lengths, np.fromiter(map(len, arrays), np.int64, len(arrays))]
        return np.concatenate(arrays), lengths
    return np.stack(arrays), lengths


def _stack_numbers(
    numbers: Sequence[Any], inner_shape: Sequence[int], lengths: list[Ints]
) -> _Values:
    values = np.asarray(numbers)
    if values.dtype.kind not in "biuf":
        first = next(i for i, v in enumerate(numbers) if np.asarray(v).dtype.kind not in "biuf")
        where = path_to(first, lengths)
        raise TypeError(f"Expected numbers. Received: x{where}={numbers[first]!r}")
    n_levels = len(lengths) - len(inner_shape)
    for size, sizes in zip(inner_shape, lengths[max(n_levels, 0) :], strict=True):
        if (sizes != size).any():
            raise ValueError(
                f"Expected instances of shape {tuple(inner_shape)}. "
                f"Received: a list of length {sizes[sizes != size][0]} for an axis of {size}"
            )
    if values.dtype.kind == "f":
        values = values.astype(keras.config.floatx())
    return values.reshape(-1, *inner_shape), lengths[:n_levels]

"""Top-bags and row splits: selected, joined, compared and located; nothing here loops over bags."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil._support.types import Array, Bools, Floats, Ints

T = TypeVar("T")


# Top-bags of one tensor or array ----------------------------------------------------------------


def n_rows(part: Any) -> int:
    """Number of top-bags that a tensor, an array, or anything with a length leads with."""
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
    """The top-bags with these numbers."""
    return tf.gather(part, rows) if tf.is_tensor(part) else part[rows]


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
    """The dtype of a tensor or array, "str" for NumPy's strings of any length."""
    if not hasattr(part, "shape"):
        raise TypeError(f"Expected tensors or arrays. Received: {type(part).__name__}")
    return "str" if getattr(part.dtype, "kind", None) == "U" else part.dtype.name


def rebatch(
    pieces: Iterable[T],
    sizes: int | Iterator[int],
    n_of: Callable[[T], int],
    part_of: Callable[[T, slice], T],
) -> Iterator[list[T]]:
    """Lists of parts of pieces, in order, each list of a given size; the last may be smaller.

    `sizes` is one for all, or an endless iterator; `n_of` returns the size of a piece, `part_of`
    the part in a slice, whose stop may be beyond the end.
    """
    sizes = repeat(sizes) if isinstance(sizes, int) else sizes
    parts: list[T] = []
    n, size = 0, next(sizes)
    for piece in pieces:
        start = 0
        while start < n_of(piece):
            parts.append(part_of(piece, slice(start, start + size - n)))
            start += n_of(parts[-1])
            n += n_of(parts[-1])
            if n == size:
                yield parts
                parts, n, size = [], 0, next(sizes)
    if parts:
        yield parts


# Row splits: members `splits[b]` to `splits[b + 1]` are in bag b --------------------------------


def row_splits(lengths: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Row splits, int64 `[bags + 1]`, of bags with these lengths, `[bags]`."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def bags_of_members(splits: Ints) -> npt.NDArray[np.int64]:
    """The bag of each member, int64 `[members]`."""
    return np.repeat(np.arange(len(splits) - 1), np.diff(splits))


def positions_in_bags(splits: Ints) -> npt.NDArray[np.int64]:
    """The position of each member in its bag, int64 `[members]`."""
    return np.arange(splits[-1]) - np.repeat(splits[:-1], np.diff(splits))


def members_of(splits: Ints, bags: Ints | slice) -> tuple[Ints, npt.NDArray[np.int64]]:
    """The members of some bags, one bag after another, int64 `[members]`, and their row splits."""
    taken = row_splits(np.diff(splits)[bags])
    shift = np.repeat(splits[:-1][bags] - taken[:-1], np.diff(taken))
    return shift + np.arange(taken[-1]), taken


def sampled_members(scores: Floats, rate: float, splits: Ints) -> Bools:
    """Which members stay, bool `[members]`, if each is left out at a rate, but one of a bag stays.

    Members stay whose random score, from 0 to 1, is at least the rate or the highest of the bag.
    """
    sizes = np.diff(splits)
    highest = np.maximum.reduceat(scores, splits[:-1][sizes > 0]) if scores.size else scores
    return (scores >= rate) | (scores == np.repeat(highest, sizes[sizes > 0]))


def keep_members(part: tf.RaggedTensor, level: int, stay: Bools) -> tf.RaggedTensor:
    """A RaggedTensor with those members of its bags of a level that stay, bool `[members]`."""
    if level:
        return part.with_values(keep_members(part.values, level - 1, stay))
    bags = bags_of_members(part.row_splits.numpy())[stay]
    splits = row_splits(np.bincount(bags, minlength=part.nrows().numpy()))
    values = tf.gather(part.values, np.flatnonzero(stay))
    splits = tf.cast(splits, part.row_splits.dtype)
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def path_to(index: int, lengths: Sequence[Ints]) -> str:
    """The path, such as "[3][0][2]", to a member of the innermost bags, by its index among all.

    `lengths` are the sizes of all bags, from the top-bags inwards.
    """
    path = []
    for sizes in reversed(lengths):
        splits = row_splits(sizes)
        bag = int(np.searchsorted(splits, index, side="right")) - 1
        path.append(index - splits[bag])
        index = bag
    return "".join(f"[{i}]" for i in [index, *reversed(path)])


class Difference(NamedTuple):
    """Where two structures of nested bags differ in size.

    Attributes:
        top_bag: the first top-bag that differs, on the outermost level that does.
        sizes: of the two bags that differ in it; None each if one structure lacks the top-bag.
    """

    top_bag: int
    sizes: tuple[int | None, int | None]


def first_difference(
    a: tf.RaggedTensor, b: tf.RaggedTensor, levels: int | None = None
) -> Difference | None:
    """The first bags of different sizes in two ragged tensors; None if there are none.

    Compared are `levels` levels, from the top-bags inwards; with None all that both have.
    """
    splits = [[part.numpy() for part in x.nested_row_splits[:levels]] for x in (a, b)]
    for level, (ours, theirs) in enumerate(zip(*splits, strict=False)):
        if np.array_equal(ours, theirs):
            continue
        # The levels above agree, hence there are as many bags, or top-bags are missing.
        n = min(len(ours), len(theirs)) - 1
        sizes = np.diff(ours)[:n], np.diff(theirs)[:n]
        differ = np.flatnonzero(sizes[0] != sizes[1])
        if not differ.size:
            return Difference(n, (None, None))
        top_bag = bag = differ[0]
        for above in reversed(splits[0][:level]):
            top_bag = np.searchsorted(above, top_bag, side="right") - 1
        return Difference(int(top_bag), (int(sizes[0][bag]), int(sizes[1][bag])))
    return None

"""Row splits of nested bags: made of sizes, selected by bag, and compared."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil._support.types import Ints

__all__ = ["Difference", "first_difference", "members_of", "path_to", "row_splits"]


def row_splits(lengths: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Row splits, int64 `[bags + 1]`, of bags with these lengths, `[bags]`."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def members_of(splits: Ints, bags: Ints | slice) -> tuple[Ints, npt.NDArray[np.int64]]:
    """The members of some bags, one bag after the other, int64 `[members]`, and their row splits.

    Args:
        splits: members `splits[b]` to `splits[b + 1]` are in bag b.
        bags: indices of bags.
    """
    lengths = np.diff(splits)[bags]
    taken = row_splits(lengths)
    shift = np.repeat(splits[:-1][bags] - taken[:-1], lengths)
    return shift + np.arange(taken[-1]), taken


def path_to(index: int, lengths: Sequence[Ints]) -> str:
    """The path, as text, to a member of the innermost bags: "[3][0][2]".

    Args:
        index: of the member, among all of them.
        lengths: sizes of all bags, from the top-bags inwards.
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
        sizes: of the two bags that differ in it; None each where one structure lacks the top-bag.
    """

    top_bag: int
    sizes: tuple[int | None, int | None]


def first_difference(
    a: tf.RaggedTensor, b: tf.RaggedTensor, levels: int | None = None
) -> Difference | None:
    """Find where two ragged tensors have bags of other sizes; None where they have none.

    Args:
        a, b: RaggedTensors.
        levels: how many levels are compared, from the top-bags inwards; None for all that both
            have.
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

"""How bags are made of rows, level by level."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from keras_mmil._support.nested_lists import members_of
from keras_mmil._support.types import Array, Ints

__all__ = [
    "Nesting",
    "Occurrences",
    "clustered_weights",
    "concatenate",
    "expand",
    "multiplicities",
]


@dataclass(frozen=True, eq=False)
class Nesting:
    """The bags that one bag-layer reads, as lists of its distinct rows.

    The bags of one level are, in the same order, the rows of the next; those of the last level are
    the top-bags.

    Attributes:
        members: row of each member, int64 [members].
        row_splits: members `row_splits[b]` to `row_splits[b + 1]` are in bag b, int64 [bags + 1].
        weights: multiplicity or importance of each member, float32 [members]. A member of weight
            0 is not in the bag.
        n_rows: number of rows.
    """

    members: Ints
    row_splits: Ints
    weights: Array
    n_rows: int

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.row_splits) - 1

    @cached_property
    def bag_ids(self) -> Ints:
        """Bag of each member, [members]."""
        return np.repeat(np.arange(self.n_bags), np.diff(self.row_splits))

    @cached_property
    def is_empty(self) -> Array:
        """Which bags have no member, bool [bags]."""
        return np.bincount(self.bag_ids, self.weights, minlength=self.n_bags) == 0


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Every occurrence of one level's rows, in the order in which the top-bags hold them.

    Attributes:
        rows: row of each occurrence, [occurrences].
        row_splits: the occurrences that each bag (occurrence of the level above) holds.
        weights: multiplicity of each occurrence in the bag it is in, [occurrences].
        total_weights: that times the multiplicities of all the bags around it, [occurrences].
    """

    rows: Ints
    row_splits: Ints
    weights: Array
    total_weights: Array


def concatenate(parts: Sequence[Nesting]) -> Nesting:
    """One level's bags of several batches as one `Nesting`."""
    row_offsets = np.cumsum([0, *(part.n_rows for part in parts)])
    member_offsets = np.cumsum([0, *(len(part.members) for part in parts)])
    offsets = zip(parts, row_offsets, member_offsets, strict=False)
    shifted = [(p.members + rows, p.row_splits[:-1] + members) for p, rows, members in offsets]
    members, starts = zip(*shifted, strict=True)
    return Nesting(
        np.concatenate(members),
        np.append(np.concatenate(starts), member_offsets[-1]),
        np.concatenate([part.weights for part in parts]),
        int(row_offsets[-1]),
    )


def multiplicities(nestings: Sequence[Nesting]) -> tuple[Array, ...]:
    """How often each row occurs in the data: float64 [rows] for each level, and for top-bags.

    A top-bag counts 1; a row counts the sum, over the bags it is in, of its weight there times how
    often that bag occurs.
    """
    counts: list[Array] = [np.ones(nestings[-1].n_bags)]
    for nesting in reversed(nestings):
        weights = nesting.weights * counts[0][nesting.bag_ids]
        counts.insert(0, np.bincount(nesting.members, weights, minlength=nesting.n_rows))
    return tuple(counts)


def clustered_weights(nestings: Sequence[Nesting]) -> list[Array]:
    """The weights of rows in clustering, [rows] for each level.

    They are their multiplicities; but that of an empty bag, a learned vector, is left out.
    """
    not_empty = [1.0, *(~nesting.is_empty for nesting in nestings[:-1])]
    return [w * n for w, n in zip(multiplicities(nestings)[:-1], not_empty, strict=True)]


def expand(nestings: Sequence[Nesting]) -> tuple[Occurrences, ...]:
    """Walk down from the top-bags: one `Occurrences` a level, from the instances upwards.

    Rows which bags share are repeated, so that the result has the shape of the data as it was
    given, whatever the network stores once.
    """
    levels: list[Occurrences] = []
    bags, around = np.arange(nestings[-1].n_bags), np.ones(nestings[-1].n_bags)
    for nesting in reversed(nestings):
        index, row_splits = members_of(nesting.row_splits, bags)  # (occurrences,) into members
        weights = nesting.weights[index]
        bags, around = nesting.members[index], np.repeat(around, np.diff(row_splits)) * weights
        levels.insert(0, Occurrences(bags, row_splits, weights, around))
    return tuple(levels)

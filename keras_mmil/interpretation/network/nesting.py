"""How bags are made of rows, level by level.

There is a `Grouping` for each bag-layer, from the instances upwards: the bags of one level are, in
the same order, the rows of the next, and those of the last level are the top-bags.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from keras_mmil._support.splits import members_of
from keras_mmil._support.types import Array, Ints
from keras_mmil.layers._bags import Grouping

__all__ = [
    "Nesting",
    "Occurrences",
    "clustered_weights",
    "concatenate",
    "expand",
    "multiplicities",
]

# What one bag-layer reads: bags of rows, in arrays.
Nesting: TypeAlias = Grouping[Array]


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
    """Join one level's bags of several batches."""
    row_offsets = np.cumsum([0, *(part.n_rows for part in parts)])
    member_offsets = np.cumsum([0, *(len(part.members) for part in parts)])
    offsets = zip(parts, row_offsets, member_offsets, strict=False)
    shifted = [(p.members + rows, p.row_splits[:-1] + members) for p, rows, members in offsets]
    members, starts = zip(*shifted, strict=True)
    return Grouping(
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

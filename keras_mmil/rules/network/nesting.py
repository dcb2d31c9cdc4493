"""How bags are made of rows, bag-layer by bag-layer.

There is a `Grouping` for each bag-layer, from the instances upwards. Its bags are, in the same
order, the rows of the bag-layer above it, or the top-bags. In a chain of K bag-layers that is the
next one; in a tree the `parents` tell: index of the bag-layer above each, K for the top-bags.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from keras_mmil._support.rows import members_of
from keras_mmil._support.types import Array, Ints
from keras_mmil.layers.grouping import Grouping

__all__ = [
    "Nesting",
    "Occurrences",
    "above",
    "clustered_weights",
    "concatenate",
    "expand",
    "multiplicities",
    "take_bags",
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
        total_weights: that times the multiplicities of all enclosing bags, [occurrences].
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


def take_bags(nesting: Nesting, bags: Ints) -> Nesting:
    """Some of the bags, which may be repeated, in another order."""
    index, row_splits = members_of(nesting.row_splits, bags)
    return Grouping(nesting.members[index], row_splits, nesting.weights[index], nesting.n_rows)


def above(level: int, parents: Sequence[int]) -> list[int]:
    """The indices of a bag-layer and of all above it."""
    path = [level]
    while parents[path[-1]] < len(parents):
        path.append(parents[path[-1]])
    return path


def multiplicities(
    nestings: Sequence[Nesting],
    parents: Sequence[int] | None = None,
    n_top_bags: int | None = None,
) -> tuple[Array, ...]:
    """How often each row occurs in the data: float64 [rows] for each bag-layer, and for top-bags.

    A top-bag counts 1; a row counts the sum, over the bags it is in, of its weight there times how
    often that bag occurs.

    Args:
        nestings: one for each bag-layer.
        parents: see above; None for a chain.
        n_top_bags: their number; None if the last bag-layer tells.
    """
    parents = _parents(nestings, parents)
    n = nestings[-1].n_bags if n_top_bags is None else n_top_bags
    counts: list[Array] = [np.empty(0)] * len(nestings) + [np.ones(n)]
    for i in reversed(range(len(nestings))):
        nesting = nestings[i]
        weights = nesting.weights * counts[parents[i]][nesting.bag_ids]
        counts[i] = np.bincount(nesting.members, weights, minlength=nesting.n_rows)
    return tuple(counts)


def clustered_weights(
    nestings: Sequence[Nesting],
    parents: Sequence[int] | None = None,
    has_fields: Sequence[bool] | None = None,
) -> list[Array]:
    """The weights of rows in clustering, [rows] for each bag-layer: their multiplicities.

    A row that is nothing but an empty bag, a learned vector, has weight 0. `has_fields` tells for
    the rows of each bag-layer whether they have fields besides bags; None if none have.
    """
    if not nestings:
        return []
    parents = _parents(nestings, parents)
    weights = list(multiplicities(nestings, parents)[:-1])
    for i, parent in enumerate(parents):
        is_alone = parents.count(parent) == 1 and not (has_fields and has_fields[parent])
        if parent < len(nestings) and is_alone:
            weights[parent] = weights[parent] * ~nestings[i].is_empty
    return weights


def expand(
    nestings: Sequence[Nesting], parents: Sequence[int] | None = None
) -> tuple[Occurrences, ...]:
    """Walk down from the top-bags: one `Occurrences` a bag-layer, from the instances upwards.

    Rows that bags share are repeated, so that the result has the shape of the data, whatever the
    network stores once.
    """
    if not nestings:
        return ()
    parents = _parents(nestings, parents)
    n_top_bags = nestings[-1].n_bags
    rows = {len(nestings): np.arange(n_top_bags)}
    totals = {len(nestings): np.ones(n_top_bags)}
    levels: list[Occurrences] = []
    for i in reversed(range(len(nestings))):
        nesting, parent = nestings[i], parents[i]
        index, row_splits = members_of(nesting.row_splits, rows[parent])  # (occurrences,)
        weights = nesting.weights[index]
        rows[i] = nesting.members[index]
        totals[i] = np.repeat(totals[parent], np.diff(row_splits)) * weights
        levels.insert(0, Occurrences(rows[i], row_splits, weights, totals[i]))
    return tuple(levels)


def _parents(nestings: Sequence[Nesting], parents: Sequence[int] | None) -> tuple[int, ...]:
    return tuple(range(1, len(nestings) + 1)) if parents is None else tuple(parents)

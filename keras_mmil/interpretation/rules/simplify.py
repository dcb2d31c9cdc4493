"""Fewer and shorter rules for the same function."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.rules.tree import Boxes

__all__ = ["simplify"]

# Whether boxes (low, high) hold the features of any bag, see `Feature.feasible`.
_Feasible: TypeAlias = Callable[[Array, Array], Array]

_OPEN = np.array([-np.inf, np.inf])  # what a dropped bound becomes, by side


def simplify(boxes: Boxes, feasible: _Feasible) -> Boxes:
    """Turn the leaves of a tree into clauses of few conditions.

    A bound is dropped, those near the root first, where the widened box meets no feasible vector of
    another class; then a box is dropped whose leaves others cover. The clauses may overlap, but
    only with their like, and together they compute what the tree does on every feasible vector.

    Args:
        boxes: the leaves, `Boxes`.
        feasible: whether boxes hold the features of any bag, see `Feature.feasible`.

    Returns:
        `Boxes`, ordered by label.
    """
    leaves = boxes[feasible(boxes.bounds[:, 0], boxes.bounds[:, 1])]
    clauses = []
    for label in np.unique(leaves.labels):
        own, others = leaves[leaves.labels == label], leaves[leaves.labels != label]
        wide = np.stack([_widen(*box, others.bounds, feasible) for box in _each(own)])
        wide = np.unique(wide, axis=0)
        kept = wide[_cover(_covered(wide, own.bounds, feasible), _sizes(wide))]
        clauses.append(Boxes(kept, np.zeros(kept.shape, int), np.full(len(kept), label)))
    return Boxes(
        np.concatenate([c.bounds for c in clauses]),
        np.concatenate([c.depths for c in clauses]),
        np.concatenate([c.labels for c in clauses]),
    )


def _each(boxes: Boxes) -> Iterator[tuple[Array, Ints]]:
    return zip(boxes.bounds, boxes.depths, strict=True)


def _sizes(bounds: Array) -> Ints:
    """Number of conditions of each box: [boxes, 2, features] to [boxes]."""
    return np.isfinite(bounds).sum(axis=(1, 2))


def _meets(box: Array, others: Array, feasible: _Feasible) -> Array:
    """Whether a box [2, features] has a feasible vector in common with others [n, 2, features]."""
    return feasible(np.maximum(box[0], others[:, 0]), np.minimum(box[1], others[:, 1]))


def _literals(box: Array, depths: Ints | None = None) -> list[tuple[int, int]]:
    """The finite bounds of a box, (side, feature) each; with `depths` in that order."""
    sides, features = np.nonzero(np.isfinite(box))
    if depths is not None:
        order = np.argsort(depths[sides, features], kind="stable")
        sides, features = sides[order], features[order]
    return list(zip(sides, features, strict=True))


def _widen(box: Array, depths: Ints, others: Array, feasible: _Feasible) -> Array:
    """Drop every bound without which the box still meets none of the others."""
    box = box.copy()
    for literal in _literals(box, depths):
        bound, box[literal] = box[literal], _OPEN[literal[0]]
        if _meets(box, others, feasible).any():
            box[literal] = bound
    return box


def _covered(clauses: Array, leaves: Array, feasible: _Feasible) -> Array:
    """Which clause covers which leaf whole, bool [clauses, leaves]."""
    return np.stack([_covers(clause, leaves, feasible) for clause in clauses])


def _covers(clause: Array, leaves: Array, feasible: _Feasible) -> Array:
    covers = np.ones(len(leaves), bool)
    for side, feature in _literals(clause):
        beyond = np.broadcast_to(_OPEN[:, None], clause.shape).copy()
        beyond[1 - side, feature] = clause[side, feature]  # where the literal does not hold
        covers &= ~_meets(beyond, leaves, feasible)
    return covers


def _cover(covered: Array, sizes: Ints) -> list[int]:
    """Choose few clauses that cover all leaves: greedily, then without those left superfluous."""
    chosen, open_leaves = [], np.ones(covered.shape[1], bool)
    while open_leaves.any():
        gain = (covered & open_leaves).sum(axis=1)
        best = np.lexsort((sizes, -gain))[0]
        chosen.append(best)
        open_leaves &= ~covered[best]
    for clause in chosen[::-1]:
        rest = [other for other in chosen if other != clause]
        if covered[rest].any(axis=0).all():
            chosen = rest
    return sorted(chosen)

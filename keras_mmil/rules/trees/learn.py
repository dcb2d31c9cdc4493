"""Few, short rules that compute what a decision tree does."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from keras_mmil._support.formatting import share
from keras_mmil._support.types import Array, Ints
from keras_mmil.rules.trees.features import Bag, Space
from keras_mmil.rules.trees.rule_set import Condition, Rule
from keras_mmil.rules.trees.tree import Boxes, Examples, Tree

__all__ = ["learn_rules", "simplify"]

# Whether boxes (low, high) hold the features of any bag, see `Feature.feasible`.
_Feasible: TypeAlias = Callable[[Array, Array], Array]

_OPEN = np.array([-np.inf, np.inf])  # what a dropped bound becomes, by side


def learn_rules(
    tree: Tree, space: Space[Bag], *, level: int, examples: Examples
) -> tuple[Rule, ...]:
    """Turn a tree into simplified rules, with their figures on the training bags.

    They are ordered by conclusion, then the shortest and best supported first.
    """
    rules = []
    clauses = simplify(tree.boxes(), space.feasible)
    for (low, high), label in zip(clauses.bounds, clauses.labels, strict=True):
        bounded = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        conditions = tuple(Condition(int(c), float(low[c]), float(high[c])) for c in bounded)
        rules.append(_rule(level, int(label), conditions, examples))
    return tuple(sorted(rules, key=lambda r: (r.conclusion, len(r.conditions), -r.support)))


def _rule(
    level: int, conclusion: int, conditions: tuple[Condition, ...], examples: Examples
) -> Rule:
    rule = Rule(level, conclusion, conditions, support=0.0, precision=0.0, coverage=0.0)
    weights, is_in_class = examples.weights, examples.labels == conclusion
    matched = weights * rule.matches(examples.bags)
    right = matched @ is_in_class
    return replace(
        rule,
        support=share(matched.sum(), weights.sum()),
        precision=share(right, matched.sum()),
        coverage=share(right, weights @ is_in_class),
    )


def simplify(boxes: Boxes, feasible: _Feasible) -> Boxes:
    """Turn the leaves of a tree into clauses of few conditions, ordered by label.

    A bound is dropped, those near the root first, where the widened box meets no feasible vector of
    another class; then a box is dropped if others cover its leaves. Clauses may overlap, but only
    with others of the same class. Together they compute what the tree does on every feasible
    vector.
    """
    leaves = boxes[feasible(boxes.bounds[:, 0], boxes.bounds[:, 1])]
    clauses = []
    for label in np.unique(leaves.labels):
        own, others = leaves[leaves.labels == label], leaves[leaves.labels != label]
        pairs = zip(own.bounds, own.depths, strict=True)
        wide = np.stack([_widen(box, depths, others.bounds, feasible) for box, depths in pairs])
        wide = np.unique(wide, axis=0)
        covered = np.stack([_covers(clause, own.bounds, feasible) for clause in wide])
        kept = wide[_cover(covered, np.isfinite(wide).sum(axis=(1, 2)))]
        clauses.append(Boxes(kept, np.zeros(kept.shape, int), np.full(len(kept), label)))
    return Boxes(
        np.concatenate([c.bounds for c in clauses]),
        np.concatenate([c.depths for c in clauses]),
        np.concatenate([c.labels for c in clauses]),
    )


def _meets(box: Array, others: Array, feasible: _Feasible) -> Array:
    """Whether a box [2, features] has a feasible vector in common with others [n, 2, features]."""
    return feasible(np.maximum(box[0], others[:, 0]), np.minimum(box[1], others[:, 1]))


def _literals(box: Array, depths: Ints | None = None) -> list[tuple[int, int]]:
    """The finite bounds of a box, (side, feature) each; in the order of `depths` if given."""
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


def _covers(clause: Array, leaves: Array, feasible: _Feasible) -> Array:
    """Which leaves a clause covers completely: bool [leaves]."""
    covers = np.ones(len(leaves), bool)
    for side, feature in _literals(clause):
        beyond = np.broadcast_to(_OPEN[:, None], clause.shape).copy()
        beyond[1 - side, feature] = clause[side, feature]  # where the literal does not hold
        covers &= ~_meets(beyond, leaves, feasible)
    return covers


def _cover(covered: Array, sizes: Ints) -> list[int]:
    """Choose few clauses that cover all leaves: greedily, then drop those left superfluous.

    `covered` is bool [clauses, leaves], and `sizes` are the clauses' numbers of conditions.
    """
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

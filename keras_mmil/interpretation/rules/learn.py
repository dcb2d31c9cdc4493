"""Rules that compute what a decision tree does."""

from dataclasses import replace

import numpy as np

from keras_mmil._support.formatting import share
from keras_mmil.interpretation.rules.rule import Condition, Rule
from keras_mmil.interpretation.rules.simplify import simplify
from keras_mmil.interpretation.rules.space import Bag, Space
from keras_mmil.interpretation.rules.tree import Examples, Tree

__all__ = ["learn_rules"]


def learn_rules(
    tree: Tree, space: Space[Bag], *, level: int, examples: Examples
) -> tuple[Rule, ...]:
    """Turn a tree into simplified rules.

    Args:
        tree: the tree.
        space: what it knows of a record.
        level: index of the level.
        examples: the training bags, labelled by the network.

    Returns:
        The rules, ordered by conclusion, then the shortest and best supported first.
    """
    rules = []
    clauses = simplify(tree.boxes(), space.feasible)
    for (low, high), label in zip(clauses.bounds, clauses.labels, strict=True):
        bounded = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        conditions = tuple(Condition(int(c), float(low[c]), float(high[c])) for c in bounded)
        rules.append(_make_rule(level, int(label), conditions, examples))
    return tuple(sorted(rules, key=lambda r: (r.conclusion, len(r.conditions), -r.support)))


def _make_rule(
    level: int, conclusion: int, conditions: tuple[Condition, ...], examples: Examples
) -> Rule:
    """A rule, with its figures on the training bags; 0 where they are of no bag."""
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

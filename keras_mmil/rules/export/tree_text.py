"""The rules of top-bags as a tree, in which each condition stands once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from keras_mmil.rules.export.program import program
from keras_mmil.rules.export.sentences import Sentence, of_rules
from keras_mmil.rules.trees.level import Level
from keras_mmil.rules.trees.rule_set import Condition, Rule

__all__ = ["Line", "tree_lines"]

_INDENT = "   "


@dataclass(frozen=True)
class Line:
    """A line of a tree.

    Attributes:
        text: the conditions, indented, or the class; or both.
        number: of the rule, from 1; None for a line without a class, and where several rules
            together say it.
        figures: fraction of the training records for which it is the class, and of these the
            fraction on which the network agrees; None for a line without a class, or if unknown.
        sentence: of the condition; None where there is none.
    """

    text: str
    number: int | None = None
    figures: tuple[float, float] | None = None
    sentence: Sentence | None = None


def tree_lines(levels: Sequence[Level]) -> tuple[list[Line], list[str]]:
    """The rules of top-bags as the tree that they were made of, and sentences on clusters.

    The latter are about clusters that conditions mention without describing them. Of the two
    branches of a split, the smaller one comes first.
    """
    return _Writer(levels).result()


class _Writer:
    def __init__(self, levels: Sequence[Level]) -> None:
        self._top = top = levels[-1]
        self._tree, self._number_of = top.tree, _numbers_of_rules(top)
        leaves = np.flatnonzero(top.tree.feature < 0).tolist()
        self._figures = dict(zip(leaves, top.leaves, strict=False))  # none in older files
        self._sizes = top.tree.sizes()
        self._splits = np.flatnonzero(top.tree.feature >= 0).tolist()
        # Rules of one condition: what goes left of each split, and what goes right.
        bounds = [(int(top.tree.feature[at]), float(top.tree.threshold[at])) for at in self._splits]
        conditions = [Condition(column, high=bound) for column, bound in bounds]
        conditions += [Condition(column, low=bound) for column, bound in bounds]
        no_figures = {"support": 0.0, "precision": 0.0, "coverage": 0.0}
        rules = tuple(Rule(0, 0, (each,), **no_figures) for each in conditions)
        alone = replace(top, rules=replace(top.rules, rules=rules))
        self._said = of_rules(program([*levels[:-1], alone]))

    def result(self) -> tuple[list[Line], list[str]]:
        """See `tree_lines`."""
        lines = list(self._lines(0, 0, "", is_first=True))
        told = dict.fromkeys(
            str(each)
            for sentence, definitions in self._said
            for each in definitions
            if any(line.sentence is sentence for line in lines)
        )
        return lines, list(told)

    def _lines(self, node: int, depth: int, after: str, is_first: bool = False) -> Iterator[Line]:
        """What is below a node: `after` is what its first line begins with."""
        indent = _INDENT * depth
        if self._tree.feature[node] < 0:
            name = self._top.rules.names[self._tree.label[node]]
            figures = self._figures.get(node)
            yield Line(f"{indent}{after}{name}", self._number_of.get(node), figures)
            return
        sizes, children = self._sizes, self._tree.children[node]
        side = int(sizes[children[1]] <= sizes[children[0]])  # of equal ones, what has to be there
        at = self._splits.index(node) + side * len(self._splits)
        sentence, _ = self._said[at]
        first, second = int(children[side]), int(children[1 - side])
        test = f"{indent}{'' if is_first else after}if {sentence.body}:"
        if self._tree.feature[first] < 0:
            (leaf,) = self._lines(first, 0, "")
            yield replace(leaf, text=f"{test} {leaf.text}", sentence=sentence)
        else:
            yield Line(test, sentence=sentence)
            yield from self._lines(first, depth + 1, "")
        yield from self._lines(second, depth, "else ", is_first=False)


def _numbers_of_rules(level: Level) -> dict[int, int]:
    """For each leaf of a tree the number, from 1, of the rule that was made of it.

    Rules have the bounds of their leaf, without needless ones.
    """
    boxes, rules = level.tree.boxes(), level.rules.rules
    leaves = np.flatnonzero(level.tree.feature < 0).tolist()
    worth = np.zeros((len(leaves), len(rules)))
    for j, rule in enumerate(rules):
        holds = boxes.labels == rule.conclusion
        for each in rule.conditions:
            low, high = boxes.bounds[:, 0, each.column], boxes.bounds[:, 1, each.column]
            holds &= (low >= each.low) & (high <= each.high)
        worth[holds, j] = 1 + len(rule.conditions) / 1e4  # of several, the closest
    any_of = [(i, j) for i, j in enumerate(worth.argmax(axis=1))]
    # Last, so that each rule has a leaf of its own where that is possible.
    own = zip(*linear_sum_assignment(worth, maximize=True), strict=True)
    return {leaves[i]: int(j) + 1 for i, j in [*any_of, *own] if worth[i, j]}

"""Pruning of all trees together, by its cost in fidelity."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from keras_mmil._support.types import Array, Ints
from keras_mmil.rules.fitting.label import LabelledBags
from keras_mmil.rules.fitting.plan import Plan, Trees
from keras_mmil.rules.trees.tree import Tree

__all__ = ["prune", "sample"]

_MOST = 1000  # top-bags to count on
_FEW = 0.005  # of the records, for which a condition is not worth reading
_FEW_OF_TIME = 0.02  # likewise for a part of a time
_ROWS = 50_000_000  # of all trials together
_TINY = 1e-12


def sample(data: LabelledBags, parents: Sequence[int]) -> LabelledBags:
    """Top-bags to count on, if there are many: a random sample."""
    if len(data.classes) <= _MOST:
        return data
    chosen = np.random.default_rng(0).permutation(len(data.classes))[:_MOST]
    return data.some(np.sort(chosen), parents)


def prune(
    plan: Plan,
    data: LabelledBags,
    held_out: LabelledBags,
    trees: Trees,
    n_clusters: tuple[int, ...],
    alpha: float,
) -> Trees:
    """Turn splits into leaves if the rules as a whole then hardly agree less with the network.

    A tree was grown to tell all clusters apart. Many of its splits have no effect on the class of
    any top-bag, or very little. Splits above the most leaves are tried first; with many records,
    not all splits may be tried. Last go splits that set few records apart, which are not worth a
    reader's time, unless rules then agree less on the validation data.

    Args:
        plan: which trees there are.
        data: a `sample` of the training and validation data.
        held_out: a `sample` of the validation data.
        trees: as they were grown.
        n_clusters: k of each bag-layer.
        alpha: how much lower the share of top-bags on which rules and network agree may be, for
            each leaf that is left out.
    """
    n_rows = len(data.classes) + sum(nesting.n_rows for nesting in data.nestings)
    trials = iter(range(_ROWS // n_rows))
    state = _State.of(plan, data, trees, n_clusters)
    changed = True
    while changed:
        before = state
        for index in range(len(plan.records)):
            state = state.shortened(index, alpha, trials)
        changed = state is not before
    return _without_few(state, _State.of(plan, held_out, state.trees, n_clusters), trials)


def _without_few(state: "_State", known: "_State", trials: Iterator[int]) -> Trees:
    """The trees without splits that set few records apart, those that do so for fewest first.

    Rules then agree no less on the validation data, of which `known` is the state. On all data,
    they may disagree on half as many more top-bags as they do, but not on more than a few.
    """
    least = state.agreement - min(_FEW, (1 - state.agreement) / 2)
    for index in reversed(range(len(state.trees))):
        while (found := state.without_few(index, known, least, trials)) is not None:
            state, known = found
    return state.trees


@dataclass(frozen=True, eq=False)
class _State:
    """Trees, and how they label the data.

    Attributes:
        trees: one for each kind of records that trees label.
        labels: of the rows of each bag-layer, and of the top-bags.
        agreement: share of the top-bags on which rules and network agree.
    """

    plan: Plan
    data: LabelledBags
    n_clusters: tuple[int, ...]
    trees: Trees
    labels: tuple[Ints, ...]
    agreement: float

    @classmethod
    def of(
        cls, plan: Plan, data: LabelledBags, trees: Trees, n_clusters: tuple[int, ...]
    ) -> "_State":
        """The state of some trees."""
        nearest = (*data.nearest(n_clusters), data.classes)
        of_records = dict(zip(plan.records, trees, strict=True))
        labels = plan.predict(data, of_records, nearest, n_clusters)
        return cls(plan, data, n_clusters, trees, tuple(labels), _agreement(data, labels))

    def with_labels(self, index: int, new: Ints) -> "_State":
        """The state with other labels of the records of a tree, and of all that holds them.

        Above, only what holds a record of another label is labelled anew.
        """
        of_records = dict(zip(self.plan.records, self.trees, strict=True))
        labels, record = list(self.labels), self.plan.records[index]
        is_other = new != labels[record]
        labels[record] = new
        while is_other.any() and record < len(self.plan.parents):
            bags = self.data.nestings[record]
            record = self.plan.parents[record]
            is_other, inner = np.zeros(bags.n_bags, bool), is_other
            is_other[bags.bag_ids[inner[bags.members]]] = True
            rows = np.flatnonzero(is_other)
            matrix = self.plan.matrix(self.data, record, labels, self.n_clusters, rows)
            labels[record] = labels[record].copy()
            labels[record][rows] = of_records[record].predict(matrix)
            is_other = labels[record] != self.labels[record]
        agreement = _agreement(self.data, labels)
        return replace(self, labels=tuple(labels), agreement=agreement)

    def shortened(self, index: int, alpha: float, trials: Iterator[int]) -> "_State":
        """The state with one tree shortened, from the splits above most leaves downwards.

        `trials` yields an item for each trial that is allowed.
        """
        record = self.plan.records[index]
        matrix = self.plan.matrix(self.data, record, self.labels, self.n_clusters)
        state, largest = self, math.inf
        while True:
            found = state._shorter(index, matrix, alpha, trials, largest)
            if found is None:
                return state
            state, largest = found

    def _shorter(
        self, index: int, matrix: Array, alpha: float, trials: Iterator[int], largest: float
    ) -> tuple["_State", int] | None:
        """The state with one split less in a tree, and the number of leaves below that split.

        It is the first one that may be left out, of those above at most `largest` leaves; None if
        there is none. `matrix` is what the tree knows of its records, which no shortcut changes.
        """
        tree = self.trees[index]
        leaves, sizes = tree.leaves_of(matrix), tree.sizes()
        for split in np.argsort(-sizes, kind="stable").tolist():
            if not 1 < sizes[split] <= largest:
                continue
            for shortcut, _ in zip(tree.shortcuts(split), trials, strict=False):
                found = self.with_labels(index, tree.labels_after(shortcut, leaves, matrix))
                # Few get this far. Only the tree itself tells how many leaves it has.
                if found.agreement >= self.agreement - alpha * (tree.n_leaves - 1) - _TINY:
                    shorter = tree.after(shortcut)
                    n_less = tree.n_leaves - shorter.n_leaves
                    if found.agreement >= self.agreement - alpha * n_less - _TINY:
                        return replace(found, trees=self._with(index, shorter)), sizes[split]
        return None

    def without_few(
        self, index: int, known: "_State", least: float, trials: Iterator[int]
    ) -> tuple["_State", "_State"] | None:
        """The state without a split of a tree that sets few records apart; None if there is none.

        `known` is the state of the validation data, of which the new one comes second, and agrees
        no less. The first one agrees on at least so many.
        """
        columns = self.plan.space(self.plan.records[index], self.n_clusters).columns
        most = [_FEW_OF_TIME if each.feature == "time" else _FEW for each in columns]
        tree, matrix, leaves = self._reading(index)
        _, of_known, leaves_of_known = known._reading(index)
        reached = tree.reached(leaves) / max(len(leaves), 1)
        splits = np.flatnonzero(tree.feature >= 0)
        fewer = reached[tree.children[splits]].min(axis=1)
        for i in np.argsort(fewer, kind="stable").tolist():
            split = int(splits[i])
            if fewer[i] >= most[tree.feature[split]]:
                continue
            for shortcut, _ in zip(tree.shortcuts(split), trials, strict=False):
                labels = tree.labels_after(shortcut, leaves_of_known, of_known)
                if known.with_labels(index, labels).agreement < known.agreement - _TINY:
                    continue
                labels = tree.labels_after(shortcut, leaves, matrix)
                if self.with_labels(index, labels).agreement >= least - _TINY:
                    trees = self._with(index, tree.after(shortcut))
                    return self._of(trees), known._of(trees)
        return None

    def _reading(self, index: int) -> tuple[Tree, Array, Ints]:
        """A tree, what it knows of its records, and their leaves."""
        record, tree = self.plan.records[index], self.trees[index]
        matrix = self.plan.matrix(self.data, record, self.labels, self.n_clusters)
        return tree, matrix, tree.leaves_of(matrix)

    def _of(self, trees: Trees) -> "_State":
        return _State.of(self.plan, self.data, trees, self.n_clusters)

    def _with(self, index: int, tree: Tree) -> Trees:
        return (*self.trees[:index], tree, *self.trees[index + 1 :])


def _agreement(data: LabelledBags, labels: Sequence[Ints]) -> float:
    return float(np.mean(labels[-1] == data.classes))

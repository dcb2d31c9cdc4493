"""Pruning of all trees together, by its cost in fidelity."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from keras_mmil._support.types import Ints
from keras_mmil.rules.fitting.label import LabelledBags
from keras_mmil.rules.fitting.plan import Plan, Trees
from keras_mmil.rules.network.nesting import above
from keras_mmil.rules.trees.tree import Tree

__all__ = ["prune"]

_MOST = 1000  # top-bags to count on
_ROWS = 50_000_000  # of all trials together


def prune(
    plan: Plan, data: LabelledBags, trees: Trees, n_clusters: tuple[int, ...], alpha: float
) -> Trees:
    """Turn splits into leaves if the rules as a whole then hardly agree less with the network.

    A tree was grown to tell all clusters apart. Many of its splits have no effect on the class of
    any top-bag, or very little. Splits above the most leaves are tried first; with many records,
    not all splits may be tried.

    Args:
        plan: which trees there are.
        data: the training and validation data.
        trees: as they were grown.
        n_clusters: k of each bag-layer.
        alpha: how much lower the share of top-bags on which rules and network agree may be, for
            each leaf that is left out.
    """
    if len(data.classes) > _MOST:
        chosen = np.random.default_rng(0).permutation(len(data.classes))[:_MOST]
        data = data.some(np.sort(chosen), plan.parents)
    n_rows = len(data.classes) + sum(nesting.n_rows for nesting in data.nestings)
    trials = iter(range(_ROWS // n_rows))
    state = _State.of(plan, data, trees, n_clusters)
    changed = True
    while changed:
        changed = False
        for index in range(len(plan.records)):
            shorter = state.shorter(index, alpha, trials)
            while shorter is not None:
                state, changed = shorter, True
                shorter = state.shorter(index, alpha, trials)
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
        return cls(plan, data, n_clusters, trees, nearest, 0.0)._relabelled(plan.records)

    def with_tree(self, index: int, tree: Tree) -> "_State":
        """The state with another tree for one kind of records."""
        trees = (*self.trees[:index], tree, *self.trees[index + 1 :])
        record, top = self.plan.records[index], len(self.plan.parents)
        inner = above(record, self.plan.parents) if record < top else []
        return replace(self, trees=trees)._relabelled([*inner, top])

    def shorter(self, index: int, alpha: float, trials: Iterator[int]) -> "_State | None":
        """The state with one tree shortened as much as possible; None if it cannot be.

        `trials` yields an item for each trial that is allowed.
        """
        tree = self.trees[index]
        sizes = tree.sizes()
        for split in np.argsort(-sizes, kind="stable"):
            if sizes[split] > 1:
                for option, _ in zip(tree.without(int(split)), trials, strict=False):
                    n_less = tree.n_leaves - option.n_leaves
                    found = self.with_tree(index, option)
                    if found.agreement >= self.agreement - alpha * n_less - 1e-12:
                        return found
        return None

    def _relabelled(self, records: Sequence[int]) -> "_State":
        of_records = dict(zip(self.plan.records, self.trees, strict=True))
        changed = {record: of_records[record] for record in records}
        labels = self.plan.predict(self.data, changed, self.labels, self.n_clusters)
        agreement = float(np.mean(labels[-1] == self.data.classes))
        return replace(self, labels=tuple(labels), agreement=agreement)

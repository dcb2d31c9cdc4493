"""The search for the numbers of clusters of the highest fidelity."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.fitting.label import LabelledBags
from keras_mmil.interpretation.fitting.options import ONE_STANDARD_ERROR, Tolerance
from keras_mmil.interpretation.fitting.plan import Plan
from keras_mmil.interpretation.rules.tree import Examples, Tree

__all__ = [
    "Climber",
    "GridPoint",
    "Trees",
    "best_of",
    "choose",
    "merge",
    "tally",
]


# One for each kind of records that a tree labels, from below; see `Plan.records`.
Trees: TypeAlias = tuple[Tree, ...]


@dataclass(frozen=True)
class GridPoint:
    """One combination of numbers of clusters.

    Attributes:
        n_clusters: k of each bag-layer, from the instances upwards.
        fidelity: fraction of the validation top-bags on which rules and network agree.
        n_leaves: of all trees.
    """

    n_clusters: tuple[int, ...]
    fidelity: float
    n_leaves: int


def merge(bags: Array) -> tuple[Array, Ints]:
    """The distinct feature vectors of bags [n, k], and the index of each bag's among them [n]."""
    distinct, index = np.unique(bags, axis=0, return_inverse=True)
    return distinct, index.reshape(-1)


def tally(distinct: Array, index: Ints, labels: Ints, weights: Array) -> Examples:
    """Examples for a tree, of which no two are equal.

    Args:
        distinct, index: what `merge` returned.
        labels, weights: label and weight of each bag, [n].
    """
    n_labels = labels.max(initial=0) + 1
    weights = np.bincount(index * n_labels + labels, weights)
    present = np.flatnonzero(weights)
    return Examples(distinct[present // n_labels], present % n_labels, weights[present])


@dataclass(frozen=True, eq=False)
class _Grown:
    """A tree, and how it labels the training and the validation data."""

    tree: Tree
    train: Ints
    held_out: Ints


@dataclass(eq=False)
class Climber:
    """Grows the trees of combinations of numbers of clusters, from below, and rates them.

    Rows that no tree labels have the labels of the nearest centroids; those above have the labels
    that the trees below predict: on validation data, as fidelity is of the rules as a whole, and on
    training data, too, so that a tree learns from what it will be given.

    Attributes:
        plan: which trees there are.
        train, held_out: the training and validation data.
        grow: grows a tree of `Examples`, and the argument `is_measured` of `tree.grow`.
    """

    plan: Plan
    train: LabelledBags
    held_out: LabelledBags
    grow: Callable[..., Tree]
    # Of each kind of records the last tree, with the numbers of clusters that it depends on; and
    # what is known of them, merged, which does not depend on their own number of clusters.
    _last: dict[int, tuple[tuple[int, ...], _Grown]] = field(default_factory=dict)
    _known: dict[int, tuple[tuple[int, ...], "_Known"]] = field(default_factory=dict)

    def rate(self, n_clusters: tuple[int, ...]) -> tuple[GridPoint, Trees]:
        """One combination, with its trees.

        Args:
            n_clusters: k of each bag-layer.
        """
        train, held_out = self.train.nearest(n_clusters), self.held_out.nearest(n_clusters)
        *inner, top = self.plan.records
        trees: list[Tree] = []
        for record in inner:
            grown = self._grown(record, n_clusters, train, held_out)
            trees.append(grown.tree)
            train[record], held_out[record] = grown.train, grown.held_out
        grown = self._grown(top, n_clusters, train, held_out)
        trees.append(grown.tree)
        fidelity = float(np.mean(grown.held_out == self.held_out.classes))
        n_leaves = sum(tree.n_leaves for tree in trees)
        return GridPoint(n_clusters, fidelity, n_leaves), tuple(trees)

    def point(self, n_clusters: tuple[int, ...], trees: Trees) -> GridPoint:
        """One combination with other trees, rated on the validation data."""
        of_records = dict(zip(self.plan.records, trees, strict=True))
        nearest = self.held_out.nearest(n_clusters)
        labels = self.plan.predict(self.held_out, of_records, nearest, n_clusters)
        fidelity = float(np.mean(labels[-1] == self.held_out.classes))
        return GridPoint(n_clusters, fidelity, sum(tree.n_leaves for tree in trees))

    def branch(self) -> "Climber":
        """Another one, for another thread, which knows what this one knows now."""
        return Climber(
            self.plan, self.train, self.held_out, self.grow, dict(self._last), dict(self._known)
        )

    def _grown(
        self, record: int, ks: tuple[int, ...], train: Sequence[Ints], held_out: Sequence[Ints]
    ) -> _Grown:
        inside = self.plan.inside(record)
        key = tuple(ks[i] for i in inside if i < len(ks))
        if record in self._last and self._last[record][0] == key:
            return self._last[record][1]
        below = tuple(ks[i] for i in inside[:-1])
        if record not in self._known or self._known[record][0] != below:
            bags = self.plan.matrix(self.train, record, train, ks)
            held_out_bags = self.plan.matrix(self.held_out, record, held_out, ks)
            self._known[record] = below, _Known(bags, held_out_bags, *merge(bags))
        known = self._known[record][1]
        labels = self.train.targets(record, ks)
        weights = self.plan.weights[record]
        examples = tally(known.distinct, known.index, labels, weights)
        tree = self.grow(examples, is_measured=self.plan.is_measured(record, ks))
        grown = _Grown(tree, tree.predict(known.train), tree.predict(known.held_out))
        self._last[record] = key, grown
        return grown


@dataclass(frozen=True, eq=False)
class _Known:
    """What is known of the records of one kind.

    Attributes:
        train, held_out: of the training and validation data.
        distinct, index: see `merge`, of the training data.
    """

    train: Array
    held_out: Array
    distinct: Array
    index: Ints


def best_of(
    grid: Iterable[GridPoint], tolerance: Tolerance = 0.0, n_top_bags: int = 0
) -> list[GridPoint]:
    """The combinations of the highest fidelity, or not much below.

    Args:
        grid: the combinations.
        tolerance: how much below; or "one_standard_error", that of the highest fidelity.
        n_top_bags: number of validation top-bags, which the standard error depends on.
    """
    grid = tuple(grid)
    highest = max(point.fidelity for point in grid)
    if tolerance == ONE_STANDARD_ERROR:
        tolerance = math.sqrt(highest * (1 - highest) / n_top_bags)
    return [point for point in grid if point.fidelity >= highest - tolerance - 1e-12]


def choose(grid: Iterable[GridPoint], tolerance: Tolerance = 0.0, n_top_bags: int = 0) -> GridPoint:
    """The best combination: the highest fidelity; of equal ones the fewest clusters, then leaves.

    With a number as tolerance, the fewest leaves, then clusters, among those whose fidelity is at
    most that much below the highest. Within one standard error, the fewest clusters, then leaves.

    Args:
        grid, tolerance, n_top_bags: as for `best_of`.
    """
    by_leaves = tolerance not in (0.0, ONE_STANDARD_ERROR)

    def preference(point: GridPoint) -> tuple[int, int, float, tuple[int, ...]]:
        size = sum(point.n_clusters)
        simplicity = (point.n_leaves, size) if by_leaves else (size, point.n_leaves)
        return (*simplicity, -point.fidelity, point.n_clusters)

    return min(best_of(grid, tolerance, n_top_bags), key=preference)

"""What clusters are worth to the classes of top-bags, by the rules."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import pairwise_distances

from keras_mmil._support.types import Array, Floats, Ints
from keras_mmil.interpretation.rules.level import Level, all_clusters

__all__ = ["Places", "concatenated", "places_of", "worths"]


@dataclass(frozen=True, eq=False)
class Places:
    """Where rows are between the centroids nearest to them.

    Attributes:
        other: cluster of the second nearest centroid of each row, int [rows]; its own if there is
            no other.
        share: how much of the way from the other centroid to the own it has gone, [rows]: 1/2 where
            both are equally near, 1 at the own, more beyond.
    """

    other: Ints
    share: Floats

    def between(self, nearest: Ints, values: Array) -> Array:
        """Values of clusters, for rows.

        Args:
            nearest: cluster of the nearest centroid of each row.
            values: [clusters].

        Returns:
            For each row the value on the line through those of its two clusters, [rows].
        """
        own, other = values[nearest], values[self.other]
        return np.asarray(other + self.share * (own - other))


def places_of(rows: Array, nearest: Ints, centroids: Array) -> Places:
    """The `Places` of rows [rows, units], with the cluster of the nearest centroid of each."""
    if not len(rows):  # which scikit-learn refuses
        return Places(np.zeros(0, np.int32), np.zeros(0))
    squares = np.square(pairwise_distances(rows, centroids).astype(float))  # (rows, clusters)
    every = np.arange(len(rows))
    own = squares[every, nearest]
    squares[every, nearest] = np.inf
    other = nearest if len(centroids) == 1 else squares.argmin(axis=1)
    between = np.square(pairwise_distances(centroids).astype(float))[nearest, other]
    # Of the row's projection on the line through both centroids.
    steps = np.divide(
        squares[every, other] - own, between, out=np.ones(len(rows)), where=between > 0
    )
    return Places(other.astype(np.int32), (1 + steps) / 2)


def concatenated(parts: Sequence[Places]) -> Places:
    """The `Places` of the rows of several batches."""
    return Places(
        np.concatenate([part.other for part in parts]),
        np.concatenate([part.share for part in parts]),
    )


def worths(levels: Sequence[Level], n_classes: int) -> tuple[Array, ...]:
    """What each cluster is worth to each class of top-bags.

    A class is worth 1 to itself and -1 to others. A cluster is worth the sum of what the
    conclusions are worth of the rules that test it, each times the coverage of the rule: positive
    where the rule requires the cluster, negative where it allows none or only so much of it. Rules
    whose conclusions matter to no class do not count, then.

    Args:
        levels: from the instances upwards.
        n_classes: number of classes of top-bags.

    Returns:
        [classes, clusters], an array a bag-layer.
    """
    clusters = all_clusters(levels)
    found: list[Array] = [np.zeros((n_classes, len(each.names))) for each in clusters]
    found.append(2 * np.eye(n_classes) - 1)
    for level in reversed(levels):
        for bag, at in level.space.of_bags:
            for rule in level.rules:
                for condition in rule.conditions:
                    if at.start <= condition.column < at.stop:
                        sign = 1 if condition.requires else -1
                        found[bag.level][:, condition.column - at.start] += (
                            sign * rule.coverage * found[level.record][:, rule.conclusion]
                        )
    return tuple(found[:-1])

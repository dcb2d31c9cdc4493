"""Top-bags and all that is in them, as the rules and the network label them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from sklearn.metrics import pairwise_distances

from keras_mmil._support.types import Array, Floats, Ints
from keras_mmil.rules.fitting.cluster import nearest
from keras_mmil.rules.network.capture import Observation, nest
from keras_mmil.rules.network.nesting import (
    Nesting,
    Occurrences,
    above,
    concatenate,
    expand,
)
from keras_mmil.rules.network.targets import Target
from keras_mmil.rules.trees.level import Level, all_clusters

__all__ = [
    "Interpolation",
    "Reading",
    "classify",
    "contributions",
    "interpolate",
    "position_of",
    "read",
]


@dataclass(frozen=True, eq=False)
class Interpolation:
    """Where rows are on the lines between the two centroids nearest to them.

    Attributes:
        other: cluster of the second nearest centroid of each row, int [rows]; its own cluster if
            there is no other.
        share: how far the row's projection is from the other centroid to its own, [rows]: 1/2
            where both are equally near, 1 at the own, more beyond.
    """

    other: Ints
    share: Floats

    def of(self, nearest: Ints, values: Array) -> Array:
        """Values of clusters [clusters], interpolated for rows whose own cluster is `nearest`."""
        own, other = values[nearest], values[self.other]
        return np.asarray(other + self.share * (own - other))


def interpolate(rows: Array, nearest: Ints, centroids: Array) -> Interpolation:
    """The `Interpolation` of rows [rows, units], with the cluster of the nearest centroid each."""
    if not len(rows):  # scikit-learn refuses these
        return Interpolation(np.zeros(0, np.int32), np.zeros(0))
    squares = np.square(pairwise_distances(rows, centroids).astype(float))  # (rows, clusters)
    every = np.arange(len(rows))
    own = squares[every, nearest]
    squares[every, nearest] = np.inf
    other = nearest if len(centroids) == 1 else squares.argmin(axis=1)
    between = np.square(pairwise_distances(centroids).astype(float))[nearest, other]
    steps = np.divide(
        squares[every, other] - own, between, out=np.ones(len(rows)), where=between > 0
    )
    return Interpolation(other.astype(np.int32), (1 + steps) / 2)


def contributions(levels: Sequence[Level], n_classes: int) -> tuple[Array, ...]:
    """How much each cluster speaks for each class of top-bags: [classes, clusters] a bag-layer.

    A class contributes 1 to itself and -1 to others. A cluster contributes the sum, over the rules
    that test it, of what their conclusions contribute times the coverage of the rule: positive
    where the rule requires the cluster, negative where it allows none or little of it. So rules
    whose conclusions matter to no class do not count.
    """
    result: list[Array] = [np.zeros((n_classes, len(x.names))) for x in all_clusters(levels)]
    result.append(2 * np.eye(n_classes) - 1)
    for level in reversed(levels):
        for bag, at in level.space.of_bags:
            for rule in level.rules:
                for condition in rule.conditions:
                    if at.start <= condition.column < at.stop:
                        sign = 1 if condition.requires else -1
                        result[bag.level][:, condition.column - at.start] += (
                            sign * rule.coverage * result[level.record][:, rule.conclusion]
                        )
    return tuple(result[:-1])


@dataclass(frozen=True, eq=False)
class Reading:
    """The labels of everything in some top-bags.

    Attributes:
        nestings: one for each bag-layer, from the instances upwards.
        parents: for each, the index of the one above it.
        nearest: cluster of the nearest centroid of each row, int [rows] for each bag-layer.
        labels: labels by the rules, F̂, for each bag-layer and last for the top-bags. Rows that no
            rules label have those of the nearest centroids.
        network: classes of the top-bags by the network, int [top-bags].
        values: raw values of the fields of the rows of each bag-layer, and last of the top-bags.
        interpolations: for the rows of each bag-layer; empty unless requested.
    """

    nestings: tuple[Nesting, ...]
    parents: tuple[int, ...]
    nearest: tuple[Ints, ...]
    labels: tuple[Ints, ...]
    network: Ints
    values: tuple[tuple[Array, ...], ...]
    interpolations: tuple[Interpolation, ...] = ()

    def nested_labels(self) -> tuple[tf.RaggedTensor, ...]:
        """The labels by the rules of all but the top-bags, nested like the data, as int32."""
        result = expand(self.nestings, self.parents)
        return tuple(
            nest(self.labels[i][here.rows], [result[j] for j in above(i, self.parents)])
            for i, here in enumerate(result)
        )

    def of_record(self, level: Level) -> Array:
        """What the tree of a level knows of its records: float32 [records, columns]."""
        return level.space.matrix(self.labels, self.nestings, self.values[level.record])


def read(
    levels: Sequence[Level],
    target: Target,
    observations: Iterable[Observation],
    with_interpolations: bool = False,
) -> Reading:
    """Label what a network computed; only labels and fields of the observations are kept.

    Explanations rank by interpolations, which are computed on request.
    """
    parts = [_read_batch(levels, target, batch, with_interpolations) for batch in observations]
    return Reading(
        nestings=tuple(map(concatenate, zip(*(part.nestings for part in parts), strict=True))),
        parents=parts[0].parents,
        nearest=_joined(part.nearest for part in parts),
        labels=_joined(part.labels for part in parts),
        network=np.concatenate([part.network for part in parts]),
        values=tuple(map(_joined, zip(*(part.values for part in parts), strict=True))),
        interpolations=tuple(
            Interpolation(
                np.concatenate([each.other for each in of_layer]),
                np.concatenate([each.share for each in of_layer]),
            )
            for of_layer in zip(*(part.interpolations for part in parts), strict=True)
        ),
    )


def position_of(
    layer: int, index: int, occurrences: Sequence[Occurrences], parents: Sequence[int]
) -> tuple[int, ...]:
    """The position of an occurrence of a row of a bag-layer, the index of its top-bag first."""
    position: list[int] = []
    for level in above(layer, parents):
        splits = occurrences[level].row_splits
        bag = int(np.searchsorted(splits, index, side="right")) - 1
        position.insert(0, int(index - splits[bag]))
        index = bag
    return (int(index), *position)


def classify(
    levels: Sequence[Level], target: Target, observations: Iterable[Observation]
) -> tuple[Ints, Ints]:
    """The classes of top-bags by the rules, and by the network: int [top-bags] each."""
    by_rules, by_network = [], []
    for batch in observations:
        part = _read_batch(levels, target, batch)
        by_rules.append(part.labels[-1])
        by_network.append(part.network)
    return np.concatenate(by_rules), np.concatenate(by_network)


def _joined(parts: Iterable[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Arrays of several batches, concatenated one by one."""
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


def _read_batch(
    levels: Sequence[Level], target: Target, batch: Observation, with_interpolations: bool = False
) -> Reading:
    clusters = all_clusters(levels)
    parents = {bag.level: level.record for level in levels for bag in level.clusters}
    pairs = list(zip(batch.representations, clusters, strict=True))
    nearest_labels = tuple(nearest(rows, each.centroids) for rows, each in pairs)
    labels: list[Ints] = list(nearest_labels)
    for level in levels:
        known = level.space.matrix(labels, batch.nestings, batch.values[level.record])
        labels[level.record : level.record + 1] = [level.tree.predict(known)]
    result: list[Interpolation] = []
    if with_interpolations:
        for (rows, each), near in zip(pairs, nearest_labels, strict=True):
            result.append(interpolate(rows, near, each.centroids))
    return Reading(
        nestings=batch.nestings,
        parents=tuple(parents[bag.level] for bag in clusters),
        nearest=nearest_labels,
        labels=tuple(labels),
        network=target.labels(batch.outputs),
        values=batch.values,
        interpolations=tuple(result),
    )

"""Top-bags as the rules and the network label them, with all that is in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.fitting.cluster import nearest
from keras_mmil.interpretation.network.capture import Observation, nest
from keras_mmil.interpretation.network.nesting import (
    Nesting,
    above,
    concatenate,
    expand,
)
from keras_mmil.interpretation.network.targets import Target
from keras_mmil.interpretation.readout.worth import Places, concatenated, places_of
from keras_mmil.interpretation.rules.level import Level, all_clusters

__all__ = ["Reading", "classify", "read"]


@dataclass(frozen=True, eq=False)
class Reading:
    """The labels of everything in some top-bags.

    Attributes:
        nestings: one for each bag-layer, from the instances upwards.
        parents: for each, the index of the one above it.
        nearest: cluster of the nearest centroid of each row, int [rows], an array a bag-layer.
        labels: labels by the rules, F̂: one array more, the last for the top-bags. Rows that no
            rules are about have the labels of the nearest centroids.
        network: classes of the top-bags by the network, int [top-bags].
        values: raw values of the fields of the rows of each bag-layer, and last of the top-bags.
        places: where the rows of each bag-layer are between their nearest centroids; empty where
            nobody asked.
    """

    nestings: tuple[Nesting, ...]
    parents: tuple[int, ...]
    nearest: tuple[Ints, ...]
    labels: tuple[Ints, ...]
    network: Ints
    values: tuple[tuple[Array, ...], ...]
    places: tuple[Places, ...] = ()

    def nested_labels(self) -> tuple[tf.RaggedTensor, ...]:
        """The labels by the rules of all but the top-bags, nested like the data.

        Returns:
            int32 RaggedTensors, from the instances upwards.
        """
        found = expand(self.nestings, self.parents)
        return tuple(
            nest(self.labels[i][here.rows], [found[j] for j in above(i, self.parents)])
            for i, here in enumerate(found)
        )


def read(
    levels: Sequence[Level],
    target: Target,
    observations: Iterable[Observation],
    with_places: bool = False,
) -> Reading:
    """Label what a network computed.

    Args:
        levels: from the instances upwards.
        target: what the classes of top-bags are.
        observations: what the network computed, of which only labels and fields are kept.
        with_places: whether to compute the places of the rows, too, which explanations rank by.
    """
    parts, places = [], []
    for batch in observations:
        parts.append(_read_batch(levels, target, batch))
        if with_places:
            places.append(_places(levels, parts[-1], batch))
    nestings = zip(*(part.nestings for part in parts), strict=True)
    nearest_labels = zip(*(part.nearest for part in parts), strict=True)
    labels = zip(*(part.labels for part in parts), strict=True)
    values = zip(*(part.values for part in parts), strict=True)
    return Reading(
        nestings=tuple(map(concatenate, nestings)),
        parents=parts[0].parents,
        nearest=tuple(map(np.concatenate, nearest_labels)),
        labels=tuple(map(np.concatenate, labels)),
        network=np.concatenate([part.network for part in parts]),
        values=tuple(
            tuple(map(np.concatenate, zip(*of_record, strict=True))) for of_record in values
        ),
        places=tuple(map(concatenated, zip(*places, strict=True))),
    )


def classify(
    levels: Sequence[Level], target: Target, observations: Iterable[Observation]
) -> tuple[Ints, Ints]:
    """Classify what a network computed, and keep nothing else of it.

    Args:
        levels, target, observations: as for `read`.

    Returns:
        The classes of the top-bags by the rules, and by the network: int [top-bags] each.
    """
    by_rules, by_network = [], []
    for batch in observations:
        part = _read_batch(levels, target, batch)
        by_rules.append(part.labels[-1])
        by_network.append(part.network)
    return np.concatenate(by_rules), np.concatenate(by_network)


def _read_batch(levels: Sequence[Level], target: Target, batch: Observation) -> Reading:
    clusters = all_clusters(levels)
    parents = {bag.level: level.record for level in levels for bag in level.clusters}
    pairs = zip(batch.representations, clusters, strict=True)
    nearest_labels = tuple(nearest(rows, each.centroids) for rows, each in pairs)
    labels: list[Ints] = list(nearest_labels)
    for level in levels:
        known = level.space.matrix(labels, batch.nestings, batch.values[level.record])
        labels[level.record : level.record + 1] = [level.tree.predict(known)]
    return Reading(
        nestings=batch.nestings,
        parents=tuple(parents[bag.level] for bag in clusters),
        nearest=nearest_labels,
        labels=tuple(labels),
        network=target.labels(batch.outputs),
        values=batch.values,
    )


def _places(levels: Sequence[Level], reading: Reading, batch: Observation) -> list[Places]:
    """The places of the rows of each bag-layer, for which their representations are needed."""
    rows = zip(batch.representations, reading.nearest, all_clusters(levels), strict=True)
    return [places_of(each, near, clusters.centroids) for each, near, clusters in rows]

"""Top-bags as the rules and the network label them, with all that is in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Ints
from keras_mmil.interpretation.fitting.cluster import nearest
from keras_mmil.interpretation.network.capture import Observation, nest
from keras_mmil.interpretation.network.nesting import Nesting, concatenate, expand
from keras_mmil.interpretation.network.targets import Target
from keras_mmil.interpretation.rules.level import Level

__all__ = ["Reading", "classify", "read"]


@dataclass(frozen=True, eq=False)
class Reading:
    """The labels of everything in some top-bags.

    Attributes:
        nestings: one for each level, from the instances upwards.
        nearest: cluster of the nearest centroid of each row, int [rows], one array a level.
        labels: labels by the rules, F̂: one array more, the last for the top-bags. Those of
            instances are of the nearest centroids, those above of the rules below.
        network: classes of the top-bags by the network, int [top-bags].
    """

    nestings: tuple[Nesting, ...]
    nearest: tuple[Ints, ...]
    labels: tuple[Ints, ...]
    network: Ints

    def nested_labels(self) -> tuple[tf.RaggedTensor, ...]:
        """The labels by the rules of all but the top-bags, nested like the data.

        Returns:
            int32 RaggedTensors, from the instances upwards.
        """
        levels = expand(self.nestings)
        return tuple(nest(self.labels[i][here.rows], levels[i:]) for i, here in enumerate(levels))


def read(levels: Sequence[Level], target: Target, observations: Iterable[Observation]) -> Reading:
    """Label what a network computed.

    Args:
        levels: from the instances upwards.
        target: what the classes of top-bags are.
        observations: what the network computed, of which only labels are kept.
    """
    parts = [_read_batch(levels, target, batch) for batch in observations]
    nestings = zip(*(part.nestings for part in parts), strict=True)
    nearest_labels = zip(*(part.nearest for part in parts), strict=True)
    labels = zip(*(part.labels for part in parts), strict=True)
    return Reading(
        nestings=tuple(map(concatenate, nestings)),
        nearest=tuple(map(np.concatenate, nearest_labels)),
        labels=tuple(map(np.concatenate, labels)),
        network=np.concatenate([part.network for part in parts]),
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
    pairs = zip(batch.representations, levels, strict=True)
    nearest_labels = tuple(nearest(rows, level.centroids) for rows, level in pairs)
    labels = [nearest_labels[0]]
    for level, nesting in zip(levels, batch.nestings, strict=True):
        labels.append(level.tree.predict(level.bags(labels[-1], nesting)))
    return Reading(batch.nestings, nearest_labels, tuple(labels), target.labels(batch.outputs))

"""Top-bags as the rules and the network label them, with all that is in them."""

from dataclasses import dataclass

import numpy as np

from keras_mmil.interpretation.fitting.clustering import nearest
from keras_mmil.interpretation.network.capture import nest
from keras_mmil.interpretation.network.nesting import concatenate, expand

__all__ = ["Reading", "classify", "read"]


@dataclass(frozen=True, eq=False)
class Reading:
    """The labels of everything in some top-bags.

    Attributes:
        nestings: one `Grouping` for each level, from the instances upwards.
        nearest: cluster of the nearest centroid of each row, int [rows], one array a level.
        labels: labels by the rules, F̂: one array more, the last for the top-bags. Those of
            instances are of the nearest centroids, those above of the rules below.
        network: classes of the top-bags by the network, int [top-bags].
    """

    nestings: tuple
    nearest: tuple
    labels: tuple
    network: np.ndarray

    def nested_labels(self):
        """The labels by the rules of all but the top-bags, nested like the data.

        Returns:
            Tuple of int32 RaggedTensors, from the instances upwards.
        """
        levels = expand(self.nestings)
        return tuple(nest(self.labels[i][here.rows], levels[i:]) for i, here in enumerate(levels))


def read(levels, target, observations):
    """Label what a network computed.

    Args:
        levels: tuple of `Level`.
        target: the `Target`.
        observations: iterator over `Observation`s, of which only labels are kept.

    Returns:
        `Reading`.
    """
    parts = [_read_batch(levels, target, batch) for batch in observations]
    nestings, nearest_labels, labels, network = zip(*parts, strict=True)
    return Reading(
        tuple(map(concatenate, zip(*nestings, strict=True))),
        tuple(map(np.concatenate, zip(*nearest_labels, strict=True))),
        tuple(map(np.concatenate, zip(*labels, strict=True))),
        np.concatenate(network),
    )


def classify(levels, target, observations):
    """Classify what a network computed, and keep nothing else of it.

    Args:
        levels, target, observations: as for `read`.

    Returns:
        The classes of the top-bags by the rules, and by the network: int [top-bags] each.
    """
    classes = []
    for batch in observations:
        _, _, labels, network = _read_batch(levels, target, batch)
        classes.append((labels[-1], network))
    by_rules, by_network = map(np.concatenate, zip(*classes, strict=True))
    return by_rules, by_network


def _read_batch(levels, target, batch):
    pairs = zip(batch.representations, levels, strict=True)
    nearest_labels = [nearest(rows, level.centroids) for rows, level in pairs]
    labels = [nearest_labels[0]]
    for level, nesting in zip(levels, batch.nestings, strict=True):
        labels.append(level.tree.predict(level.bags(labels[-1], nesting)))
    return batch.nestings, nearest_labels, labels, target.labels(batch.outputs)

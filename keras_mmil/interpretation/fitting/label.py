"""Synthetic labels: of each row, the nearest of every set of centroids."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from keras_mmil._support.types import Ints
from keras_mmil.interpretation.fitting.cluster import Centroids, nearest_of_each
from keras_mmil.interpretation.network.capture import Observation
from keras_mmil.interpretation.network.nesting import Nesting, concatenate
from keras_mmil.interpretation.network.targets import Target

__all__ = ["LabelledBags", "label"]


@dataclass(frozen=True, eq=False)
class LabelledBags:
    """Nested bags in which every row has a cluster label: all that the search needs.

    Attributes:
        nestings: one for each of K levels, from the instances upwards.
        labels: for each level, a dict from a number of clusters to the labels, int [rows].
        classes: the network's classes of the top-bags, int [top-bags].
    """

    nestings: tuple[Nesting, ...]
    labels: tuple[dict[int, Ints], ...]
    classes: Ints

    def with_labels_of(self, other: "LabelledBags") -> "LabelledBags":
        """The same bags with further labels, those of other numbers of clusters."""
        pairs = zip(self.labels, other.labels, strict=True)
        return replace(self, labels=tuple(ours | theirs for ours, theirs in pairs))

    def only(self, numbers: Iterable[Iterable[int]]) -> "LabelledBags":
        """The same bags with the labels of some numbers of clusters of each level."""
        pairs = zip(self.labels, numbers, strict=True)
        return replace(self, labels=tuple({k: known[k] for k in ks} for known, ks in pairs))

    def above(self, level: int) -> Iterator[tuple[tuple[int, ...], Ints]]:
        """What the bags of a level may be labelled as.

        Yields:
            The number of clusters of the level above, in a tuple, and the labels of its rows; at
            the top once, an empty tuple and the network's classes.
        """
        if level + 1 == len(self.labels):
            yield (), self.classes
        else:
            yield from (((k,), labels) for k, labels in self.labels[level + 1].items())


def label(
    observations: Iterable[Observation], centroids: Sequence[Centroids], target: Target
) -> LabelledBags:
    """Label each batch by all centroids, and keep nothing else of it but its classes.

    Args:
        observations: what the network computes on some data.
        centroids: those of each level, from the instances upwards.
        target: what the classes of top-bags are.
    """
    nestings, labels, classes = [], [], []
    for batch in observations:
        pairs = zip(batch.representations, centroids, strict=True)
        labels.append([nearest_of_each(rows, each) for rows, each in pairs])
        nestings.append(batch.nestings)
        classes.append(target.labels(batch.outputs))
    return LabelledBags(
        nestings=tuple(map(concatenate, zip(*nestings, strict=True))),
        labels=tuple(
            {k: np.concatenate([batch[level][k] for batch in labels]) for k in known}
            for level, known in enumerate(centroids)
        ),
        classes=np.concatenate(classes),
    )

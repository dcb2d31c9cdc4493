"""Synthetic labels: of each row, the nearest of every set of centroids."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.fitting.cluster import Centroids, nearest_of_each
from keras_mmil.interpretation.network.capture import Observation
from keras_mmil.interpretation.network.nesting import Nesting, concatenate, take_bags
from keras_mmil.interpretation.network.targets import Target
from keras_mmil.interpretation.rules.fields import Field

__all__ = ["LabelledBags", "label"]


@dataclass(frozen=True, eq=False)
class LabelledBags:
    """Nested bags in which every row has a cluster label: all that the search needs.

    Attributes:
        nestings: one for each of K bag-layers, from the instances upwards.
        labels: for each of them, a dict from a number of clusters to the labels, int [rows].
        classes: the network's classes of the top-bags, int [top-bags].
        values: raw values of the fields of the rows of each bag-layer, and last of the top-bags.
    """

    nestings: tuple[Nesting, ...]
    labels: tuple[dict[int, Ints], ...]
    classes: Ints
    values: tuple[tuple[Array, ...], ...]
    _matrices: dict[int, tuple[Array, ...]] = field(default_factory=dict)

    def of_fields(self, record: int, fields: Sequence[Field]) -> tuple[Array, ...]:
        """What is known of each field of a kind of records, computed once.

        Args:
            record: index of the bag-layer whose rows they are; the last for the top-bags.
            fields: their fields, the same in each call.
        """
        if record not in self._matrices:
            pairs = zip(fields, self.values[record], strict=True)
            self._matrices[record] = tuple(each.matrix(raw) for each, raw in pairs)
        return self._matrices[record]

    def with_labels_of(self, other: "LabelledBags") -> "LabelledBags":
        """The same bags with further labels, those of other numbers of clusters."""
        pairs = zip(self.labels, other.labels, strict=True)
        return replace(self, labels=tuple(ours | theirs for ours, theirs in pairs))

    def joined(self, other: "LabelledBags") -> "LabelledBags":
        """These top-bags and others."""
        return LabelledBags(
            nestings=tuple(map(concatenate, zip(self.nestings, other.nestings, strict=True))),
            labels=tuple(
                {k: np.concatenate([labels, theirs[k]]) for k, labels in ours.items()}
                for ours, theirs in zip(self.labels, other.labels, strict=True)
            ),
            classes=np.concatenate([self.classes, other.classes]),
            values=tuple(
                tuple(map(np.concatenate, zip(ours, theirs, strict=True)))
                for ours, theirs in zip(self.values, other.values, strict=True)
            ),
        )

    def some(self, chosen: Ints, parents: Sequence[int]) -> "LabelledBags":
        """Some of the top-bags, with the rows that are in them.

        Args:
            chosen: their indices.
            parents: for each bag-layer, the index of the one above it.
        """
        top = len(self.nestings)
        kept: dict[int, Ints] = {top: chosen}  # rows of each bag-layer, and top-bags
        nestings: dict[int, Nesting] = {}
        for i in reversed(range(top)):
            taken = take_bags(self.nestings[i], kept[parents[i]])
            kept[i], members = np.unique(taken.members, return_inverse=True)
            nestings[i] = replace(taken, members=members.reshape(-1), n_rows=len(kept[i]))
        return LabelledBags(
            nestings=tuple(nestings[i] for i in range(top)),
            labels=tuple(
                {k: labels[kept[i]] for k, labels in known.items()}
                for i, known in enumerate(self.labels)
            ),
            classes=self.classes[chosen],
            values=tuple(
                tuple(raw[kept[i]] for raw in of_record) for i, of_record in enumerate(self.values)
            ),
        )

    def nearest(self, n_clusters: Sequence[int]) -> list[Ints]:
        """The labels of the rows of each bag-layer, for a number of clusters of each."""
        return [known[k] for known, k in zip(self.labels, n_clusters, strict=True)]

    def targets(self, record: int, n_clusters: Sequence[int]) -> Ints:
        """What the rows of a bag-layer, or (last) the top-bags are labelled as.

        Args:
            record: index of the bag-layer; the number of bag-layers for the top-bags.
            n_clusters: number of clusters of each bag-layer.
        """
        if record == len(self.labels):
            return self.classes
        return self.labels[record][n_clusters[record]]


def label(
    observations: Iterable[Observation], centroids: Sequence[Centroids], target: Target
) -> LabelledBags:
    """Label each batch by all centroids, and keep nothing else of it but its classes and fields.

    Args:
        observations: what the network computes on some data.
        centroids: those of each bag-layer, from the instances upwards.
        target: what the classes of top-bags are.
    """
    nestings, labels, classes, values = [], [], [], []
    for batch in observations:
        pairs = zip(batch.representations, centroids, strict=True)
        labels.append([nearest_of_each(rows, each) for rows, each in pairs])
        nestings.append(batch.nestings)
        classes.append(target.labels(batch.outputs))
        values.append(batch.values)
    return LabelledBags(
        nestings=tuple(map(concatenate, zip(*nestings, strict=True))),
        labels=tuple(
            {k: np.concatenate([batch[level][k] for batch in labels]) for k in known}
            for level, known in enumerate(centroids)
        ),
        classes=np.concatenate(classes),
        values=tuple(
            tuple(map(np.concatenate, zip(*of_record, strict=True)))
            for of_record in zip(*values, strict=True)
        ),
    )

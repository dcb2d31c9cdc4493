"""Labels of rows: for each set of centroids, the nearest one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from keras_mmil._support.types import Array, Ints, Tensors
from keras_mmil.rules.fitting.cluster import Centroids, nearest_of_each
from keras_mmil.rules.network.capture import Network, Observation
from keras_mmil.rules.network.nesting import Nesting, concatenate, take_bags
from keras_mmil.rules.network.targets import Target
from keras_mmil.rules.trees.fields import Field

__all__ = ["LabelledBags", "Labelling", "label"]


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
        """What is known of each field of a kind of records, computed once."""
        if record not in self._matrices:
            pairs = zip(fields, self.values[record], strict=True)
            self._matrices[record] = tuple(each.matrix(raw) for each, raw in pairs)
        return self._matrices[record]

    def with_labels_of(self, other: "LabelledBags") -> "LabelledBags":
        """The same bags with further labels, those of other numbers of clusters."""
        pairs = zip(self.labels, other.labels, strict=True)
        return replace(self, labels=tuple(ours | theirs for ours, theirs in pairs))

    @staticmethod
    def join(parts: Sequence["LabelledBags"]) -> "LabelledBags":
        """Top-bags that were labelled one after the other, by the same numbers of clusters."""
        return LabelledBags(
            nestings=tuple(map(concatenate, zip(*(part.nestings for part in parts), strict=True))),
            labels=tuple(
                {k: np.concatenate([each[k] for each in of_layer]) for k in of_layer[0]}
                for of_layer in zip(*(part.labels for part in parts), strict=True)
            ),
            classes=np.concatenate([part.classes for part in parts]),
            values=tuple(
                tuple(map(np.concatenate, zip(*of_record, strict=True)))
                for of_record in zip(*(part.values for part in parts), strict=True)
            ),
        )

    def some(self, chosen: Ints, parents: Sequence[int]) -> "LabelledBags":
        """The top-bags of these indices, with the rows that are in them."""
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
    """Label each batch by all centroids, and keep nothing else of it but its classes and fields."""
    return LabelledBags.join(
        [
            LabelledBags(
                nestings=batch.nestings,
                labels=tuple(map(nearest_of_each, batch.representations, centroids)),
                classes=target.labels(batch.outputs),
                values=batch.values,
            )
            for batch in observations
        ]
    )


@dataclass(frozen=True, eq=False)
class Labelling:
    """A `Step` that labels top-bags by the centroids of each bag-layer, see `label`."""

    centroids: Sequence[Centroids]
    target: Target
    projections: Sequence[Array | None]

    def __call__(self, network: Network, batches: Iterable[Tensors], first: int) -> LabelledBags:
        """The labels of these batches."""
        return label(network.observe(batches, self.projections), self.centroids, self.target)

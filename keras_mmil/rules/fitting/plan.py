"""Which trees to grow, and what each of them knows of its records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from keras_mmil._support.types import Array, Ints
from keras_mmil.rules.fitting.label import LabelledBags
from keras_mmil.rules.fitting.options import Options, level_features
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.nesting import Nesting, multiplicities, take_bags
from keras_mmil.rules.trees.features import Bag, Feature, Space
from keras_mmil.rules.trees.fields import Field, field_of, name_in
from keras_mmil.rules.trees.tree import Tree

__all__ = ["MEASURED", "Plan", "Trees", "field_names", "make_plan"]

MEASURED = ("number", "statistic", "time")  # features whose thresholds may be rounded

# One for each kind of records that a tree labels, from below; see `Plan.records`.
Trees: TypeAlias = tuple[Tree, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """What to fit, whatever the numbers of clusters.

    Attributes:
        parents: for each bag-layer, the index of the one above it.
        features: what is known of the members of its bags.
        fields: those of the rows of each bag-layer, and last of the top-bags.
        paths: what the bags of each bag-layer are called in the data.
        names: what their members are called in rules.
        has_tree: whether a tree labels the rows of each bag-layer; last, the top-bags, for which
            one always does. Other rows are labelled by the nearest centroids.
        weights: how often each row of the training data occurs, and each top-bag.
    """

    parents: tuple[int, ...]
    features: tuple[Feature, ...]
    fields: tuple[tuple[Field, ...], ...]
    paths: tuple[str, ...]
    names: tuple[str, ...]
    has_tree: tuple[bool, ...]
    weights: tuple[Array, ...]

    @property
    def records(self) -> list[int]:
        """Indices of the bag-layers whose rows trees label, from below, and of the top-bags."""
        return [record for record, here in enumerate(self.has_tree) if here]

    def by_centroids(self) -> "Plan":
        """The same, but rows that hold no bags are labelled by the nearest centroids."""
        has_tree = (record in self.parents for record in range(len(self.parents)))
        return replace(self, has_tree=(*has_tree, True))

    def bags_of(self, record: int) -> list[int]:
        """The bag-layers whose bags a record holds."""
        return [layer for layer, parent in enumerate(self.parents) if parent == record]

    def inside(self, record: int) -> list[int]:
        """A kind of records, after all that are in it."""
        return [*(x for layer in self.bags_of(record) for x in self.inside(layer)), record]

    def space(self, record: int, n_clusters: Sequence[int]) -> Space[Bag]:
        """What is known of a kind of records, for some numbers of clusters."""
        bags = (
            Bag(layer, self.features[layer], tuple(map(str, range(n_clusters[layer]))))
            for layer in self.bags_of(record)
        )
        return Space(tuple(bags), self.fields[record])

    def masks(self, record: int, n_clusters: Sequence[int]) -> dict[str, Array]:
        """Which columns of that are of some kinds: arguments of `trees.tree.grow` by name.

        Thresholds may be rounded of what is measured. Shares of clusters are, if the data have
        names; in the paper's syntax, their thresholds stay halfway between the shares that occur.
        """
        has_names = any(self.paths)
        measured = (*MEASURED, "frequency") if has_names else MEASURED
        features = [column.feature for column in self.space(record, n_clusters).columns]
        return {
            "is_measured": np.array([each in measured for each in features]),
            "is_share": np.array([has_names and each == "frequency" for each in features]),
        }

    def matrix(
        self,
        data: LabelledBags,
        record: int,
        labels: Sequence[Ints],
        n_clusters: Sequence[int],
        rows: Ints | None = None,
    ) -> Array:
        """What is known of records of a kind: float32 [records, columns].

        Args:
            data: the bags.
            record: the kind.
            labels: of the rows of each bag-layer.
            n_clusters: number of clusters of each bag-layer.
            rows: the indices of the records; None for all.
        """
        of_fields: Sequence[Array] = data.of_fields(record, self.fields[record])
        nestings: Sequence[Nesting] = data.nestings
        if rows is not None:
            bags = self.bags_of(record)
            nestings = [take_bags(x, rows) if i in bags else x for i, x in enumerate(nestings)]
            of_fields = [matrix[rows] for matrix in of_fields]
        return self.space(record, n_clusters).joined(labels, nestings, of_fields)

    def predict(
        self,
        data: LabelledBags,
        trees: Mapping[int, Tree],
        labels: Sequence[Ints],
        n_clusters: Sequence[int],
    ) -> list[Ints]:
        """The labels of the rows of each bag-layer, and of the top-bags.

        Args:
            data: the bags.
            trees: by the kind of records, from below.
            labels: of those records that no tree labels.
            n_clusters: number of clusters of each bag-layer.
        """
        found = list(labels)
        for record, tree in trees.items():
            matrix = self.matrix(data, record, found, n_clusters)
            found[record : record + 1] = [tree.predict(matrix)]
        return found


def make_plan(network: Network, options: Options, train: LabelledBags) -> Plan:
    """The plan for a network and the training data.

    Raises:
        ValueError: for `instances="fields"` where instances have no fields, or not only these.
    """
    parents, n_layers = network.parents, len(network.layers)
    members = [nesting.weights for nesting in train.nestings]
    weights = multiplicities(train.nestings, parents, len(train.classes))
    fields = tuple(
        tuple(
            field_of(name, read.kind, raw, weight)
            for name, read, raw in zip(
                field_names(network, record),
                network.fields[record],
                train.values[record],
                strict=True,
            )
        )
        for record, weight in enumerate(weights)
    )
    has_tree = []
    for record in range(n_layers):
        has_fields = bool(fields[record]) and not network.has_other[record]
        if record in parents:
            has_tree.append(True)
        elif options.instances == "fields" and not has_fields:
            raise ValueError(
                "Expected instances that are computed from fields alone, for instances='fields'. "
                f"Received: bag-layer {network.layers[record].name!r}, which reads other inputs"
            )
        else:
            has_tree.append(has_fields and options.instances != "centroids")
    return Plan(
        parents=parents,
        features=level_features(options.features, network.aggregations, members),
        fields=fields,
        paths=network.paths,
        names=tuple(
            name_in(_path(network, parent), path)
            for path, parent in zip(network.paths, parents, strict=True)
        ),
        has_tree=(*has_tree, True),
        weights=weights,
    )


def field_names(network: Network, record: int) -> list[str]:
    """The names of the fields of a kind of records in its rules.

    Args:
        network: that has them.
        record: index of the bag-layer whose rows they are; the number of bag-layers for top-bags.
    """
    found = [
        name_in(_path(network, record), read.path) or f"field {i}"
        for i, read in enumerate(network.fields[record], 1)
    ]
    return found if len(set(found)) == len(found) else [f"{x}#{i}" for i, x in enumerate(found, 1)]


def _path(network: Network, record: int) -> str:
    return network.paths[record] if record < len(network.paths) else ""

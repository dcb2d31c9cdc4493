"""The search for the numbers of clusters: algorithms 1 to 3 of the paper, for any depth."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.fitting.label import LabelledBags
from keras_mmil.interpretation.rules.features import Feature, bag_features
from keras_mmil.interpretation.rules.tree import Examples, Tree

__all__ = ["GridPoint", "choose", "explore", "merge", "tally"]


@dataclass(frozen=True)
class GridPoint:
    """One combination of numbers of clusters.

    Attributes:
        n_clusters: k of each level, from the instances upwards.
        fidelity: fraction of the validation top-bags on which rules and network agree.
        n_leaves: of the trees of all levels.
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


def explore(
    train: LabelledBags,
    held_out: LabelledBags,
    *,
    features: Sequence[Feature],
    weights: Sequence[Array],
    n_instance_clusters: int,
    grow: Callable[[Examples], Tree],
) -> list[tuple[GridPoint, tuple[Tree, ...]]]:
    """Evaluate every combination with one number of clusters of instances.

    The labels of instances are those of the nearest centroids, all labels above those that the
    trees below predict: on validation data, as fidelity is of the rules as a whole, and on training
    data, too, so that a tree learns from what it will be given.

    Args:
        train, held_out: the training and validation data.
        features: what describes the bags of each level.
        weights: how often each row, and each top-bag, of the training data occurs; see
            `multiplicities`.
        n_instance_clusters: k of level 0.
        grow: grows a tree.

    Returns:
        The combinations, each with its trees, one for each level.
    """
    top = len(train.nestings)

    def climb(
        chosen: tuple[int, ...], trees: tuple[Tree, ...], labels: Ints, held_out_labels: Ints
    ) -> Iterator[tuple[GridPoint, tuple[Tree, ...]]]:
        level = len(trees)
        if level == top:
            fidelity = np.mean(held_out_labels == held_out.classes)
            n_leaves = sum(tree.n_leaves for tree in trees)
            yield GridPoint(chosen, float(fidelity), n_leaves), trees
            return
        feature, k = features[level], chosen[level]
        bags = bag_features(feature, labels, k, train.nestings[level])
        held_out_bags = bag_features(feature, held_out_labels, k, held_out.nestings[level])
        distinct, index = merge(bags)
        for above, labels_above in train.above(level):
            tree = grow(tally(distinct, index, labels_above, weights[level + 1]))
            predicted = tree.predict(bags), tree.predict(held_out_bags)
            yield from climb((*chosen, *above), (*trees, tree), *predicted)

    k = n_instance_clusters
    return list(climb((k,), (), train.labels[0][k], held_out.labels[0][k]))


def choose(grid: Iterable[GridPoint], tolerance: float = 0.0) -> GridPoint:
    """The best combination: the highest fidelity; of equal ones the fewest clusters, then leaves.

    With a tolerance, the fewest leaves, then clusters, among those whose fidelity is at most that
    much below the highest.
    """
    grid = tuple(grid)
    least = max(point.fidelity for point in grid) - tolerance - 1e-12

    def preference(point: GridPoint) -> tuple[int, int, float, tuple[int, ...]]:
        size = sum(point.n_clusters)
        simplicity = (point.n_leaves, size) if tolerance else (size, point.n_leaves)
        return (*simplicity, -point.fidelity, point.n_clusters)

    return min((point for point in grid if point.fidelity >= least), key=preference)

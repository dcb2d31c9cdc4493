"""The search for the numbers of clusters: algorithms 1 to 3 of the paper, for any depth."""

from dataclasses import dataclass

import numpy as np

from keras_mmil.interpretation.rules.features import bag_features
from keras_mmil.interpretation.rules.tree import grow

__all__ = ["GridPoint", "LabelledBags", "choose", "explore", "merge", "tally"]


@dataclass(frozen=True, eq=False)
class LabelledBags:
    """Nested bags in which every row has a cluster label: all that the search needs.

    Attributes:
        nestings: a `Grouping` for each of K levels, from the instances upwards.
        labels: K + 1 dicts from a number of clusters to labels, int [rows]; the last, from the
            number of classes to the network's classes of the top-bags.
    """

    nestings: tuple
    labels: tuple


@dataclass(frozen=True)
class GridPoint:
    """One combination of numbers of clusters.

    Attributes:
        n_clusters: k of each level, from the instances upwards.
        fidelity: fraction of the validation top-bags on which rules and network agree.
        n_leaves: of the trees of all levels.
    """

    n_clusters: tuple
    fidelity: float
    n_leaves: int


def merge(bags):
    """The distinct feature vectors of bags [n, k], and the index of each bag's among them [n]."""
    distinct, index = np.unique(bags, axis=0, return_inverse=True)
    return distinct, index.reshape(-1)


def tally(distinct, index, labels, weights):
    """Weighted examples for a tree, of which no two are equal.

    Args:
        distinct, index: what `merge` returned.
        labels, weights: label and weight of each bag, [n].

    Returns:
        Feature vectors, labels and weights, all > 0, of the examples.
    """
    n_labels = labels.max(initial=0) + 1
    weights = np.bincount(index * n_labels + labels, weights)
    present = np.flatnonzero(weights)
    return distinct[present // n_labels], present % n_labels, weights[present]


def explore(train, held_out, features, weights, n_instance_clusters, settings):
    """Every combination with one number of clusters of instances.

    The labels of instances are those of the nearest centroids, all labels above those that the
    trees below predict: on validation data, as fidelity is of the rules as a whole, and on training
    data, too, so that a tree learns from what it will be given.

    Args:
        train, held_out: the training and validation data, `LabelledBags`.
        features: a `Feature` for each level.
        weights: how often each row, and each top-bag, of the training data occurs; see
            `multiplicities`.
        n_instance_clusters: k of level 0.
        settings: arguments of `grow`.

    Returns:
        List of pairs: a `GridPoint`, and its `Tree`s, one for each level.
    """
    top = len(train.nestings)

    def climb(chosen, trees, labels, held_out_labels):
        level, k = len(chosen) - 1, chosen[-1]
        if level == top:
            fidelity = np.mean(held_out_labels == held_out.labels[top][k])
            n_leaves = sum(tree.n_leaves for tree in trees)
            yield GridPoint(chosen[:-1], float(fidelity), n_leaves), trees
            return
        bags, held_out_bags = (
            bag_features(features[level], here, k, data.nestings[level])
            for here, data in ((labels, train), (held_out_labels, held_out))
        )
        merged = merge(bags)
        for n_above, labels_above in train.labels[level + 1].items():
            tree = grow(*tally(*merged, labels_above, weights[level + 1]), **settings)
            predicted = tree.predict(bags), tree.predict(held_out_bags)
            yield from climb((*chosen, n_above), (*trees, tree), *predicted)

    k = n_instance_clusters
    return list(climb((k,), (), train.labels[0][k], held_out.labels[0][k]))


def choose(grid, tolerance=0.0):
    """The best combination: of the highest fidelity, and of those the fewest clusters, then leaves.

    With a tolerance, the fewest leaves, then clusters, among those whose fidelity is at most that
    much below the highest.
    """
    least = max(point.fidelity for point in grid) - tolerance - 1e-12

    def preference(point):
        size = sum(point.n_clusters)
        simplicity = (point.n_leaves, size) if tolerance else (size, point.n_leaves)
        return (*simplicity, -point.fidelity, point.n_clusters)

    return min((point for point in grid if point.fidelity >= least), key=preference)

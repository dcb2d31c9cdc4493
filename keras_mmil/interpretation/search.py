"""The search for the numbers of clusters: algorithms 1 to 3 of the paper, for any depth."""

from dataclasses import dataclass

import numpy as np

from keras_mmil.interpretation.features import bag_features
from keras_mmil.interpretation.tree import grow

__all__ = ["GridPoint", "LabelledBags", "choose", "grow_trees", "merge", "score", "tally"]


@dataclass(frozen=True, eq=False)
class LabelledBags:
    """Nested bags in which every row has a cluster label: all that the search needs.

    Attributes:
        nestings: a `Nesting` for each of K levels, from the instances upwards.
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


def grow_trees(data, features, weights, level, n_clusters, settings):
    """One level's trees for one number of clusters, and every number of clusters above.

    Args:
        data: the training data, `LabelledBags`.
        features: a `Feature` for each level.
        weights: how often each row, and each top-bag, occurs; see `multiplicities`.
        level: index of the level.
        n_clusters: k at this level.
        settings: arguments of `grow`.

    Returns:
        Dict from the number of clusters of the level above to a `Tree`.
    """
    labels = data.labels[level][n_clusters]
    bags = merge(bag_features(features[level], labels, n_clusters, data.nestings[level]))
    return {
        n_above: grow(*tally(*bags, labels_above, weights[level + 1]), **settings)
        for n_above, labels_above in data.labels[level + 1].items()
    }


def score(data, features, trees, n_instance_clusters):
    """The fidelity of every combination with one number of clusters of instances.

    The labels of instances are those of the nearest centroids; all labels above are predicted by
    the trees below. Combinations share what they have in common.

    Args:
        data: the validation data, `LabelledBags`.
        features: a `Feature` for each level.
        trees: trees by (level, k, k above).
        n_instance_clusters: k of level 0.

    Returns:
        List of `GridPoint`.
    """
    top = len(data.nestings)

    def climb(chosen, labels, n_leaves):
        level, n_clusters = len(chosen) - 1, chosen[-1]
        if level == top:
            fidelity = np.mean(labels == data.labels[top][n_clusters])
            yield GridPoint(chosen[:-1], float(fidelity), n_leaves)
            return
        bags = bag_features(features[level], labels, n_clusters, data.nestings[level])
        for n_above in data.labels[level + 1]:
            tree = trees[level, n_clusters, n_above]
            yield from climb((*chosen, n_above), tree.predict(bags), n_leaves + tree.n_leaves)

    return list(climb((n_instance_clusters,), data.labels[0][n_instance_clusters], 0))


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

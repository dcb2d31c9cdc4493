"""Bags of numbered rows, and the feature vectors of bags."""

import itertools

import numpy as np

from keras_mmil.layers.grouping import Grouping
from keras_mmil.rules.trees.features import FREQUENCY, OCCURRENCE, bag_features


def nesting_of(bags, n_rows, weights=None):
    """A `Grouping` of lists of rows."""
    splits = np.cumsum([0, *map(len, bags)])
    members = np.array([row for bag in bags for row in bag], np.int64)
    weights = np.ones(len(members)) if weights is None else np.concatenate(weights)
    return Grouping(members, splits, weights.astype(np.float32), n_rows)


def random_bags(rng, feature, n, k):
    """Feature vectors of random bags, the empty bag among them."""
    counts = rng.poisson(0.8, (n, k)) * rng.integers(0, 2, (n, k))
    counts[0] = 0
    bags = [np.repeat(np.arange(k), row) for row in counts]
    return bag_features(feature, np.arange(k), k, nesting_of(bags, k))


def grid_vectors(feature, k, steps=8):
    """Many feature vectors of bags, the empty bag among them."""
    if feature is OCCURRENCE:
        return np.array(list(itertools.product([0, 1], repeat=k)), float)
    counts = np.array(list(itertools.product(range(steps + 1), repeat=k)), float)
    if feature is FREQUENCY:
        counts = counts[(counts.sum(axis=1) == steps) | (counts.sum(axis=1) == 0)] / steps
    return counts


# A tree: top-bags hold bags of 3 and of 4; the rows of 3 hold bags of 0 and 2, those of 2 of 1.
PARENTS = (3, 2, 3, 5, 5)
TOP = len(PARENTS)
N_ROWS = (6, 5, 4, 7, 3, 8)  # the last: top-bags


def random_tree(rng, n_rows=N_ROWS):
    """For each bag-layer of this tree the bags, lists of pairs (row, weight); some are empty."""

    def bag(n):
        rows = rng.integers(0, n, rng.integers(0, 4)).tolist()
        return [(row, float(rng.integers(1, 4))) for row in rows]

    return [[bag(n) for _ in range(n_rows[p])] for n, p in zip(n_rows, PARENTS, strict=False)]


def nestings_of(bags, n_rows=N_ROWS):
    """The same as `Grouping`s."""
    return [
        nesting_of(
            [[row for row, _ in bag] for bag in each],
            n,
            [np.array([weight for _, weight in bag]) for bag in each],
        )
        for each, n in zip(bags, n_rows, strict=False)
    ]

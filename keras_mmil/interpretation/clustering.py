"""Synthetic labels: clusters of the representations at one level."""

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans

__all__ = ["count_distinct", "fit_centroids", "nearest"]


def nearest(rows, centroids):
    """Index of the centroid closest to each row: float32 [n, units] to int32 [n]."""
    # |x - c|² without |x|², which is the same for all centroids: one matrix product.
    distances = np.square(centroids).sum(axis=1) - 2 * (rows @ centroids.T)  # (n, k)
    return distances.argmin(axis=1).astype(np.int32)


def count_distinct(rows, at_most):
    """The number of distinct rows, or `at_most` where there are more."""
    few = np.unique(rows[: 10 * at_most], axis=0)  # settles all but degenerate cases
    distinct = few if len(few) >= at_most else np.unique(rows, axis=0)
    return min(len(distinct), at_most)


def fit_centroids(rows, weights, n_clusters, seed, n_init=3, minibatch_above=200_000):
    """Cluster rows by k-means.

    Args:
        rows: float32 [n, units].
        weights: how often each row occurs, [n]. Rows of weight 0 have no influence.
        n_clusters: k, at most the number of distinct rows of positive weight.
        seed: of the random starts.
        n_init: number of random starts.
        minibatch_above: number of rows above which mini-batches are used.

    Returns:
        Centroids, float32 [k, units], the largest cluster first.
    """
    counted = weights > 0
    if not counted.all():
        rows, weights = rows[counted], weights[counted]
    algorithm = KMeans if len(rows) <= minibatch_above else MiniBatchKMeans
    model = algorithm(n_clusters, n_init=n_init, random_state=seed)
    model.fit(rows, sample_weight=weights)
    sizes = np.bincount(model.labels_, weights, minlength=n_clusters)
    order = np.argsort(-sizes, kind="stable")
    return model.cluster_centers_[order].astype(np.float32)

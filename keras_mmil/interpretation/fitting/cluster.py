"""Synthetic labels: clusters of the representations at one level."""

import numpy as np
from sklearn.cluster import KMeans

__all__ = ["RowSample", "count_distinct", "fit_centroids", "nearest", "nearest_of_each"]

_AT_ONCE = 2**26  # distances, 256 MB


class RowSample:
    """A random sample of rows that come in batches, each of them as likely as any other.

    Args:
        size: number of rows to draw.
        seed: of the choice.

    Attributes:
        n_seen: number of rows that came.
    """

    def __init__(self, size, seed):
        self.size, self.n_seen = size, 0
        self._rng = np.random.default_rng(seed)
        self._parts, self._n_held = [], 0

    def add(self, rows, weights):
        """Let rows [n, units] come, of weights [n]. Those of weight 0 are not drawn."""
        self.n_seen += len(rows)
        # Every row draws a lot; the lowest lots win.
        lots = self._rng.random(len(rows))
        drawn = weights > 0
        self._parts.append((rows[drawn], weights[drawn], lots[drawn]))
        self._n_held += drawn.sum()
        if self._n_held > 2 * self.size:
            self._keep_lowest()

    def draw(self):
        """The sample: rows [at most size, units] in the order they came in, and their weights."""
        self._keep_lowest()
        return self._parts[0][:2]

    def _keep_lowest(self):
        rows, weights, lots = map(np.concatenate, zip(*self._parts, strict=True))
        if len(lots) > self.size:
            kept = np.sort(np.argpartition(lots, self.size - 1)[: self.size])
            rows, weights, lots = rows[kept], weights[kept], lots[kept]
        self._parts, self._n_held = [(rows, weights, lots)], len(lots)


def nearest(rows, centroids):
    """Index of the centroid closest to each row: float32 [n, units] to int32 [n]."""
    return nearest_of_each(rows, {len(centroids): centroids})[len(centroids)]


def nearest_of_each(rows, clusterings):
    """The same for several sets of centroids, a dict from any key to [k, units]: dict of [n]."""
    if not clusterings:
        return {}
    every = np.concatenate(list(clusterings.values()))
    squares = np.square(every).sum(axis=1)
    ends = np.cumsum([len(centroids) for centroids in clusterings.values()])
    indices = np.empty((len(clusterings), len(rows)), np.int32)
    some = max(_AT_ONCE // len(every), 1)  # rows
    for start in range(0, len(rows), some):
        # |x - c|² without |x|², which is the same for all centroids: one matrix product.
        distances = squares - 2 * (rows[start : start + some] @ every.T)  # (some, all k)
        parts = np.split(distances, ends[:-1], axis=1)
        indices[:, start : start + some] = [part.argmin(axis=1) for part in parts]
    return dict(zip(clusterings, indices, strict=True))


def count_distinct(rows, at_most):
    """The number of distinct rows, or `at_most` where there are more."""
    few = np.unique(rows[: 10 * at_most], axis=0)  # settles all but degenerate cases
    distinct = few if len(few) >= at_most else np.unique(rows, axis=0)
    return min(len(distinct), at_most)


def fit_centroids(rows, weights, n_clusters, seed, n_init=3):
    """Cluster rows by k-means.

    Args:
        rows: float32 [n, units].
        weights: how often each row occurs, > 0, [n].
        n_clusters: k, at most the number of distinct rows.
        seed: of the random starts.
        n_init: number of random starts.

    Returns:
        Centroids, float32 [k, units], the largest cluster first.
    """
    model = KMeans(n_clusters, n_init=n_init, random_state=seed)
    model.fit(rows, sample_weight=weights)
    sizes = np.bincount(model.labels_, weights, minlength=n_clusters)
    order = np.argsort(-sizes, kind="stable")
    return model.cluster_centers_[order].astype(np.float32)

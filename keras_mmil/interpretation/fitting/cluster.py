"""Clusters of the representations at each level."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from sklearn.cluster import KMeans

from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.fitting import parallel
from keras_mmil.interpretation.fitting.sample import WeightedRows

__all__ = [
    "Centroids",
    "cluster",
    "count_distinct",
    "fit_centroids",
    "nearest",
    "nearest_of_each",
]

# For each number of clusters k the centroids, float32 [k, units].
Centroids: TypeAlias = dict[int, Array]

_AT_ONCE = 2**26  # distances, 256 MB


def nearest(rows: Array, centroids: Array) -> Ints:
    """Index of the centroid closest to each row: float32 [n, units] to int32 [n]."""
    return nearest_of_each(rows, {len(centroids): centroids})[len(centroids)]


def nearest_of_each(rows: Array, clusterings: Centroids) -> dict[int, Ints]:
    """The same for several sets of centroids: from each k to int32 [n]."""
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


def count_distinct(rows: Array, at_most: int) -> int:
    """The number of distinct rows, or `at_most` where there are more."""
    few = np.unique(rows[: 10 * at_most], axis=0)  # settles all but degenerate cases
    distinct = few if len(few) >= at_most else np.unique(rows, axis=0)
    return min(len(distinct), at_most)


def fit_centroids(sample: WeightedRows, n_clusters: int, *, seed: int, n_init: int = 3) -> Array:
    """Cluster rows by k-means.

    Args:
        sample: the rows.
        n_clusters: k, at most the number of distinct rows; 1 where there are none.
        seed: of the random starts.
        n_init: number of random starts.

    Returns:
        Centroids, float32 [k, units], the largest cluster first.
    """
    if not len(sample.rows):
        return np.zeros((n_clusters, *sample.rows.shape[1:]), np.float32)
    model = KMeans(n_clusters, n_init=n_init, random_state=seed)
    model.fit(sample.rows, sample_weight=sample.weights)
    sizes = np.bincount(model.labels_, sample.weights, minlength=n_clusters)
    order = np.argsort(-sizes, kind="stable")
    return model.cluster_centers_[order].astype(np.float32)


def cluster(
    samples: Sequence[WeightedRows],
    numbers: Sequence[Iterable[int]],
    *,
    seed: int,
    n_init: int,
    n_jobs: int | None,
    on_done: Callable[[], None],
) -> tuple[Centroids, ...]:
    """Cluster the rows of each level into several numbers of clusters.

    Args:
        samples: rows of each level, from the instances upwards.
        numbers: the numbers of clusters of each level.
        seed, n_init: as for `fit_centroids`.
        n_jobs, on_done: as for `parallel.run`.

    Returns:
        The centroids of each level.
    """
    keys = [(level, k) for level, ks in enumerate(numbers) for k in ks]
    results = parallel.run(
        [partial(fit_centroids, samples[i], k, seed=seed, n_init=n_init) for i, k in keys],
        n_jobs,
        on_done,
    )
    centroids: tuple[Centroids, ...] = tuple({} for _ in numbers)
    for (level, k), result in zip(keys, results, strict=True):
        centroids[level][k] = result
    return centroids

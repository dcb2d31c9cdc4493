"""Rows of the representations at each level: a random sample of them, and their clusters."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array
from sklearn.cluster import KMeans

from keras_mmil._support.types import Array, Ints, Tensors
from keras_mmil.rules.fitting import parallel
from keras_mmil.rules.network.capture import Network, Observation
from keras_mmil.rules.network.nesting import clustered_weights

__all__ = [
    "Centroids",
    "RowSample",
    "Sampled",
    "Sampling",
    "WeightedRows",
    "cluster",
    "count_distinct",
    "fit_centroids",
    "in_use",
    "nearest",
    "nearest_of_each",
    "sizes_of",
]

# For each number of clusters k the centroids, float32 [k, units].
Centroids: TypeAlias = dict[int, Array]

_AT_ONCE = 2**26  # distances, 256 MB
_FEW = 10_000  # rows, from which k-means begins if there are more
_NARROW = 32  # units
_LEFT_OUT = 1e-3  # share of the variance


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows of one level.

    Attributes:
        rows: float32 [n, units].
        weights: how often each occurs, > 0, [n].
        values: raw values of their fields, [n] each.
    """

    rows: Array
    weights: Array
    values: tuple[Array, ...] = ()

    @cached_property
    def compact(self) -> Array:
        """The rows along their principal axes: as far from one another, in fewer numbers.

        The axes that are left out hold a thousandth of the variance. Of networks side by side,
        representations have hundreds of units, and a tenth as many axes.
        """
        rows = self.rows
        if rows.shape[1] <= _NARROW:
            return rows
        centered = rows - np.average(rows, axis=0, weights=self.weights).astype(rows.dtype)
        some = centered[:: -(-len(rows) // _FEW) or 1]
        variances, axes = np.linalg.eigh((some.T @ some).astype(float))  # ascending
        is_kept = np.cumsum(variances) > _LEFT_OUT * variances.sum()
        if not is_kept.any():  # all rows are equal
            return rows
        return centered @ axes[:, is_kept].astype(rows.dtype)


class RowSample:
    """A uniform random sample of rows that come in batches.

    Every row gets a random score, which depends only on the seed and on where it is: the level, the
    number of its batch, and its index there. The rows with the lowest scores are the sample. So it
    does not depend on which batches came together, and samples of blocks can be merged.

    Attributes:
        n_seen: number of rows that came.
    """

    def __init__(self, size: int, seed: int, level: int = 0) -> None:
        self.size, self.n_seen = size, 0
        self._seed, self._level = seed, level
        self._parts: list[tuple[Array, ...]] = []  # random scores, rows, weights, values
        self._n_held = 0

    def add(self, number: int, rows: Array, weights: Array, values: Sequence[Array] = ()) -> None:
        """Add a batch: rows [n, units], their weights [n], and values of fields, [n] each.

        Rows of weight 0 are never sampled.
        """
        self.n_seen += len(rows)
        place = np.random.SeedSequence(self._seed, spawn_key=(self._level, number))
        random_scores = np.random.default_rng(place).random(len(rows))
        possible = weights > 0
        self._hold(tuple(x[possible] for x in (random_scores, rows, weights, *values)))

    def merge(self, other: "RowSample") -> None:
        """Take in a sample of later batches, of the same size, seed and level."""
        self.n_seen += other.n_seen
        for part in other._parts:
            self._hold(part)

    def rows(self) -> WeightedRows:
        """The sample: at most `size` rows in the order in which they came."""
        _, rows, weights, *values = self._keep_lowest()
        return WeightedRows(rows, weights, tuple(values))

    def _hold(self, part: tuple[Array, ...]) -> None:
        self._parts.append(part)
        self._n_held += len(part[0])
        if self._n_held > 2 * self.size:
            self._keep_lowest()

    def _keep_lowest(self) -> tuple[Array, ...]:
        held = tuple(map(np.concatenate, zip(*self._parts, strict=True)))
        random_scores = held[0]
        if len(random_scores) > self.size:
            kept = np.sort(np.argpartition(random_scores, self.size - 1)[: self.size])
            held = tuple(x[kept] for x in held)
        self._parts, self._n_held = [held], len(held[0])
        return held


@dataclass(eq=False)
class Sampled:
    """What `Sampling` yields.

    Attributes:
        samples: rows of each level, from the instances upwards.
        kept: the observations themselves; None if they are too many, or were not to be kept: the
            network then computes them again.
    """

    samples: list[RowSample]
    kept: list[Observation] | None

    def merge(self, other: "Sampled") -> "Sampled":
        """Take in what later batches yielded, without keeping observations."""
        for ours, theirs in zip(self.samples, other.samples, strict=True):
            ours.merge(theirs)
        self.kept = None
        return self

    def rows(self) -> list[WeightedRows]:
        """The rows of each level, from the instances upwards."""
        return [sample.rows() for sample in self.samples]


@dataclass(frozen=True, eq=False)
class Sampling:
    """Sample rows of each level to cluster: a `Step`.

    Attributes:
        size: greatest number of rows of a level.
        seed: of the sample.
        projections: directions in which rows are clustered, if there are any.
        keeps: whether to keep the observations, if they are few.
        n_bytes: memory up to which they are kept where a level has more than `size` rows.
    """

    size: int
    seed: int
    projections: Sequence[Array | None]
    keeps: bool = False
    n_bytes: int = 0

    def __call__(self, network: Network, batches: Iterable[Tensors], first: int) -> Sampled:
        """The sample of some batches."""
        samples = [RowSample(self.size, self.seed, i) for i in range(len(network.layers))]
        result = Sampled(samples, [] if self.keeps else None)
        observations, n_bytes = network.observe(batches, self.projections), 0
        for number, batch in enumerate(observations, first):
            weights = clustered_weights(batch.nestings, network.parents, network.has_fields)
            for i, (sample, weight) in enumerate(zip(samples, weights, strict=True)):
                sample.add(number, batch.representations[i], weight, batch.values_of(i))
            if result.kept is not None:
                result.kept.append(batch)
                n_bytes += batch.n_bytes
            are_many = any(sample.n_seen > self.size for sample in samples)
            if are_many and n_bytes > self.n_bytes:
                result.kept = None
        return result


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
        seed, n_init: of the random starts, and their number.

    Returns:
        Centroids, float32 [k, units], the largest cluster first.
    """
    rows, weights = sample.rows, sample.weights
    if not len(rows):
        return np.zeros((n_clusters, *rows.shape[1:]), np.float32)
    are_apart = count_distinct(sample.compact, n_clusters) == n_clusters
    points = sample.compact if are_apart else rows
    model = KMeans(n_clusters, n_init=n_init, random_state=seed)
    few = np.sort(np.random.default_rng(seed).permutation(len(rows))[:_FEW])
    if len(few) < len(rows) and count_distinct(rows[few], n_clusters) == n_clusters:
        # The best of the random starts shows on some of the rows, in little time.
        start = model.fit(points[few], sample_weight=weights[few]).cluster_centers_
        model = KMeans(n_clusters, init=start, n_init=1, random_state=seed)
    model.fit(points, sample_weight=weights)
    sizes = np.bincount(model.labels_, weights, minlength=n_clusters)
    order = np.argsort(-sizes, kind="stable")
    if points is rows:
        return model.cluster_centers_[order].astype(np.float32)
    members = csr_array((weights, (model.labels_, np.arange(len(rows)))), (n_clusters, len(rows)))
    return (members @ rows / sizes[:, None])[order].astype(np.float32)


def sizes_of(sample: WeightedRows, centroids: Array) -> Array:
    """The weight of the rows that are nearest to each centroid, [k]."""
    return np.bincount(nearest(sample.rows, centroids), sample.weights, minlength=len(centroids))


def in_use(symbols: Array, sample: WeightedRows) -> Array:
    """The symbols that rows take, the most frequent first; the first one if there are no rows."""
    sizes = sizes_of(sample, symbols)
    order = np.argsort(-sizes, kind="stable")
    return symbols[order[: max(np.count_nonzero(sizes), 1)]]


def cluster(
    samples: Sequence[WeightedRows],
    numbers: Sequence[Iterable[int]],
    *,
    seed: int,
    n_init: int,
    n_jobs: int | None,
    on_done: Callable[[], None],
) -> tuple[Centroids, ...]:
    """Cluster the rows of each level into several numbers of clusters, side by side."""
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

"""The rows that stand for the clusters best."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import pairwise_distances

from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.fitting.cluster import nearest
from keras_mmil.interpretation.network.capture import Observation
from keras_mmil.interpretation.network.nesting import Occurrences, above, expand
from keras_mmil.interpretation.rules.level import Level, all_clusters

__all__ = ["Representative", "representatives"]


@dataclass(frozen=True)
class Representative:
    """A row that stands for its cluster.

    Attributes:
        position: index of the top-bag it is in, then of the sub-bag, and so on.
        separation: distance to the nearest centroid of another cluster, the paper's score.
        distance: distance to the centroid of its own cluster.
    """

    position: tuple[int, ...]
    separation: float
    distance: float


@dataclass(frozen=True, eq=False)
class _Best:
    """The best rows of a cluster so far.

    Attributes:
        scores: the lowest is the best, ascending, [n].
        rows: [n, units].
        found: the same as `Representative`s.
    """

    scores: Array
    rows: Array
    found: list[Representative]


def representatives(
    levels: Sequence[Level],
    chosen: Collection[tuple[int, int]],
    observations: Iterable[Observation],
    *,
    n: int,
    by: str,
) -> dict[tuple[int, int], list[Representative]]:
    """The rows that stand for clusters best, equal ones only once.

    Args:
        levels: from the instances upwards.
        chosen: pairs (bag-layer, cluster), both indices.
        observations: what the network computed, of which only the best rows are kept.
        n: how many at most for each cluster.
        by: "separation" from other clusters, decreasing, or "closeness" to the own centroid.

    Returns:
        Dict from (bag-layer, cluster) to its representatives, the best first.

    Raises:
        ValueError: if `by` is neither.
    """
    if by not in ("separation", "closeness"):
        raise ValueError(f"Expected 'separation' or 'closeness'. Received: by={by!r}")
    clusters = all_clusters(levels)
    parents = {bag.level: level.record for level in levels for bag in level.clusters}
    path_of = [above(bag.level, [parents[each.level] for each in clusters]) for bag in clusters]
    best: dict[tuple[int, int], _Best] = {}
    n_top_bags = 0
    for batch in observations:
        occurrences = expand(batch.nestings, [parents[bag.level] for bag in clusters])
        for level in sorted({level for level, _ in chosen}):
            rows, centroids = batch.representations[level], clusters[level].centroids
            around = [occurrences[each] for each in path_of[level]]
            present, first = np.unique(occurrences[level].rows, return_index=True)
            labels = nearest(rows[present], centroids)
            for key in (key for key in chosen if key[0] == level):
                is_in = labels == key[1]
                if not is_in.any():
                    continue
                here, index = rows[present[is_in]], first[is_in]
                separation, own = _distances(here, centroids, key[1])
                scores = own if by == "closeness" else -separation
                kept = _best(scores, here, n)
                found = [
                    Representative(
                        _position(around, index[i], n_top_bags),
                        float(separation[i]),
                        float(own[i]),
                    )
                    for i in kept
                ]
                new = _Best(scores[kept], here[kept], found)
                best[key] = _merge(best[key], new, n) if key in best else new
        n_top_bags += batch.n_top_bags
    return {key: best[key].found if key in best else [] for key in chosen}


def _distances(rows: Array, centroids: Array, cluster: int) -> tuple[Array, Array]:
    """To the nearest centroid of another cluster, and to the own: [n] each."""
    distances = pairwise_distances(rows, centroids)
    others = np.delete(distances, cluster, axis=1)
    return others.min(axis=1, initial=np.inf), distances[:, cluster]


def _merge(held: _Best, new: _Best, n: int) -> _Best:
    """The n best of those held and of new ones."""
    scores = np.concatenate([held.scores, new.scores])
    rows = np.concatenate([held.rows, new.rows])
    found = held.found + new.found
    kept = _best(scores, rows, n)
    return _Best(scores[kept], rows[kept], [found[i] for i in kept])


def _best(scores: Array, rows: Array, n: int) -> Ints:
    """Indices of the n rows of the lowest scores, of equal rows only the first."""
    order = np.argsort(scores, kind="stable")
    return order[_first_of_equals(rows[order], n)]


def _first_of_equals(rows: Array, n: int) -> Ints:
    """Indices of the first n rows that equal none before them, up to rounding."""
    scale = np.abs(rows).max(initial=0.0) or 1.0
    for some in (5 * n, 100 * n, len(rows)):  # few are enough, unless most are equal to others
        _, first = np.unique(np.round(rows[:some] / scale, 5), axis=0, return_index=True)
        if len(first) >= n:
            break
    return np.sort(first)[:n]


def _position(around: Sequence[Occurrences], index: int, n_before: int) -> tuple[int, ...]:
    """Indices of the bags around an occurrence, the top-bag's first, and its own.

    Args:
        around: those of the bag-layer of the occurrence, and of all above it.
        index: of the occurrence.
        n_before: number of top-bags before.
    """
    path: list[int] = []
    for here in around:
        bag = np.searchsorted(here.row_splits, index, side="right") - 1
        path.insert(0, int(index - here.row_splits[bag]))
        index = int(bag)
    return (int(index) + n_before, *path)

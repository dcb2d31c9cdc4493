"""The rows that stand for the clusters best."""

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import pairwise_distances

from keras_mmil.interpretation.fitting.clustering import nearest
from keras_mmil.interpretation.network.nesting import expand

__all__ = ["Representative", "representatives"]


@dataclass(frozen=True)
class Representative:
    """A row that stands for its cluster.

    Attributes:
        position: index of the top-bag it is in, then of the sub-bag, and so on.
        separation: distance to the nearest centroid of another cluster, the paper's score.
        distance: distance to the centroid of its own cluster.
    """

    position: tuple
    separation: float
    distance: float


def representatives(levels, chosen, observations, n, by):
    """The rows that stand for clusters best, equal ones only once.

    Args:
        levels: tuple of `Level`.
        chosen: list of (level, cluster), both indices.
        observations: iterator over `Observation`s, of which only the best rows are kept.
        n: how many at most for each cluster.
        by: "separation" from other clusters, decreasing, or "closeness" to the own centroid.

    Returns:
        Dict from (level, cluster) to a list of `Representative`.

    Raises:
        ValueError: if `by` is neither.
    """
    if by not in ("separation", "closeness"):
        raise ValueError(f"Expected 'separation' or 'closeness'. Received: by={by!r}")
    best = {key: (np.empty(0), None, []) for key in chosen}  # scores, rows, representatives
    n_top_bags = 0
    for batch in observations:
        occurrences = expand(batch.nestings)
        for level in sorted({level for level, _ in chosen}):
            rows, centroids = batch.representations[level], levels[level].centroids
            present, first = np.unique(occurrences[level].rows, return_index=True)
            clusters = nearest(rows[present], centroids)
            for key in (key for key in chosen if key[0] == level):
                is_in = clusters == key[1]
                if not is_in.any():
                    continue
                here, index = rows[present[is_in]], first[is_in]
                separation, own = _distances(here, centroids, key[1])
                scores = own if by == "closeness" else -separation
                kept = _best(scores, here, n)
                found = [
                    Representative(
                        _position(occurrences, level, index[i], n_top_bags),
                        float(separation[i]),
                        float(own[i]),
                    )
                    for i in kept
                ]
                best[key] = _merge(best[key], (scores[kept], here[kept], found), n)
        n_top_bags += batch.nestings[-1].n_bags
    return {key: found for key, (_, _, found) in best.items()}


def _distances(rows, centroids, cluster):
    """To the nearest centroid of another cluster, and to the own: [n] each."""
    distances = pairwise_distances(rows, centroids)
    others = np.delete(distances, cluster, axis=1)
    return others.min(axis=1, initial=np.inf), distances[:, cluster]


def _merge(held, new, n):
    """The best of those held and of new ones, each (scores, rows, representatives)."""
    if not held[2]:
        return new
    scores, rows = (np.concatenate(pair) for pair in zip(held[:2], new[:2], strict=True))
    kept = _best(scores, rows, n)
    both = held[2] + new[2]
    return scores[kept], rows[kept], [both[i] for i in kept]


def _best(scores, rows, n):
    """Indices of the n rows of the lowest scores, of equal rows only the first."""
    order = np.argsort(scores, kind="stable")
    return order[_first_of_equals(rows[order], n)]


def _first_of_equals(rows, n):
    """Indices of the first n rows that equal none before them, up to rounding."""
    scale = np.abs(rows).max(initial=0.0) or 1.0
    for some in (5 * n, 100 * n, len(rows)):  # few are enough, unless most are equal to others
        _, first = np.unique(np.round(rows[:some] / scale, 5), axis=0, return_index=True)
        if len(first) >= n:
            break
    return np.sort(first)[:n]


def _position(occurrences, level, index, n_before):
    """Indices of the bags around an occurrence, the top-bag's first, and its own."""
    path = []
    for here in occurrences[level:]:
        bag = np.searchsorted(here.row_splits, index, side="right") - 1
        path.insert(0, int(index - here.row_splits[bag]))
        index = bag
    return (int(index) + n_before, *path)

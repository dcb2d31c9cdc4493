"""The nearest centroids, compared with loops."""

import numpy as np

from keras_mmil.interpretation.fitting import cluster
from keras_mmil.interpretation.fitting.cluster import nearest


def test_nearest_as_in_a_loop():
    rng = np.random.default_rng(0)
    rows, centroids = (rng.normal(size=(n, 5)).astype(np.float32) for n in (50, 4))
    expected = [np.argmin([np.linalg.norm(r - c) for c in centroids]) for r in rows]
    np.testing.assert_array_equal(nearest(rows, centroids), expected)
    assert nearest(rows[:0], centroids).shape == (0,)


def test_distances_are_of_some_rows_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    rows, few, many = (rng.normal(size=(n, 3)) for n in (50, 2, 9))
    monkeypatch.setattr(cluster, "_AT_ONCE", 70)  # of six rows
    for key, labels in cluster.nearest_of_each(rows, {"few": few, 9: many}).items():
        centroids = {"few": few, 9: many}[key]
        expected = [np.argmin([np.linalg.norm(row - c) for c in centroids]) for row in rows]
        np.testing.assert_array_equal(labels, expected)

"""The nearest centroids, compared with loops."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans

from keras_mmil.rules.fitting import cluster
from keras_mmil.rules.fitting.cluster import RowSample, WeightedRows, fit_centroids, nearest


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


def test_wide_rows_are_clustered_along_their_principal_axes():
    rng = np.random.default_rng(0)
    group, axes = rng.integers(0, 4, 300), rng.normal(size=(6, 200))
    factors = 5 * np.eye(6)[group] + rng.normal(size=(300, 6))
    rows = (factors @ axes + 0.05 * rng.normal(size=(300, 200)) + 7).astype(np.float32)
    sample = WeightedRows(rows, rng.integers(1, 4, 300))
    assert sample.compact.shape == (300, 6)
    np.testing.assert_allclose(pdist(sample.compact), pdist(rows), rtol=0.02)
    np.testing.assert_array_equal(WeightedRows(rows[:, :6], sample.weights).compact, rows[:, :6])

    found = fit_centroids(sample, 4, seed=0)
    expected = KMeans(4, n_init=3, random_state=0).fit(rows, sample_weight=sample.weights)
    order = np.argsort(-np.bincount(expected.labels_, sample.weights), kind="stable")
    np.testing.assert_allclose(found, expected.cluster_centers_[order], atol=1e-3)


def test_rows_that_differ_little_have_clusters_of_their_own():
    rows = np.zeros((30, 100), np.float32)
    rows[:, 0] = np.arange(30) % 2
    rows[:, 1] = 1e-3 * (np.arange(30) % 3)  # a millionth of the variance
    found = fit_centroids(WeightedRows(rows, np.ones(30)), 6, seed=0)
    np.testing.assert_allclose(np.unique(found, axis=0), np.unique(rows, axis=0), atol=1e-6)
    equal = WeightedRows(np.ones((30, 100), np.float32), np.ones(30))
    np.testing.assert_array_equal(fit_centroids(equal, 1, seed=0), equal.rows[:1])


def test_row_sample_is_uniform_and_keeps_weights():
    drawn = np.zeros(40)
    for seed in range(500):
        sample = RowSample(10, seed)
        for start in range(0, 40, 8):
            rows = np.arange(start, start + 8, dtype=np.float32)[:, None]
            texts = rows[:, 0].astype(str).astype(object)
            sample.add(
                start // 8,
                rows,
                np.where(rows[:, 0] == 3, 0.0, rows[:, 0] + 1),
                (texts, rows[:, 0]),
            )
        found = sample.rows()
        rows, weights = found.rows, found.weights
        assert rows.shape == (10, 1)
        assert sample.n_seen == 40
        np.testing.assert_array_equal(weights, rows[:, 0] + 1)
        assert [float(text) for text in found.values[0]] == found.values[1].tolist()
        np.testing.assert_array_equal(found.values[1], rows[:, 0])
        assert (np.diff(rows[:, 0]) > 0).all()
        drawn[rows[:, 0].astype(int)] += 1
    assert drawn[3] == 0
    expected = 500 * 10 / 39
    assert (abs(np.delete(drawn, 3) - expected) < 5 * expected**0.5).all()


def sampled(numbers, size=10, level=0):
    """A sample of the batches of these numbers, of eight rows each."""
    sample = RowSample(size, seed=3, level=level)
    for number in numbers:
        rows = 8 * number + np.arange(8, dtype=np.float32)[:, None]
        sample.add(number, rows, np.ones(8), (rows[:, 0],))
    return sample


@pytest.mark.parametrize("size", [1, 10, 39, 1000])
@pytest.mark.parametrize("ends", [(5,), (1, 5), (2, 3, 5), (1, 2, 3, 4, 5)])
def test_samples_of_blocks_are_the_sample_of_all(ends, size):
    merged = RowSample(size, seed=3)
    for start, stop in zip((0, *ends), ends, strict=False):
        merged.merge(sampled(range(start, stop), size))
    ours, theirs = merged.rows(), sampled(range(5), size).rows()
    assert merged.n_seen == 40
    assert len(ours.rows) == min(size, 40)
    np.testing.assert_array_equal(ours.rows, theirs.rows)
    np.testing.assert_array_equal(ours.weights, theirs.weights)
    np.testing.assert_array_equal(ours.values[0], theirs.values[0])


def test_levels_are_sampled_independently():
    ours, theirs = (sampled(range(5), level=level).rows().rows for level in (0, 1))
    assert not np.array_equal(ours, theirs)

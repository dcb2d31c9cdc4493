"""Samples of rows."""

import numpy as np
import pytest

from keras_mmil.interpretation.fitting.sample import RowSample


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
        found = sample.draw()
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


def sample_of(numbers, size=10, level=0):
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
        merged.merge(sample_of(range(start, stop), size))
    ours, theirs = merged.draw(), sample_of(range(5), size).draw()
    assert merged.n_seen == 40
    assert len(ours.rows) == min(size, 40)
    np.testing.assert_array_equal(ours.rows, theirs.rows)
    np.testing.assert_array_equal(ours.weights, theirs.weights)
    np.testing.assert_array_equal(ours.values[0], theirs.values[0])


def test_levels_are_sampled_independently():
    ours, theirs = (sample_of(range(5), level=level).draw().rows for level in (0, 1))
    assert not np.array_equal(ours, theirs)

"""Samples of rows."""

import numpy as np

from keras_mmil.interpretation.fitting.sample import RowSample


def test_row_sample_is_uniform_and_keeps_weights():
    drawn = np.zeros(40)
    for seed in range(500):
        sample = RowSample(10, seed)
        for start in range(0, 40, 8):
            rows = np.arange(start, start + 8, dtype=np.float32)[:, None]
            texts = rows[:, 0].astype(str).astype(object)
            sample.add(rows, np.where(rows[:, 0] == 3, 0.0, rows[:, 0] + 1), (texts, rows[:, 0]))
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

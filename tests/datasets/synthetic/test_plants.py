"""Made-up floras: neighbouring regions are alike."""

import numpy as np

from keras_mmil.datasets import synthetic


def test_flora():
    made = synthetic.load_flora(seed=2)
    assert made.presence.shape == (300, 40)
    assert 0.05 < made.presence.mean() < 0.6
    np.testing.assert_array_equal(made.presence, synthetic.load_flora(seed=2).presence)
    near = made.hamming_distances()[np.arange(299), np.arange(1, 300)]
    assert near.mean() < made.hamming_distances().mean()  # neighbours are alike

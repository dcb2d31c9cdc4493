"""Made-up clouds are balanced and normalised."""

import numpy as np

from keras_mmil.builders import clouds
from keras_mmil.datasets import synthetic


def test_clouds():
    x, y = synthetic.load_clouds(80, 50, seed=3)
    assert x.shape == (80, 50, 3)
    assert np.bincount(y).tolist() == [20] * len(synthetic.clouds.SHAPES)
    np.testing.assert_allclose(x, clouds.normalise(x), atol=1e-5)
    np.testing.assert_array_equal(x, synthetic.load_clouds(80, 50, seed=3)[0])
    assert not np.array_equal(x, synthetic.load_clouds(80, 50, seed=4)[0])

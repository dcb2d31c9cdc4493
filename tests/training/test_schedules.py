"""Learning rates by epoch."""

import numpy as np
import pytest

from keras_mmil.training import cosine_decay, piecewise_constant


def test_cosine_decay():
    rates = [cosine_decay(0.1, 4)(epoch) for epoch in range(4)]
    np.testing.assert_allclose(rates, [0.1, 0.0853553, 0.05, 0.0146447], rtol=1e-5)


def test_piecewise_constant():
    rate = piecewise_constant({7: 1e-4, 0: 1e-3, 10: 1e-5})
    assert [rate(epoch) for epoch in (0, 1, 6, 7, 9, 10, 500)] == [1e-3] * 3 + [1e-4] * 2 + [
        1e-5
    ] * 2
    with pytest.raises(ValueError, match=r"for epoch 0. Received: rates=\{1: 0.1\}"):
        piecewise_constant({1: 0.1})

"""Learning rates by epoch."""

import numpy as np
import pytest

from keras_mmil.training import cosine_decay, step_decay


def test_cosine_decay():
    rates = [cosine_decay(0.1, 4)(epoch) for epoch in range(4)]
    np.testing.assert_allclose(rates, [0.1, 0.0853553, 0.05, 0.0146447], rtol=1e-5)


@pytest.mark.parametrize(
    ("epochs", "starts"), [(12, (7, 10)), (20, (12, 17)), (3, (2, 3)), (1, (1, 1))]
)
def test_step_decay(epochs, starts):
    rate = step_decay(0.1, epochs, at=(7 / 12, 10 / 12), divisor=2)
    expected = [0.1 * 0.5 ** ((e >= starts[0]) + (e >= starts[1])) for e in range(25)]
    np.testing.assert_allclose([rate(e) for e in range(25)], expected)


def test_step_decay_needs_shares():
    with pytest.raises(ValueError, match=r"from 0 to 1. Received: at=\(0.5, 3\)"):
        step_decay(0.1, 10, at=(0.5, 3))

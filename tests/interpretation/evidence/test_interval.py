"""Exact intervals of shares."""

import json

import numpy as np
import pytest
from scipy.stats import beta, binom

from keras_mmil.interpretation.evidence.interval import interval


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (1, 1), (957, 1000)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_ends_are_quantiles_of_beta_distributions(k, n, level):
    found = interval(k, n, level)
    tail = (1 - level) / 2
    low = beta.ppf(tail, k, n - k + 1) if k else 0
    high = beta.ppf(1 - tail, k + 1, n - k) if k < n else 1
    np.testing.assert_allclose([found.low, found.high], [low, high], atol=1e-9)
    assert (found.estimate, found.n, found.k) == (k / n, n, k)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.93])
def test_the_true_share_is_inside_with_the_probability(share):
    """Not by simulation: summed over all counts there can be."""
    n = 40
    inside = [found.low <= share <= found.high for found in (interval(k, n) for k in range(n + 1))]
    assert binom.pmf(np.arange(n + 1), n, share)[inside].sum() >= 0.95


def test_of_nothing():
    found = interval(0, 0)
    assert (found.low, found.high) == (0, 1)
    assert np.isnan(found.estimate)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["estimate"] is None
    assert str(found) == "unknown (0.0 % to 100.0 %)"
    assert str(interval(1, 2)) == "50.0 % (1.3 % to 98.7 %)"

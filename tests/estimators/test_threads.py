"""Estimators that are fitted at once in threads are those fitted one after the other."""

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import own_records
import pytest

from keras_mmil import NestedClassifier

RECORDS = [
    {"orders": record["orders"], "segment": record["segment"]}
    for record in own_records.customers(40)
]


@pytest.mark.slow
def test_threads_do_not_disturb_each_other():
    barrier = Barrier(2)

    def fitted(seed, *, at_once):
        if at_once:
            barrier.wait(60)
        estimator = NestedClassifier(
            units=4, dropout=0.3, epochs=2, patience=None, learning_rate=0.01, random_state=seed
        )
        return estimator.fit(RECORDS, "segment").predict_proba(RECORDS)

    expected = [fitted(seed, at_once=False) for seed in (0, 1)]
    assert not np.allclose(*expected)
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda seed: fitted(seed, at_once=True), (0, 1)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert random.getstate() == before[0]
    for one, other in zip(np.random.get_state(), before[1], strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(one, other)

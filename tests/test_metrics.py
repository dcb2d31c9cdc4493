"""The loss and the metric for what was seen and what was overlooked."""

import keras
import numpy as np
import pytest

from keras_mmil.datasets import plants
from keras_mmil.losses import seen_crossentropy
from keras_mmil.metrics import OverlookedPrecision


def example(seed, n=40, things=12):
    rng = np.random.default_rng(seed)
    truth = rng.random((n, things)) < rng.random((n, 1))
    known = truth & (rng.random((n, things)) < 0.6)
    scores = rng.random((n, things)).round(1).astype("float32")  # with ties
    return np.where(known, 1, np.where(truth, 2, 0)), scores, known, truth


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_is_the_function_for_arrays(seed, dtype):
    labels, scores, known, truth = example(seed)
    metric = OverlookedPrecision()
    for part in np.array_split(np.arange(len(labels)), 3):
        metric.update_state(labels[part].astype(dtype), scores[part])
    each = plants.mean_average_precision(scores, known, truth)
    np.testing.assert_allclose(float(metric.result()), np.nanmean(each), rtol=1e-6)
    metric.reset_state()
    assert np.isnan(metric.result())


def test_weights():
    labels, scores, known, truth = example(5)
    weights = np.arange(len(labels)) % 3
    metric = OverlookedPrecision()
    metric.update_state(labels, scores, sample_weight=weights)
    each = plants.mean_average_precision(scores, known, truth)
    there = ~np.isnan(each)
    expected = np.average(each[there], weights=weights[there])
    np.testing.assert_allclose(float(metric.result()), expected, rtol=1e-6)


def test_loss_takes_the_overlooked_for_absent():
    labels, scores, known, _ = example(1)
    scores = scores.clip(0.01, 0.99)
    expected = -np.where(known, np.log(scores), np.log1p(-scores)).mean(axis=1)
    np.testing.assert_allclose(seen_crossentropy(labels, scores), expected, rtol=1e-4)


def test_with_a_model(tmp_path):
    labels, scores, known, truth = example(2)
    model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(12, activation="sigmoid")])
    model.compile("adam", seen_crossentropy, metrics=[OverlookedPrecision()])
    model.fit(scores, known.astype("int8"), epochs=1, verbose=0)
    found = model.evaluate(scores, labels, verbose=0, return_dict=True)
    predicted = model.predict(scores, verbose=0)
    each = plants.mean_average_precision(predicted, known, truth)
    np.testing.assert_allclose(found["map"], np.nanmean(each), rtol=1e-5)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.evaluate(scores, labels, verbose=0, return_dict=True) == pytest.approx(found)

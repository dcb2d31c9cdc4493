"""Losses that Keras lacks."""

import keras
import numpy as np
import pytest

from keras_mmil.losses import SmoothedCrossentropy, seen_crossentropy


def test_it_is_the_closed_form():
    rng = np.random.default_rng(0)
    predicted = rng.dirichlet(np.ones(5), size=7).astype("float32")
    labels = rng.integers(0, 5, 7)
    targets = np.full((7, 5), 0.3 / 5)
    targets[np.arange(7), labels] += 0.7
    expected = -(targets * np.log(predicted)).sum(axis=1).mean()
    for shape in ([7], [7, 1]):
        loss = SmoothedCrossentropy(0.3)(labels.reshape(shape), predicted)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_without_smoothing_it_is_keras_own():
    predicted = keras.random.uniform([4, 3], seed=1)
    predicted /= keras.ops.sum(predicted, axis=1, keepdims=True)
    labels = np.array([0, 2, 1, 2])
    expected = keras.losses.SparseCategoricalCrossentropy()(labels, predicted)
    np.testing.assert_allclose(SmoothedCrossentropy(0)(labels, predicted), expected, rtol=1e-5)


def test_it_is_saved_with_its_smoothing():
    config = keras.losses.serialize(SmoothedCrossentropy(0.2))
    assert keras.losses.deserialize(config).label_smoothing == 0.2


@pytest.mark.parametrize("label_smoothing", [-0.1, 1.5, float("nan")])
def test_smoothing_is_a_share(label_smoothing):
    with pytest.raises(ValueError, match=f"label_smoothing={label_smoothing}"):
        SmoothedCrossentropy(label_smoothing)


def test_what_was_overlooked_counts_as_absent():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, (40, 12))
    scores = rng.random((40, 12)).clip(0.01, 0.99).astype("float32")
    expected = -np.where(labels == 1, np.log(scores), np.log1p(-scores)).mean(axis=1)
    np.testing.assert_allclose(seen_crossentropy(labels, scores), expected, rtol=1e-4)

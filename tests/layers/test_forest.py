"""Trees as layers, against scikit-learn; and pools of predictions."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn import ensemble

from keras_mmil.layers import Forest, Pool

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(2, 300, 6)).astype(np.float32)
TWO = (X[:, 0] * X[:, 1] + RNG.normal(0, 0.3, 300) > 0).astype(int)
THREE = TWO + (X[:, 2] > 0.5)
NUMBER = X[:, 0] * 3 + 5
QUICK = {"n_estimators": 20, "random_state": 0}


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("name", ["RandomForest", "ExtraTrees", "HistGradientBoosting"])
def test_classes_are_as_in_scikit_learn(name, y):
    arguments = {"random_state": 0} if name.startswith("Hist") else QUICK
    trees = getattr(ensemble, f"{name}Classifier")(**arguments).fit(X, y)
    expected = trees.predict_proba(NEW)
    found = Forest.of(trees)(NEW)
    np.testing.assert_allclose(found, expected[:, -found.shape[1] :], atol=1e-6)


def test_numbers_are_as_in_scikit_learn():
    boosted = ensemble.HistGradientBoostingRegressor(random_state=0).fit(X, NUMBER)
    np.testing.assert_allclose(Forest.of(boosted)(NEW)[:, 0], boosted.predict(NEW), rtol=1e-5)
    two = [
        kind(**QUICK).fit(X, X[:, :2])
        for kind in (ensemble.RandomForestRegressor, ensemble.ExtraTreesRegressor)
    ]
    mean = np.mean([each.predict(NEW) for each in two], axis=0)
    np.testing.assert_allclose(Forest.of(*two)(NEW), mean, atol=1e-5)


def test_a_value_at_a_threshold_goes_where_it_goes_in_scikit_learn():
    x = np.array([[0.1], [0.3], [0.3000001], [0.7]], np.float32)
    trees = ensemble.RandomForestRegressor(30, random_state=0).fit(x, [0.0, 1.0, 2.0, 3.0])
    at = np.unique([each.tree_.threshold[0] for each in trees.estimators_]).astype(np.float32)
    near = np.concatenate([np.nextafter(at, np.float32(-9)), at, np.nextafter(at, np.float32(9))])
    expected = trees.predict(near[:, None])
    np.testing.assert_allclose(Forest.of(trees)(near[:, None])[:, 0], expected, rtol=1e-6)


def test_a_saved_network_holds_its_trees(tmp_path):
    trees = ensemble.ExtraTreesClassifier(**QUICK).fit(X, TWO)
    inputs = keras.Input((6,))
    two = [keras.layers.Dense(2, activation="softmax")(inputs), Forest.of(trees)(inputs)]
    model = keras.Model(inputs, Pool([0.7, 0.6], "softmax")(two))
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(again(NEW), model(NEW))
    assert not Forest.of(trees).trainable_weights


def test_pools():
    p, q = np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([[0.6, 0.4], [0.2, 0.8]])
    product = p**0.5 * q**2
    expected = product / product.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(Pool([0.5, 2.0], "softmax")([p, q]), expected, rtol=1e-5)
    of_second = Pool([0.5, 2.0], "sigmoid")([p[:, 1:], q[:, 1:]])
    np.testing.assert_allclose(of_second, expected[:, 1:], rtol=1e-5)
    np.testing.assert_allclose(Pool([0.5, 2.0], "linear")([p, q]), 0.5 * p + 2 * q, rtol=1e-6)
    certain = tf.constant([[0.0], [1.0]])
    np.testing.assert_array_equal(Pool([1.0], "sigmoid")([certain]), certain)
    assert np.isfinite(Pool([1.0, 1.0], "sigmoid")([certain, 1 - certain])).all()
    for arguments in (([-1.0], "sigmoid"), ([1.0], "relu")):
        with pytest.raises(ValueError, match="Received: "):
            Pool(*arguments)
    with pytest.raises(ValueError, match="expected 2 predictions"):
        Pool([1.0, 1.0], "linear")([p])

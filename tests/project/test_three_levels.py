"""Bags of bags of bags, from their data to a saved network and its saved rules."""

import keras
import numpy as np
import pytest

import keras_mmil
from keras_mmil.datasets.synthetic import points
from keras_mmil.layers import BagLayer
from keras_mmil.testing import predict_in_fresh_process

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data():
    return points.load_three_level(n_train=500, n_valid=150, n_test=200)


@pytest.fixture(scope="module")
def model(data):
    (x, y), *_ = data
    keras.utils.set_random_seed(0)
    bags = keras.Input((None, None, None, 2), ragged=True)
    hidden = BagLayer(16)(BagLayer(16)(BagLayer(16)(bags)))
    model = keras_mmil.Model(bags, keras.layers.Dense(1, activation="sigmoid")(hidden))
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    model.fit(x, y, epochs=15, batch_size=20, verbose=0)
    return model


def test_three_levels_are_trained_saved_loaded_and_explained(data, model, tmp_path):
    (x, _), (x_valid, _), (x_test, y_test) = data
    assert model.evaluate(x_test, y_test, verbose=0, return_dict=True)["accuracy"] >= 0.95

    explainer = keras_mmil.Explainer(max_clusters=4, verbose=0).fit(model, x, x_valid)
    assert [rows.word for rows in explainer.clusters_] == ["instance", "sub-bag", "level-2 bag"]
    assert [level.word for level in explainer.levels_] == ["sub-bag", "level-2 bag", "top-bag"]
    assert explainer.fidelity(x_test) >= 0.95

    model.save(tmp_path / "model.keras")
    explainer.save(tmp_path / "rules")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(x_test), model(x_test))
    again = keras_mmil.Explainer.load(tmp_path / "rules", loaded)
    assert again.rules_.text() == explainer.rules_.text()
    np.testing.assert_array_equal(again.predict(x_test), explainer.predict(x_test))


def test_three_levels_are_loaded_in_a_fresh_process(data, model):
    *_, (x_test, _) = data
    np.testing.assert_array_equal(predict_in_fresh_process(model, x_test), model(x_test))

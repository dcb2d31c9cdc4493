"""Data and models, checked before any work is done."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from random_networks import Concatenated, make_data, make_model, quick_explainer

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer, bag_inputs

Dense = keras.layers.Dense


def with_nan(x):
    values = x.flat_values.numpy()
    values[3, 1] = np.nan
    return x.with_flat_values(values)


@pytest.mark.parametrize(
    ("x", "match", "error"),
    [
        ([[1.0, 2.0]], "from_nested_lists.*Received: x of type list", TypeError),
        ("bags", "Received: x of type str", TypeError),
        (np.array([[1.0], None], object), "numbers. Received: x of dtype object", TypeError),
        (tf.ragged.constant([[["a", "b"]]]), "numbers. Received: x of dtype string", TypeError),
        (make_data(depth=2), r"nesting of the model's input.*Received: x.shape=\(30", ValueError),
        (make_data()[:0], r"at least one top-bag. Received: x.shape=\(0", ValueError),
        (with_nan(make_data()), "NaN or infinite. Received: x.*=nan", ValueError),
    ],
)
def test_data_that_do_not_fit(x, match, error):
    model = make_model()
    with pytest.raises(error, match=match):
        quick_explainer().fit(model, x)
    with pytest.raises(error, match=match.replace("Received: x", "Received: x_valid")):
        quick_explainer().fit(model, make_data(), x)


def test_data_without_instances():
    x = ragged.from_flat(np.zeros((0, 2), np.float32), [np.zeros(9, int)])
    with pytest.raises(ValueError, match=r"members in some.* Received: x with empty"):
        quick_explainer().fit(make_model(), x, make_data())


def test_several_inputs():
    inputs = keras.Input((None, 2), ragged=True), keras.Input((None, 3), ragged=True)
    model = keras.Model(inputs, Dense(1, activation="sigmoid")(BagLayer(3)(Concatenated()(inputs))))
    x = make_data()
    data = x, x.with_flat_values(np.zeros((x.flat_values.shape[0], 3), np.float32))
    target = (0, float(np.median(model(data))))
    assert quick_explainer(target=target).fit(model, data).predict(data).shape == (30,)
    with pytest.raises(ValueError, match=r"Received: x\[1\].shape=\(30,\)"):
        quick_explainer(target=target).fit(model, (data[0], np.zeros(30)))
    with pytest.raises(ValueError, match=r"Expected 2 inputs in a list"):
        quick_explainer(target=target).fit(model, data[0])


def test_unknown_inputs():
    bags = bag_inputs(1)["bags"]
    outputs = Dense(1, activation="sigmoid")(BagLayer(2, vocabulary_size=3)(bags))
    model = keras_mmil.Model({"bags": bags}, outputs)
    ids = ragged.from_nested_lists([[0, 1], [2]])
    with pytest.raises(ValueError, match=r"Expected inputs among \['bags'\]. Received: x with"):
        quick_explainer().fit(model, {"bags": ids, "keys": ids})

"""Functional models cut in two, and applied to other inputs."""

import keras
import numpy as np
import pytest

import keras_mmil
from keras_mmil.layers import Distinct, bag_inputs
from keras_mmil.model.run import Cut, reapply

BRANCHED = ("first", "left", "right", "sum", "beside", "outputs")


def branched_model():
    """Two branches that meet, with the input beside them; a dict of outputs."""
    inputs = {"a": keras.Input((3,), name="a"), "b": keras.Input((2,), name="b")}
    first = keras.layers.Dense(4, activation="tanh", name="first")(inputs["a"])
    left = keras.layers.Dense(5, activation="tanh", name="left")(first)
    right = keras.layers.Dense(5, name="right")(first)
    both = keras.layers.Add(name="sum")([left, right])
    beside = keras.layers.Concatenate(name="beside")([inputs["b"], both])
    outputs = keras.layers.Dense(2, name="outputs")(beside)
    return keras.Model(inputs, {"y": outputs, "left": left})


def some_inputs(n=6):
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(n, m)).astype("float32") for name, m in {"a": 3, "b": 2}.items()}


@pytest.mark.parametrize("layer", BRANCHED)
def test_both_halves_make_the_model(layer):
    model, x = branched_model(), some_inputs()
    cut = Cut(model, layer)
    h, values = cut.below(x, training=False)
    expected = keras.Model(model.inputs, model.get_layer(layer).output)(list(x.values()))
    np.testing.assert_allclose(h, expected, rtol=1e-6)
    outputs = cut.above(h, values, training=False)
    for name, y in model(x).items():
        np.testing.assert_allclose(outputs[name], y, rtol=1e-6)


def test_the_upper_half_for_another_h():
    model, x = branched_model(), some_inputs()
    cut = Cut(model, "left")
    _, values = cut.below(x, training=False)
    h = np.random.default_rng(1).normal(size=(6, 5)).astype("float32")
    outputs = cut.above(h, values, training=False)
    weights = {layer.name: layer.get_weights() for layer in model.layers}
    first = np.tanh(x["a"] @ weights["first"][0] + weights["first"][1])
    right = first @ weights["right"][0] + weights["right"][1]
    beside = np.hstack([x["b"], h + right])
    expected = beside @ weights["outputs"][0] + weights["outputs"][1]
    np.testing.assert_allclose(outputs["y"], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(outputs["left"], h)


def test_both_halves_know_whether_this_is_training():
    inputs = keras.Input((50,))
    h = keras.layers.Dropout(0.5, name="h")(inputs)
    model = keras.Model(inputs, keras.layers.Dropout(0.5)(h))
    cut, ones = Cut(model, "h"), np.ones((20, 50), "float32")
    for training, expected in ((False, {1.0}), (True, {0.0, 2.0})):
        h, values = cut.below(ones, training)
        assert set(np.unique(h)) == expected
        assert set(np.unique(cut.above(ones, values, training))) == expected


def test_layers_to_cut_at():
    inputs = keras.Input((3,))
    twice = keras.layers.Dense(3, name="twice")
    model = keras.Model(inputs, twice(twice(inputs)))
    with pytest.raises(ValueError, match="layer='twice', called 2 times"):
        Cut(model, "twice")
    with pytest.raises(ValueError, match=r"among \['twice'.*layer='thrice', called 0 times"):
        Cut(model, "thrice")
    bags = bag_inputs(1)
    rows, (members, _) = Distinct(name="distinct")(bags)
    with pytest.raises(ValueError, match=r"one output.*layer='distinct', called 1 times"):
        Cut(keras.Model(bags, [rows, members]), "distinct")


def test_reapply():
    model, x = branched_model(), some_inputs()
    raw = keras.Input((7,), name="raw")
    new_inputs = {
        name: keras.layers.Dense(m, name=f"new_{name}")(raw) for name, m in {"a": 3, "b": 2}.items()
    }
    again = keras_mmil.Model(raw, reapply(model, new_inputs))
    assert {layer.name for layer in again.layers} == {"raw", "new_a", "new_b", *BRANCHED}
    for name in BRANCHED:
        assert again.get_layer(name) is model.get_layer(name)
    x = np.random.default_rng(2).normal(size=(4, 7)).astype("float32")
    between = {name: again.get_layer(f"new_{name}")(x) for name in ("a", "b")}
    model.get_layer("left").kernel.assign_add(np.ones((4, 5)))  # shared, not copied
    for name, y in model(between).items():
        np.testing.assert_allclose(again(x)[name], y, rtol=1e-5)

"""Targets: from the outputs of a network to the classes of top-bags."""

import keras
import numpy as np
import pytest
from random_networks import make_data, make_model, quick_explainer

from keras_mmil.layers import BagLayer
from keras_mmil.rules.network.targets import resolve_target

Dense = keras.layers.Dense


LOSSES = keras.losses


OUTPUTS = np.array([[-1.0, 0.7, 0.1], [0.6, 0.2, 0.3]], np.float32)


@pytest.mark.parametrize(
    ("units", "activation", "loss", "target", "labels"),
    [
        (1, "sigmoid", None, None, [0, 1]),
        (1, "linear", LOSSES.BinaryCrossentropy(from_logits=True), None, [0, 1]),
        (3, "softmax", None, None, [1, 0]),
        (3, "linear", LOSSES.SparseCategoricalCrossentropy(from_logits=True), None, [1, 0]),
        (3, "softmax", None, 1, [1, 0]),
        (3, "softmax", None, np.int64(2), [0, 0]),
        (3, "sigmoid", None, 1, [1, 0]),
        (3, "linear", LOSSES.BinaryCrossentropy(from_logits=True), 2, [1, 1]),
        (3, "linear", "mse", (2, 0.2), [0, 1]),
        (3, "linear", None, lambda y: y.argmin(axis=1), [0, 1]),
    ],
)
def test_labels_of_outputs(units, activation, loss, target, labels):
    resolved = resolve_target(make_model(units, activation, loss=loss), target)
    found = resolved.labels(OUTPUTS[:, :units])
    np.testing.assert_array_equal(found, labels)
    assert found.dtype == np.int32


def test_targets_of_operations_and_softmax_layers():
    inputs = keras.Input((None, 2), ragged=True)
    x = Dense(1)(BagLayer(3)(inputs))
    assert resolve_target(keras.Model(inputs, keras.ops.sigmoid(x))).threshold == 0.5
    x = keras.layers.Softmax()(Dense(3)(BagLayer(3)(inputs)))
    assert resolve_target(keras.Model(inputs, x)).kind == "argmax"


@pytest.mark.parametrize(
    ("units", "activation", "target", "match"),
    [
        (1, "linear", None, "Received: target=None, 1 outputs, no activation known"),
        (3, "sigmoid", None, "Received: target=None, 3 outputs, sigmoid"),
        (3, "softmax", 3, "one of 3 outputs.*Received: target=3"),
        (3, "softmax", -1, "Received: target=-1"),
        (3, "softmax", True, "Received: target=True"),
        (3, "softmax", "first", "Received: target='first'"),
        (3, "softmax", (5, 0.5), "Received: target=5"),
        (3, "linear", 0, r"target=\(index, threshold\).*Received: target=0"),
    ],
)
def test_targets_that_do_not_fit(units, activation, target, match):
    with pytest.raises(ValueError, match=match):
        resolve_target(make_model(units, activation), target)


def test_several_outputs_need_a_function():
    inputs = keras.Input((None, 2), ragged=True)
    x = BagLayer(3)(inputs)
    model = keras.Model(inputs, {"a": Dense(1, name="a")(x), "b": Dense(2, name="b")(x)})
    with pytest.raises(ValueError, match="Received: target=None, 2 outputs"):
        quick_explainer().fit(model, make_data())
    x = make_data(60)
    middle = float(np.median(model(x)["a"]))
    fit = quick_explainer(target=lambda y: (y["a"][:, 0] > middle).astype(int)).fit(model, x)
    assert fit.classes_ == ("negative", "positive")
    assert set(fit.predict(x)) == {0, 1}


@pytest.mark.parametrize(
    "labels", [lambda y: y, lambda y: y[:, 0], lambda y: -np.ones(len(y), int)]
)
def test_functions_that_return_no_labels(labels):
    with pytest.raises(ValueError, match="Expected target to return 24 integer labels ≥ 0"):
        quick_explainer(target=labels).fit(make_model(), make_data())


def test_image_outputs_are_no_classes():
    inputs = keras.Input((None, 2), ragged=True)
    model = keras.Model(inputs, keras.layers.Reshape((3, 1))(BagLayer(3)(inputs)))
    with pytest.raises(ValueError, match=r"shape \(None, 3, 1\)"):
        resolve_target(model)


@pytest.mark.parametrize(
    ("units", "activation", "target", "y", "expected"),
    [
        (1, "sigmoid", None, [0, 1, 1], [0, 1, 1]),
        (1, "sigmoid", None, [[0.0], [1.0]], [0, 1]),
        (1, "sigmoid", None, [[1, 0], [0, 1]], [0, 1]),
        (1, "sigmoid", None, [True, False], [1, 0]),
        (3, "softmax", None, [[0, 0, 1], [1, 0, 0]], [2, 0]),
        (3, "softmax", 1, [2, 1], [0, 1]),
        (3, "softmax", 1, [[0, 0, 1], [0, 1, 0]], [0, 1]),
        (2, "sigmoid", 1, [[1, 0], [0, 1]], [0, 1]),
        (2, "sigmoid", 1, [1, 0], [1, 0]),
    ],
)
def test_true_labels(units, activation, target, y, expected):
    target = resolve_target(make_model(units, activation), target)
    found = target.true_labels(y, len(y), target.n_classes())
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("y", "match"),
    [
        ([0, 2], "from 0 to 1. Received: y from 0 to 2"),
        ([-1, 0], "Received: y from -1 to 0"),
        ([0.5, 1], r"y of shape \(2,\) and dtype float64"),
        (["a", "b"], "dtype <U1"),
        ([[0, 1, 0]], r"y of shape \(1, 3\)"),
        ([np.nan, 1], "dtype float64"),
    ],
)
def test_labels_that_are_none(y, match):
    with pytest.raises(ValueError, match=match):
        resolve_target(make_model()).true_labels(y, len(y), 2)


@pytest.mark.parametrize(
    ("y", "match"),
    [
        ([True, False], "from 0 to 2, of which class 1 is the target. Received: booleans"),
        ([0, 3], "from 0 to 2. Received: y from 0 to 3"),
    ],
)
def test_labels_that_are_not_of_the_classes_that_a_target_is_one_of(y, match):
    target = resolve_target(make_model(3, "softmax"), 1)
    with pytest.raises(ValueError, match=match):
        target.true_labels(y, len(y), 2)

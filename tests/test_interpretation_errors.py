"""Targets, and what is refused: models that cannot be read, data and arguments that do not fit."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import ragged
from keras_mmil.interpretation import Explainer
from keras_mmil.interpretation.targets import resolve_target
from keras_mmil.layers import BagLayer, bag_inputs

Dense = keras.layers.Dense


def make_model(units=1, activation="sigmoid", depth=1, loss=None):
    inputs = keras.Input((None,) * depth + (2,), ragged=True, name="bags")
    x = inputs
    for level in range(depth):
        x = BagLayer(3, name=f"level_{level}")(x)
    model = keras_mmil.Model(inputs, Dense(units, activation=activation)(x))
    if loss is not None:
        model.compile("adam", loss)
    return model


def make_data(n=30, depth=1, seed=0):
    rng = np.random.default_rng(seed)
    sizes = [rng.integers(1, 4, n)]
    for _ in range(depth - 1):
        sizes.append(rng.integers(1, 4, sizes[-1].sum()))
    return ragged.from_flat(rng.normal(size=(sizes[-1].sum(), 2)).astype(np.float32), sizes)


def explainer(**arguments):
    return Explainer(**{"max_clusters": 3, "verbose": 0, **arguments})


# Targets ----------------------------------------------------------------------------------------

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
        explainer().fit(model, make_data())
    x = make_data(60)
    middle = float(np.median(model(x)["a"]))
    fit = explainer(target=lambda y: (y["a"][:, 0] > middle).astype(int)).fit(model, x)
    assert fit.classes_ == ("negative", "positive")
    assert set(fit.predict(x)) == {0, 1}


@pytest.mark.parametrize(
    "labels", [lambda y: y, lambda y: y[:, 0], lambda y: -np.ones(len(y), int)]
)
def test_functions_that_return_no_labels(labels):
    with pytest.raises(ValueError, match="Expected target to return 24 integer labels ≥ 0"):
        explainer(target=labels).fit(make_model(), make_data())


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


# Models -----------------------------------------------------------------------------------------


def refused(model, match, error=ValueError):
    with pytest.raises(error, match=match):
        explainer().fit(model, make_data())


def test_not_a_model():
    refused("mnist", "Received: model of type str", TypeError)


def test_not_functional():
    class Subclassed(keras.Model):
        def call(self, x):
            return x

    refused(Subclassed(name="sub"), "functional model.*Received: model='sub' of type Subclassed")
    refused(keras.Sequential([Dense(1)], name="unbuilt"), "Received: model='unbuilt'")


def test_no_bag_layers():
    inputs = keras.Input((2,))
    model = keras.Model(inputs, Dense(1)(inputs), name="flat")
    refused(model, "with bag-layers. Received: model='flat'")


def test_bag_layer_used_twice():
    layer = BagLayer(2, name="shared")
    inputs = keras.Input((None, None, 2), ragged=True)
    refused(keras.Model(inputs, Dense(1)(layer(layer(inputs)))), "Received: layer='shared'")


def test_bag_layer_of_another_model_is_used_once_in_this_one():
    layer = BagLayer(2)
    first, second = (keras.Input((None, 2), ragged=True) for _ in range(2))
    keras.Model(first, Dense(1)(layer(first)))
    model = keras.Model(second, Dense(1)(layer(second)))
    x = make_data()
    target = (0, float(np.median(model(x))))
    assert explainer(target=target).fit(model, x).fidelity_ >= 0


def test_parallel_bag_layers():
    inputs = keras.Input((None, 2), ragged=True)
    x = keras.layers.Concatenate()([BagLayer(2, name="a")(inputs), BagLayer(2, name="b")(inputs)])
    refused(keras.Model(inputs, Dense(1)(x)), "several aggregations. Received: layers 'b' and 'a'")


def test_hidden_bag_layers():
    inputs = keras.Input((None, 2), ragged=True)
    inner = keras.Model(inputs, BagLayer(2, name="deep")(inputs), name="inner")
    outer = keras.Input((None, 2), ragged=True)
    refused(keras.Model(outer, Dense(1)(inner(outer))), "layer='deep' in 'inner'")


def test_bags_that_are_not_the_rows_above():
    inputs = keras.Input((None, 2), ragged=True)
    lower = BagLayer(2, name="lower")(inputs)
    pairs = keras.layers.Reshape((1, 2))(lower)
    doubled = keras.layers.Concatenate(axis=1)([pairs, pairs])
    model = keras.Model(inputs, Dense(1, activation="sigmoid")(BagLayer(2)(doubled)))
    refused(model, "layer='lower' with 24 bags, 48 above")


# Data -------------------------------------------------------------------------------------------


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
        explainer().fit(model, x)
    with pytest.raises(error, match=match.replace("Received: x", "Received: x_valid")):
        explainer().fit(model, make_data(), x)


def test_data_without_instances():
    x = ragged.from_flat(np.zeros((0, 2), np.float32), [np.zeros(9, int)])
    with pytest.raises(ValueError, match=r"at least 2 rows to cluster at level 'u'. Received: 0"):
        explainer().fit(make_model(), x, make_data())


def test_several_inputs():
    bags, extra = keras.Input((None, 2), ragged=True), keras.Input((3,))
    x = keras.layers.Concatenate()([BagLayer(3)(bags), extra])
    model = keras.Model([bags, extra], Dense(1, activation="sigmoid")(x))
    data = make_data(), np.zeros((30, 3), np.float32)
    target = (0, float(np.median(model([data[0], tf.constant(data[1])]))))
    assert explainer(target=target).fit(model, data).predict(data).shape == (30,)
    with pytest.raises(ValueError, match=r"Received: x\[1\].shape=\(30,\)"):
        explainer(target=target).fit(model, (data[0], data[1][:, 0]))


def test_unknown_inputs():
    bags = bag_inputs(1)["bags"]
    outputs = Dense(1, activation="sigmoid")(BagLayer(2, vocabulary_size=3)(bags))
    model = keras_mmil.Model({"bags": bags}, outputs)
    ids = ragged.from_nested_lists([[0, 1], [2]])
    with pytest.raises(ValueError, match=r"Expected inputs among \['bags'\]. Received: x with"):
        explainer().fit(model, {"bags": ids, "keys": ids})


def test_labels_of_the_wrong_length():
    x = make_data()
    model = make_model()
    fit = explainer(target=(0, float(np.median(model(x))))).fit(model, x)
    with pytest.raises(ValueError, match=r"each of 30 top-bags\. Received: y with 3 labels"):
        fit.score(x, [0, 1, 0])


def test_weights_that_changed():
    x = make_data()
    model = make_model()
    fit = explainer(target=(0, float(np.median(model(x))))).fit(model, x)
    model.set_weights([w + 1 for w in model.get_weights()])
    with pytest.raises(ValueError, match=r"fit again\. Received: model=.* with other weights"):
        fit.predict(x)


# Arguments --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"max_clusters": 1}, "max_clusters=1"),
        ({"max_clusters": (3, 3)}, r"each of 1 bag-layers.*max_clusters=\(3, 3\)"),
        ({"max_clusters": 2.5}, "max_clusters=2.5"),
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"n_clusters": ("3",)}, r"n_clusters=\('3',\)"),
        ({"n_clusters": 1000}, r"at least 1000 rows to cluster at level 'u'.*n_clusters=1000"),
        ({"features": "presence"}, "features='presence'"),
        ({"features": ("count", "count")}, r"features=\('count', 'count'\)"),
        ({"features": 3}, "features=3"),
        ({"class_names": ("one",)}, r"2 classes. Received: class_names=\('one',\)"),
        ({"class_names": ("same", "same")}, "class_names="),
        ({"class_names": "ab"}, "class_names='ab'"),
        ({"tolerance": -0.1}, "tolerance=-0.1"),
        ({"tolerance": "none"}, "tolerance='none'"),
        ({"validation_fraction": 2}, "validation_fraction=2"),
        ({"ccp_alpha": -1}, "ccp_alpha=-1"),
        ({"n_init": 0}, "n_init=0"),
        ({"metric": "cosine"}, "metric='cosine'"),
        ({"max_rows": 0}, "max_rows=0"),
        ({"batch_size": 0.5}, "batch_size=0.5"),
        ({"batch_size": True}, "batch_size=True"),
        ({"max_depth": 0}, "max_depth=0"),
        ({"max_depth": 1.5}, "max_depth=1.5"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"random_state": -1}, "random_state=-1"),
        ({"random_state": "seed"}, "random_state='seed'"),
    ],
)
def test_arguments_out_of_range(arguments, match):
    with pytest.raises(ValueError, match=f"Received: .*{match}|{match}"):
        explainer(**arguments).fit(make_model(), make_data())


# Warnings ---------------------------------------------------------------------------------------


def test_warning_where_clusters_are_more_than_points():
    points = np.repeat(np.float32([[1, 0], [0, 1], [1, 1]]), 10, axis=0)
    x = ragged.from_flat(points, [np.ones(30, int)])
    model = make_model()
    model.layers[1].set_weights([np.eye(2, 3), np.zeros(3), np.zeros(3)])
    target = (0, float(np.median(model(x))))
    with pytest.warns(UserWarning, match="Level 'u' has only 3 distinct points.*5 clusters"):
        fit = explainer(max_clusters=5, target=target).fit(model, x, x)
    assert {point.n_clusters for point in fit.grid_} == {(2,), (3,)}
    with pytest.warns(UserWarning, match="4 clusters"):
        fit = explainer(n_clusters=4, target=target).fit(model, x, x)
    assert fit.n_clusters_ == (3,)


def test_warning_where_everything_is_one_class():
    x = make_data()
    with pytest.warns(UserWarning, match="every top-bag into one class, 'positive'"):
        fit = explainer(target=(0, -1.0)).fit(make_model(), x)
    constant, _, _, rule, *_ = str(fit.rules_).splitlines()
    assert constant == "# CONSTANT: the rules put every top-bag into one class, 'positive'."
    assert rule.startswith("  1  positive.")
    assert fit.rules_.constant == "positive"
    assert fit.evaluate(x) == {"fidelity": 1.0, "fidelity_majority": 1.0}
    assert fit.majority_ == 1.0
    explanation = fit.explain(x[:1])[0]
    assert "because positive." in str(explanation)
    assert {part.role for part in explanation.top_bag.children} == {"does not matter"}
    with pytest.warns(UserWarning, match="only 1 distinct points|into one class"):
        flat = explainer(target=(0, -1.0)).fit(make_model(), tf.zeros_like(x))
    assert flat.n_clusters_ == (1,)
    assert flat.representatives(tf.zeros_like(x), 0, 0)[0].separation == np.inf

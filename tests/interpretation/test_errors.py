"""Targets, and what is refused: models that cannot be read, data and arguments that do not fit."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import ragged
from keras_mmil.interpretation import Explainer, RuleExtractor
from keras_mmil.interpretation.fitting import clustering
from keras_mmil.interpretation.network.targets import resolve_target
from keras_mmil.layers import BagLayer, Distinct, EquivariantBagLayer, InstanceWise, bag_inputs

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


# What joins a network beside its bag-layers -----------------------------------------------------


class Concatenated(keras.layers.Layer):
    """Ragged parts side by side, which Keras's own layer does not take."""

    def call(self, parts):
        return tf.concat(parts, axis=-1)

    def compute_output_spec(self, parts):
        units = sum(part.shape[-1] for part in parts)
        return keras.KerasTensor((*parts[0].shape[:-1], units), ragged=True)


def unreadable(inputs, outputs, match):
    """Nothing reads such a model, not even without any data."""
    model = keras.Model(inputs, outputs)
    with pytest.raises(ValueError, match=match):
        explainer().fit(model, None)
    with pytest.raises(ValueError, match=match):
        Explainer.load("nowhere", model)
    extractor = RuleExtractor(make_data())
    extractor.set_model(model)
    with pytest.raises(ValueError, match=match):
        extractor.on_train_begin()


def test_fields_of_top_bags():
    bags, extra = keras.Input((None, 2), ragged=True), keras.Input((3,), name="fields")
    x = keras.layers.Concatenate(name="join")([BagLayer(3, name="members")(bags), extra])
    unreadable([bags, extra], Dense(1)(x), "bag-layer 'members' alone.*'join' reads input 'fields'")
    x = keras.layers.Concatenate(name="join")([BagLayer(3)(bags), Dense(2, name="side")(extra)])
    match = r"Received: layer 'join' reads 'side', computed from \['fields'\]$"
    unreadable([bags, extra], Dense(1)(Dense(4)(x)), match)


def test_fields_of_sub_bags():
    bags = keras.Input((None, None, 2), ragged=True)
    fields = keras.Input((None, 3), ragged=True, name="fields")
    x = Concatenated(name="join")([BagLayer(3, name="lower")(bags), fields])
    x = BagLayer(3, name="upper")(x)
    match = "bag-layer 'upper' to be computed from bag-layer 'lower' alone.*input 'fields'"
    unreadable([bags, fields], Dense(1)(x), match)


def test_side_branches_of_compressed_bags():
    inputs = {**bag_inputs(2), "prices": keras.Input((), name="prices")}
    rows, sub_bags, top_bags = Distinct()({name: inputs[name] for name in bag_inputs(2)})
    x = BagLayer(3, vocabulary_size=5)(rows, *sub_bags)
    x = BagLayer(3, name="upper")(x, *top_bags)
    x = keras.layers.Multiply(name="scaled")([x, keras.layers.Reshape((1,))(inputs["prices"])])
    unreadable(inputs, Dense(1)(x), r"'scaled' reads 'reshape.*', computed from \['prices'\]")


def test_bag_layers_that_are_skipped():
    """What goes around a bag-layer is not in the labels of the bags."""
    bags = keras.Input((None, 4, 2), ragged=True, name="bags")
    lower = BagLayer(3, name="lower")(bags)
    means = keras.layers.Lambda(
        lambda x: tf.reduce_mean(tf.reduce_mean(x, axis=2), axis=1), output_shape=(2,), name="means"
    )(bags)
    x = keras.layers.Concatenate(name="join")([BagLayer(3)(lower), means])
    unreadable(bags, Dense(1)(x), r"'join' reads 'means', computed from \['bags'\]")
    sums = keras.layers.Lambda(
        lambda x: tf.reduce_sum(x, axis=1), output_shape=(3,), name="of_sub_bags"
    )(lower)
    x = keras.layers.Add(name="join")([BagLayer(3, name="upper")(lower), sums])
    match = r"bag-layer 'upper' alone.*'join' reads 'of_sub_bags', computed from \['bags'\]"
    unreadable(bags, Dense(1)(x), match)


def test_outputs_that_are_of_another_input():
    bags, other = keras.Input((None, 2), ragged=True), keras.Input((3,), name="other")
    outputs = [Dense(1)(BagLayer(3)(bags)), Dense(2, name="aside")(other)]
    unreadable([bags, other], outputs, r"the model's output reads 'aside', computed from \['other'")


def test_bag_layers_that_only_weigh():
    """The lower bag-layer says how much the rows above count, which are of another input."""
    bags = keras.Input((None, None, 2), ragged=True)
    fields = keras.Input((None, 3), ragged=True, name="fields")
    weigh = keras.layers.Lambda(lambda x: x[..., 0], output_shape=(None,))
    weights = weigh(BagLayer(1, name="lower")(bags))
    x = BagLayer(3, name="upper")(fields, weights=weights)
    unreadable([bags, fields], Dense(1)(x), "Received: bag-layer 'upper' reads input 'fields'")


def test_bags_that_are_mixed():
    """Rules cannot say that a sub-bag is what it is because of those beside it."""
    data = make_data(depth=2)
    for mix in (
        EquivariantBagLayer(3, name="mixed"),
        keras.layers.Lambda(
            lambda x: x - tf.reduce_mean(x, axis=1, keepdims=True),
            output_shape=(None, 3),
            name="mixed",
        ),
    ):
        inputs = keras.Input((None, None, 2), ragged=True)
        x = BagLayer(3, name="upper")(mix(BagLayer(3, "tanh", name="lower")(inputs)))
        model = keras.Model(inputs, Dense(1, activation="sigmoid")(x))
        match = r"Received: \['mixed'\] above bag-layer 'lower', by which bags change with others"
        with pytest.raises(ValueError, match=match):
            explainer().fit(model, data)
        with pytest.raises(ValueError, match=match):
            explainer().check(model, data)


def test_what_stands_between_bag_layers():
    """Layers that take one row at a time, on any path that comes from the bag-layer below."""
    inputs, extra = (
        keras.Input((None, None, 2), ragged=True),
        keras.Input((None, None, 1), ragged=True),
    )
    x = Concatenated()([inputs, extra])  # instances may be of several inputs
    lower = BagLayer(4, "tanh", aggregation="mean")(InstanceWise(Dense(4))(x))
    x = InstanceWise(keras.Sequential([Dense(4), keras.layers.BatchNormalization()]))(lower)
    x = InstanceWise(keras.layers.LayerNormalization())(Concatenated()([x, lower]))
    x = BagLayer(3, "tanh", aggregation="mean")(x)
    x = keras.layers.Concatenate()([Dense(2)(keras.layers.Dropout(0.5)(x)), x])
    model = keras.Model([inputs, extra], Dense(1)(x))
    data = make_data(depth=2)
    data = [data, data.with_flat_values(data.flat_values[:, :1])]
    target = (0, float(np.median(model(data))))
    assert explainer(target=target).fit(model, data).predict(data).shape == (30,)


def test_weights_of_an_input_of_their_own_are_read():
    """How much a member counts is read as it is, whatever it comes from."""
    rng = np.random.default_rng(0)
    x = make_data(80)
    weights = x.with_flat_values(rng.uniform(0.1, 9, x.flat_values.shape[0]).astype(np.float32))
    inputs = keras.Input((None, 2), ragged=True), keras.Input((None,), ragged=True)
    sums = BagLayer(1, "sigmoid", "sum", name="sums")(inputs[0], weights=inputs[1])
    model = keras.Model(inputs, sums)
    model.get_layer("sums").set_weights([np.array([[100], [0]]), np.zeros(1), np.zeros(1)])
    # The sum of the weights of those whose first feature is positive, computed apart.
    positive = weights * tf.cast(x.with_flat_values(x.flat_values[:, 0]) > 0, tf.float32)
    expected = tf.reduce_sum(positive, axis=1).numpy()
    target = (0, float(np.median(expected)))
    fit = explainer(target=target, n_clusters=2, ccp_alpha=0).fit(model, [x, weights], [x, weights])
    assert fit.levels_[0].feature.name == "weight"
    assert np.mean(fit.predict([x, weights]) == (expected > target[1])) > 0.95
    ones = weights * 0 + 1
    assert np.mean(fit.predict([x, ones]) == (expected > target[1])) < 0.8


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
    inputs = keras.Input((None, 2), ragged=True), keras.Input((None, 3), ragged=True)
    model = keras.Model(inputs, Dense(1, activation="sigmoid")(BagLayer(3)(Concatenated()(inputs))))
    x = make_data()
    data = x, x.with_flat_values(np.zeros((x.flat_values.shape[0], 3), np.float32))
    target = (0, float(np.median(model(data))))
    assert explainer(target=target).fit(model, data).predict(data).shape == (30,)
    with pytest.raises(ValueError, match=r"Received: x\[1\].shape=\(30,\)"):
        explainer(target=target).fit(model, (data[0], np.zeros(30)))
    with pytest.raises(ValueError, match=r"Expected 2 inputs in a list"):
        explainer(target=target).fit(model, data[0])


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
        ({"n_init": 10**9}, "n_init=1000000000"),
        ({"n_clusters": 200, "max_rows": 100}, "from 1 to 100. Received: n_clusters=200"),
        ({"max_depth": 2**40}, "max_depth=1099511627776"),
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


@pytest.mark.parametrize("limit", [10**9, np.int64(10**12), (10**30,)])
def test_numbers_far_above_the_data_take_no_memory(limit):
    x, model = make_data(8), make_model()
    kernel, bias, _ = model.layers[1].get_weights()
    n = len(np.unique(np.maximum(x.flat_values @ kernel + bias, 0), axis=0))
    huge = {"max_rows": 10**12, "batch_size": 10**12, "n_jobs": 10**9}
    target = (0, float(np.median(model(x))))
    with pytest.warns(UserWarning, match=f"Level 'u' has only {n} distinct points"):
        fit = explainer(max_clusters=limit, target=target, **huge).fit(model, x, x)
    assert {point.n_clusters for point in fit.grid_} == {(k,) for k in range(2, n + 1)}
    same = explainer(max_clusters=n, target=target).fit(model, x, x)
    assert (same.grid_, str(same.rules_)) == (fit.grid_, str(fit.rules_))


def test_arguments_may_be_numbers_of_numpy():
    x, model = make_data(), make_model()
    median = np.float32(np.median(model(x)))
    ours = {"max_clusters": 4, "n_init": 2, "batch_size": 7, "max_depth": 3, "n_jobs": 2}
    ours |= {"max_rows": 50, "random_state": 3}
    numpys = {name: np.int64(value) for name, value in ours.items()}
    first = explainer(**ours, target=(0, float(median))).fit(model, x)
    second = explainer(**numpys, target=(np.int32(0), median)).fit(model, x)
    assert str(first.rules_) == str(second.rules_)
    fixed = explainer(n_clusters=(np.uint8(3),), target=(0, median)).fit(model, x)
    assert fixed.n_clusters_ == (3,)


def test_distances_are_of_some_rows_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    rows, few, many = (rng.normal(size=(n, 3)) for n in (50, 2, 9))
    monkeypatch.setattr(clustering, "_AT_ONCE", 70)  # of six rows
    for key, labels in clustering.nearest_of_each(rows, {"few": few, 9: many}).items():
        centroids = {"few": few, 9: many}[key]
        expected = [np.argmin([np.linalg.norm(row - c) for c in centroids]) for row in rows]
        np.testing.assert_array_equal(labels, expected)


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

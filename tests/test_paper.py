"""The paper's framework: its examples and claims, each checked on a small problem."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import zoo
from keras_mmil.datasets.synthetic import points
from keras_mmil.layers import BagLayer
from keras_mmil.testing import assert_close, predict_in_fresh_process
from keras_mmil.zoo.experiments.digits import matches_generating_rule
from keras_mmil.zoo.experiments.truth_table import rules_match


def network(depth, units=16):
    """A bag-layer for each level of bags of points in the plane, compiled."""
    bags = keras.Input((None,) * depth + (2,), ragged=True)
    x = bags
    for _ in range(depth):
        x = BagLayer(units)(x)
    model = keras_mmil.Model(bags, keras.layers.Dense(1, activation="sigmoid")(x))
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    return model


def accuracy(model, x, y):
    return model.evaluate(x, y, verbose=0, return_dict=True)["accuracy"]


# Example offside ----------------------------------------------------------------------------------

IN_FRONT, CANNOT_BE_TOLD = 1, 2  # latent labels of players; 0 is behind
NOT_OFFSIDE, OFFSIDE, INCONCLUSIVE = 0, 1, 2  # labels of images


def image_rule(has):
    return np.select(
        [has(IN_FRONT), ~has(CANNOT_BE_TOLD)], [NOT_OFFSIDE, OFFSIDE], default=INCONCLUSIVE
    )


def referee_rule(has):
    return has(OFFSIDE) & ~has(NOT_OFFSIDE)


@functools.cache
def offside(seed=0):
    """A network trained on the offside problem, its rules, and the majority of each cluster."""
    keras.utils.set_random_seed(seed)
    (x, y, _), (x_valid, _, z_valid), (x_test, y_test, _) = points.load_offside(
        n_train=500, n_valid=200, n_test=500, seed=seed, instance_labels=True
    )
    model = network(depth=2)
    model.fit(x, y, epochs=20, batch_size=20, verbose=0)
    explainer = keras_mmil.Explainer(max_clusters=4, verbose=0).fit(model, x, x_valid)
    majority = explainer.describe(x_valid, instance_labels=z_valid)[0].majority
    return model, explainer, majority, (x_test, y_test)


def test_rules_of_offside_are_the_generating_ones():
    model, explainer, majority, (x_test, y_test) = offside()
    assert accuracy(model, x_test, y_test) >= 0.97
    assert explainer.fidelity(x_test) >= 0.97
    assert explainer.score(x_test, y_test) >= 0.97
    assert rules_match(explainer, majority, [image_rule, referee_rule], largest_bag=6)


@pytest.mark.parametrize(
    "wrong",
    [
        [lambda has: np.where(has(IN_FRONT), NOT_OFFSIDE, OFFSIDE), referee_rule],
        [image_rule, lambda has: has(OFFSIDE)],
        [image_rule, lambda has: ~has(OFFSIDE) | has(NOT_OFFSIDE)],
    ],
    ids=["images", "referee", "opposite"],
)
def test_truth_table_rejects_other_rules(wrong):
    _, explainer, majority, _ = offside()
    assert not rules_match(explainer, majority, wrong, largest_bag=6)


def test_truth_table_depends_on_the_meanings():
    _, explainer, majority, _ = offside()
    swapped = np.array([1, 0, 2])[majority]
    assert not rules_match(explainer, swapped, [image_rule, referee_rule], largest_bag=6)
    # In bags of one member no rule can be told from "only members of this kind".
    single = [lambda has: np.select([has(IN_FRONT), has(0)], [0, 1], 2), lambda has: has(OFFSIDE)]
    assert rules_match(explainer, majority, single, largest_bag=1)


def test_truth_table_is_of_occurrences_at_each_level():
    _, explainer, majority, _ = offside()
    with pytest.raises(ValueError, match=r"at 1 levels. Received: .*'occurrence', 'occurrence'"):
        rules_match(explainer, majority, [image_rule], largest_bag=6)


def test_rules_of_offside_are_not_those_of_digits():
    _, explainer, _, _ = offside()
    *_, (x, _, z) = points.load_offside(
        n_train=1, n_valid=1, n_test=50, seed=1, instance_labels=True
    )
    assert not matches_generating_rule(explainer, x, tf.gather([0, 7, 3], z))


# A convolution is a bag-layer on adjacent patches (section "Convolutional Neural Networks") -------


def patches_1d(signal, width, pool):
    """Dense [batch, windows, pool, width * channels]: the patches under each pooling window."""
    n = signal.shape[1] - width + 1
    patches = np.stack([signal[:, i : i + width].reshape(len(signal), -1) for i in range(n)], 1)
    return patches[:, : n // pool * pool].reshape(len(signal), n // pool, pool, -1)


def as_bags(patches):
    """The same as a RaggedTensor [batch, (windows), (pool), features]."""
    batch, windows, pool, features = patches.shape
    return keras_mmil.ragged.from_flat(
        patches.reshape(-1, features), [[windows] * batch, [pool] * (batch * windows)]
    )


def bag_layer_with(kernel, bias=None, **kwargs):
    layer = BagLayer(kernel.shape[-1], use_bias=bias is not None, empty="zeros", **kwargs)
    layer.build((None, None, kernel.shape[0]))
    layer.set_weights([kernel] if bias is None else [kernel, bias])
    return layer


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def test_convolution_and_max_pooling_of_a_signal_are_a_bag_layer():
    signal, kernel, bias = random(3, 13, 2), random(4, 2, 5), random(5)
    convolution = keras.layers.Conv1D(5, 4, activation="relu")
    convolution.build(signal.shape)
    convolution.set_weights([kernel, bias])
    expected = keras.layers.MaxPooling1D(2)(convolution(signal))  # (batch, windows, filters)

    layer = bag_layer_with(kernel.reshape(-1, 5), bias)
    bags = as_bags(patches_1d(signal, width=4, pool=2))
    assert_close(layer(bags).to_tensor(), expected)


def test_convolution_and_max_pooling_of_an_image_are_a_bag_layer():
    images, kernel, bias = random(2, 10, 12, 3), random(3, 3, 3, 6), random(6)
    convolution = keras.layers.Conv2D(6, 3, activation="relu")
    convolution.build(images.shape)
    convolution.set_weights([kernel, bias])
    expected = keras.layers.MaxPooling2D(2)(convolution(images))  # (batch, 4, 5, filters)

    pool = list(itertools.product(range(2), range(2)))
    patches = [
        [
            [images[:, r + i : r + i + 3, c + j : c + j + 3].reshape(2, -1) for i, j in pool]
            for c in range(0, 10, 2)
        ]
        for r in range(0, 8, 2)
    ]
    bags = as_bags(np.asarray(patches).transpose(3, 0, 1, 2, 4).reshape(2, 20, 4, 27))
    layer = bag_layer_with(kernel.reshape(-1, 6), bias)
    assert_close(tf.reshape(layer(bags).to_tensor(), [2, 4, 5, 6]), expected)


def test_two_convolutions_are_two_bag_layers_on_bags_of_bags():
    """The paper's {{{x11, x12}, {x21, x22}, {x31, x32}}, {{x21, x22}, {x31, x32}, {x41, x42}}}.

    A bag knows no order, so the second convolution has the same kernel at its three positions.
    """
    signal, kernel, bias, second = random(3, 11, 2), random(4, 2, 5), random(5), random(5, 6)
    convolutions = keras.Sequential(
        [
            keras.Input(signal.shape[1:]),
            keras.layers.Conv1D(5, 4, activation="relu"),
            keras.layers.MaxPooling1D(2),  # (batch, 4, 5)
            keras.layers.Conv1D(6, 3, use_bias=False),  # (batch, 2, 6)
        ]
    )
    convolutions.set_weights([kernel, bias, np.stack([second] * 3)])

    phi = patches_1d(signal, width=4, pool=2)  # (batch, 4, 2, features)
    windows = np.stack([phi[:, 0:3], phi[:, 1:4]], axis=1)  # (batch, 2, 3, 2, features)
    x = bag_layer_with(kernel.reshape(-1, 5), bias)(tf.constant(windows))  # (batch, 2, 3, 5)
    x = bag_layer_with(second, activation="linear", aggregation="sum")(x)  # (batch, 2, 6)
    assert_close(x, convolutions(signal))


# A 0 and no 2 (section "Multi-Instance Neural Networks", after Ramon and De Raedt) ----------------


@functools.cache
def zero_and_no_two():
    return points.load_zero_and_no_two(n_train=500, n_valid=1, n_test=1000, instance_labels=True)


def test_output_level_network_is_the_smooth_maximum_of_ramon_and_de_raedt():
    model = zoo.output_level_mil(2, sharpness=3.0)
    x = zero_and_no_two()[0][0][:5]
    f = model.get_layer("instances").layer
    logits = [np.log(np.exp(3.0 * f(bag).numpy()[:, 0].astype("float64")).sum()) / 3 for bag in x]
    assert_close(model(x)[:, 0], 1 / (1 + np.exp(-np.array(logits))))


def test_output_of_a_smooth_maximum_grows_with_the_bag():
    """So it cannot be that {0} is positive and {0, 2} is not."""
    model = zoo.output_level_mil(2)
    x = zero_and_no_two()[0][0]
    larger = tf.concat([x, random(500, 1, 2)], axis=1)
    assert (model(larger) > model(x)).numpy().all()


@pytest.mark.parametrize("sharpness", [1.0, 10.0])
def test_output_level_network_cannot_solve_a_zero_and_no_two(sharpness):
    (x, y, _), _, (x_test, y_test, z_test) = zero_and_no_two()
    model = zoo.output_level_mil(2, sharpness=sharpness)
    model.fit(x, y, epochs=12, batch_size=20, verbose=0)
    # Whatever f is, the smooth maximum weighs the labels in a bag by factors ≥ 0, and compares.
    counts = np.stack([(z_test == label).to_tensor().numpy().sum(1) for label in range(3)], axis=1)
    weights = np.array(list(itertools.product([0, 0.2, 0.5, 1, 2, 5], repeat=3)))
    sums = counts @ weights.T  # (bags, weightings)
    best = max(((sums >= limit) == y_test[:, None]).mean(0).max() for limit in np.unique(sums))
    assert best < 0.8
    assert accuracy(model, x_test, y_test) < 0.8


def test_bag_layer_of_two_units_solves_a_zero_and_no_two():
    (x, y, _), _, (x_test, y_test, _) = zero_and_no_two()
    model = zoo.representation_level_mil(2, bag_units=2)
    # One unit to speak for, and one against: with equal signs at the start, two are too few to
    # always find their way.
    model.get_layer("label").set_weights([np.array([[1.0], [-1.0]]), np.zeros(1)])
    model.fit(x, y, epochs=15, batch_size=20, verbose=0)
    assert accuracy(model, x_test, y_test) >= 0.97


# Bags of bags of bags -----------------------------------------------------------------------------


def test_three_levels_are_trained_saved_loaded_and_explained(tmp_path):
    (x, y), (x_valid, _), (x_test, y_test) = points.load_three_level(
        n_train=500, n_valid=300, n_test=500
    )
    model = network(depth=3)
    model.fit(x, y, epochs=15, batch_size=20, verbose=0)
    assert accuracy(model, x_test, y_test) >= 0.95

    explainer = keras_mmil.Explainer(max_clusters=4, verbose=0).fit(model, x, x_valid)
    assert [level.word for level in explainer.levels_] == ["instance", "sub-bag", "level-2 bag"]
    assert explainer.fidelity(x_test) >= 0.95

    model.save(tmp_path / "model.keras")
    explainer.save(tmp_path / "rules")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(x_test), model(x_test))
    np.testing.assert_array_equal(predict_in_fresh_process(model, x_test), model(x_test))
    again = keras_mmil.Explainer.load(tmp_path / "rules", loaded)
    assert str(again.rules_) == str(explainer.rules_)
    np.testing.assert_array_equal(again.predict(x_test), explainer.predict(x_test))

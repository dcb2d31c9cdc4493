"""Symbols, compared with loops; and bag-layers whose instances are symbols."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil.layers import BagLayer, Symbols
from keras_mmil.model import Model
from keras_mmil.testing import run_layer_test


def rows(n=40, features=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, features)).astype(np.float32)


def set_layer(codebook, **arguments):
    layer = Symbols(len(codebook), **arguments)
    layer.build((None, np.shape(codebook)[1]))
    layer.set_codebook(codebook)
    return layer


def nearest(x, codebook):
    return np.array([np.argmin([np.linalg.norm(row - c) for c in codebook]) for row in x])


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_vectors_become_the_nearest_symbol(dtype):
    x, codebook = rows(), rows(5, seed=1)
    layer = set_layer(codebook, dtype=dtype)
    expected = nearest(x, codebook)
    np.testing.assert_array_equal(layer.ids(x), expected)
    np.testing.assert_allclose(layer(x), codebook[expected], rtol=1e-3)
    assert keras.backend.standardize_dtype(layer(x).dtype) == layer.compute_dtype
    bags = tf.RaggedTensor.from_row_lengths(x, [10, 0, 25, 5])
    np.testing.assert_array_equal(layer.ids(bags).flat_values, expected)
    np.testing.assert_allclose(layer(bags).flat_values, codebook[expected], rtol=1e-3)
    with pytest.raises(ValueError, match=r"shape \(5, 3\).*\(4, 3\)"):
        layer.set_codebook(codebook[:4])


@pytest.mark.slow
def test_it_is_a_layer_of_keras():
    bags = tf.RaggedTensor.from_row_lengths(rows(), [10, 0, 25, 5])
    run_layer_test(Symbols, {"k": 4}, {"inputs": bags})
    run_layer_test(BagLayer, {"units": 4, "symbols": 3}, {"inputs": bags})


def test_gradients_pass_and_vectors_are_pulled_to_their_symbols():
    x, codebook = tf.constant(rows()), rows(5, seed=1)
    layer = set_layer(codebook, warm_up=0, commitment=0.5, momentum=0.999999)
    factors = tf.constant(rows(seed=2))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        total = tf.reduce_sum(layer(x, training=True) * factors)
        (loss,) = layer.losses
    np.testing.assert_allclose(tape.gradient(total, x), factors)
    symbols = codebook[nearest(x.numpy(), codebook)]
    variance = codebook.var(axis=0).mean()
    assert float(loss) == pytest.approx(0.5 * np.mean((x - symbols) ** 2) / variance, rel=1e-4)
    expected = 0.5 * 2 * (x - symbols) / x.numpy().size / variance
    np.testing.assert_allclose(tape.gradient(loss, x), expected, rtol=1e-3, atol=1e-6)
    assert not layer.trainable_weights


def test_symbols_follow_the_mean_of_the_rows_that_take_them():
    codebook, momentum = rows(4, seed=1), 0.9
    layer = set_layer(codebook, warm_up=0, momentum=momentum)
    counts, sums = np.full(4, 0.25), codebook * 0.25
    for step in range(5):
        x = rows(30, seed=10 + step)
        at = nearest(x, sums / counts[:, None])
        one_hot = np.eye(4)[at]
        counts = momentum * counts + (1 - momentum) * one_hot.mean(axis=0)
        sums = momentum * sums + (1 - momentum) * one_hot.T @ x / len(x)
        layer(x, training=True)
        np.testing.assert_allclose(layer.shares, counts, rtol=1e-4)
        np.testing.assert_allclose(layer.codebook, sums / counts[:, None], rtol=1e-3, atol=1e-4)
    before = layer.codebook.numpy()
    layer(x[:0], training=True)  # a batch without rows
    np.testing.assert_array_equal(layer.codebook, before)
    layer(x)
    np.testing.assert_array_equal(layer.codebook, before)


def test_without_known_symbols_training_begins_with_rows_and_revives_what_is_dead():
    centers = 10 * np.eye(4)
    rng = np.random.default_rng(0)
    layer = Symbols(4, warm_up=400, momentum=0.9, seed=1)
    for step in range(400):
        x = centers[rng.integers(0, 4, 50)] + rng.normal(size=(50, 4))
        x = x.astype(np.float32)
        out = layer(x, training=True)
        share = np.linalg.norm(out - x) / np.linalg.norm(layer(x) - x)
        if step in (0, 199):  # little by little
            assert share == pytest.approx((step + 1) / 400, rel=0.02)
    found = layer.codebook.numpy()
    found = found[np.argsort(found.argmax(axis=1))]
    np.testing.assert_allclose(found, centers, atol=0.6)


@pytest.mark.parametrize("aggregation", ["max", ("max", "mean")])
@pytest.mark.parametrize("units", [6, None])
def test_a_bag_layer_aggregates_symbols(units, aggregation):
    """As a dense layer, symbols, and a bag-layer without units do, with members or without."""
    x, members = rows(12, 5), tf.ragged.constant([[0, 3, 3], [11], [], [7, 1]], ragged_rank=1)
    layer = BagLayer(units, aggregation=aggregation, symbols=3)
    layer.build((None, 5), members_shape=(None, None))
    codebook = rows(3, units or 5, seed=4)
    layer.symbols.set_codebook(codebook)
    rho = x if units is None else np.maximum(x @ layer.kernel.numpy(), 0)
    symbols = codebook[nearest(rho, codebook)]
    names = [aggregation] if isinstance(aggregation, str) else aggregation
    width = (units or 5 * len(names)) // len(names)
    expected = np.zeros((4, width * len(names)), np.float32)
    for bag, of_bag in enumerate(members.to_list()):
        for i, name in enumerate(names if of_bag else []):
            part = symbols[of_bag] if units is None else np.split(symbols[of_bag], len(names), 1)[i]
            expected[bag, i * width : (i + 1) * width] = getattr(np, name)(part, axis=0)
    np.testing.assert_allclose(layer(x, members), expected, rtol=1e-5)
    captured, _ = layer.capture(x, members)
    np.testing.assert_allclose(captured, symbols, rtol=1e-6)


def test_a_model_with_symbols_is_saved(tmp_path):
    x = tf.RaggedTensor.from_row_lengths(rows(60, 4), [3] * 20)
    inputs = keras.Input((None, 4), ragged=True)
    bag = BagLayer(8, aggregation=("max", "mean"), symbols=5)(inputs)
    model = Model(inputs, keras.layers.Dense(1, activation="sigmoid")(bag))
    model.compile("adam", "binary_crossentropy")
    before = model.predict(x, verbose=0)
    model.fit(x, np.arange(20) % 2, epochs=3, verbose=0)
    assert model.layers[1].symbols.steps.numpy() == 3
    after = model.predict(x, verbose=0)
    assert np.abs(after - before).max() > 0
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(x, verbose=0), after, rtol=1e-5)
    assert again.layers[1].symbols.k == 5


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"units": 4, "symbols": 0}, "symbols=0"),
        ({"units": 4, "symbols": 3, "groups": 2}, r"one group.*groups=2, symbols=3"),
    ],
)
def test_refused(arguments, error):
    with pytest.raises(ValueError, match=error):
        BagLayer(**arguments)

"""Members left out at random."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer, Distinct, MemberDropout, bag_inputs
from keras_mmil.testing import run_layer_test

MEMBERS = ragged.from_flat(np.arange(7) % 4, (np.array([3, 0, 4]),))
WEIGHTS = MEMBERS.with_values(tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.5]))


def many(n=20_000):
    return ragged.from_flat(np.arange(n), (np.full(n // 10, 10),))


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_is_a_keras_layer_that_leaves_weights_as_they_are_outside_of_training(weights):
    expected = MEMBERS.with_values(tf.ones(7)) if weights is None else weights
    inputs = {"members": MEMBERS} | ({} if weights is None else {"weights": weights})
    run_layer_test(MemberDropout, {"rate": 0.5}, inputs, expected)


def test_positions():
    trigrams = ragged.from_flat(np.zeros((7, 3), int), (np.array([3, 0, 4]),))
    assert MemberDropout(0.5)(trigrams).to_list() == [[1, 1, 1], [], [1, 1, 1, 1]]
    symbolic = keras.Input((None, 3), ragged=True, dtype="int32")
    assert MemberDropout(0.5)(symbolic).shape == (None, None)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.9])
def test_rate(rate):
    """Within four standard deviations, in all and in each place of a bag."""
    members = many()
    weights = members.with_values(tf.fill([20_000], 3.0))
    kept = MemberDropout(rate, seed=1)(members, weights, training=True)
    assert set(np.unique(kept.values)) <= {0.0, 3.0}
    table = kept.to_tensor().numpy() == 0
    spread = 4 * np.sqrt(rate * (1 - rate) / 20_000)
    assert abs(table.mean() - rate) <= spread
    assert (np.abs(table.mean(axis=0) - rate) <= spread * np.sqrt(10)).all()


def test_seeds():
    members = many(200)
    layers = [MemberDropout(0.5, seed=seed) for seed in (1, 1, 2)]
    first, same, other = (layer(members, training=True).values.numpy() for layer in layers)
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()
    assert (first != layers[0](members, training=True).values.numpy()).any()  # new ones each time


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5])
def test_rates_that_are_none(rate):
    with pytest.raises(ValueError, match=f"rate={rate}"):
        MemberDropout(rate)


@pytest.mark.parametrize("aggregation", ["max", "mean", "sum"])
def test_what_is_left_out_is_not_in_the_bag(aggregation):
    rows = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    drop, layer = MemberDropout(0.5, seed=3), BagLayer(5, aggregation=aggregation)
    weights = drop(MEMBERS, training=True)
    found = layer(tf.constant(rows), MEMBERS, weights)
    kept = tf.ragged.boolean_mask(MEMBERS, weights > 0)
    assert 0 < int(tf.size(kept.values)) < 7
    np.testing.assert_allclose(found, layer(tf.constant(rows), kept), rtol=1e-5)


@pytest.mark.slow
def test_a_network_with_it_trains_and_comes_back(tmp_path):
    inputs = bag_inputs(1)
    rows, (members, weights) = Distinct()(inputs)
    weights = MemberDropout(0.5)(members, weights)
    x = BagLayer(4, vocabulary_size=50, aggregation="mean")(rows, members, weights)
    model = keras_mmil.Model(inputs, keras.layers.Dense(1)(x))
    model.compile("adam", "mse")
    bags = ragged.from_flat(np.arange(200) % 50, (np.full(20, 10),))
    model.fit(bags, np.arange(20.0), epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(bags, verbose=0), model.predict(bags, verbose=0))
    assert (model(bags, training=True).numpy() != model(bags).numpy()).any()

"""Aggregations: retrieval, weights of their own, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil.layers import aggregations

ROW_IDS = tf.constant([0, 0, 0, 1, 3])
VALUES = tf.constant(np.random.default_rng(0).normal(size=(5, 4)).astype("float32"))


def call(aggregation, values=VALUES, weights=None):
    return aggregation(values, row_ids=ROW_IDS, num_segments=4, weights=weights)


@pytest.mark.parametrize("name", aggregations.NAMES)
def test_get_and_round_trip(name):
    aggregation = aggregations.get(name)
    assert aggregation.identifier == name.removeprefix("gated_")
    outputs = call(aggregation)
    np.testing.assert_array_equal(outputs[2], np.zeros(4))  # an empty bag
    twin = aggregations.get(aggregations.serialize(aggregation))
    assert twin.get_config() == aggregation.get_config()
    call(twin)
    twin.set_weights(aggregation.get_weights())
    np.testing.assert_array_equal(call(twin), outputs)


def test_get_keeps_an_instance():
    aggregation = aggregations.LSE(sharpness=3.0)
    assert aggregations.get(aggregation) is aggregation


@pytest.mark.parametrize("identifier", ["median", None, 3, {"class_name": "Dense"}])
def test_get_refuses_others(identifier):
    with pytest.raises((ValueError, TypeError), match=r"median|None|3|Dense"):
        aggregations.get(identifier)


def test_get_all():
    assert [a.identifier for a in aggregations.get_all("max|mean")] == ["max", "mean"]
    assert [a.identifier for a in aggregations.get_all(("sum", aggregations.Std()))] == [
        "sum",
        "std",
    ]
    with pytest.raises(ValueError, match=r"Received: \(\)"):
        aggregations.get_all(())


@pytest.mark.parametrize("learned", [True, False])
def test_lse_formula_and_limit(learned):
    values = VALUES.numpy()
    soft = call(aggregations.LSE(sharpness=2.0, learned=learned))
    np.testing.assert_allclose(soft[0], np.log(np.exp(2 * values[:3]).sum(0)) / 2, rtol=1e-5)
    sharp = call(aggregations.LSE(sharpness=1e4, learned=learned))
    np.testing.assert_allclose(sharp[0], values[:3].max(0), rtol=1e-3)


@pytest.mark.parametrize(("p", "learned"), [(1.0, False), (3.0, False), (3.0, True)])
def test_pnorm_formula(p, learned):
    expected = (np.abs(VALUES[:3].numpy()) ** p).mean(0) ** (1 / p)
    np.testing.assert_allclose(call(aggregations.PNorm(p, learned))[0], expected, rtol=1e-5)


@pytest.mark.parametrize("gated", [True, False])
def test_attention_formula(gated):
    attention = aggregations.Attention(hidden_units=3, gated=gated)
    outputs = call(attention)
    v, bag = VALUES.numpy(), slice(0, 3)
    hidden = np.tanh(v @ attention.content.numpy())
    if gated:
        hidden /= 1 + np.exp(-(v @ attention.gate.numpy()))
    scores = np.exp(hidden @ attention.query.numpy())[bag]
    expected = (scores / scores.sum() * v[bag]).sum(0)
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-5)
    shares = attention.attention_weights(VALUES, ROW_IDS, 4)
    np.testing.assert_allclose(shares[bag, 0], (scores / scores.sum())[:, 0], rtol=1e-5)


@pytest.mark.parametrize("make", [aggregations.LSE, aggregations.PNorm])
def test_learned_parameters_have_gradients(make):
    aggregation = make()
    with tf.GradientTape() as tape:
        outputs = call(aggregation)
    (gradient,) = tape.gradient(outputs, [v.value for v in aggregation.trainable_variables])
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).sum() > 0


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: aggregations.LSE(sharpness=0.0), "sharpness=0.0"),
        (lambda: aggregations.LSE(sharpness=float("inf")), "sharpness=inf"),
        (lambda: aggregations.PNorm(p=0.5), "p=0.5"),
        (lambda: aggregations.PNorm(p=1.0, learned=True), "p=1.0"),
        (lambda: aggregations.Attention(hidden_units=0), "hidden_units=0"),
        (lambda: call(aggregations.Max(), VALUES[0]), "values.shape=\\(4,\\)"),
        (lambda: call(aggregations.Max(), tf.constant([[1], [2]])), "values.dtype=int32"),
        (lambda: aggregations.Max()(VALUES), "row_ids=None"),
    ],
)
def test_errors(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_a_users_own_aggregation():
    @keras.saving.register_keras_serializable("tests")
    class Range(aggregations.Aggregation):
        """Largest minus smallest."""

        def reduce(self, values, row_ids, num_segments, weights):
            lowest = -tf.math.segment_max(-values, row_ids)
            return tf.math.segment_max(values, row_ids) - lowest

    assert aggregations.get(Range()).identifier == "range"
    values = VALUES.numpy()
    np.testing.assert_allclose(call(Range())[0], np.ptp(values[:3], axis=0), rtol=1e-5)

"""Numbers and booleans as vectors."""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from keras_mmil.layers import BooleanEncoder, NumberEncoder
from keras_mmil.testing import run_layer_test

NAN = math.nan


def number(value, mean, variance, edges):
    """The features of a number, by the docstring."""
    if math.isnan(value):
        return [0.0] * max(len(edges), 1) + [1.0]
    x = (value - mean) / (math.sqrt(variance) or 1.0)
    steps = itertools.pairwise(edges)
    curve = [min(max((value - a) / (b - a), 0.0), 1.0) for a, b in steps]
    return [min(max(x, -8.0), 8.0), *curve, 0.0]


@pytest.mark.parametrize("edges", [(), (-1.0, 0.5), (0.0, 1.0, 1.5, 10.0)])
@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (-2.5, 9.0), (1.0, 0.0)])
def test_numbers(mean, variance, edges):
    values = [-1e30, -3.0, -0.0, 0.25, 1.0, NAN, 7.0, math.inf]
    found = NumberEncoder(mean, variance, edges)(tf.constant(values))
    expected = [number(value, mean, variance, edges) for value in values]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_number_encoder_is_a_layer():
    arguments = {"mean": 1.5, "variance": 4.0, "edges": [0.0, 2.0, 3.0], "field": "a.b"}
    bags = tf.ragged.constant([[1.0, NAN], [], [2.5]])
    expected = bags.with_flat_values([number(v, 1.5, 4.0, [0.0, 2.0, 3.0]) for v in (1, NAN, 2.5)])
    run_layer_test(NumberEncoder, arguments, {"values": bags}, expected)
    assert NumberEncoder(**arguments).width == expected.shape[-1]


@pytest.mark.slow
def test_boolean_encoder_is_a_layer():
    bags = tf.ragged.constant([[1.0, NAN], [], [0.0]])
    expected = bags.with_flat_values([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    run_layer_test(BooleanEncoder, {"field": "paid"}, {"values": bags}, expected, False)


def test_what_is_missing_is_learned():
    layer = NumberEncoder(edges=(0, 1, 2))
    values = tf.constant([1.0, NAN])
    layer(values)
    layer.missing.assign([0.5, -2.0, 3.0])
    assert layer(values)[1].numpy().tolist() == [0.5, -2.0, 3.0, 1.0]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(values))
    assert tape.gradient(loss, layer.missing.value).numpy().tolist() == [1.0] * 3


@pytest.mark.parametrize("edges", [(1.0,), (1.0, 1.0), (2.0, 1.0)])
def test_edges_increase(edges):
    with pytest.raises(ValueError, match=r"increasing edges.*Received: edges=\["):
        NumberEncoder(edges=edges)


def test_texts_are_no_numbers():
    with pytest.raises(ValueError, match=r"expected numbers\. Received: values\.dtype=string"):
        NumberEncoder()(tf.constant(["1"]))

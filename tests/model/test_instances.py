"""The input that instances with named features are read from."""

import keras
import pytest
import tensorflow as tf
from random_networks import Concatenated, make_model

from keras_mmil.layers import BagLayer, Distinct, InstanceWise, TextBags, bag_inputs
from keras_mmil.model.tree import bag_tree, instance_features

Dense = keras.layers.Dense
NAMES = ("x", "y")


def found(model, names=NAMES):
    return instance_features(model, bag_tree(model), names)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_input_of_the_innermost_bag_layer(depth):
    model = make_model(depth=depth)
    index, tensor = found(model)
    assert (index, tensor) == (0, model.inputs[0])


def test_other_inputs_may_be_above_or_beside():
    """Of two kinds of instances one has numbers; weights are not what instances are made of."""
    points = keras.Input((None, 2), ragged=True, name="points")
    weights = keras.Input((None,), ragged=True, name="weights")
    x = InstanceWise(Dense(3))(points)
    model = keras.Model([weights, points], Dense(1)(BagLayer(3)(x, weights=weights)))
    assert found(model)[1] is points
    sizes = keras.Input((None, 2), dtype="int32", ragged=True, name="sizes")
    model = keras.Model(sizes, Dense(1)(BagLayer(3)(Cast()(sizes))))
    assert found(model)[1] is sizes


class Cast(keras.layers.Layer):
    def call(self, x):
        return tf.cast(x, tf.float32)

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, ragged=True)


def ids():
    inputs = keras.Input((None,), dtype="int32", ragged=True)
    return inputs, BagLayer(3, vocabulary_size=5)(inputs)


def windows_of_ids():
    inputs = keras.Input((None, 2), dtype="int32", ragged=True)
    x = InstanceWise(keras.Sequential([keras.layers.Embedding(9, 4), keras.layers.Flatten()]))
    return inputs, BagLayer(3)(x(inputs))


def compressed_ids():
    inputs = bag_inputs(1)
    rows, bags = Distinct()(inputs)
    return inputs, BagLayer(3)(keras.layers.Embedding(9, 4)(rows), *bags)


def texts():
    inputs = keras.Input((), dtype="string")
    return inputs, BagLayer(3, vocabulary_size=5)(TextBags(["a", "b", "c"])(inputs))


def images():
    inputs = keras.Input((None, 3, 2), ragged=True)
    return inputs, BagLayer(3)(InstanceWise(keras.layers.Flatten())(inputs))


def two_parts():
    parts = [keras.Input((None, 2), ragged=True, name=name) for name in "ab"]
    return parts, BagLayer(3)(Concatenated()(parts))


@pytest.mark.parametrize("make", [ids, windows_of_ids, compressed_ids, texts, images, two_parts])
def test_what_is_no_vector_of_numbers_is_refused(make):
    inputs, x = make()
    model = keras.Model(inputs, Dense(1)(x))
    with pytest.raises(ValueError, match=r"one input of 2 numbers .* Received: bag-layer 'bag_l"):
        found(model)


def test_as_many_names_as_features():
    with pytest.raises(ValueError, match=r"3 feature_names can be of.*'bags': .*2\), 'float32'"):
        found(make_model(), ("x", "y", "z"))


def test_two_kinds_of_instances_are_refused():
    inputs = keras.Input((None, 2), ragged=True)
    x = keras.layers.Concatenate()([BagLayer(3, name=name)(inputs) for name in ("a", "b")])
    with pytest.raises(ValueError, match=r"Expected one bag-layer .* Received: \['a', 'b'\]"):
        found(keras.Model(inputs, Dense(1)(x)))

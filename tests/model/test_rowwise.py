"""Whether records are computed one by one, also where they are gathered by indices."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from record_networks import Columns, churn_model, random_customers, read

from keras_mmil.layers import BagLayer, CategoryEncoder, DistinctBags, DistinctRows, Gather
from keras_mmil.model.tree import (
    bag_tree,
    boundaries,
    check_own_features,
    check_rowwise,
    row_index,
)

Dense = keras.layers.Dense
CUSTOMERS = random_customers(30)


def check(model, x):
    tree = bag_tree(model)
    symbolic = boundaries(tree)
    assert len({id(each) for each in symbolic}) == len(symbolic)
    found = keras.Model(model.input, symbolic)(x)
    check_rowwise(model, tree, {id(a): b for a, b in zip(symbolic, found, strict=True)})


@pytest.mark.parametrize("compress", [True, False])
def test_networks_of_records_are_computed_record_by_record(compress):
    check(churn_model(compress), read(CUSTOMERS))


class Mixed(keras.layers.Layer):
    """What a row has more than the mean of all rows."""

    def call(self, rows):
        return rows - tf.reduce_mean(rows, axis=0)


def visits_model(below=(), between=(), above=()):
    """Rows of visits, their bags, and the customers that hold these, each through some layers."""
    at = Columns(compress=True)
    column, encode = at.field("visits.channel", 1, CategoryEncoder(["phone", "web"]))
    value, ids = DistinctRows()([column])
    members, weights, bags = DistinctBags(field="visits")(ids)
    x = keras.Sequential([Dense(3), *below])(encode(value))
    x = BagLayer(4, "tanh", "mean", name="visits")(x, members, weights)
    for layer in between:
        x = layer(x)
    x = Gather()([x, bags])
    for layer in above:
        x = layer(x)
    return keras.Model(at.inputs, Dense(1)(x))


@pytest.mark.parametrize("place", ["between", "above"])
def test_records_that_are_mixed_are_found(place):
    """Before they are gathered, and afterwards."""
    x = read(CUSTOMERS, ["visits.channel"])
    check(visits_model(**{place: [Dense(3), keras.layers.LayerNormalization()]}), x)
    match = r"Received: \[.*'mixed'.*\] above bag-layer 'visits', by which bags change with others"
    with pytest.raises(ValueError, match=match):
        check(visits_model(**{place: [Dense(3, "relu"), Mixed(name="mixed")]}), x)


def test_each_branch_is_checked():
    """Only one of two bag-layers is mixed: it is the one that is named."""
    inputs = keras.Input((None, 2), ragged=True)
    left, right = (BagLayer(3, "tanh", name=name)(inputs) for name in ("left", "right"))
    x = keras.layers.Concatenate()([left, Mixed(name="mixed")(right)])
    model = keras.Model(inputs, Dense(1)(x))
    sizes = np.random.default_rng(0).integers(1, 4, 20)
    values = np.random.default_rng(1).normal(size=(sizes.sum(), 2)).astype(np.float32)
    data = tf.RaggedTensor.from_row_lengths(values, sizes)
    with pytest.raises(ValueError, match=r"'mixed'.* above bag-layer 'right'"):
        check(model, data)


def test_indices_of_indices():
    rng = np.random.default_rng(0)
    one, two, three = (rng.integers(0, n, m) for n, m in ((5, 7), (7, 4), (4, 9)))
    keys = [keras.KerasTensor((None,), dtype="int32") for _ in range(3)]
    values = {id(key): tf.constant(x) for key, x in zip(keys, (one, two, three), strict=True)}
    assert row_index([], values) is None
    np.testing.assert_array_equal(row_index(keys[:1], values), one)
    expected = [one[two[i]] for i in three]
    np.testing.assert_array_equal(row_index(keys, values), expected)


class Turned(keras.layers.Layer):
    """Instances in the opposite order."""

    def call(self, x):
        return tf.reverse(x, axis=[1])


@pytest.mark.parametrize(
    ("layer", "is_own"),
    [
        (Dense(3), True),
        (keras.layers.LayerNormalization(), True),
        (Mixed(), False),
        (Turned(), False),
        (keras.layers.Conv1D(3, 2, padding="same"), False),
        (keras.layers.MaxPooling1D(2), False),
    ],
)
def test_instances_that_are_not_computed_from_their_own_features_are_found(layer, is_own):
    inputs = keras.Input((6, 2))
    x = BagLayer(3, name="of_instances")(layer(inputs))
    model = keras.Model(inputs, Dense(1)(x))
    x = np.random.default_rng(0).normal(size=(8, 6, 2)).astype(np.float32)
    (node,) = bag_tree(model).nodes
    if is_own:
        check_own_features(model, model.inputs[0], node, x)
        return
    with pytest.raises(ValueError, match=f"{layer.name}'] below bag-layer 'of_instances'"):
        check_own_features(model, model.inputs[0], node, x)

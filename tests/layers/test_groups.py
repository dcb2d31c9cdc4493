"""Layers in groups, against layers of their own for each group."""

import numpy as np
import pytest
import tensorflow as tf

from keras_mmil.layers import BagLayer, CategoryEncoder, GroupedDense, TextEncoder

GROUPS, UNITS = 3, 4
RNG = np.random.default_rng(0)


def part(x, group, groups=GROUPS):
    """The columns of a group."""
    return np.split(np.asarray(x), groups, axis=-1)[group]


def test_a_group_is_a_dense_layer():
    inputs, shared = RNG.normal(size=(5, 2 * GROUPS)), RNG.normal(size=(5, 7))
    layer = GroupedDense(GROUPS * UNITS, GROUPS, activation="tanh")
    found = layer(inputs, shared)
    for g in range(GROUPS):
        x = part(inputs, g) @ part(layer.kernel, g) + shared @ part(layer.shared_kernel, g)
        np.testing.assert_allclose(part(found, g), np.tanh(x), rtol=1e-5)
    kernels = [part(layer.shared_kernel, g) for g in range(GROUPS)]
    assert not np.allclose(kernels[0], kernels[1])
    limit = np.sqrt(6 / (7 + UNITS))  # Glorot's, of one group
    assert 0.8 * limit < np.abs(layer.shared_kernel).max() <= limit
    blind = GroupedDense(GROUPS * UNITS, GROUPS, n_blind=1)
    found = blind(inputs, None, shared)
    for g in range(GROUPS):
        x = part(inputs, g) @ part(blind.kernel, g)
        x += shared @ part(blind.partly_kernel, g, 2) if g < 2 else 0
        np.testing.assert_allclose(part(found, g), x, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="expected features in 3 groups"):
        GroupedDense(GROUPS * UNITS, GROUPS)(RNG.normal(size=(5, 4)))
    with pytest.raises(ValueError, match="units=4"):
        GroupedDense(4, 3)
    with pytest.raises(ValueError, match="expected an input"):
        GroupedDense(3, 3).build()


@pytest.mark.parametrize("aggregation", ["max", ("max", "mean")])
def test_a_group_is_a_bag_layer(aggregation):
    rows = RNG.normal(size=(6, 2 * GROUPS)).astype(np.float32)
    members = tf.ragged.constant([[0, 1, 2], [], [3, 5, 5]])
    layer = BagLayer(GROUPS * UNITS, aggregation=aggregation, groups=GROUPS)
    found, representations = layer(rows, members), layer.represent(rows, members)
    for g in range(GROUPS):
        own = BagLayer(UNITS, aggregation=aggregation)
        own(part(rows, g), members)
        own.set_weights([part(w, g) for w in layer.get_weights()])
        np.testing.assert_allclose(part(found, g), own(part(rows, g), members), rtol=1e-5)
        alone = own.represent(part(rows, g), members)
        np.testing.assert_allclose(part(representations, g), alone, rtol=1e-5)
    with pytest.raises(ValueError, match="in each of 3 groups"):
        BagLayer(9, aggregation=("max", "mean"), groups=3)
    with pytest.raises(ValueError, match="groups=2"):
        BagLayer(4, vocabulary_size=3, groups=2)


def test_learned_vectors_of_fields_are_in_groups():
    """The features of a group are those of all fields."""
    values = [tf.constant(["a", "b", "?"]), tf.constant(["x", "y", "x"])]
    vocabulary = [["a", "b"], ["x", "y"]]
    layer = CategoryEncoder(vocabulary, GROUPS * 2, ["f", "g"], groups=GROUPS)
    found = layer(values).numpy()
    vectors = layer.vectors.numpy()
    for g in range(GROUPS):
        own = vectors[:, 2 * g : 2 * g + 2]  # of a, b, x and y
        expected = [[*own[0], *own[2]], [*own[1], *own[3]], [0, 0, *own[2]]]
        np.testing.assert_allclose(found[:, 4 * g : 4 * g + 4], expected, rtol=1e-6)


def test_words_outside_the_vocabulary_are_left_out():
    texts = tf.constant(["The cat, the dog", "a ZEBRA", "\0"])
    layer = TextEncoder(units=2, field="text", vocabulary=["cat", "dog"])
    found = layer(texts).numpy()
    np.testing.assert_allclose(found[0, :2], layer.vectors.numpy().mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found[1], [0, 0, np.log1p(2), 0], rtol=1e-6)
    assert found[2, 3] == 1
    copied = TextEncoder.from_config(layer.get_config())
    copied(texts)
    copied.set_weights(layer.get_weights())
    np.testing.assert_array_equal(copied(texts), found)

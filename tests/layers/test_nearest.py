"""Distances of members to prototypes, compared with a loop; and a model with them, saved."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil.layers import NearestMembers
from keras_mmil.layers.nearest import spread

MEANS, SCALES = (1.0, -2.0, 0.0), (2.0, 0.5, 0.0)
NAN = float("nan")


def made(n, **kwargs):
    layer = NearestMembers(n, MEANS, SCALES, **kwargs)
    layer.build()
    prototypes = np.random.default_rng(1).normal(size=(n, 3)).astype(np.float32)
    layer.set_weights([prototypes])
    return layer, prototypes


def by_loop(rows, bags, prototypes):
    found = np.full((len(bags), len(prototypes)), np.inf)
    for i, members in enumerate(bags):
        for row in members:
            z = [(x - m) / (s or 1.0) for x, m, s in zip(rows[row], MEANS, SCALES, strict=True)]
            z = np.nan_to_num(z)
            for j, prototype in enumerate(prototypes):
                distance = np.sqrt(np.mean((z - prototype) ** 2))
                found[i, j] = min(found[i, j], distance)
    return np.where(np.isinf(found), NAN, found)


@pytest.mark.parametrize("weighted", [False, True])
def test_distances_as_in_a_loop(weighted):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9, 3)).astype(np.float32) * 3
    rows[2, 1] = NAN
    bags = [[0, 1, 2], [], [3, 3, 8], [4], [5, 6, 7, 2]]
    weights = None
    expected = bags
    if weighted:  # what has no weight is not there
        weights = [[1.0, 0.0, 2.0], [], [1.0, 1.0, 0.0], [0.0], [1.0] * 4]
        pairs = zip(bags, weights, strict=True)
        expected = [[x for x, w in zip(bag, each, strict=True) if w] for bag, each in pairs]
        weights = tf.ragged.constant(weights, ragged_rank=1)
    layer, prototypes = made(4)
    members = tf.ragged.constant(bags, tf.int64, ragged_rank=1)
    found = layer([*map(tf.constant, rows.T)], members, weights)
    np.testing.assert_allclose(found, by_loop(rows, expected, prototypes), atol=1e-3)


def test_a_model_that_was_saved_computes_the_same(tmp_path):
    layer, _ = made(5, name="nearest")
    columns = [keras.Input((), name=name) for name in "abc"]
    members = keras.Input((None,), dtype="int64", ragged=True, name="members")
    model = keras.Model([*columns, members], layer(columns, members))
    rows = np.random.default_rng(2).normal(size=(6, 3)).astype(np.float32)
    x = [*map(tf.constant, rows.T), tf.ragged.constant([[0, 1], [], [5, 4, 3], [2], [2], [1]])]
    model.save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras")
    assert loaded.output_shape == (None, 5)
    np.testing.assert_array_equal(loaded(x), model(x))


def test_prototypes_are_of_all_bags():
    splits = np.array([0, 3, 3, 4, 9])
    assert spread(splits, 3).tolist() == [0, 3, 4]
    assert spread(splits, 5).tolist() == [0, 1, 3, 4, 5]
    assert spread(splits, 100).tolist() == list(range(9))

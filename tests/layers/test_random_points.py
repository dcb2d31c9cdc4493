"""RandomPoints: what it keeps of clouds, cloud by cloud."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil.builders import clouds
from keras_mmil.layers import RandomPoints
from keras_mmil.testing import assert_close, run_layer_test

RNG = np.random.default_rng(0)
SIZES = [[2, 0, 1], [5, 1, 6]]
BAGS = ragged.from_flat(RNG.normal(size=(12, 3)).astype("float32"), SIZES)


def test_is_a_keras_layer_that_is_idle_outside_of_training():
    run_layer_test(RandomPoints, {"n_points": 3, "seed": 1}, {"inputs": BAGS}, BAGS)


def test_points_are_drawn_and_normalised_as_clouds_are():
    """Of each cloud by itself: the normalised cloud of some of its points."""
    found = RandomPoints(3, seed=0)(BAGS, training=True)
    assert found.ragged_rank == BAGS.ragged_rank
    assert [part.tolist() for part in map(np.asarray, ragged.nested_lengths(found))] == [
        SIZES[0],
        [3, 1, 3],
    ]
    for before, after in zip(BAGS.values, found.values, strict=True):
        before, after = before.numpy(), after.numpy()
        subsets = [
            clouds.normalise(before[None, list(chosen)])[0]
            for chosen in np.ndindex(*[len(before)] * len(after))
            if len(set(chosen)) == len(chosen)
        ]
        assert any(np.allclose(after, subset, atol=1e-4) for subset in subsets)


@pytest.mark.slow
def test_each_point_is_as_likely():
    x = tf.RaggedTensor.from_tensor(tf.constant(RNG.normal(size=(1, 5, 3)).astype("float32")))
    x = tf.concat([x] * 2000, axis=0)
    found = RandomPoints(2, seed=3)(x, training=True)
    # Of two points, the normalised ones are those of a line: its direction says which.
    line = found.to_tensor()[:, 1] - found.to_tensor()[:, 0]
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j]
    lines = np.stack([x[0, j].numpy() - x[0, i].numpy() for i, j in pairs])
    lines /= np.linalg.norm(lines, axis=1, keepdims=True)
    line = line.numpy() / np.linalg.norm(line, axis=1, keepdims=True)
    counts = np.bincount(np.argmax(line @ lines.T, axis=1), minlength=20)
    assert counts.min() > 60  # 100 ± 10
    assert counts.max() < 140


def test_a_step_draws_anew_and_a_seed_draws_the_same():
    layer, twin = RandomPoints(3, seed=4), RandomPoints(3, seed=4)
    first, second = layer(BAGS, training=True), layer(BAGS, training=True)
    assert_close(twin(BAGS, training=True).flat_values, first.flat_values)
    assert np.abs((first - second).flat_values.numpy()).max() > 0.1


def test_clouds_of_a_bag_may_keep_the_points_at_the_same_places():
    """Rotations of what is kept of a cloud are what is kept of its rotations."""
    x = RNG.normal(size=(3, 8, 3)).astype("float32")
    rotations = tf.RaggedTensor.from_tensor(clouds.rotations(x, 4), ragged_rank=2)
    found = RandomPoints(5, same_in_bag=True, seed=1)(rotations, training=True)
    kept = found.to_tensor().numpy()  # (bags, rotations, points, 3)
    assert kept.shape == (3, 4, 5, 3)
    assert_close(clouds.rotations(kept[:, 0], 4), kept, atol=1e-5)
    others = RandomPoints(5, seed=1)(rotations, training=True).to_tensor().numpy()
    assert np.abs(clouds.rotations(others[:, 0], 4) - others).max() > 0.1


def test_clouds_of_a_bag_may_differ_in_size():
    layer = RandomPoints(3, same_in_bag=True, seed=0)
    run_layer_test(RandomPoints, {"n_points": 3, "same_in_bag": True}, {"inputs": BAGS}, BAGS)
    assert layer(BAGS, training=True).values.row_lengths().numpy().tolist() == [3, 1, 3]
    assert layer(BAGS[:0], training=True).shape[0] == 0
    with pytest.raises(ValueError, match=r"expected ragged clouds \[batch, \(n\), \(m\), 3\]"):
        layer(BAGS.values)


def test_equal_points_are_at_the_origin():
    x = tf.RaggedTensor.from_row_lengths(tf.fill([7, 3], 0.1), [4, 3])
    assert_close(RandomPoints(3)(x, training=True).flat_values, np.zeros((6, 3)))


def test_one_graph_for_clouds_of_all_sizes():
    inputs = keras.Input((None, 3), ragged=True)
    layer = RandomPoints(2, seed=0)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None, 3], ragged_rank=1)])
    def step(x):
        return layer(x, training=True)

    assert layer(inputs).shape == (None, None, 3)
    for sizes in ([3, 1], [2, 5, 0]):
        x = ragged.from_flat(RNG.normal(size=(sum(sizes), 3)).astype("float32"), [sizes])
        assert step(x).row_lengths().numpy().tolist() == [min(size, 2) for size in sizes]


@pytest.mark.parametrize("n_points", [0, 1.5, None])
def test_arguments(n_points):
    with pytest.raises(ValueError, match="n_points="):
        RandomPoints(n_points)


@pytest.mark.parametrize(
    "inputs",
    [
        keras.Input((None, 2), ragged=True),
        keras.Input((8, 3)),
        tf.zeros((2, 8, 3)),
        tf.RaggedTensor.from_row_lengths(tf.zeros((3, 8, 3)), [2, 1]),
    ],
    ids=["plane", "dense", "tensor", "of equal sizes"],
)
def test_no_clouds(inputs):
    with pytest.raises(ValueError, match=r"expected ragged clouds \[batch, \(n\), 3\]"):
        RandomPoints(2)(inputs)

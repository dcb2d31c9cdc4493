"""RandomPose: what it does to clouds, cloud by cloud."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil.layers import RandomPose
from keras_mmil.testing import assert_close, run_layer_test

RNG = np.random.default_rng(0)
SIZES = [[2, 0, 1], [5, 1, 6]]
BAGS = ragged.from_flat(RNG.normal(size=(12, 3)).astype("float32"), SIZES)
DENSE = tf.constant(RNG.normal(size=(200, 8, 3)).astype("float32"))


@pytest.mark.parametrize("inputs", [BAGS, DENSE], ids=["ragged", "dense"])
def test_is_a_keras_layer_that_is_idle_outside_of_training(inputs):
    run_layer_test(RandomPose, {"jitter": 0.1, "seed": 1}, {"inputs": inputs}, inputs)


def linear_maps(before, after):
    """The matrix of each cloud that maps its points to what they became."""
    return np.stack(
        [np.linalg.lstsq(a, b, rcond=None)[0].T for a, b in zip(before, after, strict=True)]
    )


def test_clouds_are_turned_about_z_and_stretched():
    before = DENSE.numpy()
    after = RandomPose(rotation=0.1, scale=(0.5, 2), seed=1)(before, training=True).numpy()
    maps = linear_maps(before, after)
    np.testing.assert_allclose(np.einsum("bij,bnj->bni", maps, before), after, atol=1e-4)
    np.testing.assert_allclose(maps[:, 2, :2], 0, atol=1e-5)
    np.testing.assert_allclose(maps[:, :2, 2], 0, atol=1e-5)
    scales = np.linalg.norm(maps, axis=2)  # of each axis
    assert scales.min() > 0.5 - 1e-3
    assert scales.max() < 2 + 1e-3
    assert scales.std(axis=0).min() > 0.3  # each axis, each cloud, in its own way
    assert abs(np.corrcoef(scales.T)).max(initial=0, where=~np.eye(3, dtype=bool)) < 0.3
    angles = np.arctan2(maps[:, 1, 0] / scales[:, 1], maps[:, 0, 0] / scales[:, 0])
    np.testing.assert_allclose(
        np.arctan2(-maps[:, 0, 1] / scales[:, 0], maps[:, 1, 1] / scales[:, 1]), angles, atol=1e-4
    )
    assert np.abs(angles).max() < 0.2 * np.pi + 1e-3
    assert angles.min() < -0.15 * np.pi < 0.15 * np.pi < angles.max()


def test_clouds_within_a_bag_have_a_pose_each():
    layer = RandomPose(seed=2)
    x = tf.constant(RNG.normal(size=(2, 3, 8, 3)).astype("float32"))
    after = layer(x, training=True)
    maps = linear_maps(x.numpy().reshape(6, 8, 3), after.numpy().reshape(6, 8, 3))
    assert len(np.unique(maps.round(4), axis=0)) == 6
    twin = RandomPose(seed=2)
    bags = tf.RaggedTensor.from_tensor(x, ragged_rank=2)
    assert_close(twin(bags, training=True).to_tensor(), after)


def test_bags_keep_their_sizes():
    after = RandomPose(jitter=0.5)(BAGS, training=True)
    for ours, given in zip(after.nested_row_splits, BAGS.nested_row_splits, strict=True):
        np.testing.assert_array_equal(ours, given)
    assert np.isfinite(after.flat_values).all()


def test_jitter():
    layer = RandomPose(rotation=0, scale=(1, 1), jitter=0.25)
    moved = (layer(DENSE, training=True) - DENSE).numpy()
    np.testing.assert_allclose(moved.std(axis=(0, 1)), 0.25, rtol=0.1)
    np.testing.assert_allclose(moved.mean(axis=(0, 1)), 0, atol=0.03)


def test_nothing_to_do():
    layer = RandomPose(rotation=0, scale=(1, 1))
    assert_close(layer(DENSE, training=True), DENSE)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"rotation": -0.1}, "rotation=-0.1"),
        ({"rotation": 0.6}, "rotation=0.6"),
        ({"scale": (0, 1)}, "scale="),
        ({"scale": (2, 1)}, "scale="),
        ({"scale": (1,)}, "scale="),
        ({"jitter": -1}, "jitter=-1"),
        ({"jitter": float("nan")}, "jitter=nan"),
    ],
)
def test_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        RandomPose(**arguments)


@pytest.mark.parametrize("shape", [(None, 2), (3,)])
def test_no_clouds(shape):
    with pytest.raises(ValueError, match=r"expected clouds \[batch, \(n\), 3\]"):
        RandomPose()(keras.Input(shape))

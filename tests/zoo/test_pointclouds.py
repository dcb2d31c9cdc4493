"""The networks for point clouds."""

import keras
import pytest
import tensorflow as tf

from keras_mmil import builders, datasets, zoo


@pytest.mark.slow
@pytest.mark.parametrize(
    ("builder", "policy"),
    [
        pytest.param(zoo.pointcloud_mil, "mixed_float16", marks=pytest.mark.graphs),
        (zoo.pointcloud_mmil, "mixed_bfloat16"),
        pytest.param(
            *(zoo.pointcloud_mmil, "mixed_float16"), marks=[pytest.mark.graphs, pytest.mark.nightly]
        ),
        pytest.param(zoo.pointcloud_mil, "mixed_bfloat16", marks=pytest.mark.nightly),
    ],
)
def test_networks_for_clouds_in_mixed_precision(builder, policy):
    x, y = datasets.synthetic.load_clouds(24, n_points=20, seed=0)
    bags = tf.RaggedTensor.from_tensor(x)
    if builder is zoo.pointcloud_mmil:
        bags = tf.RaggedTensor.from_tensor(builders.clouds.rotations(x, 3), ragged_rank=2)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        keras.utils.set_random_seed(0)
        small = {"equivariant_units": (16, 16), "dense_units": 16, "dropout": 0.0}
        model = builder(4, **small, learning_rate=0.02)
    finally:
        keras.config.set_dtype_policy(before)
    assert model.get_layer("equivariant_1").compute_dtype == policy.removeprefix("mixed_")
    losses = model.fit(bags, y, epochs=6, batch_size=8, verbose=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]

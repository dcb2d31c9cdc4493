"""The networks for images and for point clouds."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import builders, datasets, zoo


def test_mnist_arguments():
    model = zoo.mnist_mmil(
        input_shape=(20, 20),
        filters=(2, 3),
        strides=1,
        padding="valid",
        dense_units=4,
        bag_units=(5, 6, 7),
        name="small",
    )
    assert model.name == "small"
    assert model.input_shape == (None, None, None, None, 20, 20)
    assert [layer.units for layer in model.layers if hasattr(layer, "aggregations")] == [5, 6, 7]


def test_mnist_network_is_that_of_the_papers_table():
    encoder = zoo.mnist_mmil(translation=0).get_layer("instances").layer
    block = ["Conv2D", "BatchNormalization", "ReLU", "MaxPooling2D", "Dropout"]
    names = [type(layer).__name__ for layer in encoder.layers]
    assert names == ["Reshape", "Rescaling", *block, *block, "Flatten", "Dense", "Dropout"]
    first, second = (layer for layer in encoder.layers if type(layer).__name__ == "Conv2D")
    assert (first.filters, second.filters) == (32, 64)
    assert first.kernel_size == second.kernel_size == (5, 5)


def test_mnist_images_are_shifted_in_training_only():
    model = zoo.mnist_mmil(translation=1)
    (shift,) = (
        layer
        for layer in model.get_layer("instances").layer.layers
        if isinstance(layer, keras.layers.RandomTranslation)
    )
    dots = np.zeros((200, 28, 28, 1), "float32")
    dots[:, 10, 20] = 1
    shifted = shift(dots, training=True).numpy()
    np.testing.assert_allclose(shifted.sum((1, 2, 3)), 1, rtol=1e-4)  # nothing is lost on the way
    grid = np.arange(28)
    rows = (shifted.sum((2, 3)) * grid).sum(1) - 10  # where the middle of each dot went
    columns = (shifted.sum((1, 3)) * grid).sum(1) - 20
    for offsets in (rows, columns):
        assert -1.001 < offsets.min() < -0.8
        assert 0.8 < offsets.max() < 1.001


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

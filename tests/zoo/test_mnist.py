"""The network for bags of bags of images."""

import keras
import numpy as np

from keras_mmil import zoo


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

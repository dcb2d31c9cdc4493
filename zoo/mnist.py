"""The network of the paper's experiment "A Semi-Synthetic Dataset", and its appendix."""

from collections.abc import Sequence
from typing import Literal

import keras

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import LearningRate
from keras_mmil.layers import BagLayer, InstanceWise
from keras_mmil.layers.aggregations import Aggregations
from keras_mmil.model import Model, output_dtype
from keras_mmil.zoo._compile import compile_binary
from keras_mmil.zoo._weights import Weights, with_weights

__all__ = ["mnist_mmil"]


def mnist_mmil(
    input_shape: tuple[int, int] = (28, 28),
    *,
    filters: Sequence[int] = (32, 64),
    strides: int = 2,
    padding: Literal["same", "valid"] = "same",
    dense_units: int = 1024,
    dropout: float = 0.5,
    translation: float = 1,
    bag_units: Sequence[int] = (200, 200),
    aggregation: Aggregations = "max",
    learning_rate: LearningRate = 0.001,
    weights: Weights = None,
    name: str = "mnist_mmil",
) -> Model:
    """Compiled convolutional network for bags of bags of images.

    Two blocks of 5x5 convolution, batch normalisation, ReLU, 2x2 max pooling and dropout; a dense
    layer; then a bag-layer for each level of bags, and a sigmoid unit.

    Args:
        input_shape: (height, width) of the images, uint8; the model rescales them.
        filters: channels of each convolution.
        strides, padding: of the convolutions. The paper does not state them; the defaults are
            those of the authors' published program.
        dense_units: units of the dense layer.
        dropout: rate of every dropout.
        translation: greatest random shift of images in training, in pixels, along each axis. 0 in
            the paper, with which the network overfits on 5,000 labels.
        bag_units: units of each bag-layer, from the instances upwards; one for each level of bags.
        aggregation: of the bag-layers.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        weights: None for random ones, or "pretrained" for those of `zoo.load("mnist")`.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for RaggedTensors [batch, (n), (m), height, width].

    Raises:
        ValueError: if there are no pretrained weights of a network with these arguments.

    Source:
        Paper, table "Neural network structure for MMIL MNIST dataset", which has no `translation`.
    """
    bags = keras.Input(
        (None,) * len(bag_units) + tuple(input_shape), dtype="uint8", ragged=True, name="bags"
    )
    encoder = keras.Sequential(name="encoder")
    encoder.add(keras.Input(tuple(input_shape), dtype="uint8"))
    encoder.add(keras.layers.Reshape((*input_shape, 1)))
    encoder.add(keras.layers.Rescaling(1 / 255))
    if translation:
        factors = (translation / size for size in input_shape)
        encoder.add(keras.layers.RandomTranslation(*factors, fill_mode="constant"))
    for channels in filters:
        encoder.add(keras.layers.Conv2D(channels, 5, strides=strides, padding=padding))
        encoder.add(keras.layers.BatchNormalization())
        encoder.add(keras.layers.ReLU())
        encoder.add(keras.layers.MaxPooling2D(2, padding="same"))
        encoder.add(keras.layers.Dropout(dropout))
    encoder.add(keras.layers.Flatten())
    encoder.add(keras.layers.Dense(positive_int("dense_units", dense_units), activation="relu"))
    encoder.add(keras.layers.Dropout(dropout))

    x = InstanceWise(encoder, name="instances")(bags)  # (batch, (n), (m), dense_units)
    for level, units in enumerate(bag_units, start=1):
        x = BagLayer(units, aggregation=aggregation, name=f"bag_layer_{level}")(x)
    outputs = keras.layers.Dense(1, activation="sigmoid", dtype=output_dtype(), name="label")(x)

    model = compile_binary(Model(bags, outputs, name=name), learning_rate)
    return with_weights(model, weights, "mnist")

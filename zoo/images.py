"""The networks of the paper's experiments "A Semi-Synthetic Dataset" and "Point Clouds"."""

from collections.abc import Sequence
from typing import Any, Literal

import keras

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import LearningRate
from keras_mmil.layers import BagLayer, EquivariantBagLayer, InstanceWise, RandomPoints, RandomPose
from keras_mmil.layers.aggregations import Aggregations
from keras_mmil.model import Model, output_dtype
from keras_mmil.zoo._building import compile_binary, compile_smoothed_classes
from keras_mmil.zoo._weights import Weights, with_weights

__all__ = ["mnist_mmil", "pointcloud_mil", "pointcloud_mmil"]


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
    layer; a bag-layer for each level of bags; and a sigmoid unit.

    Args:
        input_shape: (height, width) of the images, uint8, which the model rescales.
        filters: channels of each convolution.
        strides, padding: of the convolutions. The defaults are from the authors' code, as the paper
            does not state them.
        dense_units: units of the dense layer.
        dropout: rate of every dropout.
        translation: greatest random shift of images in training, in pixels, along each axis. 0 in
            the paper, which overfits on 5,000 labels.
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
        Paper, table "Neural network structure for MMIL MNIST dataset", without `translation`.
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


def pointcloud_mil(
    n_classes: int = 40,
    *,
    equivariant_units: Sequence[int] = (256, 256, 256),
    dense_units: int = 256,
    bag_units: Sequence[int] = (),
    dropout: float = 0.5,
    n_points: int | None = None,
    rotation: float = 0.05,
    scale: tuple[float, float] = (2 / 3, 3 / 2),
    jitter: float = 0.0,
    label_smoothing: float = 0.1,
    learning_rate: LearningRate = 0.001,
    weights: Weights = None,
    name: str = "pointcloud_mil",
) -> Model:
    """Compiled classifier of point clouds, invariant to the order of the points.

    The network of Deep Sets: equivariant tanh layers that subtract the maximum of the set; the
    maximum over the set; a dense tanh layer between dropouts; and a softmax. For clouds of 5,000
    points, the authors use 512 units in each layer.

    Args:
        n_classes: number of classes of objects.
        equivariant_units: units of each equivariant layer.
        dense_units: units of the dense layer.
        bag_units: units of further bag-layers with sums, from the clouds upwards.
        dropout: rate of the dropouts before and after the dense layer.
        n_points: size of the random sample of each cloud in each training step, with the same
            points in all clouds of a bag, see `RandomPoints`; None for all.
        rotation, scale, jitter: random changes of the clouds in training, see `RandomPose`.
        label_smoothing: of the cross-entropy, see `losses.SmoothedCrossentropy`.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        weights: None for random ones, or "pretrained" for those of `zoo.load("modelnet-p100")`, a
            `pointcloud_mmil` for bags of clouds of 100 points.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for RaggedTensors [batch, (points), 3], with another axis for
        each of `bag_units`, and int labels.

    Raises:
        ValueError: if there are no pretrained weights for these arguments.

    Source:
        Zaheer et al., Deep Sets, 2017, and the authors' code; paper, section "Point Clouds". The
        authors' code has an epsilon of Adam of 0.001, factors from 0.8 to 1.25, and no label
        smoothing.
    """
    clouds = keras.Input((None,) * len(bag_units) + (None, 3), ragged=True, name="bags")
    x = clouds
    if n_points is not None:
        x = RandomPoints(n_points, same_in_bag=bool(bag_units), name="random_points")(x)
    x = RandomPose(rotation=rotation, scale=scale, jitter=jitter, name="random_pose")(x)
    for level, units in enumerate(equivariant_units, start=1):
        layer = EquivariantBagLayer(
            units, kernel_initializer=_weights(), name=f"equivariant_{level}"
        )
        x = layer(x)
    x = BagLayer(None, name="bag_layer_1")(x)  # (batch, (clouds), units)

    def each(layer: keras.layers.Layer) -> keras.layers.Layer:
        return InstanceWise(layer, name=f"{layer.name}_of_each") if bag_units else layer

    x = each(keras.layers.Dropout(dropout, name="dropout_1"))(x)
    dense = keras.layers.Dense(
        positive_int("dense_units", dense_units),
        "tanh",
        kernel_initializer=_weights(),
        name="dense",
    )
    x = each(dense)(x)
    x = each(keras.layers.Dropout(dropout, name="dropout_2"))(x)
    for level, units in enumerate(bag_units, start=2):
        layer = BagLayer(
            units, aggregation="sum", kernel_initializer=_weights(), name=f"bag_layer_{level}"
        )
        x = layer(x)
    label = keras.layers.Dense(
        n_classes, "softmax", kernel_initializer=_weights(), dtype=output_dtype(), name="label"
    )
    model = Model(clouds, label(x), name=name)
    compile_smoothed_classes(
        model,
        learning_rate,
        label_smoothing=label_smoothing,
        weight_decay=1e-7,
        global_clipnorm=5.0,
    )
    return with_weights(model, weights, "modelnet-p100")


def _weights() -> keras.initializers.Initializer:
    """Uniform within 1/√features; with Keras's default, the first gradients would be clipped."""
    return keras.initializers.VarianceScaling(1 / 3, mode="fan_in", distribution="uniform")


def pointcloud_mmil(
    n_classes: int = 40,
    *,
    bag_units: Sequence[int] = (40,),
    name: str = "pointcloud_mmil",
    **arguments: Any,
) -> Model:
    """Same as `pointcloud_mil`, for bags of clouds, such as the rotations of one.

    Returns:
        A compiled `keras_mmil.Model` for RaggedTensors [batch, (clouds), (points), 3].

    Example:

    >>> (x, y), test = datasets.modelnet.load(n_points=100)
    >>> bags = tf.RaggedTensor.from_tensor(builders.clouds.rotations(x, 5), ragged_rank=2)
    >>> model = zoo.pointcloud_mmil()
    >>> model.fit(bags, y, epochs=1, batch_size=64)
    """
    return pointcloud_mil(n_classes, bag_units=bag_units, name=name, **arguments)

"""The networks of the paper's experiment "Point Clouds"."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import LearningRate
from keras_mmil.layers import BagLayer, EquivariantBagLayer, InstanceWise, RandomPoints, RandomPose
from keras_mmil.model import Model, output_dtype
from keras_mmil.zoo._compile import compile_smoothed_classes
from keras_mmil.zoo._weights import Weights, with_weights

__all__ = ["pointcloud_mil", "pointcloud_mmil"]


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
    """Compiled classifier of point clouds that does not depend on the order of the points.

    The permutation invariant network of Deep Sets: equivariant layers that subtract the maximum of
    the set, with tanh; the maximum over the set; a dense layer with tanh between dropouts; and a
    softmax. For clouds of 5,000 points it has 512 units in each layer instead of 256.

    Args:
        n_classes: number of classes of objects.
        equivariant_units: units of each equivariant layer.
        dense_units: units of the dense layer.
        bag_units: units of further bag-layers with sums, from the clouds upwards.
        dropout: rate of the dropouts before and after the dense layer.
        n_points: how many points of each cloud are drawn in each training step, of clouds of one
            bag at the same places, see `RandomPoints`; None for all.
        rotation, scale, jitter: random changes of the clouds in training, see `RandomPose`.
        label_smoothing: of the cross-entropy, see `losses.SmoothedCrossentropy`.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        weights: None for random ones, or "pretrained" for those of `zoo.load("modelnet-p100")`,
            which is the `pointcloud_mmil` for bags of clouds of 100 points.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for RaggedTensors [batch, (points), 3], with an axis more for
        each of `bag_units`, and labels that are ints.

    Raises:
        ValueError: if there are no pretrained weights of a network with these arguments.

    Source:
        Zaheer et al., Deep Sets, 2017, and the authors' program; paper, section "Point Clouds".
        The authors' program has an Adam with an epsilon of 0.001 instead of Keras's, factors from
        0.8 to 1.25, and labels that are not smoothed.
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
    """Uniform within 1/√features, a third of the variance of Keras's own where layers are square.

    With Keras's, the gradients of a new network exceed the norm at which they are clipped.
    """
    return keras.initializers.VarianceScaling(1 / 3, mode="fan_in", distribution="uniform")


def pointcloud_mmil(
    n_classes: int = 40,
    *,
    bag_units: Sequence[int] = (40,),
    name: str = "pointcloud_mmil",
    **arguments: Any,
) -> Model:
    """The same for bags of clouds, such as one cloud in several rotations.

    Args:
        n_classes, bag_units, name: as for `pointcloud_mil`.
        arguments: the others.

    Returns:
        A compiled `keras_mmil.Model` for RaggedTensors [batch, (clouds), (points), 3].

    Example:

    >>> (x, y), test = datasets.modelnet.load(n_points=100)
    >>> bags = tf.RaggedTensor.from_tensor(builders.clouds.rotations(x, 5), ragged_rank=2)
    >>> model = zoo.pointcloud_mmil()
    >>> model.fit(bags, y, epochs=1, batch_size=64)
    """
    return pointcloud_mil(n_classes, bag_units=bag_units, name=name, **arguments)

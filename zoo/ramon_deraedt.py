"""Two ways to learn from bags: aggregate the outputs of instances, or their representations.

Paper, section "Multi-Instance Neural Networks".
"""

from collections.abc import Sequence

import keras

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import LearningRate
from keras_mmil.layers import BagLayer, InstanceWise
from keras_mmil.layers.aggregations import LSE
from keras_mmil.model import Model, output_dtype
from keras_mmil.zoo._building import compile_binary

__all__ = ["output_level_mil", "representation_level_mil"]


def output_level_mil(
    features: int,
    *,
    hidden_units: Sequence[int] = (16,),
    sharpness: float = 1.0,
    learning_rate: LearningRate = 0.01,
    name: str = "output_level_mil",
) -> Model:
    """Compiled network of Ramon and De Raedt for bags of vectors.

    A network f maps each instance to a number, and their smooth maximum
    F = log(Σⱼ exp(M f(xⱼ))) / M is the logit of the bag. As F grows with every instance, none can
    be evidence against a positive bag.

    Args:
        features: size of an instance.
        hidden_units: units of the hidden layers of f.
        sharpness: M > 0, a constant. F is the maximum as M → ∞.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for RaggedTensors [batch, (n), features].

    Reference:
        Ramon and De Raedt, Multi Instance Neural Networks, 2000.
    """
    bags = keras.Input((None, features), ragged=True, name="bags")
    f = _instance_network(features, hidden_units)
    f.add(keras.layers.Dense(1, name="output"))
    x = InstanceWise(f, name="instances")(bags)  # (batch, (n), 1)
    smooth_maximum = LSE(sharpness, learned=False)
    x = BagLayer(None, aggregation=smooth_maximum, empty="zeros", name="bag_layer")(x)  # (batch, 1)
    outputs = keras.layers.Activation("sigmoid", dtype=output_dtype(), name="label")(x)
    return compile_binary(Model(bags, outputs, name=name), learning_rate)


def representation_level_mil(
    features: int,
    *,
    hidden_units: Sequence[int] = (16,),
    bag_units: int = 8,
    learning_rate: LearningRate = 0.01,
    name: str = "representation_level_mil",
) -> Model:
    """Compiled network for bags of vectors that aggregates representations, and then classifies.

    Args:
        features: size of an instance.
        hidden_units: units of the hidden layers for instances.
        bag_units: units of the bag-layer with maxima. Two can learn "a 0 and no 2", but not from
            all initial weights; eight did in all trials.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for RaggedTensors [batch, (n), features].
    """
    bags = keras.Input((None, features), ragged=True, name="bags")
    x = InstanceWise(_instance_network(features, hidden_units), name="instances")(bags)
    x = BagLayer(bag_units, activation="tanh", name="bag_layer")(x)  # (batch, bag_units)
    outputs = keras.layers.Dense(1, activation="sigmoid", dtype=output_dtype(), name="label")(x)
    return compile_binary(Model(bags, outputs, name=name), learning_rate)


def _instance_network(features: int, hidden_units: Sequence[int]) -> keras.Sequential:
    network = keras.Sequential([keras.Input((features,))], name="instance_network")
    for units in hidden_units:
        network.add(keras.layers.Dense(positive_int("units", units), activation="relu"))
    return network

"""The network of the paper's experiment "Social Network Datasets"."""

from collections.abc import Sequence
from typing import Protocol

import keras

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import Ints, LearningRate
from keras_mmil.builders.graphs import degree_features
from keras_mmil.layers import BagLayer, Distinct, bag_inputs
from keras_mmil.layers.aggregations import Aggregations
from keras_mmil.model import Model, output_dtype
from keras_mmil.zoo._compile import compile_logits
from keras_mmil.zoo._frozen import frozen_embedding

__all__ = ["social_mmil"]


class _Graphs(Protocol):
    """What a network has to know of the graphs."""

    @property
    def degrees(self) -> Ints: ...

    @property
    def n_classes(self) -> int: ...


def social_mmil(
    dataset: _Graphs,
    *,
    dense_units: int = 500,
    bag_units: Sequence[int] = (500, 500),
    aggregation: Aggregations = "max|mean",
    dropout: float = 0.0,
    learning_rate: LearningRate = 0.001,
    name: str = "social_mmil",
) -> Model:
    """Compiled network for graphs as bags of neighbourhoods whose nodes are known by degree.

    The features of each degree (`builders.graphs.degree_features`), a dense layer of ReLU units, a
    bag-layer for each level of bags, and as many linear outputs as there are classes. Each
    distinct degree, and each distinct neighbourhood of a batch, is computed once.

    Args:
        dataset: a `datasets.social.Networks`, or another object with the `degrees` of its nodes
            and `n_classes`.
        dense_units: units of the dense layer.
        bag_units: units of each bag-layer, from the instances upwards; one for each level of bags.
        aggregation: of the bag-layers; the units are split evenly between several.
        dropout: rate of the dropout after each bag-layer; 0 in the paper.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for degrees [batch, (nodes), (members)], plain or `Bags`, and
        labels that are ints. Its outputs are logits [batch, classes].

    Source:
        Paper, section "Social Network Datasets". There are two outputs for two classes, too.

    Example:

    >>> networks = datasets.social.load("IMDB-BINARY")
    >>> model = zoo.social_mmil(networks)
    >>> model.fit(keras_mmil.Bags.from_ragged(networks.bags()), networks.labels, epochs=100)
    """
    inputs = bag_inputs(depth=len(bag_units))
    degrees, *levels = Distinct(name="distinct")(inputs)
    features = degree_features(int(dataset.degrees.max()))
    x = frozen_embedding(features, name="degree_features")(degrees)  # (degrees, greatest degree)
    x = keras.layers.Dense(
        positive_int("dense_units", dense_units), activation="relu", name="degrees"
    )(x)
    for level, (units, bags) in enumerate(zip(bag_units, levels, strict=True), start=1):
        x = BagLayer(units, aggregation=aggregation, name=f"bag_layer_{level}")(x, *bags)
        if dropout:
            x = keras.layers.Dropout(dropout, name=f"dropout_{level}")(x)
    outputs = keras.layers.Dense(dataset.n_classes, dtype=output_dtype(), name="label")(x)
    return compile_logits(Model(inputs, outputs, name=name), learning_rate)

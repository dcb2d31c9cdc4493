"""The networks of the paper's experiments "Citation Datasets" and "Social Network Datasets"."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import keras

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import LearningRate
from keras_mmil.builders.graphs import degree_features
from keras_mmil.layers import BagLayer, Distinct, MemberDropout, bag_inputs
from keras_mmil.layers.aggregations import Aggregations
from keras_mmil.model import Model, output_dtype
from keras_mmil.zoo._building import compile_smoothed_classes, frozen_embedding
from keras_mmil.zoo._weights import Weights, stored_weights, with_weights

__all__ = ["citation_mil", "citation_mmil", "social_mmil"]


def citation_mmil(
    dataset: Any = None,
    *,
    aggregation: Aggregations = "mean",
    bag_units: Sequence[int] = (250, 250),
    word_dropout: float = 0.5,
    neighbour_dropout: float = 0.0,
    dropout: float = 0.5,
    l2: float = 1e-4,
    initial_std: float = 0.1,
    label_smoothing: float = 0.0,
    learning_rate: LearningRate = 0.001,
    weights: Weights = None,
    name: str = "citation_mmil",
) -> Model:
    """Compiled network for papers as bags of neighbouring papers, which are bags of words.

    A bag-layer of ReLU units for each level of bags, the first on one-hot vectors of words, and a
    softmax. Each distinct word and paper of a batch is computed once.

    Args:
        dataset: a `datasets.citations.Citations`, or another object with `n_words` and `n_classes`;
            None for Cora, with pretrained weights.
        aggregation: of the bag-layers, "max" or "mean" in the paper.
        bag_units: units of each bag-layer, from the words upwards; one for each level of bags.
        word_dropout: probability of dropping a word of a paper in training.
        neighbour_dropout: probability of dropping a paper of a bag of papers in training.
        dropout: rate of the dropout after each bag-layer.
        l2: factor of the squared kernels in the loss.
        initial_std: standard deviation of the initial weights of each word; Keras's initializers
            would scale them by the size of the vocabulary, although one word at a time is not 0.
        label_smoothing: of the cross-entropy, see `losses.SmoothedCrossentropy`.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        weights: None for random ones, or "pretrained" for those of `zoo.load("cora")`.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for word ids [batch, (papers), (words)], plain or `Bags`, and
        int labels.

    Raises:
        ValueError: if there are no pretrained weights for these arguments.

    Source:
        Paper, section "Citation Datasets", without dropouts, `l2` and `label_smoothing`.

    Example:

    >>> network = datasets.citations.load("cora")
    >>> model = zoo.citation_mmil(network, aggregation="mean")
    >>> (x, y), valid, test = network.parts("random")
    >>> model.fit(x, y, validation_data=valid, epochs=100)
    """
    if dataset is None:
        first_weights, *_, last_weights = stored_weights("a dataset", weights, "cora")
        dataset = SimpleNamespace(n_words=len(first_weights), n_classes=len(last_weights))
    inputs = bag_inputs(depth=len(bag_units))
    x, *levels = Distinct(name="distinct")(inputs)
    first = {
        "vocabulary_size": dataset.n_words,
        "kernel_initializer": keras.initializers.RandomNormal(stddev=initial_std),
    }
    rates = [word_dropout, *[neighbour_dropout] * (len(bag_units) - 1)]
    for level, (units, (members, counts)) in enumerate(
        zip(bag_units, levels, strict=True), start=1
    ):
        drop_members = MemberDropout(rates[level - 1], name=f"member_dropout_{level}")
        x = BagLayer(
            units,
            aggregation=aggregation,
            kernel_regularizer=keras.regularizers.L2(l2),
            name=f"bag_layer_{level}",
            **(first if level == 1 else {}),
        )(x, members, drop_members(members, counts))
        x = keras.layers.Dropout(dropout, name=f"dropout_{level}")(x)
    outputs = keras.layers.Dense(
        dataset.n_classes,
        activation="softmax",
        kernel_regularizer=keras.regularizers.L2(l2),
        dtype=output_dtype(),
        name="label",
    )(x)
    model = compile_smoothed_classes(
        Model(inputs, outputs, name=name), learning_rate, label_smoothing=label_smoothing
    )
    return with_weights(model, weights, "cora")


def citation_mil(
    dataset: Any,
    *,
    bag_units: Sequence[int] = (250,),
    name: str = "citation_mil",
    **arguments: Any,
) -> Model:
    """Same as `citation_mmil`, for papers as bags of all words of their neighbours [batch, (n)]."""
    return citation_mmil(dataset, bag_units=bag_units, name=name, **arguments)


def social_mmil(
    dataset: Any,
    *,
    dense_units: int = 500,
    bag_units: Sequence[int] = (500, 500),
    aggregation: Aggregations = "max|mean",
    dropout: float = 0.0,
    learning_rate: LearningRate = 0.001,
    name: str = "social_mmil",
) -> Model:
    """Compiled network for graphs as bags of neighbourhoods, which are bags of degrees.

    The features of each degree (`builders.graphs.degree_features`), a dense layer of ReLU units, a
    bag-layer for each level of bags, and a linear output for each class. Each distinct degree and
    neighbourhood of a batch is computed once.

    Args:
        dataset: a `datasets.social.Networks`, or another object with `degrees` and `n_classes`.
        dense_units: units of the dense layer.
        bag_units: units of each bag-layer, from the instances upwards; one for each level of bags.
        aggregation: of the bag-layers; the units are split evenly between several.
        dropout: rate of the dropout after each bag-layer; 0 in the paper.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for degrees [batch, (nodes), (members)], plain or `Bags`, and
        int labels. Its outputs are logits [batch, classes].

    Source:
        Paper, section "Social Network Datasets".

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
    model = Model(inputs, outputs, name=name)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(learning_rate), loss, metrics=["accuracy"])
    return model

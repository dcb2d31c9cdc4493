"""The networks of the paper's experiment "Citation Datasets"."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import keras

from keras_mmil._support.types import LearningRate
from keras_mmil.layers import BagLayer, Distinct, MemberDropout, bag_inputs
from keras_mmil.layers.aggregations import Aggregations
from keras_mmil.model import Model, output_dtype
from keras_mmil.zoo._compile import compile_smoothed_classes
from keras_mmil.zoo._weights import Weights, stored_weights, with_weights

__all__ = ["citation_mil", "citation_mmil"]


class _Papers(Protocol):
    """What a network has to know of the papers."""

    @property
    def n_words(self) -> int: ...

    @property
    def n_classes(self) -> int: ...


@dataclass(frozen=True)
class _Sizes:
    n_words: int
    n_classes: int


def citation_mmil(
    dataset: _Papers | None = None,
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
    """Compiled network for papers as bags of the papers around them, each the bag of its words.

    A bag-layer of ReLU units for each level of bags, the first on one-hot vectors of words, and a
    softmax. Each distinct word and each distinct paper of a batch is computed once, however many
    bags hold them.

    Args:
        dataset: a `datasets.citations.Citations`, or another object with `n_words` and `n_classes`;
            None for Cora, with pretrained weights.
        aggregation: of the bag-layers, "max" or "mean" in the paper.
        bag_units: units of each bag-layer, from the words upwards; one for each level of bags.
        word_dropout: probability of leaving a word out of a paper in training.
        neighbour_dropout: probability of leaving a paper out of a bag of papers in training.
        dropout: rate of the dropout after each bag-layer.
        l2: factor of the squared kernels in the loss.
        initial_std: standard deviation of the initial weights of each word. Keras's initializers
            would count the whole vocabulary as the inputs of a unit, of which only one at a time is
            not 0.
        label_smoothing: of the cross-entropy, see `losses.SmoothedCrossentropy`.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        weights: None for random ones, or "pretrained" for those of `zoo.load("cora")`.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for ids of words [batch, (papers), (words)], plain or `Bags`,
        and labels that are ints.

    Raises:
        ValueError: if there are no pretrained weights of a network with these arguments.

    Source:
        Paper, section "Citation Datasets", which has no dropouts, no `l2` and no `label_smoothing`.

    Example:

    >>> network = datasets.citations.load("cora")
    >>> model = zoo.citation_mmil(network, aggregation="mean")
    >>> (x, y), valid, test = network.parts("random")
    >>> model.fit(x, y, validation_data=valid, epochs=100)
    """
    if dataset is None:
        first_weights, *_, last_weights = stored_weights("a dataset", weights, "cora")
        dataset = _Sizes(len(first_weights), len(last_weights))
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
    dataset: _Papers,
    *,
    bag_units: Sequence[int] = (250,),
    name: str = "citation_mil",
    **arguments: Any,
) -> Model:
    """The same for papers as bags of the words of all papers around them [batch, (words)].

    Args:
        dataset, bag_units, name: as for `citation_mmil`.
        arguments: the others.
    """
    return citation_mmil(dataset, bag_units=bag_units, name=name, **arguments)

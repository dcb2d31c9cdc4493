"""The networks of the paper's experiment "Sentiment Analysis"."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_mmil._support.checks import is_int, positive_int
from keras_mmil._support.types import Array, LearningRate
from keras_mmil.layers import BagLayer, Distinct, TextBags
from keras_mmil.layers.aggregations import Aggregations
from keras_mmil.model import Model, output_dtype
from keras_mmil.model.run import reapply
from keras_mmil.zoo._building import compile_binary, frozen_embedding
from keras_mmil.zoo._weights import Weights, stored_weights, with_weights

__all__ = ["imdb_mil", "imdb_mmil", "with_text"]

_SIZE = 100  # of word vectors that are trained


def imdb_mmil(
    vectors: int | Array | None = None,
    *,
    filters: int = 300,
    bag_units: Sequence[int] = (500, 500),
    window_size: int = 3,
    aggregation: Aggregations = "max|mean",
    dropout: float = 0.3,
    learning_rate: LearningRate = 0.001,
    weights: Weights = None,
    name: str = "imdb_mmil",
) -> Model:
    """Compiled network for texts as bags of sentences of trigrams.

    A dense layer of ReLU units maps the vector of each word, as a convolution of width 1 would; its
    outputs for the three words of a trigram are concatenated to the instance. A bag-layer for each
    level of bags and a sigmoid unit follow. Each distinct word of a batch is computed once.

    Args:
        vectors: word vectors, float [vocabulary, size], which are not trained; or the size of the
            vocabulary, for trained vectors of size 100; None for the pretrained ones.
        filters: units of the layer for words.
        bag_units: units of each bag-layer, from the instances upwards; one for each level of bags.
        window_size: words in an instance.
        aggregation: of the bag-layers.
        dropout: rate of the dropouts after the layer for words, and before the output; 0 in the
            paper.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        weights: None for random ones, or "pretrained" for those of `zoo.load("imdb")`, which
            replace `vectors`; the ids are then of its vocabulary.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for RaggedTensors of ids [batch, (n), (m), window_size].

    Raises:
        ValueError: if there are no pretrained weights for these arguments.

    Source:
        Paper, section "Sentiment Analysis", without `dropout`.
    """
    if vectors is None:
        vectors = stored_weights("vectors", weights, "imdb")[0]
    bags = keras.Input(
        (None,) * len(bag_units) + (window_size,), dtype="int32", ragged=True, name="bags"
    )
    ids, *levels = Distinct(name="distinct")({"bags": bags})
    x = _embedding(vectors)(ids)  # (words, size)
    x = keras.layers.Dense(
        positive_int("filters", filters),
        activation="relu",
        kernel_initializer="he_normal",
        name="words",
    )(x)
    x = keras.layers.Dropout(dropout)(x)
    for level, (units, (members, counts)) in enumerate(
        zip(bag_units, levels, strict=True), start=1
    ):
        x = BagLayer(
            units,
            aggregation=aggregation,
            window_size=window_size if level == 1 else None,
            kernel_initializer="he_normal",
            name=f"bag_layer_{level}",
        )(x, members, counts)
    x = keras.layers.Dropout(dropout)(x)
    outputs = keras.layers.Dense(1, activation="sigmoid", dtype=output_dtype(), name="label")(x)
    model = compile_binary(Model(bags, outputs, name=name), learning_rate)
    return with_weights(model, weights, "imdb")


def imdb_mil(
    vectors: int | Array,
    *,
    bag_units: Sequence[int] = (500,),
    name: str = "imdb_mil",
    **arguments: Any,
) -> Model:
    """Same as `imdb_mmil`, for texts as bags of trigrams: ragged ids [batch, (n), window_size]."""
    return imdb_mmil(vectors, bag_units=bag_units, name=name, **arguments)


def with_text(
    model: Model,
    vocabulary: Sequence[str],
    splitter: str = "tensorflow-text",
    name: str | None = None,
) -> Model:
    """The same model for strings.

    Args:
        model: a model of this module, or another that reads a RaggedTensor of ids [batch,
            (sentences), (tokens), window_size] or [batch, (tokens), window_size].
        vocabulary: the token of each id, as in the `Corpus` of the training data.
        splitter: of texts into sentences, as in the `Corpus`.
        name: of the new model, which shares the layers of `model`.

    Returns:
        `keras_mmil.Model` for strings [batch], a list of str or a tensor; compiled if `model` is.
    """
    bags = model.input
    texts = keras.Input((), dtype="string", name="texts")
    window_size = bags.shape[-1]
    depth = len(bags.shape) - 2
    to_bags = TextBags(
        vocabulary, depth=depth, window_size=window_size, splitter=splitter, name="to_bags"
    )
    outputs = reapply(model, to_bags(texts))
    text_model = Model(texts, outputs, name=name or f"{model.name}_with_text")
    if model.compiled:
        text_model.compile_from_config(model.get_compile_config())
    return text_model


def _embedding(vectors: int | Array) -> keras.layers.Embedding:
    if is_int(vectors):
        return keras.layers.Embedding(int(vectors), _SIZE, name="word_vectors")
    return frozen_embedding(vectors, name="word_vectors")

"""A network for nested records, built along their schema."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import keras
import tensorflow as tf

from keras_mmil._support.checks import check_int, check_number, positive_int
from keras_mmil.functional.seeds import seeded
from keras_mmil.layers import aggregations
from keras_mmil.model import Model
from keras_mmil.records import Schema
from keras_mmil.records.targets import Target
from keras_mmil.zoo._compile import output_dtype
from keras_mmil.zoo._record_fields import moments
from keras_mmil.zoo._record_network import Compress, RecordNetwork
from keras_mmil.zoo._types import Aggregations, LearningRate

__all__ = ["Labels", "records_model"]


@dataclass(frozen=True)
class Labels:
    """What a network predicts.

    Attributes:
        kind: "classes": one of `n` classes for each record; "labels": for each of `n` labels,
            whether it is given to a record; "numbers": `n` numbers.
        n: how many.
        mean, scale: of numbers, one each: what they are about, and how far they are from it.
    """

    kind: Literal["classes", "labels", "numbers"]
    n: int
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        least = 2 if self.kind == "classes" else 1
        if self.kind not in ("classes", "labels", "numbers"):
            raise ValueError(
                f"Expected kind 'classes', 'labels' or 'numbers'. Received: kind={self.kind!r}"
            )
        check_int("n", self.n, least)


def records_model(
    schema: Schema,
    target: str | Sequence[str] | Labels,
    *,
    units: int = 32,
    activation: str = "relu",
    aggregation: Aggregations = ("max", "mean"),
    dropout: float = 0.0,
    member_dropout: float = 0.0,
    weight_decay: float = 0.0,
    min_count: int = 2,
    n_edges: int = 0,
    compress: Compress = "auto",
    learning_rate: LearningRate = 1e-3,
    seed: int | None = None,
    name: str = "records",
) -> Model:
    """Compiled network for nested records, built along their schema.

    Each field is encoded: numbers are standardised, categories are one-hot or learned vectors,
    texts the mean of learned vectors of their words, and times are seen with their year, month,
    weekday and hour. What is missing has learned features, and one that says so. The vectors of a
    record's fields and of the bags in it are put side by side and go through a dense layer; the
    members of a bag then go through a bag-layer. What is in a record within a record counts as in
    the record itself; rows of linked tables that others share have a dense layer of their own.

    All this is in the network: it takes values as `schema.read` gives them, in a file or as a
    SavedModel, too, without the schema.

    Equal records in bags, and equal bags, are computed once in a batch, with the same results,
    unless there is dropout.

    Args:
        schema: of the training data. What it leaves out, and the target, are not read.
        target: path of what is to be predicted, or several, as of `schema.read`; or `Labels`, where
            the labels are not in the records.
        units: of each dense layer, and of each aggregation of the bag-layers.
        activation: of these layers, a name that Keras knows. "linear" makes a linear model of the
            fields' features, if the aggregation is "mean" or "sum": for few records with long bags
            of words or categories.
        aggregation: of the bag-layers, as of `BagLayer`. Where nothing of a bag is read but its
            size, it is "sum".
        dropout: rate, behind each dense layer and bag-layer. Equal records of a batch that are
            computed once share its noise, which can spoil the training: with `compress=False`
            they do not. `weight_decay` is another remedy against overfitting.
        member_dropout: rate at which members are left out of their bags in training: of bags of
            words or categories this keeps a network from learning rare ones by heart.
        weight_decay: of AdamW, in units of the learning rate.
        min_count: how often a category has been seen that is not to be taken for unknown.
        n_edges: number of quantiles of each number that are edges of `NumberEncoder`, at most; 0
            for none.
        compress: whether equal records and bags are computed once; "auto" where the schema says
            that a batch of 32 records has many. Weights and, without dropout, results are the same
            in all cases.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        seed: int from 0 to 2³² - 1 that all random numbers follow from with which the weights
            start; None for other ones each time.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` of the dict of tensors that `schema.read` gives, and of labels
        as it gives them. Outputs are [batch, 1] for two classes (the probability of the second) and
        for one number; else [batch, n]: probabilities of the classes, or of each label, or the
        numbers.

    Raises:
        KeyError: if the schema has no such part.
        ValueError: if the target is none, nothing is left to predict from, or an argument is out of
            range.

    Example:

    >>> schema = Schema.infer("train.jsonl")
    >>> model = zoo.records_model(schema, target="is_late")
    >>> model.fit(*schema.read("train.jsonl", target="is_late"), epochs=20)
    >>> model.predict(schema.read("new.jsonl", without="is_late"))
    """
    labels, without = _labels_of(schema, target)
    network = RecordNetwork(
        units=positive_int("units", units),
        activation=activation,
        aggregation=[aggregations.serialize(each) for each in aggregations.get_all(aggregation)],
        dropout=check_number("dropout", dropout, 0, 1),
        member_dropout=check_number("member_dropout", member_dropout, 0, 1),
        min_count=positive_int("min_count", min_count),
        n_edges=check_int("n_edges", n_edges),
        compress=_checked(compress),
        without=without,
    )
    with contextlib.nullcontext() if seed is None else seeded(seed):
        top = network.top(schema.root)
        outputs, loss, metric = _head(labels, top)
        model = Model(network.inputs, outputs, name=name)
    weight_decay = check_number("weight_decay", weight_decay, least=0)
    optimizer = keras.optimizers.Adam(learning_rate, weight_decay=weight_decay or None)
    model.compile(optimizer, loss, metrics=[metric])
    _make_variables(model, labels)
    return model


def _labels_of(
    schema: Schema, target: str | Sequence[str] | Labels
) -> tuple[Labels, tuple[str, ...]]:
    """What is to be predicted, and the paths of parts that are therefore not read."""
    if isinstance(target, Labels):
        return target, ()
    found = Target.of(target, schema.__getitem__)
    paths = tuple(part.path for part in found.parts)
    if found.kind != "numbers":
        return Labels(found.kind, len(found.classes)), paths
    means, variances = zip(*map(moments, found.parts), strict=True)
    return Labels("numbers", len(paths), means, tuple(x**0.5 for x in variances)), paths


def _head(labels: Labels, x: keras.KerasTensor) -> tuple[keras.KerasTensor, str, str]:
    """The output, its loss and its metric."""
    if labels.kind == "classes" and labels.n > 2:
        outputs = keras.layers.Dense(
            labels.n, activation="softmax", dtype=output_dtype(), name="target"
        )(x)
        return outputs, "sparse_categorical_crossentropy", "accuracy"
    if labels.kind == "numbers":
        outputs = keras.layers.Dense(labels.n, dtype=output_dtype(), name="standardized_target")(x)
        if labels.scale:
            scale = [each or 1.0 for each in labels.scale]
            outputs = keras.layers.Rescaling(
                scale, list(labels.mean), dtype=output_dtype(), name="target"
            )(outputs)
        return outputs, "mean_squared_error", "mean_absolute_error"
    n = 1 if labels.kind == "classes" else labels.n
    outputs = keras.layers.Dense(n, activation="sigmoid", dtype=output_dtype(), name="target")(x)
    return outputs, "binary_crossentropy", "accuracy" if n == 1 else "binary_accuracy"


def _make_variables(model: Model, labels: Labels) -> None:
    """Make the variables of optimizer, loss and metrics.

    Keras makes them in the first step, which TensorFlow then traces twice: of a network with many
    parts that takes long.
    """
    outputs = tf.zeros([1, model.output_shape[-1]])
    y = tf.zeros([1] if labels.kind == "classes" else outputs.shape)
    with keras.StatelessScope():
        model.compute_loss(None, y, outputs)
        model.compute_metrics(None, y, outputs)
    model.optimizer.build(model.trainable_variables)


def _checked(compress: Compress) -> Compress:
    if isinstance(compress, bool) or compress == "auto":
        return compress
    raise ValueError(f"Expected True, False or 'auto'. Received: compress={compress!r}")

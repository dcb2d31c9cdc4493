"""A network for nested records, built along their schema."""

import contextlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.checks import check_int, check_number, positive_int
from keras_mmil._support.types import (
    MISSING_INT,
    MISSING_TEXT,
    Array,
    Config,
    Floats,
    Ints,
    LearningRate,
    Shape,
)
from keras_mmil.layers import (
    BagLayer,
    BagStatistics,
    BooleanEncoder,
    CategoryEncoder,
    DistinctBags,
    DistinctRows,
    FieldEncoder,
    Gather,
    GroupedDense,
    MemberDropout,
    NearestMembers,
    NumberEncoder,
    TextEncoder,
    TimeEncoder,
    aggregations,
)
from keras_mmil.layers._types import Nested
from keras_mmil.layers.aggregations import Aggregations
from keras_mmil.layers.grouping import flat_columns
from keras_mmil.layers.nearest import spread
from keras_mmil.layers.statistics import SIGNS, Summarized
from keras_mmil.model import Model, output_dtype
from keras_mmil.model.seeds import seeded
from keras_mmil.records.fields import Field, walk
from keras_mmil.records.interactions import Occurrences, interactions
from keras_mmil.records.patterns import Contents, facts_in_words
from keras_mmil.records.prepared import Inner, Level, Prepared
from keras_mmil.records.profiling import Bags, Records, Values
from keras_mmil.records.scalars import DIGITS, DTYPES
from keras_mmil.records.schema import Schema
from keras_mmil.records.targets import Target

__all__ = ["Ensemble", "Labels", "ensemble", "records_model"]

Compress: TypeAlias = bool | Literal["auto"]
# The config of statistics of a bag, and their state.
_State: TypeAlias = tuple[Config, Sequence[keras.KerasTensor]]

_BATCH = 32  # records in a batch: Keras's default
_WORTH = 500  # places in it from which on looking for equal ones takes less time than computing all
_ONE_HOT = 64  # categories, at most, of one-hot vectors; and, for networks, of statistics of bags
_MOST_COUNTED = 1_000  # categories or words of a field
_CELLS = 20_000_000  # values of all fields, times categories or words
_MOST_WORDS = 5_000  # of a text
_RECORDS_OF_WORD = 5  # a word in fewer records is left out
_MEASURED, _ROWS = 20_000, 300_000  # records, or members, by which statistics of bags are scaled
_PARTS, _FEW_NUMBERS = 8, 20  # parts of the values of numbers; half as many of more fields
_MANY_NUMBERS, _PROTOTYPES = 10, 500  # numbers of members that are compared with so many others
_DISTANCE = "least distance of"  # the beginning of their names
_N_EDGES = 24  # quantiles by which they are
_DECIMALS = 4  # of statistics, in standard deviations: what differs less may be rounding
_MOST_VALUES = 5_000_000  # in the fields of records of which anything is computed once
_READ = 1024  # records at once, in predictions


@dataclass(frozen=True)
class Labels:
    """What a network predicts.

    Attributes:
        kind: "classes": each record has one of `n` classes; "labels": each record has any of `n`
            labels; "numbers": `n` numbers.
        n: how many.
        mean, scale: mean and standard deviation of each of the numbers.
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

    @property
    def activation(self) -> str:
        """Of the outputs: "linear", "softmax" or "sigmoid"."""
        if self.kind == "numbers":
            return "linear"
        return "softmax" if self.kind == "classes" and self.n > 2 else "sigmoid"


def records_model(
    schema: Schema,
    target: str | Sequence[str] | Labels,
    *,
    units: int = 32,
    activation: str = "relu",
    aggregation: Aggregations = ("max", "mean", "sum"),
    dropout: float = 0.0,
    member_dropout: float = 0.0,
    weight_decay: float = 0.0,
    min_count: int = 2,
    n_edges: int = 0,
    compress: Compress = "auto",
    learning_rate: LearningRate = 2e-3,
    data: Mapping[str, Any] | None = None,
    seed: int | None = None,
    name: str = "records",
) -> Model:
    """Compiled network for nested records, built along their schema.

    Each field is encoded: numbers are standardised, categories are one-hot or learned vectors,
    texts the mean of learned vectors of their words, and times come with their year, month, weekday
    and hour. Missing values have learned features, and one that marks them. The vectors of a
    record's fields and of the bags in it are concatenated and go through a dense layer; the members
    of a bag then go through a bag-layer. The fields of a record within a record count as fields of
    the outer one.

    All this is in the network: saved, or as a SavedModel, it takes values as `schema.read` returns
    them, without the schema.

    Equal records in bags, and equal bags, are computed once in a batch; without dropout, results
    are the same.

    Args:
        schema: of the training data. What it leaves out, and the target, are not read.
        target: path of what is to be predicted, or several, see `schema.read`; or `Labels`, if the
            labels are not in the records.
        units: of each dense layer, and of each aggregation of the bag-layers.
        activation: of these layers, a name that Keras knows. "linear" makes a model that is linear
            in the fields' features, if the aggregation is "mean" or "sum": for few records with
            long bags of words or categories.
        aggregation: of the bag-layers, see `BagLayer`. It is "sum" for bags of which only the size
            is read.
        dropout: rate after each dense layer and bag-layer. Equal records that are computed once
            share its noise, which can spoil the training: use `compress=False`, or `weight_decay`
            instead.
        member_dropout: rate at which members are left out of their bags in training. In bags of
            words or categories, this keeps a network from memorising rare ones.
        weight_decay: of AdamW, in units of the learning rate.
        min_count: categories that were seen less often count as unknown.
        n_edges: number of quantiles of each number that are edges of `NumberEncoder`, at most; 0
            for none.
        compress: whether equal records and bags are computed once; "auto" where the schema suggests
            that a batch of 32 records has many. The choice does not change weights, nor results
            without dropout.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        data: inputs of the training records, as `schema.read` returns them. With these, records
            also have statistics of their bags, such as the number of orders and the mean of their
            prices, see `BagStatistics`; categories and words count as unknown if they are in too
            few records, however often there.
        seed: int from 0 to 2³² - 1 that determines the initial weights; None for random ones each
            time.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` of the dict of tensors, and the labels, that `schema.read`
        returns. Outputs are [batch, 1] for two classes (the probability of the second) and for one
        number; else [batch, n]: probabilities of the classes, or of each label, or the numbers.

    Raises:
        KeyError: if the schema has no such part.
        ValueError: if the target is none, nothing is left to predict from, or an argument is out of
            range.

    Example:

    >>> schema = Schema.infer("train.jsonl")
    >>> model = records_model(schema, target="is_late")
    >>> model.fit(*schema.read("train.jsonl", target="is_late"), epochs=20)
    >>> model.predict(schema.read("new.jsonl", without="is_late"))
    """
    labels, without = _labels_of(schema, target)
    network = _Network(
        units=units,
        activation=activation,
        aggregation=aggregation,
        dropout=dropout,
        member_dropout=member_dropout,
        min_count=min_count,
        n_edges=n_edges,
        compress=compress,
        without=without,
        data=data,
    )
    with contextlib.nullcontext() if seed is None else seeded(seed):
        outputs, loss, metric = _head(labels, network.top(schema.root))
        model = Model(network.inputs, outputs, name=name)
    _compile(model, loss, learning_rate, weight_decay, metrics=[metric])
    _make_variables(model, labels)
    return model


class Computed(NamedTuple):
    """What an ensemble computes of records: outputs of its members, and its features."""

    outputs: Array
    features: Array | None


@dataclass(frozen=True)
class Ensemble:
    """Networks of equal structure side by side in one, and what else may decide.

    Attributes:
        members: compiled model of the outputs of each, [batch, members, n]. Its labels are those of
            `records_model`, repeated for each member; with a weight for each, members can be
            trained on different records.
        means: of the outputs of the members that read statistics, and of the others, [batch, n].
        features: of the records at the top, without learned parameters, [batch, features]: their
            fields, and the statistics of their bags. None if there are none.
        feature_names: the field or statistic that each feature is of.
        n_details: how many features, the last ones, networks do not read.
        distances: the numbers of the features that are distances of members to prototypes.
        level: what is computed of the records at the top before anything that is learned.
        head: layers from the vectors of these to the outputs.
    """

    members: Model
    means: tuple[keras.KerasTensor, ...]
    features: keras.KerasTensor | None
    feature_names: Sequence[str]
    n_details: int
    distances: Ints
    level: Level
    head: Sequence[keras.layers.Layer]

    def feed(self, x: Mapping[str, Any], x_valid: Mapping[str, Any] | None = None) -> "Feed":
        """What to train on these records: see `Prepared`.

        The members themselves if they are one, whose encoders are learned, or the records many, or
        shared by replicas.
        """
        parts = [*x.values(), *(x_valid or {}).values()]
        n_values = sum(map(_n_values, parts))
        n_members, is_shared = self.members.output_shape[1], tf.distribute.has_strategy()
        if n_members == 1 or n_values > _MOST_VALUES or is_shared:
            return Feed(self.members, x, x_valid, self.computed)
        whole = x if x_valid is None else ragged.concat([x, x_valid])
        model = Prepared(self.members, self.level, self.head, whole)

        def computed(numbers: Array) -> Computed:
            # Without a graph: tracing one takes longer.
            parts = np.array_split(numbers, -(-len(numbers) // _READ))
            outputs = np.concatenate([model(part).numpy() for part in parts])
            return Computed(outputs, None if model.features is None else model.features[numbers])

        numbers, n = np.arange(ragged.n_top_bags(whole)), ragged.n_top_bags(x)
        return Feed(model, numbers[:n], None if x_valid is None else numbers[n:], computed)

    def computed(self, x: Mapping[str, Any]) -> Computed:
        """The outputs of the members, and the features, of records."""
        if self.features is None:
            return Computed(self.members.predict(x, batch_size=_READ, verbose=0), None)
        both = Model(self.members.input, [self.members.output, self.features])
        return Computed(*both.predict(x, batch_size=_READ, verbose=0))


@dataclass(frozen=True)
class Feed:
    """A model to train, and the records as it reads them.

    Attributes:
        model: compiled.
        x, x_valid: training and validation records, the latter None where there are none.
        computed: gives what is `Computed` of some of them.
    """

    model: Model
    x: Any
    x_valid: Any
    computed: Callable[[Any], Computed]


def ensemble(
    schema: Schema,
    labels: Labels,
    n_members: int,
    data: Mapping[str, Any],
    *,
    targets: Floats | None = None,
    metrics: Sequence[Callable[[str], keras.metrics.Metric]] = (),
    learning_rate: LearningRate,
    weight_decay: float,
    **options: Any,
) -> Ensemble:
    """Networks as `records_model` makes them, `n_members` in one. Arguments as there.

    Of the targets of the data, [records, n], pairs of facts are chosen whose numbers of members are
    statistics, too, whatever the weights of records: see `interactions`. The metrics are made for
    the name of the loss. The second half of the members is blind to statistics of bags; a single
    one has none.
    """
    given: Config = {"data": data, "targets": targets, "has_statistics": n_members > 1}
    network = _Network(without=(), members=n_members, **given, **options)
    x = network.top(schema.root)
    n, activation, loss = _output_of(labels)
    head = [
        GroupedDense(n * n_members, n_members, dtype=output_dtype(), name="targets"),
        keras.layers.Reshape((n_members, n), dtype=output_dtype()),
        keras.layers.Activation(activation, dtype=output_dtype(), name="members"),
    ]
    if labels.scale:
        head.append(_rescaling(labels))
    for layer in head:
        x = layer(x)
    members = Model(network.inputs, x, name="members")
    weighted = [metric(loss) for metric in metrics]
    _compile(members, loss, learning_rate, weight_decay, weighted=weighted)
    halves = [x] if n_members == 1 else [x[:, : n_members // 2], x[:, n_members // 2 :]]
    means = tuple(keras.ops.mean(half, axis=1) for half in halves)
    details = network.level.details
    n_details = 0 if details is None else details.shape[-1]
    is_distance = [name.startswith(_DISTANCE) for name in network.feature_names]
    features = network.features, network.feature_names, n_details, np.flatnonzero(is_distance)
    return Ensemble(members, means, *features, network.level, head)


def _compile(
    model: Model,
    loss: str,
    learning_rate: LearningRate,
    weight_decay: float,
    metrics: Sequence[str] = (),
    weighted: Sequence[keras.metrics.Metric] = (),
) -> None:
    weight_decay = check_number("weight_decay", weight_decay, least=0)
    optimizer = keras.optimizers.Adam(learning_rate, weight_decay=weight_decay or None)
    model.compile(optimizer, loss, metrics=list(metrics), weighted_metrics=list(weighted))


def _labels_of(
    schema: Schema, target: str | Sequence[str] | Labels
) -> tuple[Labels, tuple[str, ...]]:
    """What is to be predicted, and the paths of the parts that hold it."""
    if isinstance(target, Labels):
        return target, ()
    parsed = Target.of(target, schema.__getitem__)
    paths = tuple(part.path for part in parsed.parts)
    paths = (*paths, *schema.copies_of(paths))
    if parsed.kind != "numbers":
        return Labels(parsed.kind, len(parsed.classes)), paths
    means, variances = zip(*map(moments, parsed.parts), strict=True)
    return Labels("numbers", len(parsed.parts), means, tuple(x**0.5 for x in variances)), paths


_LOSSES = {
    "linear": "mean_squared_error",
    "softmax": "sparse_categorical_crossentropy",
    "sigmoid": "binary_crossentropy",
}


def _output_of(labels: Labels) -> tuple[int, str, str]:
    """The number of outputs, their activation and their loss."""
    n = 1 if labels.kind == "classes" and labels.n == 2 else labels.n
    return n, labels.activation, _LOSSES[labels.activation]


def _head(labels: Labels, x: keras.KerasTensor) -> tuple[keras.KerasTensor, str, str]:
    """The output, its loss and its metric."""
    n, activation, loss = _output_of(labels)
    is_scaled = bool(labels.scale)
    name = "standardized_target" if labels.kind == "numbers" else "target"
    x = keras.layers.Dense(n, activation=activation, dtype=output_dtype(), name=name)(x)
    if labels.kind == "numbers":
        return _rescaling(labels)(x) if is_scaled else x, loss, "mean_absolute_error"
    return x, loss, "accuracy" if labels.kind == "classes" else "binary_accuracy"


def _rescaling(labels: Labels) -> keras.layers.Rescaling:
    """From standardised numbers to their own scale."""
    scale = [each or 1.0 for each in labels.scale]
    return keras.layers.Rescaling(scale, list(labels.mean), dtype=output_dtype(), name="target")


def _make_variables(model: Model, labels: Labels) -> None:
    """Make the variables of optimizer, loss and metrics.

    Keras would make them in the first step, and TensorFlow would trace that twice, which takes long
    for many parts.
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


class _Branch(NamedTuple):
    """A bag in the network, or all fields of a kind.

    Attributes:
        columns: values in each record: what was read, or the row among distinct bags.
        encode: from values, [n] each, to features [n, width]: those of members, in groups, and
            those that members share; None where there are none.
        n_distinct: how many different values there are at least; infinite if few come again.
        fields: of which statistics are made, one for each column.
        statistics: the config of those of a bag, and their state: see `BagStatistics`.
        encoder: of the fields.
        inner: what is in the bag, for `Prepared`.
        names: of the columns of statistics and of details.
        contents: of a bag in the data, if it has patterns.
    """

    columns: Sequence[keras.KerasTensor]
    encode: Callable[[Sequence[keras.KerasTensor]], "_Features"]
    n_distinct: float
    fields: Sequence[Field] = ()
    statistics: _State | None = None
    encoder: FieldEncoder | None = None
    inner: Inner | None = None
    names: Sequence[Sequence[str]] = ((), ())
    contents: Contents | None = None


class _Features(NamedTuple):
    """Features of records: those of each member, in groups, those that all share, and statistics.

    Some members are blind to statistics: these are many, and can hide what else is to be learned.
    All are blind to details, which trees and linear models read: rarer categories and words, and
    numbers above edges.
    """

    of_members: keras.KerasTensor | None
    shared: keras.KerasTensor | None
    statistics: keras.KerasTensor | None = None
    details: keras.KerasTensor | None = None


class _Value(NamedTuple):
    """A field in the network, and its value in each record."""

    field: Field
    column: keras.KerasTensor


class _Rows(NamedTuple):
    """The distinct rows of records: vectors [rows, units], and the row at each place."""

    vectors: keras.KerasTensor
    ids: keras.KerasTensor
    n_distinct: float
    parts: Sequence[_Branch]
    level: Level


@dataclass
class _Network:
    """The layers of a network along a schema, from the fields up to the records at the top.

    `inputs` are the `keras.Input`s by path, `features` are those of the records at the top without
    learned parameters, with `feature_names`; the rest are arguments of `records_model`, the targets
    of the data, the number of members, and whether statistics are made of bags.
    """

    units: int
    activation: str
    aggregation: Any
    dropout: float
    member_dropout: float
    min_count: int
    n_edges: int
    compress: Compress
    without: Collection[str]
    data: Mapping[str, Any] | None = None
    targets: Floats | None = None
    members: int = 1
    has_statistics: bool = True
    inputs: dict[str, keras.KerasTensor] = field(default_factory=dict)
    features: keras.KerasTensor | None = None
    feature_names: list[str] = field(default_factory=list)
    level: Level = field(init=False)
    _n_bags: int = field(init=False)
    _names: set[str] = field(default_factory=set)
    _known: dict[str, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.units = positive_int("units", self.units)
        each = aggregations.get_all(self.aggregation)
        self.aggregation = [aggregations.serialize(one) for one in each]
        self.dropout = check_number("dropout", self.dropout, 0, 1)
        self.member_dropout = check_number("member_dropout", self.member_dropout, 0, 1)
        self.min_count = positive_int("min_count", self.min_count)
        self.n_edges = check_int("n_edges", self.n_edges)
        self.compress = _checked(self.compress)

    def top(self, records: Field) -> keras.KerasTensor:
        """Vectors [batch, units] of the records at the top; ValueError if no part is read."""
        self._n_bags = sum(part.kind == "bag" and part.is_read for part in walk(records))
        parts = self._parts(records.parts, "top", 0, _BATCH)
        if not parts:
            raise ValueError(
                "Expected a schema with something to predict from. Received: nothing that is read"
                + (f" but {', '.join(map(repr, self.without))}" if self.without else "")
            )
        vectors, self.level = self._dense(parts, "top")
        self.features = _joined(self.level.fixed)
        of_fields = [name for x in parts if x.encoder for name in _names_of_fixed(x.encoder)]
        of_bags = [[name for x in parts for name in x.names[i]] for i in (0, 1)]
        self.feature_names = [*of_fields, *of_bags[0], *of_bags[1]]
        return vectors

    def _parts(
        self, fields: Iterable[Field], path: str, depth: int, n_places: float
    ) -> list[_Branch]:
        """The parts of records in `depth` bags; a batch has about `n_places` such records."""
        branches: list[_Branch] = []
        values: dict[Any, list[_Value]] = {}
        for part in self._parts_of(fields, depth, n_places):
            if isinstance(part, _Branch):
                branches.append(part)
            else:
                key = _alike(part.field, self.min_count, self.n_edges)
                values.setdefault(key, []).append(part)
        return [*(self._encoded(alike, path) for alike in values.values()), *branches]

    def _parts_of(
        self, fields: Iterable[Field], depth: int, n_places: float
    ) -> Iterator[_Branch | _Value]:
        for part in fields:
            if not part.is_read or part.path in self.without:
                continue
            if part.kind == "bag":
                yield self._bag(part, depth, n_places)
            elif part.has_fields:
                yield from self._parts_of(part.parts, depth, n_places)
            else:
                yield _Value(part, self._input(part.path, dtype_of(part), depth))

    def _encoded(self, values: Sequence[_Value], path: str) -> _Branch:
        """Fields that one layer encodes, in records at a path."""
        fields = [value.field for value in values]
        columns = [value.column for value in values]
        vocabularies = None
        if self.data is not None and fields[0].kind in ("category", "text"):
            vocabularies = [sorted(self._vocabulary(each)) for each in fields]
        encoder = encoder_of(
            fields,
            units=self.units,
            min_count=self.min_count,
            n_edges=self.n_edges,
            name=self._name(path, f"{fields[0].kind}_encoder"),
            members=self.members,
            vocabularies=vocabularies,
        )
        n_learned = encoder.n_learned
        one_hot, names = None, list[str]()
        if n_learned and path == "top" and self.data is not None and self.has_statistics:
            one_hot, names = self._one_hot(fields, path)

        def encode(values: Sequence[keras.KerasTensor]) -> _Features:
            x = encoder(values)
            details = None if one_hot is None else one_hot(values)
            if not n_learned:
                return _Features(None, x)
            return _Features(x[:, :n_learned], x[:, n_learned:], details=details)

        n = max(map(n_distinct, fields))
        return _Branch(columns, encode, n, fields, encoder=encoder, names=([], names))

    def _one_hot(self, fields: Sequence[Field], path: str) -> tuple[FieldEncoder, list[str]]:
        """Of fields with learned vectors: categories, or words, as features that trees can read."""
        values = [self._counted(field) for field in fields]
        encoder = (TextEncoder if fields[0].kind == "text" else CategoryEncoder)(
            vocabulary=values,
            units=None,
            field=[field.path for field in fields],
            trainable=self.members == 1,
            name=self._name(path, f"{fields[0].kind}_one_hot"),
        )
        pairs = zip(fields, values, strict=True)
        names = [
            field.path + SIGNS[field.kind].format(value) for field, each in pairs for value in each
        ]
        return encoder, [*names, *(f"{field.path} missing" for field in fields)]

    def _counted(self, field: Field) -> list[Any]:
        """The categories or words of a field that are counted, the most frequent first."""
        return self._vocabulary(field)[: self._most_counted]

    @cached_property
    def _most_counted(self) -> int:
        """How many categories or words of a field are counted, at most."""
        assert self.data is not None
        parts = [x for x in self.data.values() if x.dtype in (tf.string, tf.int64)]
        n_values = sum(map(_n_values, parts))
        return min(max(_CELLS // max(n_values, 1), _ONE_HOT), _MOST_COUNTED)

    @cached_property
    def _n_parts(self) -> int:
        """Into how many parts the edges divide the values of a number."""
        assert self.data is not None
        n_numbers = sum(x.dtype == tf.float32 for x in self.data.values())
        return _PARTS if n_numbers <= _FEW_NUMBERS else _PARTS // 2

    def _vocabulary(self, field: Field) -> list[Any]:
        """The categories or words of a field that are told apart; the most frequent come first."""
        if field.path not in self._known:
            assert self.data is not None
            counts = records_with(self.data[field.path], are_texts=field.kind == "text")
            least = _RECORDS_OF_WORD if field.kind == "text" else self.min_count
            order = sorted(counts, key=lambda value: (-counts[value], value))
            frequent = [value for value in order if counts[value] >= least]
            self._known[field.path] = frequent[:_MOST_WORDS] or order[:1] or [""]
        return self._known[field.path]

    def _rows(
        self,
        fields: Iterable[Field],
        path: str,
        depth: int,
        n_places: float,
    ) -> _Rows:
        parts = self._parts(fields, path, depth, n_places)
        n_distinct = max(part.n_distinct for part in parts)
        are_likely = n_places >= _WORTH and 2 * n_distinct <= n_places
        compress = self._is_worth(are_likely)
        layer = DistinctRows(compress, name=self._name(path, "distinct_rows"))
        *values, ids = layer([column for part in parts for column in part.columns])
        left = iter(values)
        parts = [part._replace(columns=[next(left) for _ in part.columns]) for part in parts]
        vectors, level = self._dense(parts, path)
        return _Rows(vectors, ids, n_distinct if compress else math.inf, parts, level)

    def _bag(self, bag: Field, depth: int, n_places: float) -> _Branch:
        size, aggregation = mean_size(bag), self.aggregation
        fields = [x for part in bag.parts for x in (part.parts if part.has_fields else [part])]
        if any(each.is_read for each in fields):
            rows = self._rows(fields, bag.path, depth + 1, n_places * size)
        else:
            rows, aggregation = self._alike_rows(bag.path, depth + 1), "sum"
        n_distinct = _power(rows.n_distinct, max(size, 1))
        are_likely = rows.n_distinct <= size or 2 * n_distinct <= n_places
        compress = self._is_worth(n_places * size >= _WORTH and are_likely)
        layer = DistinctBags(compress, bag.path, name=self._name(bag.path, "distinct_bags"))
        members, weights, bags = layer(rows.ids)
        bag_of_rows = whole = (members, weights) if compress else (members,)
        dropped = None
        if self.member_dropout:
            dropped = MemberDropout(
                self.member_dropout, name=self._name(bag.path, "member_dropout")
            )
            bag_of_rows = (members, dropped(*bag_of_rows))
        bag_layer = BagLayer(
            self.units * len(aggregations.get_all(aggregation)) * self.members,
            activation=self.activation,
            aggregation=aggregation,
            groups=self.members,
            name=self._name(bag.path, "bag"),
        )
        after = self._dropout()
        vectors = bag_layer(rows.vectors, *bag_of_rows)
        vectors = vectors if after is None else after(vectors)
        state, contents = None, None
        encoded: list[tuple[keras.KerasTensor | None, list[str]]] = [(None, []), (None, [])]
        if self.data is not None and self.has_statistics:
            encoded, state, contents = self._statistics(bag, rows, whole, is_top=depth == 0)
        numbers, names = zip(*encoded, strict=True)
        return _Branch(
            [bags],
            self._gathered(vectors, numbers, bag),
            n_distinct if compress else math.inf,
            statistics=state,
            inner=Inner(rows.level, bags, whole, dropped, bag_layer, after),
            names=names,
            contents=contents,
        )

    def _statistics(
        self, bag: Field, rows: _Rows, bag_of_rows: Sequence[keras.KerasTensor], is_top: bool
    ) -> tuple[list[tuple[keras.KerasTensor | None, list[str]]], _State, Contents | None]:
        """Statistics of a bag.

        Returns:
            Features with names, without those that do not vary, and details where bags are in
            records at the top; what the statistics are made of; and what is in the bags of the
            data.
        """
        fields: list[Summarized] = []
        columns: list[keras.KerasTensor] = []
        configs: list[Config] = []
        states: list[keras.KerasTensor] = []
        inner = [part for part in rows.parts if part.contents is not None]
        for part in rows.parts:
            if part.statistics is not None:
                config, state = part.statistics
                configs.append(config)
                states += [self._gather(bag.path)([x, *part.columns]) for x in state]
            for each, column in zip(part.fields, part.columns, strict=False):
                if summarized := self._summarized(each):
                    fields.append(summarized)
                    columns.append(column)
        arguments: Config = {"bag": bag.path, "fields": fields, "inner": configs}
        call = [columns or ([] if states else [rows.ids]), *bag_of_rows]
        of_data, of_states, ids, places = self._computed(
            [call, states, [x.columns[0] for x in inner], rows.ids]
        )
        plain, flat = BagStatistics(**arguments), flat_columns(of_data[0])
        contents, keys, facts = None, plain.keys(flat, of_states), None
        if fields:
            facts = plain.facts(flat)
        if keys is not None:
            bags = [x.contents for x in inner if x.contents]
            held = list(zip(bags, ids, strict=True))
            contents = Contents(bag.path, fields, flat, of_data[1:], held)
            arguments["patterns"] = contents.patterns(keys)
            if facts is not None:
                arguments["pairs"] = contents.pairs(facts)
        if facts is not None and self.targets is not None:
            of_target = self._telling(bag, fields, facts, places, arguments.get("pairs", []))
            arguments["pairs"] = [*arguments.get("pairs", []), *of_target]
        whole = BagStatistics(**arguments)
        frequent = set(BagStatistics(**_frequent(arguments)).all_names)
        kept = _varied(whole.all_names, whole(*of_data, states=of_states)[0].numpy())
        parts = [{name: kept[name] for name in kept if name in frequent}]
        # The number of rare categories and words tells what their share does.
        more = {x for x in kept.keys() - frequent if x.startswith("number ") or " > " in x}
        parts.append({name: kept[name] for name in kept if name in more and is_top})
        name = self._name(bag.path, "statistics")
        layer = BagStatistics(**arguments, names=[*parts[0], *parts[1]], name=name)
        numbers, *state = layer(*call, states=states)
        if is_top and (distances := self._distances(bag, fields, call, of_data)):
            parts[1] |= distances[0]
            numbers = keras.layers.Concatenate()([numbers, distances[1]])
        ends = np.cumsum([len(part) for part in parts])
        encoded = [
            self._ranked(bag, part, numbers[:, end - len(part) : end])
            for part, end in zip(parts, ends, strict=True)
        ]
        return encoded, (layer.get_config(), state), contents

    def _telling(
        self,
        bag: Field,
        fields: Sequence[Summarized],
        facts: tf.Tensor,
        places: tf.RaggedTensor,
        pairs: Sequence[tuple[int, int, str]],
    ) -> list[tuple[int, int, str]]:
        """Further pairs of facts, which tell of the target; `places` are the rows in the data."""
        assert self.targets is not None
        targets = self.targets if self._sample is None else self.targets[self._sample]
        about = [i for i, each in enumerate(fields) for _ in each.facts]
        # Of a number above an edge, or at most as great, path and edge are equal.
        values = [repr([*fact.values()]) for each in fields for fact in each.facts]
        cases = np.unique(values, return_inverse=True)[1]
        found = interactions(
            facts.numpy(),
            np.array(about, int),
            cases,
            Occurrences.of(places, len(facts), targets, 1 / self._n_bags),
            [(i, j) for i, j, _ in pairs],
        )
        texts = facts_in_words(bag.path, fields)
        return [(i, j, f"{texts[i]}, {texts[j]}") for i, j in found]

    def _distances(
        self,
        bag: Field,
        fields: Sequence[Summarized],
        call: Sequence[Any],
        of_data: Sequence[Any],
    ) -> tuple[dict[str, Array], keras.KerasTensor] | None:
        """Distances of the members of a bag of many numbers to members in the data, by name.

        `call` are the columns of the fields, the members and their weights; `of_data` their values.
        """
        at = [i for i, field in enumerate(fields) if field.kind == "number"]
        if len(at) < _MANY_NUMBERS:
            return None
        numbers = [fields[i] for i in at]
        symbols, values = ([[columns[i] for i in at], *bags] for columns, *bags in (call, of_data))
        chosen = spread(values[1].row_splits.numpy(), _PROTOTYPES)
        layer = NearestMembers(
            len(chosen),
            [field.mean for field in numbers],
            [field.scale for field in numbers],
            name=self._name(bag.path, "nearest_members"),
        )
        found = layer(*symbols)
        rows = layer.standardized(flat_columns(values[0])).numpy()
        layer.set_weights([rows[values[1].flat_values.numpy()[chosen]]])
        names = [f"{_DISTANCE} {bag.path} to prototype {i}" for i in range(len(chosen))]
        return dict(zip(names, layer(*values).numpy().T, strict=True)), found

    def _ranked(
        self, bag: Field, values: Mapping[str, Array], numbers: keras.KerasTensor
    ) -> tuple[keras.KerasTensor | None, list[str]]:
        """Features of statistics by their ranks, and names; of their values in the data."""
        if not values:
            return None, []
        each = list(values.values())
        encoder = NumberEncoder(
            [float(x.mean()) for x in each],
            [float(x.var()) for x in each],
            [_edges(x) for x in each],
            list(values),
            encoding="rank",
            trainable=self.members == 1,
            name=self._name(bag.path, "statistics_encoder"),
        )
        return encoder(numbers), _names_of_fixed(encoder)

    def _summarized(self, field: Field) -> Summarized | None:
        """What statistics are made of a field; None of times, which are learned by heart."""
        assert self.data is not None
        if field.kind == "number":
            mean, variance = moments(field)
            edges = _between(self.data[field.path], self._n_parts)
            return Summarized(field.path, field.kind, mean, variance**0.5, edges=edges)
        if field.kind == "boolean":
            return Summarized(field.path, field.kind)
        if field.kind in ("category", "text"):
            return Summarized(field.path, field.kind, values=self._counted(field))
        return None

    def _computed(self, symbols: Any) -> Any:
        """The values of nested symbols for the data, or a sample of it."""
        assert self.data is not None
        x = {path: self.data[path] for path in self.inputs}
        if self._sample is not None:
            x = ragged.take(x, self._sample)
        return keras.Model(self.inputs, symbols)(x)

    @cached_property
    def _sample(self) -> Ints | None:
        """The records of which statistics of bags are computed; None for all."""
        assert self.data is not None
        n = ragged.n_top_bags(self.data)
        n_rows = max(map(_n_values, self.data.values()))
        most = min(_MEASURED, max(n * _ROWS // max(n_rows, 1), _READ))
        return np.linspace(0, n - 1, most).astype(int) if n > most else None

    def _alike_rows(self, path: str, depth: int) -> _Rows:
        """The rows of a bag of which only the size is read: they are all equal."""
        layer = DistinctRows(self._is_worth(True), name=self._name(path, "distinct_rows"))
        ones, ids = layer([self._input(path, "float32", depth)])
        vectors = keras.layers.Reshape((1,), name=self._name(path, "reshape"))(ones)
        part = _Branch([], lambda _: _Features(None, vectors), 1)
        dense, level = self._dense([part], path)
        return _Rows(dense, ids, 1, [], level)

    def _is_worth(self, equals_are_likely: bool) -> bool:
        return equals_are_likely if self.compress == "auto" else self.compress

    def _gathered(
        self,
        vectors: keras.KerasTensor,
        numbers: Sequence[keras.KerasTensor | None],
        part: Field,
    ) -> Callable[[Sequence[keras.KerasTensor]], _Features]:
        of_vectors = self._gather(part.path)
        pairs = [None if x is None else (x, self._gather(part.path)) for x in numbers]

        def gathered(ids: Sequence[keras.KerasTensor]) -> _Features:
            found = [None if pair is None else pair[1]([pair[0], *ids]) for pair in pairs]
            return _Features(of_vectors([vectors, *ids]), None, *found)

        return gathered

    def _gather(self, path: str) -> Gather:
        return Gather(name=self._name(path, "gather"))

    def _dense(self, parts: Sequence[_Branch], path: str) -> tuple[keras.KerasTensor, Level]:
        """A dense layer on the features of parts side by side."""
        found = [part.encode(part.columns) for part in parts]
        of_members = _joined([each.of_members for each in found], self.members)
        shared = _joined([each.shared for each in found])
        statistics = _joined([each.statistics for each in found])
        details = _joined([each.details for each in found])
        layer = GroupedDense(
            self.units * self.members,
            self.members,
            activation=self.activation,
            n_blind=self.members // 2,
            name=self._name(path, "dense"),
        )
        learned = [(x.encoder, x.columns) for x in parts if x.encoder and x.encoder.n_learned]
        inner = [replace(x.inner, ids=x.columns[0]) for x in parts if x.inner]
        after = self._dropout()
        x = layer(of_members, shared, statistics)
        level = Level(shared, statistics, details, learned, inner, layer, after)
        return (x if after is None else after(x)), level

    def _dropout(self) -> keras.layers.Dropout | None:
        return keras.layers.Dropout(self.dropout) if self.dropout else None

    def _input(self, path: str, dtype: str, depth: int) -> keras.KerasTensor:
        shape: Shape = (None,) * depth
        # The name of an input should be its key, but Keras allows no slash in it.
        name = path if "/" not in path else self._name(path, "input")
        x = keras.Input(shape, dtype=dtype, ragged=depth > 0, name=name)
        self.inputs[path] = x
        return x

    def _name(self, path: str, role: str) -> str:
        """The name of a layer; TensorFlow allows no blanks, brackets, quotes or foreign letters."""
        plain = re.sub(r"[^A-Za-z0-9._]+", "_", path).lstrip("_.") or "part"
        name, i = f"{plain}.{role}", 1
        while name in self._names:
            name, i = f"{plain}.{role}_{i}", i + 1
        self._names.add(name)
        return name


def _joined(parts: Sequence[keras.KerasTensor | None], groups: int = 1) -> keras.KerasTensor | None:
    """Features side by side, those of each group together; None if there are none."""
    there = [x for x in parts if x is not None]
    if len(there) < 2:
        return there[0] if there else None
    if groups == 1:
        return keras.layers.Concatenate()(there)
    x = keras.layers.Concatenate()([keras.layers.Reshape((groups, -1))(x) for x in there])
    return keras.layers.Reshape((groups * x.shape[-1],))(x)


def _n_values(x: Nested) -> int:
    return int(tf.size(getattr(x, "flat_values", x)))


def _frequent(config: Config) -> Config:
    """The arguments of `BagStatistics` for networks: of the most frequent categories and words."""
    fields = [Summarized(*each) for each in config["fields"]]
    few = [field._replace(values=field.values[:_ONE_HOT], edges=()) for field in fields]
    return {**config, "fields": few, "inner": [_frequent(inner) for inner in config["inner"]]}


def _names_of_fixed(encoder: FieldEncoder) -> list[str]:
    """The field of each feature of an encoder that is not learned."""
    fields = [encoder.fields[i] for i in encoder.field_of_each[encoder.n_learned :]]
    return [*fields, *encoder.fields]


def _varied(names: Sequence[str], matrix: Array) -> dict[str, Array]:
    """The different values of columns that vary and equal none before, by their names.

    How often they come is left out, so that a record of weight 2 is two records.
    """
    kept: dict[str, Array] = {}
    seen = set()
    for name, column in zip(names, matrix.T, strict=True):
        there = column[np.isfinite(column)]
        if len(there) and there.min() < there.max():
            scale = there.std()
            scaled = (column - there.mean()) / scale  # an average of one member is its sum
            content = np.nan_to_num(scaled, nan=np.inf).round(_DECIMALS).tobytes()
            if content not in seen:
                seen.add(content)
                kept[name] = np.unique((there / scale).round(_DECIMALS)) * scale
    return kept


def _between(values: Any, n_parts: int) -> list[float]:
    """The quantiles between equal parts of values: some of these, of up to six digits."""
    x = np.asarray(getattr(values, "flat_values", values), float)
    x = x[np.isfinite(x)]
    if not len(x):
        return []
    inner = np.arange(1, n_parts) / n_parts
    edges = {float(f"{each:.6g}") for each in np.quantile(x, inner, method="lower")}
    return sorted(each for each in edges if each < x.max())


def _edges(values: Array) -> list[float]:
    """Quantiles; those that are too close to tell apart are equal."""
    edges = np.quantile(values, np.linspace(0, 1, _N_EDGES))
    steps = np.diff(edges)
    steps[steps < values.std() * 10.0**-_DECIMALS] = 0
    return np.cumsum([edges[0], *steps]).tolist()


def _power(n: float, exponent: float) -> float:
    """n to the power of an exponent, or infinity: the number of bags of n different members."""
    if n <= 1:
        return n
    log = exponent * math.log(n)
    return math.inf if log > 100 else math.exp(log)


def dtype_of(field: Field) -> str:
    """The dtype that the values of a field are read as."""
    if field.kind == "category":
        return "string" if field.type == "text" or field.form == DIGITS else "int64"
    return DTYPES[field.kind]


def encoder_of(
    fields: Sequence[Field],
    *,
    units: int,
    min_count: int,
    n_edges: int,
    name: str,
    members: int = 1,
    vocabularies: Sequence[Sequence[Any]] | None = None,
) -> FieldEncoder:
    """The encoder of fields that are alike.

    Args:
        fields: of one kind.
        units, min_count, n_edges: as in `records_model`.
        name: of the layer.
        members: number of members, which have learned vectors of their own.
        vocabularies: of categories or texts; None for those of the schema, or none for texts.
    """
    kind, paths = fields[0].kind, [field.path for field in fields]
    # What else is learned, of missing values, would be shared by the members.
    options: dict[str, Any] = {"field": paths, "name": name, "trainable": members == 1}
    learned = options | {"units": units * members, "groups": members, "trainable": True}
    if kind == "boolean":
        return BooleanEncoder(**options)
    if kind == "text":
        return TextEncoder(vocabulary=vocabularies, **learned)
    if kind == "category":
        known = vocabularies or [_vocabulary(field, min_count) for field in fields]
        return CategoryEncoder(known, **(options if _is_one_hot(fields[0], min_count) else learned))
    means, variances = zip(*map(moments, fields), strict=True)
    if kind == "time":
        return TimeEncoder(means, variances, **options)
    edges = [_quantiles(_values(field), n_edges) for field in fields]
    return NumberEncoder(means, variances, edges, **options)


def _alike(field: Field, min_count: int, n_edges: int) -> Any:
    """Equal for fields that one layer can encode: arguments as in `records_model`."""
    if field.kind == "category":
        return field.kind, dtype_of(field), _is_one_hot(field, min_count)
    if field.kind == "number":
        return field.kind, len(_quantiles(_values(field), n_edges))
    return field.kind


def _vocabulary(field: Field, min_count: int) -> list[Any]:
    """The categories of a field that are told apart."""
    counts = _values(field).counts or {}
    return sorted([value for value, n in counts.items() if n >= min_count] or counts)


def _is_one_hot(field: Field, min_count: int) -> bool:
    return len(_vocabulary(field, min_count)) <= _ONE_HOT


def moments(field: Field) -> tuple[float, float]:
    """Mean and variance of numbers or times, as they are read."""
    seen = _values(field)
    return seen.mean, seen.squares / seen.count


def mean_size(bag: Field) -> float:
    """Number of members of a bag, on average."""
    if isinstance(bag.seen, Bags):
        return bag.seen.members.count / bag.seen.count
    if isinstance(bag.seen, Records):
        return bag.seen.entries().each.count / bag.seen.count
    raise TypeError(f"Expected a bag. Received: {bag.path!r}, a {bag.kind}")


def n_distinct(field: Field) -> float:
    """Number of different values, including missing; infinite if they are not counted."""
    n = _values(field).n_distinct
    return math.inf if n is None else n + (field.share_missing > 0)


def _values(field: Field) -> Values:
    if field.values is None:
        raise TypeError(f"Expected a field of values. Received: {field.path!r}, a {field.kind}")
    return field.values


def _quantiles(seen: Values, n_edges: int) -> list[float]:
    """Edges with about equally many values in between; none if values are not counted."""
    if n_edges < 2 or not seen.counts:
        return []
    values, counts = np.array(sorted(seen.counts.items()), np.float64).T
    below = np.cumsum(counts) / seen.count
    places = np.searchsorted(below, np.linspace(0, 1, n_edges)).clip(max=len(values) - 1)
    edges = np.unique(values[places].astype(np.float32))
    return edges.tolist() if len(edges) > 1 else []


def records_with(values: Nested, are_texts: bool = False) -> dict[Any, int]:
    """In how many records each category, or each word of texts, is.

    Args:
        values: [records], or in bags [records, (n₁), …], as `Schema.read` returns them.
        are_texts: whether to count words.

    Returns:
        Numbers of records by value, without missing ones.
    """
    flat, n = getattr(values, "flat_values", values), ragged.n_top_bags(values)
    records = np.arange(n)
    for splits in getattr(values, "nested_row_splits", ()):
        lengths = np.diff(splits.numpy())
        records = np.repeat(records, lengths)
    if are_texts:
        flat, texts = TextEncoder.flat_words(flat)
        records = records[texts.numpy()]
    distinct, ids = tf.unique(tf.reshape(flat, [-1]))
    pairs = np.unique(ids.numpy().astype(np.int64) * n + records)
    counts = np.bincount(pairs // max(n, 1), minlength=len(distinct)).tolist()
    names = [
        x.decode(errors="replace") if isinstance(x, bytes) else int(x) for x in distinct.numpy()
    ]
    return {
        name: count
        for name, count in zip(names, counts, strict=True)
        if name not in (MISSING_INT, MISSING_TEXT)
    }

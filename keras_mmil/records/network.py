"""A network for nested records, built along their schema."""

import contextlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.checks import check_int, check_number, positive_int
from keras_mmil._support.types import LearningRate, Shape
from keras_mmil.layers import (
    BagLayer,
    BooleanEncoder,
    CategoryEncoder,
    DistinctBags,
    DistinctRows,
    FieldEncoder,
    Gather,
    MemberDropout,
    NumberEncoder,
    TextEncoder,
    TimeEncoder,
    aggregations,
)
from keras_mmil.layers.aggregations import Aggregations
from keras_mmil.model import Model, output_dtype
from keras_mmil.model.seeds import seeded
from keras_mmil.records.fields import Field
from keras_mmil.records.profiling import Bags, Records, Values
from keras_mmil.records.scalars import DIGITS, DTYPES
from keras_mmil.records.schema import Schema
from keras_mmil.records.targets import Target

__all__ = ["Labels", "records_model"]

Compress: TypeAlias = bool | Literal["auto"]

_BATCH = 32  # records in a batch: Keras's default
_WORTH = 500  # places in it from which on looking for equal ones takes less time than computing all
_ONE_HOT = 64  # categories, at most, of one-hot vectors


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
    learning_rate: LearningRate = 2e-3,
    seed: int | None = None,
    name: str = "records",
) -> Model:
    """Compiled network for nested records, built along their schema.

    Each field is encoded: numbers are standardised, categories are one-hot or learned vectors,
    texts the mean of learned vectors of their words, and times come with their year, month, weekday
    and hour. Missing values have learned features, and one that marks them. The vectors of a
    record's fields and of the bags in it are concatenated and go through a dense layer; the members
    of a bag then go through a bag-layer. The fields of a record within a record count as fields of
    the outer one; shared rows of linked tables have a dense layer of their own.

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
    """What is to be predicted, and the paths of the parts that hold it."""
    if isinstance(target, Labels):
        return target, ()
    parsed = Target.of(target, schema.__getitem__)
    paths = tuple(part.path for part in parsed.parts)
    if parsed.kind != "numbers":
        return Labels(parsed.kind, len(parsed.classes)), paths
    means, variances = zip(*map(moments, parsed.parts), strict=True)
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
    """A bag or shared record in the network, or all fields of a kind.

    Attributes:
        columns: values in each record: what was read, or the row among distinct bags or records.
        encode: from values, [n] each, to vectors [n, width].
        n_distinct: how many different values there are at least; infinite if few come again.
    """

    columns: Sequence[keras.KerasTensor]
    encode: Callable[[Sequence[keras.KerasTensor]], keras.KerasTensor]
    n_distinct: float


class _Value(NamedTuple):
    """A field in the network, and its value in each record."""

    field: Field
    column: keras.KerasTensor


class _Rows(NamedTuple):
    """The distinct rows of records: vectors [rows, units], and the row at each place."""

    vectors: keras.KerasTensor
    ids: keras.KerasTensor
    n_distinct: float


@dataclass
class _Network:
    """The layers of a network along a schema, from the fields up to the records at the top.

    `inputs` are the `keras.Input`s by path; the rest are arguments of `records_model`.
    """

    units: int
    activation: str
    aggregation: Aggregations
    dropout: float
    member_dropout: float
    min_count: int
    n_edges: int
    compress: Compress
    without: Collection[str]
    inputs: dict[str, keras.KerasTensor] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def top(self, records: Field) -> keras.KerasTensor:
        """Vectors [batch, units] of the records at the top; ValueError if no part is read."""
        parts = self._parts(records.parts, "top", 0, _BATCH)
        if not parts:
            raise ValueError(
                "Expected a schema with something to predict from. Received: nothing that is read"
                + (f" but {', '.join(map(repr, self.without))}" if self.without else "")
            )
        return self._dense([part.encode(part.columns) for part in parts], "top")

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
            elif part.kind == "record" and part.is_shared:
                rows = self._rows(part.parts, part.path, depth, n_places, is_shared=True)
                yield _Branch([rows.ids], self._gathered(rows.vectors, part), rows.n_distinct)
            elif part.has_fields:
                yield from self._parts_of(part.parts, depth, n_places)
            else:
                yield _Value(part, self._input(part.path, dtype_of(part), depth))

    def _encoded(self, values: Sequence[_Value], path: str) -> _Branch:
        """Fields that one layer encodes, in records at a path."""
        fields = [value.field for value in values]
        encoder = encoder_of(
            fields,
            units=self.units,
            min_count=self.min_count,
            n_edges=self.n_edges,
            name=self._name(path, f"{fields[0].kind}_encoder"),
        )
        return _Branch([value.column for value in values], encoder, max(map(n_distinct, fields)))

    def _rows(
        self,
        fields: Iterable[Field],
        path: str,
        depth: int,
        n_places: float,
        is_shared: bool = False,
    ) -> _Rows:
        parts = self._parts(fields, path, depth, n_places)
        n_distinct = max(part.n_distinct for part in parts)
        are_likely = n_places >= _WORTH and 2 * n_distinct <= n_places
        compress = self._is_worth(is_shared or are_likely)
        layer = DistinctRows(compress, name=self._name(path, "distinct_rows"))
        *values, ids = layer([column for part in parts for column in part.columns])
        left = iter(values)
        vectors = [part.encode([next(left) for _ in part.columns]) for part in parts]
        return _Rows(self._dense(vectors, path), ids, n_distinct if compress else math.inf)

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
        bag_of_rows = (members, weights) if compress else (members,)
        if self.member_dropout:
            dropped = MemberDropout(
                self.member_dropout, name=self._name(bag.path, "member_dropout")
            )
            bag_of_rows = (members, dropped(*bag_of_rows))
        vectors = BagLayer(
            self.units * len(aggregations.get_all(aggregation)),
            activation=self.activation,
            aggregation=aggregation,
            name=self._name(bag.path, "bag"),
        )(rows.vectors, *bag_of_rows)
        gathered = self._gathered(self._dropped(vectors), bag)
        return _Branch([bags], gathered, n_distinct if compress else math.inf)

    def _alike_rows(self, path: str, depth: int) -> _Rows:
        """The rows of a bag of which only the size is read: they are all equal."""
        layer = DistinctRows(self._is_worth(True), name=self._name(path, "distinct_rows"))
        ones, ids = layer([self._input(path, "float32", depth)])
        vectors = keras.layers.Reshape((1,), name=self._name(path, "reshape"))(ones)
        return _Rows(self._dense([vectors], path), ids, 1)

    def _is_worth(self, equals_are_likely: bool) -> bool:
        return equals_are_likely if self.compress == "auto" else self.compress

    def _gathered(
        self, vectors: keras.KerasTensor, part: Field
    ) -> Callable[[Sequence[keras.KerasTensor]], keras.KerasTensor]:
        layer = Gather(name=self._name(part.path, "gather"))
        return lambda ids: layer([vectors, *ids])

    def _dense(self, vectors: Sequence[keras.KerasTensor], path: str) -> keras.KerasTensor:
        """A dense layer on concatenated vectors."""
        x = vectors[0]
        if len(vectors) > 1:
            x = keras.layers.Concatenate(name=self._name(path, "parts"))(vectors)
        name = self._name(path, "dense")
        return self._dropped(
            keras.layers.Dense(self.units, activation=self.activation, name=name)(x)
        )

    def _dropped(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return keras.layers.Dropout(self.dropout)(x) if self.dropout else x

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
    fields: Sequence[Field], *, units: int, min_count: int, n_edges: int, name: str
) -> FieldEncoder:
    """The encoder of fields that are alike: arguments as in `records_model`."""
    kind, paths = fields[0].kind, [field.path for field in fields]
    if kind == "boolean":
        return BooleanEncoder(paths, name=name)
    if kind == "text":
        return TextEncoder(units=units, field=paths, name=name)
    if kind == "category":
        vocabularies = [_vocabulary(field, min_count) for field in fields]
        learned = None if _is_one_hot(fields[0], min_count) else units
        return CategoryEncoder(vocabularies, learned, paths, name=name)
    means, variances = zip(*map(moments, fields), strict=True)
    if kind == "time":
        return TimeEncoder(means, variances, paths, name=name)
    edges = [_quantiles(_values(field), n_edges) for field in fields]
    return NumberEncoder(means, variances, edges, paths, name=name)


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

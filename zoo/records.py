"""A network for nested records, built along their schema."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import keras

from keras_mmil._support.checks import check_int, check_number, positive_int
from keras_mmil._support.types import Shape
from keras_mmil.functional.seeds import seeded
from keras_mmil.layers import BagLayer, DistinctBags, DistinctRows, Gather, aggregations
from keras_mmil.layers.aggregations import Aggregation
from keras_mmil.model import Model
from keras_mmil.records import Schema
from keras_mmil.records.fields import Field
from keras_mmil.zoo import _record_fields as known
from keras_mmil.zoo._types import Aggregations, LearningRate

__all__ = ["records_model"]

Compress: TypeAlias = bool | Literal["auto"]

_BATCH = 32  # records of a batch, Keras's default, in which equal things are looked for


def records_model(
    schema: Schema,
    target: str,
    *,
    units: int = 32,
    aggregation: Aggregations = ("max", "mean"),
    dropout: float = 0.0,
    weight_decay: float = 0.0,
    min_count: int = 2,
    n_edges: int = 0,
    compress: Compress = "auto",
    learning_rate: LearningRate = 1e-3,
    seed: int | None = None,
    name: str = "records",
) -> Model:
    """First version."""
    builder = _Builder(schema, target, units, aggregation, dropout, min_count, n_edges, compress)
    outputs, loss, metric = builder.head(builder.top())
    model = Model(builder.inputs, outputs, name=name)
    optimizer = keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay)
    model.compile(optimizer, loss, metrics=[metric])
    return model


class _Part(NamedTuple):
    """A part of some records.

    Attributes:
        column: its value at each place where such a record is: of a field what was read, of bags
            and shared records which of the distinct ones it is.
        encode: from values [n] to vectors [n, width].
        n_rows: how many different values there are at least, as far as the schema knows.
    """

    column: keras.KerasTensor
    encode: Callable[[keras.KerasTensor], keras.KerasTensor]
    n_rows: float


class _Rows(NamedTuple):
    """The distinct rows of some records.

    Attributes:
        vectors: of the rows, [rows, units].
        ids: the row at each place.
        n_rows: how many different ones there are at least, infinite where few are equal.
    """

    vectors: keras.KerasTensor
    ids: keras.KerasTensor
    n_rows: float


class _Builder:
    def __init__(
        self, schema, target, units, aggregation, dropout, min_count, n_edges, compress
    ) -> None:
        self.inputs: dict[str, keras.KerasTensor] = {}
        self._schema, self._target = schema, schema[target]
        self._units = positive_int("units", units)
        self._aggregations = aggregations.get_all(aggregation)
        self._dropout = dropout
        self._min_count = check_int("min_count", min_count, least=1)
        self._n_edges = n_edges
        self._compress = compress
        self._names = set()

    def top(self) -> keras.KerasTensor:
        parts = self._parts(self._schema.root.parts, 0, float(_BATCH))
        if not parts:
            raise ValueError("nothing")
        x = self._joined([part.encode(part.column) for part in parts])
        return self._dense(x, "top")

    def head(self, x):
        kind = self._target.kind
        if kind == "number":
            return keras.layers.Dense(1, name="target")(x), "mse", "mae"
        if kind == "boolean" or self._target.n_distinct == 2:
            y = keras.layers.Dense(1, activation="sigmoid", name="target")(x)
            return y, "binary_crossentropy", "accuracy"
        dense = keras.layers.Dense(self._target.n_distinct, "softmax", name="target")
        return dense(x), "sparse_categorical_crossentropy", "accuracy"

    def _parts(self, fields: Iterable[Field], depth: int, n_places: float) -> list[_Part]:
        return [
            part
            for each in fields
            if each.is_read and each is not self._target
            for part in self._parts_of(each, depth, n_places)
        ]

    def _parts_of(self, part: Field, depth: int, n_places: float) -> list[_Part]:
        if part.kind == "record" and part.is_shared:
            rows = self._rows(part.parts, part.path, depth, n_places, is_shared=True)
            return [_Part(rows.ids, self._gathered(rows.vectors, part.path), rows.n_rows)]
        if part.kind == "record":
            return self._parts(part.parts, depth, n_places)
        if part.kind == "bag":
            return [self._bag(part, depth, n_places)]
        encoder = known.encoder_of(
            part,
            units=self._units,
            min_count=self._min_count,
            n_edges=self._n_edges,
            name=self._name(part.path, "encoder"),
        )
        return [
            _Part(
                self._input(part.path, known.dtype_of(part), depth),
                encoder,
                known.n_rows_likely([part]),
            )
        ]

    def _rows(self, fields, path, depth, n_places, is_shared=False) -> _Rows:
        parts = self._parts(fields, depth, n_places)
        n_rows = max(part.n_rows for part in parts)
        compress = self._compress
        if compress == "auto":
            compress = is_shared or 2 * n_rows <= n_places
        *values, ids = DistinctRows(compress, name=self._name(path, "distinct_rows"))(
            [part.column for part in parts]
        )
        pairs = zip(parts, values, strict=True)
        x = self._joined([part.encode(x) for part, x in pairs])
        return _Rows(self._dense(x, path), ids, n_rows if compress else float("inf"))

    def _bag(self, bag: Field, depth: int, n_places: float) -> _Part:
        size = known.mean_size(bag)
        n_members = n_places * size
        fields = [
            part
            for each in bag.parts
            for part in (each.parts if each.kind == "record" and each.path == bag.path else [each])
        ]
        aggregation = self._aggregations
        if any(each.is_read for each in fields):
            rows = self._rows(fields, bag.path, depth + 1, n_members)
        else:
            ones = self._input(bag.path, "float32", depth + 1)
            value, ids = DistinctRows(name=self._name(bag.path, "distinct_rows"))([ones])
            x = keras.layers.Reshape((1,))(value)
            rows = _Rows(self._dense(x, bag.path), ids, 1)
            aggregation = aggregations.get_all("sum")
        n_bags = rows.n_rows ** max(size, 1)
        compress = self._compress
        if compress == "auto":
            compress = rows.n_rows <= size or 2 * n_bags <= n_places
        layer = DistinctBags(compress, field=bag.path, name=self._name(bag.path, "distinct_bags"))
        members, weights, bags = layer(rows.ids)
        vectors = BagLayer(
            self._units * len(aggregation),
            aggregation=aggregation,
            name=self._name(bag.path, "bag"),
        )(rows.vectors, members, weights)
        vectors = self._dropped(vectors)
        return _Part(bags, self._gathered(vectors, bag.path), n_bags if compress else float("inf"))

    def _gathered(self, vectors, path):
        layer = Gather(name=self._name(path, "gather"))
        return lambda ids: layer([vectors, ids])

    def _joined(self, vectors):
        return vectors[0] if len(vectors) == 1 else keras.layers.Concatenate()(vectors)

    def _dense(self, x, path):
        return self._dropped(
            keras.layers.Dense(self._units, activation="relu", name=self._name(path, "dense"))(x)
        )

    def _dropped(self, x):
        return keras.layers.Dropout(self._dropout)(x) if self._dropout else x

    def _input(self, path, dtype, depth):
        x = keras.Input((None,) * depth, dtype=dtype, ragged=depth > 0, name=path)
        self.inputs[path] = x
        return x

    def _name(self, path, role):
        return f"{path}.{role}"

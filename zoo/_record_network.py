"""The layers of a network for nested records."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import keras

from keras_mmil._support.types import Shape
from keras_mmil.layers import (
    BagLayer,
    DistinctBags,
    DistinctRows,
    Gather,
    MemberDropout,
    aggregations,
)
from keras_mmil.records.fields import Field
from keras_mmil.zoo import _record_fields as known
from keras_mmil.zoo._types import Aggregations

__all__ = ["Compress", "RecordNetwork"]

Compress: TypeAlias = bool | Literal["auto"]

_BATCH = 32  # records in a batch, Keras's default, among which equal things are looked for
_WORTH = 500  # places in it from which on it takes less time to look for equal ones than to compute


class _Part(NamedTuple):
    """A part of records.

    Attributes:
        column: its value at each place where there is such a record: what was read, or for bags and
            shared records which of the distinct ones it is.
        encode: from values [n] to vectors [n, width].
        n_distinct: how many different values there are at least; infinite if few come again.
    """

    column: keras.KerasTensor
    encode: Callable[[keras.KerasTensor], keras.KerasTensor]
    n_distinct: float


class _Rows(NamedTuple):
    """The distinct rows of records: vectors [rows, units], and the row at each place."""

    vectors: keras.KerasTensor
    ids: keras.KerasTensor
    n_distinct: float


@dataclass
class RecordNetwork:
    """The layers of a network along a schema, from the fields up to the records at the top.

    Args:
        units: of each dense layer, and of each aggregation of the bag-layers.
        activation: of the dense layers and bag-layers.
        aggregation: of the bag-layers.
        dropout: rate, behind each dense layer and bag-layer.
        member_dropout: rate at which members are left out of their bags in training.
        min_count: how often a category has been seen that is not to be unknown.
        n_edges: of numbers.
        compress: whether equal things are computed once.
        without: paths of what is not read.

    Attributes:
        inputs: the `keras.Input`s that were made, by path.
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
        """Vectors [batch, units] of the records at the top.

        Raises:
            ValueError: if no part of them is read.
        """
        parts = self._parts(records.parts, 0, _BATCH)
        if not parts:
            raise ValueError(
                "Expected a schema with something to predict from. Received: nothing that is read"
                + (f" but {', '.join(map(repr, self.without))}" if self.without else "")
            )
        return self._dense([part.encode(part.column) for part in parts], "top")

    def _parts(self, fields: Iterable[Field], depth: int, n_places: float) -> list[_Part]:
        """The parts of records in so many bags, of which a batch has about `n_places`."""
        return [
            part
            for each in fields
            if each.is_read and each.path not in self.without
            for part in self._parts_of(each, depth, n_places)
        ]

    def _parts_of(self, part: Field, depth: int, n_places: float) -> list[_Part]:
        if part.kind == "bag":
            return [self._bag(part, depth, n_places)]
        if part.kind == "record" and part.is_shared:
            rows = self._rows(part.parts, part.path, depth, n_places, is_shared=True)
            return [_Part(rows.ids, self._gathered(rows.vectors, part), rows.n_distinct)]
        if part.has_fields:
            return self._parts(part.parts, depth, n_places)
        encoder = known.encoder_of(
            part,
            units=self.units,
            min_count=self.min_count,
            n_edges=self.n_edges,
            name=self._name(part.path, "encoder"),
        )
        column = self._input(part.path, known.dtype_of(part), depth)
        return [_Part(column, encoder, known.n_distinct(part))]

    def _rows(
        self,
        fields: Iterable[Field],
        path: str,
        depth: int,
        n_places: float,
        is_shared: bool = False,
    ) -> _Rows:
        parts = self._parts(fields, depth, n_places)
        n_distinct = max(part.n_distinct for part in parts)
        are_likely = n_places >= _WORTH and 2 * n_distinct <= n_places
        compress = self._is_worth(is_shared or are_likely)
        layer = DistinctRows(compress, name=self._name(path, "distinct_rows"))
        *values, ids = layer([part.column for part in parts])
        vectors = [part.encode(x) for part, x in zip(parts, values, strict=True)]
        return _Rows(self._dense(vectors, path), ids, n_distinct if compress else math.inf)

    def _bag(self, bag: Field, depth: int, n_places: float) -> _Part:
        size, aggregation = known.mean_size(bag), self.aggregation
        fields = list(_in_members(bag))
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
        return _Part(bags, gathered, n_distinct if compress else math.inf)

    def _alike_rows(self, path: str, depth: int) -> _Rows:
        """The rows of a bag of which nothing is read but its size: they are all alike."""
        layer = DistinctRows(self._is_worth(True), name=self._name(path, "distinct_rows"))
        ones, ids = layer([self._input(path, "float32", depth)])
        vectors = keras.layers.Reshape((1,), name=self._name(path, "reshape"))(ones)
        return _Rows(self._dense([vectors], path), ids, 1)

    def _is_worth(self, equals_are_likely: bool) -> bool:
        return equals_are_likely if self.compress == "auto" else self.compress

    def _gathered(
        self, vectors: keras.KerasTensor, part: Field
    ) -> Callable[[keras.KerasTensor], keras.KerasTensor]:
        layer = Gather(name=self._name(part.path, "gather"))
        return lambda ids: layer([vectors, ids])

    def _dense(self, vectors: Sequence[keras.KerasTensor], path: str) -> keras.KerasTensor:
        """A dense layer on vectors side by side."""
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
        # Keras wants the name of an input to be its key, but allows no slash in it.
        name = path if "/" not in path else self._name(path, "input")
        x = keras.Input(shape, dtype=dtype, ragged=depth > 0, name=name)
        self.inputs[path] = x
        return x

    def _name(self, path: str, role: str) -> str:
        """The name of a layer: TensorFlow's hold no blanks, brackets, quotes or foreign letters."""
        plain = re.sub(r"[^A-Za-z0-9._]+", "_", path).lstrip("_.") or "part"
        name, i = f"{plain}.{role}", 1
        while name in self._names:
            name, i = f"{plain}.{role}_{i}", i + 1
        self._names.add(name)
        return name


def _in_members(bag: Field) -> Iterable[Field]:
    """The parts of a bag's members, and their keys: those of records, and values and bags."""
    for part in bag.parts:
        if part.has_fields:
            yield from part.parts
        else:
            yield part


def _power(n: float, exponent: float) -> float:
    """How many bags of so many members there are, of n different ones."""
    if n <= 1:
        return n
    log = exponent * math.log(n)
    return math.inf if log > 100 else math.exp(log)

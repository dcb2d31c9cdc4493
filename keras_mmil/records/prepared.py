"""Training on records of which all that is not learned is computed once.

A network for records looks up words, merges equal records and bags, and computes statistics in each
step, and TensorFlow traces all of it. But nothing of this changes in training. So here it is
computed once, for all records together; a step gathers rows of the results, from the records at the
top inwards, each once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import PathLike
from keras_mmil.layers import BagLayer, FieldEncoder, Gather, GroupedDense, MemberDropout
from keras_mmil.layers.dense import join_groups
from keras_mmil.model import Model

__all__ = ["Inner", "Level", "Prepared"]

_WHERE = (
    "CPU:0"  # is what was computed, and gathered: TensorFlow gathers RaggedTensors nowhere else
)


@dataclass(frozen=True)
class Inner:
    """Bags in records.

    Attributes:
        level: the members of the bags.
        ids: the bag of each outer record, int [rows].
        members: the rows of the members of each bag, and if they are merged their weights: the
            arguments of the bag-layer.
        dropout, bag_layer, after: layers of the members, of the bags, and after the bag-layer.
    """

    level: "Level"
    ids: keras.KerasTensor
    members: Sequence[keras.KerasTensor]
    dropout: MemberDropout | None
    bag_layer: BagLayer
    after: keras.layers.Dropout | None


@dataclass(frozen=True)
class Level:
    """Records in a network: what their vectors are computed from.

    Attributes:
        shared, statistics, details: features [rows, n] that are not learned; None for none.
            Networks do not read details.
        learned: encoders with learned vectors, and the columns that they read, [rows] each.
        inner: what is in the records.
        dense: the layer of their vectors.
        after: the layer after it.
    """

    shared: keras.KerasTensor | None
    statistics: keras.KerasTensor | None
    details: keras.KerasTensor | None
    learned: Sequence[tuple[FieldEncoder, Sequence[keras.KerasTensor]]]
    inner: Sequence[Inner]
    dense: GroupedDense
    after: keras.layers.Dropout | None

    @property
    def fixed(self) -> list[keras.KerasTensor | None]:
        """The features that are not learned."""
        return [self.shared, self.statistics, self.details]

    def symbols(self) -> Iterator[keras.KerasTensor]:
        """All that is to be computed once."""
        yield from (x for x in self.fixed if x is not None)
        yield from (x for _, columns in self.learned for x in columns)
        for each in self.inner:
            yield from (each.ids, *each.members)
            yield from each.level.symbols()


@dataclass(frozen=True)
class _Inner:
    """What was computed of an `Inner`."""

    level: "_Level"
    ids: tf.Tensor
    members: Sequence[tf.RaggedTensor]

    @classmethod
    def of(cls, part: Inner, found: Mapping[int, Any]) -> Self:
        """The values by the identity of their symbols."""
        members = [found[id(x)] for x in part.members]
        return cls(_Level.of(part.level, found), found[id(part.ids)], members)


@dataclass(frozen=True)
class _Level:
    """What was computed of a `Level`, with codes in place of columns."""

    shared: tf.Tensor | None
    statistics: tf.Tensor | None
    codes: Sequence[Any]
    inner: Sequence[_Inner]

    @classmethod
    def of(cls, level: Level, found: Mapping[int, Any]) -> Self:
        """The values by the identity of their symbols."""
        shared, statistics = (
            None if x is None else found[id(x)] for x in (level.shared, level.statistics)
        )
        codes = [
            encoder.codes(tf.stack([found[id(x)] for x in columns], axis=1))
            for encoder, columns in level.learned
        ]
        return cls(shared, statistics, codes, [_Inner.of(part, found) for part in level.inner])


class _Rest(RawInputs):
    """The learned part of a network, from the numbers of records to its outputs.

    Args:
        whole: the network.
        level: its records at the top.
        tensors: what was computed of all records.
        head: the layers from their vectors to the outputs.
    """

    def __init__(
        self, whole: Model, level: Level, tensors: _Level, head: Sequence[keras.Layer]
    ) -> None:
        super().__init__(name="rest")
        # First, for Keras to find the weights of all layers in the same order.
        self.parts = [layer for layer in whole.layers if layer.variables]
        self._level, self._tensors, self._head = level, tensors, tuple(head)
        self._spec = whole.output.shape, whole.output.dtype

    def build(self, records_shape: Any = None) -> None:
        """Nothing to create."""

    def call(self, records: tf.Tensor) -> tf.Tensor:
        x = _vectors(self._level, self._tensors, records)
        for layer in self._head:
            x = layer(x)
        return x

    def compute_output_spec(self, records: keras.KerasTensor) -> keras.KerasTensor:
        return keras.KerasTensor(*self._spec)


def _vectors(level: Level, tensors: _Level, rows: tf.Tensor) -> tf.Tensor:
    """The vectors of some records by their numbers."""
    with tf.device(_WHERE):
        codes = [tf.gather(each, rows) for each in tensors.codes]
        shared, statistics = (
            None if x is None else tf.gather(x, rows) for x in (tensors.shared, tensors.statistics)
        )
        inner = [tf.unique(tf.gather(each.ids, rows)) for each in tensors.inner]
    encoders = [encoder for encoder, _ in level.learned]
    of_members = [encoder.learned(x) for encoder, x in zip(encoders, codes, strict=True)]
    for part, found, (ids, places) in zip(level.inner, tensors.inner, inner, strict=True):
        of_members.append(Gather()([_of_inner(part, found, ids), places]))
    joined = join_groups(of_members, level.dense.groups) if of_members else None
    x = level.dense(joined, shared, statistics)
    return x if level.after is None else level.after(x)


def _of_inner(part: Inner, tensors: _Inner, ids: tf.Tensor) -> tf.Tensor:
    """The vectors of bags by their numbers."""
    with tf.device(_WHERE):
        members, *weights = (tf.gather(x, ids) for x in tensors.members)
        rows, places = tf.unique(members.flat_values)
    bags = members.with_flat_values(places), *weights
    if part.dropout is not None:
        bags = bags[0], part.dropout(*bags)
    x = part.bag_layer(_vectors(part.level, tensors.level, rows), *bags)
    return x if part.after is None else part.after(x)


class Prepared(Model):
    """A network with the layers, weights and optimizer of another, that reads records by number.

    It trains the other one, and saves that.

    Args:
        whole: the compiled network.
        level: its records at the top.
        head: the layers from their vectors to the outputs.
        data: all records, as the network reads them.

    Attributes:
        features: of the records, without what is learned, [records, n]; None if there are none.
    """

    def __init__(
        self, whole: Model, level: Level, head: Sequence[keras.Layer], data: Mapping[str, Any]
    ) -> None:
        symbols = {id(x): x for x in level.symbols()}
        compute = keras.Model(whole.input, list(symbols.values()))
        # Of a single output, Keras returns no list.
        values = keras.tree.flatten(compute({path: data[path] for path in whole.input}))
        with tf.device(_WHERE):
            moved = map(tf.identity, values)
            by_symbol = dict(zip(symbols, moved, strict=True))
            found = _Level.of(level, by_symbol)
        record = keras.Input((), dtype="int32", name="record")
        super().__init__(record, _Rest(whole, level, found, head)(record), name="prepared")
        fixed = [by_symbol[id(x)].numpy() for x in level.fixed if x is not None]
        self.features = np.concatenate(fixed, axis=1) if fixed else None
        # Hidden from Keras, which would track its variables twice.
        self._whole: Callable[[], Model] = lambda: whole
        self.compile_from_config(whole.get_compile_config())
        self.optimizer = whole.optimizer

    def save(self, filepath: PathLike, **kwargs: Any) -> None:
        """Save the other network, with the state of the optimizer."""
        self._whole().save(filepath, **kwargs)

    def get_config(self) -> NoReturn:
        """Not supported: it holds records."""
        raise NotImplementedError("Expected to save the network. Received: one of certain records")

"""Tensors of records, kept small."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array, Tensors

__all__ = ["Kept"]


@dataclass(frozen=True)
class _Column:
    """One tensor: its values, or the different ones and which it is at each place; row splits."""

    values: Array
    ids: Array | None
    row_splits: tuple[Array, ...]


@dataclass(frozen=True)
class Kept:
    """Tensors as arrays, which can be pickled; of texts each different one once."""

    columns: Mapping[str, _Column]

    @classmethod
    def of(cls, tensors: Mapping[str, tf.Tensor | tf.RaggedTensor]) -> Self:
        """Tensors by name."""
        shared: dict[bytes, Array] = {}  # the row splits that several of them have
        return cls({name: _column(x, shared) for name, x in tensors.items()})

    def tensors(self) -> Tensors:
        """What was kept, as it was."""
        return {name: _tensor(column) for name, column in self.columns.items()}


def _column(x: tf.Tensor | tf.RaggedTensor, shared: dict[bytes, Array]) -> _Column:
    is_ragged = isinstance(x, tf.RaggedTensor)
    flat = x.flat_values if is_ragged else x
    splits = [each.numpy() for each in x.nested_row_splits] if is_ragged else []
    row_splits = tuple(shared.setdefault(each.tobytes(), each) for each in splits)
    if flat.dtype != tf.string:
        return _Column(flat.numpy(), None, row_splits)
    values, ids = tf.unique(flat)
    small = np.min_scalar_type(max(len(values) - 1, 0))
    return _Column(values.numpy(), ids.numpy().astype(small), row_splits)


def _tensor(column: _Column) -> tf.Tensor | tf.RaggedTensor:
    if column.ids is None:
        flat = tf.constant(column.values)
    else:
        flat = tf.gather(tf.constant(column.values, tf.string), column.ids.astype(np.int32))
    if not column.row_splits:
        return flat
    return tf.RaggedTensor.from_nested_row_splits(flat, column.row_splits, validate=False)

"""Tensors as flat arrays, as files have them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil._support.types import Array

__all__ = ["Column"]


@dataclass(frozen=True, eq=False)
class Column:
    """A tensor that leads with top-bags.

    Attributes:
        values: of all instances, `[instances, *inner_shape]`; texts as objects, bytes.
        splits: row splits of each level, from the top-bags inwards; none for a dense tensor.
    """

    values: Array
    splits: tuple[npt.NDArray[np.int64], ...]

    @classmethod
    def of(cls, tensor: tf.Tensor | tf.RaggedTensor) -> "Column":
        """The column that an eager tensor is."""
        if isinstance(tensor, tf.RaggedTensor):
            splits = tuple(part.numpy() for part in tensor.nested_row_splits)
            return cls(tensor.flat_values.numpy(), splits)
        return cls(tensor.numpy(), ())

    @property
    def top_bags(self) -> int:
        """How many there are."""
        return len(self.splits[0]) - 1 if self.splits else len(self.values)

    @property
    def n_bytes(self) -> int:
        """How many bytes the values and row splits take; those of a text, and a reference to it."""
        arrays = [self.values, *self.splits]
        n_of_texts = sum(map(len, self.values.flat)) if self.values.dtype == object else 0
        return n_of_texts + sum(array.nbytes for array in arrays)

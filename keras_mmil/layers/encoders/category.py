"""Categories as vectors."""

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import MISSING_INT, MISSING_TEXT, Config, Shape
from keras_mmil.layers._types import Nested
from keras_mmil.layers.encoders.base import FieldEncoder

__all__ = ["CategoryEncoder"]


@keras.saving.register_keras_serializable("keras_mmil")
class CategoryEncoder(FieldEncoder):
    """A category: a one-hot vector, or a learned one.

    Categories that are not in the vocabulary are unknown, and all alike: zeros instead of a one-hot
    vector, or a learned vector of their own that starts at zeros.

    Args:
        vocabulary: the categories, all str or all int, in the order of the one-hot vectors.
        units: size of the learned vectors; None for one-hot vectors.
        field: path of the field.

    Input shape:
        Strings or integers [n], or in bags; "\\0" or -2⁶³ where they are missing.

    Output shape:
        The same with a last axis of one more than the categories, or than `units`.

    Raises:
        ValueError: if there are no categories, or they come twice or are of other types.
    """

    kind: ClassVar[str] = "category"

    def __init__(
        self,
        vocabulary: Sequence[str] | Sequence[int],
        units: int | None = None,
        field: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(field, **kwargs)
        self.units = positive_int("units", units, optional=True)
        self.vocabulary: list[Any] = _checked(vocabulary)
        self.takes_texts = isinstance(self.vocabulary[0], str)
        # Not Keras's StringLookup, which takes "" for "\0", the missing one.
        known = _keys(tf.constant(self.vocabulary, tf.string if self.takes_texts else tf.int64))
        order = np.argsort(known)
        self._sorted_keys, self._order = known.numpy()[order], order.astype(np.int32)
        if (same := self._sorted_keys[1:] == self._sorted_keys[:-1]).any():
            shown = [
                self.vocabulary[order[i + j]] for i in np.flatnonzero(same)[:1] for j in (0, 1)
            ]
            raise ValueError(f"Expected categories of different hashes. Received: {shown}")

    @property
    def n_features(self) -> int:
        return self.units or len(self.vocabulary)

    def build(self, values_shape: Shape | None = None) -> None:
        super().build(values_shape)
        if self.units is None:
            return
        self.vectors = self.add_weight(
            shape=(len(self.vocabulary), self.units), initializer="uniform", name="vectors"
        )
        self.unknown = self.add_weight(shape=(1, self.units), initializer="zeros", name="unknown")

    def are_missing(self, values: tf.Tensor) -> tf.Tensor:
        missing = MISSING_TEXT if self.takes_texts else tf.constant(MISSING_INT, values.dtype)
        return tf.equal(values, missing)

    def features(self, values: tf.Tensor) -> tf.Tensor:
        ids = self.lookup(values)
        n = len(self.vocabulary)
        if self.units is None:
            return tf.one_hot(ids, n, dtype=self.compute_dtype)
        vectors = tf.concat([self.vectors, self.unknown], axis=0)
        return tf.gather(vectors, tf.where(ids < 0, n, ids))

    def lookup(self, values: tf.Tensor) -> tf.Tensor:
        """The position of each category in the vocabulary, int32 [n]; -1 where it is unknown."""
        places = tf.searchsorted(self._sorted_keys, _keys(values))
        places = tf.minimum(places, len(self.vocabulary) - 1)
        ids = tf.gather(self._order, places)
        is_known = tf.equal(tf.gather(tf.constant(self.vocabulary, values.dtype), ids), values)
        return tf.where(is_known, ids, -1)

    def get_config(self) -> Config:
        return {**super().get_config(), "vocabulary": self.vocabulary, "units": self.units}

    def _check(self, values: Nested | keras.KerasTensor) -> None:
        super()._check(values)
        dtype = keras.backend.standardize_dtype(values.dtype)
        if dtype not in ("string", "int64"):
            raise ValueError(
                f"CategoryEncoder '{self.name}' expected texts or int64. "
                f"Received: values.dtype={dtype}"
            )


def _checked(vocabulary: Sequence[str] | Sequence[int]) -> list[Any]:
    """A vocabulary as a list of str, or of Python's int, which JSON knows."""
    categories = [x.item() if isinstance(x, np.generic) else x for x in vocabulary]
    for kind in (str, int):
        if categories and all(type(x) is kind for x in categories):
            if len(set(categories)) == len(categories):
                return categories
            twice = next(x for x in categories if categories.count(x) > 1)
            raise ValueError(f"Expected different categories. Received: {twice!r} twice")
    shown = f"{categories[:5]!r}" + (" ..." if len(categories) > 5 else "")
    raise ValueError(f"Expected at least one category, all str or all int. Received: {shown}")


def _keys(values: tf.Tensor) -> tf.Tensor:
    """An int64 for each category, by which it is found: itself, or a hash."""
    if values.dtype == tf.string:
        return tf.strings.to_hash_bucket_fast(values, 2**63 - 1)
    return values

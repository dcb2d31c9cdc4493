"""Texts as vectors."""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import MISSING_TEXT, Config, Shape
from keras_mmil.layers.encoders.base import FieldEncoder

__all__ = ["TextEncoder"]


@keras.saving.register_keras_serializable("keras_mmil")
class TextEncoder(FieldEncoder):
    """A text: the mean of learned vectors of its words, and the logarithm of their number.

    Words are lower case, and of letters and digits. Each has a vector by its hash, so that no
    vocabulary is needed; words of equal hash share one.

    Args:
        n_buckets: number of vectors.
        units: size of the vectors.
        field: path of the field.

    Input shape:
        Strings [n], or in bags; "\\0" where they are missing.

    Output shape:
        The same with a last axis of `units` + 2.
    """

    kind: ClassVar[str] = "text"
    takes_texts = True

    def __init__(
        self, n_buckets: int = 4096, units: int = 32, field: str = "", **kwargs: Any
    ) -> None:
        super().__init__(field, **kwargs)
        self.n_buckets = positive_int("n_buckets", n_buckets)
        self.units = positive_int("units", units)

    @property
    def n_features(self) -> int:
        return self.units + 1

    @staticmethod
    def words(values: tf.Tensor) -> tf.RaggedTensor:
        """The words of texts [n]: strings [n, (words)]."""
        texts = tf.strings.lower(values, encoding="utf-8")
        return tf.strings.split(tf.strings.regex_replace(texts, r"[^\pL\pM\pN]+", " "))

    def build(self, values_shape: Shape | None = None) -> None:
        super().build(values_shape)
        self.vectors = self.add_weight(
            shape=(self.n_buckets, self.units), initializer="uniform", name="vectors"
        )

    def are_missing(self, values: tf.Tensor) -> tf.Tensor:
        return tf.equal(values, MISSING_TEXT)

    def features(self, values: tf.Tensor) -> tf.Tensor:
        words = self.words(values)
        buckets = tf.strings.to_hash_bucket_fast(words.flat_values, self.n_buckets)
        vectors = tf.gather(tf.cast(self.vectors, self.compute_dtype), buckets)
        mean = tf.math.unsorted_segment_mean(vectors, words.value_rowids(), tf.size(values))
        n_words = tf.cast(words.row_lengths(), self.compute_dtype)
        return tf.concat([mean, tf.math.log1p(n_words)[:, None]], axis=1)

    def get_config(self) -> Config:
        return {**super().get_config(), "n_buckets": self.n_buckets, "units": self.units}

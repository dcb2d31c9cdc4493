"""Layers that encode the fields of records: values in, vectors out, also for missing values."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.checks import check_number, positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import MISSING_INT, MISSING_TEXT, Config, Shape
from keras_mmil.layers._types import Nested
from keras_mmil.layers.grouping import with_rows

__all__ = [
    "BooleanEncoder",
    "CategoryEncoder",
    "FieldEncoder",
    "NumberEncoder",
    "TextEncoder",
    "TimeEncoder",
    "calendar",
]


class FieldEncoder(RawInputs):
    """Base class of layers that turn the values of a field into vectors.

    The last feature is 1 where the value is missing, and else 0. The other features of missing
    values are learned, and start at zero.

    A subclass defines what it reads (`kind`), and its other features (`n_features`, `features`).

    Args:
        field: path of the field, such as "orders.items.price", for explanations.

    Input shape:
        Values [n], or in bags [batch, (n₁), …, (n_K)], ragged or dense.

    Output shape:
        The same with a last axis of `width`.
    """

    kind: ClassVar[str]
    takes_texts: bool = False

    def __init__(self, field: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.field = field

    @property
    def n_features(self) -> int:
        """Number of features without the one for missing values."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Size of a vector."""
        return self.n_features + 1

    def features(self, values: tf.Tensor) -> tf.Tensor:
        """The features [n, n_features] of values [n], finite also for missing ones."""
        raise NotImplementedError

    def are_missing(self, values: tf.Tensor) -> tf.Tensor:
        """Which values are missing, bool [n]."""
        return tf.math.is_nan(values)

    def build(self, values_shape: Shape | None = None) -> None:
        self.missing = self.add_weight(
            shape=(self.n_features,), initializer="zeros", name="missing"
        )

    def call(self, values: Nested) -> Nested:
        self._check(values)
        # Few operations: what is traced for the fields is most of a network for records.
        flat = getattr(values, "flat_values", values)
        flat = flat if flat.shape.rank == 1 else tf.reshape(flat, [-1])
        is_missing = tf.expand_dims(self.are_missing(flat), 1)
        x = tf.cast(self.features(flat), self.compute_dtype)
        x = tf.where(is_missing, tf.cast(self.missing, x.dtype), x)
        x = tf.concat([x, tf.cast(is_missing, x.dtype)], axis=1)
        return with_rows(values, tf.ensure_shape(x, [None, self.width]), 0)

    def compute_output_spec(self, values: keras.KerasTensor) -> keras.KerasTensor:
        self._check(values)
        shape = (*values.shape, self.width)
        return keras.KerasTensor(shape, dtype=self.compute_dtype, ragged=values.ragged)

    def get_config(self) -> Config:
        return {**super().get_config(), "field": self.field}

    def _check(self, values: Nested | keras.KerasTensor) -> None:
        dtype = keras.backend.standardize_dtype(values.dtype)
        if (dtype == "string") != self.takes_texts:
            expected = "texts" if self.takes_texts else "numbers"
            raise ValueError(
                f"{type(self).__name__} '{self.name}' expected {expected}. "
                f"Received: values.dtype={dtype}"
            )


_FARTHEST = 8.0  # standard deviations from the mean, at which values are clipped


def standardized(values: tf.Tensor, mean: float, variance: float) -> tf.Tensor:
    """(x - mean) / √variance, clipped to -8 and 8; a variance of 0 counts as 1."""
    scale = 1 / math.sqrt(variance) if variance else 1.0
    return tf.clip_by_value((values - mean) * scale, -_FARTHEST, _FARTHEST)


@keras.saving.register_keras_serializable("keras_mmil")
class NumberEncoder(FieldEncoder):
    """A number, standardised and with a piecewise linear encoding.

    For edges b₀ < b₁ < … < b_T there are T features: feature t rises from 0 to 1 between b_t-1 and
    b_t, and is constant elsewhere. From these, a layer learns thresholds more easily than from the
    number alone.

    Args:
        mean, variance: of the numbers, which are clipped at 8 standard deviations from the mean.
        edges: increasing numbers, such as quantiles: none, or at least two.
        field: path of the field.

    Input shape:
        Floats [n], or in bags; NaN where they are missing.

    Output shape:
        The same with a last axis of 2, or 1 + number of edges.

    Reference:
        Gorishniy, Rubachev and Babenko, On Embeddings for Numerical Features in Tabular Deep
        Learning, 2022.
    """

    kind: ClassVar[str] = "number"

    def __init__(
        self,
        mean: float = 0.0,
        variance: float = 1.0,
        edges: Sequence[float] = (),
        field: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(field, **kwargs)
        self.mean = check_number("mean", mean)
        self.variance = check_number("variance", variance, least=0)
        self.edges = [check_number("edges", edge) for edge in edges]
        if len(self.edges) == 1 or sorted(set(self.edges)) != self.edges:
            raise ValueError(
                f"Expected increasing edges, none or at least two. Received: edges={self.edges}"
            )

    @property
    def n_features(self) -> int:
        return 1 + max(len(self.edges) - 1, 0)

    def features(self, values: tf.Tensor) -> tf.Tensor:
        values = tf.where(tf.math.is_nan(values), tf.zeros_like(values), values)
        x = standardized(values, self.mean, self.variance)[:, None]
        if not self.edges:
            return x
        lower, upper = (tf.constant(e, values.dtype) for e in (self.edges[:-1], self.edges[1:]))
        between = (values[:, None] - lower) / (upper - lower)
        return tf.concat([x, tf.clip_by_value(between, 0, 1)], axis=1)

    def get_config(self) -> Config:
        config = {"mean": self.mean, "variance": self.variance, "edges": self.edges}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable("keras_mmil")
class BooleanEncoder(FieldEncoder):
    """A boolean: 1 for true, -1 for false.

    Args:
        field: path of the field.

    Input shape:
        Floats [n], or in bags: 1 or 0, NaN where they are missing.

    Output shape:
        The same with a last axis of 2.
    """

    kind: ClassVar[str] = "boolean"

    @property
    def n_features(self) -> int:
        return 1

    def features(self, values: tf.Tensor) -> tf.Tensor:
        return tf.where(values > 0.5, 1.0, -1.0)[:, None]


@keras.saving.register_keras_serializable("keras_mmil")
class CategoryEncoder(FieldEncoder):
    """A category as a one-hot or a learned vector.

    All categories outside the vocabulary have the same vector: zeros in place of a one-hot vector,
    or a learned one that starts at zero.

    Args:
        vocabulary: the categories, all str or all int, in the order of the one-hot vectors.
        units: size of the learned vectors; None for one-hot vectors.
        field: path of the field.

    Input shape:
        Strings or integers [n], or in bags; "\\0" or -2⁶³ where they are missing.

    Output shape:
        The same with a last axis of 1 + number of categories, or 1 + `units`.

    Raises:
        ValueError: if there are no categories, or they are repeated or of other types.
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
        # Keras's StringLookup takes "" for "\0", a missing value.
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
        """The index of each category in the vocabulary, int32 [n]; -1 for unknown ones."""
        positions = tf.searchsorted(self._sorted_keys, _keys(values))
        positions = tf.minimum(positions, len(self.vocabulary) - 1)
        ids = tf.gather(self._order, positions)
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
    """A vocabulary as a list of str or int, for JSON."""
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
    """An int64 key for each category: itself, or a hash."""
    if values.dtype == tf.string:
        return tf.strings.to_hash_bucket_fast(values, 2**63 - 1)
    return values


@keras.saving.register_keras_serializable("keras_mmil")
class TextEncoder(FieldEncoder):
    """A text as the mean of learned word vectors, and the logarithm of the number of words.

    Words are lower case, and consist of letters and digits. The hash of a word selects its vector,
    so that no vocabulary is needed; words of equal hash share a vector.

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


_DAY = 86_400  # seconds
_YEAR = 365.2425 * _DAY
_LIMIT = 3e11  # seconds from 1970, over 9,000 years, at which times are clipped


class Calendar(NamedTuple):
    """Parts of points in time (UTC), each int64 [n]."""

    year: tf.Tensor
    month: tf.Tensor  # 0 for January to 11
    weekday: tf.Tensor  # 0 for Monday to 6
    hour: tf.Tensor


def calendar(seconds: tf.Tensor) -> Calendar:
    """The parts of times in float64 seconds since 1970 (UTC) [n].

    Reference:
        Hinnant, chrono-Compatible Low-Level Date Algorithms, 2021: `civil_from_days`.
    """
    total = tf.cast(tf.math.floor(tf.clip_by_value(seconds, -_LIMIT, _LIMIT)), tf.int64)
    days = total // _DAY
    era, day_of_era = _divided(days + 719_468, 146_097)  # from 1 March of the year 0
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * day + 2) // 153
    month = (from_march + 2) % 12
    year = 400 * era + year_of_era + tf.cast(month < 2, tf.int64)
    return Calendar(year, month, weekday=(days + 3) % 7, hour=total % _DAY // 3600)


@keras.saving.register_keras_serializable("keras_mmil")
class TimeEncoder(FieldEncoder):
    """A point in time (UTC): standardised time and year, and one-hot month, weekday and hour.

    Args:
        mean, variance: of the times, in seconds since 1970.
        field: path of the field.

    Input shape:
        Floats [n], or in bags: float64 seconds since 1970 (UTC), NaN where they are missing.

    Output shape:
        The same with a last axis of 46.
    """

    kind: ClassVar[str] = "time"

    def __init__(
        self, mean: float = 0.0, variance: float = _YEAR**2, field: str = "", **kwargs: Any
    ) -> None:
        super().__init__(field, **kwargs)
        self.mean = check_number("mean", mean)
        self.variance = check_number("variance", variance, least=0)

    @property
    def n_features(self) -> int:
        return 2 + 12 + 7 + 24

    def features(self, values: tf.Tensor) -> tf.Tensor:
        seconds = tf.cast(values, tf.float64)
        mean = tf.constant(self.mean, tf.float64)
        seconds = tf.where(tf.math.is_nan(seconds), mean, seconds)
        parts = calendar(seconds)
        begun = tf.cast(parts.year - 1970, tf.float64) * _YEAR
        numbers = [standardized(x, self.mean, self._variance) for x in (seconds, begun)]
        one_hot = [
            tf.one_hot(part, n, dtype=self.compute_dtype)
            for part, n in ((parts.month, 12), (parts.weekday, 7), (parts.hour, 24))
        ]
        return tf.concat([tf.cast(tf.stack(numbers, axis=1), self.compute_dtype), *one_hot], axis=1)

    @property
    def _variance(self) -> float:
        """At least a day squared, as closer times differ by the hour only."""
        return max(self.variance, float(_DAY) ** 2)

    def get_config(self) -> Config:
        return {**super().get_config(), "mean": self.mean, "variance": self.variance}


def _divided(x: tf.Tensor, by: int) -> tuple[tf.Tensor, tf.Tensor]:
    return x // by, x % by

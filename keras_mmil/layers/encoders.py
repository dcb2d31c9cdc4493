"""Layers that encode the fields of records: values in, vectors out, also for missing values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.checks import check_number, positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import MISSING_INT, MISSING_TEXT, Config, Ints, Shape
from keras_mmil.layers._checks import assert_in_same_bags, check_nested_alike
from keras_mmil.layers._types import Nested
from keras_mmil.layers.grouping import flat_columns, with_rows

__all__ = [
    "BooleanEncoder",
    "CategoryEncoder",
    "FieldEncoder",
    "Lookup",
    "NumberEncoder",
    "TextEncoder",
    "TimeEncoder",
    "calendar",
]


class FieldEncoder(RawInputs):
    """Base class of layers that turn the values of fields into vectors.

    For each field, one feature is 1 where the value is missing, and else 0; these come last. The
    other features of missing values are learned, and start at zero.

    A layer encodes one field, or many of one kind: these are one matrix, so that hundreds of fields
    take hardly more time than one. A subclass defines what it reads (`kind`), and the other
    features (`n_features`, `features`).

    Args:
        field: path of the field, such as "orders.items.price", for explanations; or a list of the
            paths of several, which come as a list of tensors. The other arguments are then lists
            with one for each field.

    Input shape:
        Values [n], or in bags [batch, (n₁), …, (n_K)], ragged or dense.

    Output shape:
        The same with a last axis of `width`.

    Raises:
        ValueError: if the values are not what it reads, or not as many as fields.
        InvalidArgumentError: if fields are in bags of different sizes.
    """

    kind: ClassVar[str]
    takes_texts: bool = False
    groups: int = 1
    n_learned: int = 0  # features, the first ones, that come from learned vectors

    def __init__(self, field: str | Sequence[str] = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not (isinstance(field, str) or (field and all(isinstance(each, str) for each in field))):
            raise ValueError(f"Expected a path, or a list of paths. Received: field={field!r}")
        self.field = field if isinstance(field, str) else list(field)

    @property
    def fields(self) -> tuple[str, ...]:
        """The paths of the fields."""
        return (self.field,) if isinstance(self.field, str) else tuple(self.field)

    @property
    def n_features(self) -> int:
        """Number of features without those for missing values."""
        return sum(self._sizes)

    @property
    def width(self) -> int:
        """Size of a vector."""
        return self.n_features + len(self.fields)

    @property
    def _sizes(self) -> Sequence[int]:
        """Number of features of each field without that for missing values."""
        raise NotImplementedError

    def features(self, values: tf.Tensor) -> tf.Tensor:
        """The features [n, n_features] of values [n, fields], finite also for missing ones."""
        raise NotImplementedError

    def are_missing(self, values: tf.Tensor) -> tf.Tensor:
        """Which values are missing, bool, in their shape."""
        return tf.math.is_nan(values)

    def codes(self, values: tf.Tensor) -> Nested:
        """Which learned vectors values [n, fields] have, int32 [n, …]: what does not change."""
        raise NotImplementedError

    def learned(self, codes: Nested) -> tf.Tensor:
        """The learned features [n, n_learned] of codes, for an encoder with groups."""
        raise NotImplementedError

    def build(self, values_shape: Shape | None = None) -> None:
        self.missing = self.add_weight(
            shape=(self.n_features,),
            initializer="zeros",
            trainable=self.groups == 1,  # some would be shared by the groups
            name="missing",
        )

    def call(self, values: Nested | Sequence[Nested]) -> Nested:
        if self._is_matrix(values):
            return self._encoded(values)
        columns = self._columns(values)
        # Few operations: what is traced for the fields is most of a network for records.
        assert_in_same_bags(self, columns, self.fields[1:], "fields")
        x = self._encoded(tf.stack(flat_columns(columns), axis=1))
        return with_rows(columns[0], x, 0)

    def _is_matrix(self, values: Any) -> bool:
        """Whether the values of several fields are one tensor [n, fields]."""
        return not isinstance(self.field, str) and not isinstance(values, (list, tuple))

    def _encoded(self, matrix: tf.Tensor) -> tf.Tensor:
        """The vectors [n, width] of values [n, fields]."""
        are_missing = self.are_missing(matrix)
        x = tf.cast(self.features(matrix), self.compute_dtype)
        missing = tf.cast(self.missing, x.dtype)
        x = tf.where(self._of_features(are_missing), missing, x)
        x = tf.concat([x, tf.cast(are_missing, x.dtype)], axis=1)
        return tf.ensure_shape(x, [None, self.width])

    def _of_features(self, of_fields: tf.Tensor) -> tf.Tensor:
        """What is known of fields [n, fields] for each of their features [n, features].

        For one field [n, 1], which is broadcast.
        """
        if len(self._sizes) in (1, self.n_features):
            return of_fields
        return tf.gather(of_fields, self.field_of_each, axis=1)

    @property
    def field_of_each(self) -> Ints:
        """The number of the field of each feature."""
        return _repeated(self._sizes)

    def _in_groups(self, vectors: tf.Tensor) -> tf.Tensor:
        """Learned vectors [n, fields, units] as features, in groups of all fields."""
        n_fields, units = vectors.shape[1:]
        if self.groups > 1 and n_fields > 1:
            vectors = tf.reshape(vectors, [-1, n_fields, self.groups, units // self.groups])
            vectors = tf.transpose(vectors, [0, 2, 1, 3])
        return tf.reshape(vectors, [-1, n_fields * units])

    def _learned_fields(self, units: int) -> Ints:
        """The number of the field of each feature of `_in_groups`."""
        fields = np.arange(len(self.fields), dtype=np.int32)
        return np.tile(np.repeat(fields, units // self.groups), self.groups)

    def compute_output_spec(
        self, values: keras.KerasTensor | Sequence[keras.KerasTensor]
    ) -> keras.KerasTensor:
        if self._is_matrix(values):
            assert isinstance(values, keras.KerasTensor)
            return keras.KerasTensor((values.shape[0], self.width), dtype=self.compute_dtype)
        first = self._columns(values)[0]
        shape = (*first.shape, self.width)
        return keras.KerasTensor(shape, dtype=self.compute_dtype, ragged=first.ragged)

    def get_config(self) -> Config:
        return {**super().get_config(), "field": self.field}

    def _columns(self, values: Any) -> Sequence[Any]:
        """The values of each field; ValueError if they are not what the layer reads."""
        columns = [values] if isinstance(self.field, str) else values
        if not isinstance(columns, (list, tuple)) or len(columns) != len(self.fields):
            shape = len(columns) if isinstance(columns, (list, tuple)) else type(columns).__name__
            raise ValueError(
                f"{type(self).__name__} '{self.name}' expected a list of {len(self.fields)} "
                f"tensors, one for each field. Received: {shape}"
            )
        check_nested_alike(self, columns, "fields")
        for dtype in {keras.backend.standardize_dtype(x.dtype): None for x in columns}:
            self._check_dtype(dtype)
        return columns

    def _check_dtype(self, dtype: str) -> None:
        if (dtype == "string") != self.takes_texts:
            expected = "texts" if self.takes_texts else "numbers"
            raise ValueError(
                f"{type(self).__name__} '{self.name}' expected {expected}. "
                f"Received: values.dtype={dtype}"
            )

    def _of_each(self, name: str, given: Any) -> list[Any]:
        """An argument for each field; ValueError if there are not as many as fields."""
        each = [given] if isinstance(self.field, str) else list(given)
        if len(each) != len(self.fields):
            raise ValueError(
                f"Expected a list with one for each of {len(self.fields)} fields. "
                f"Received: {name} of {len(each)}"
            )
        return each

    def _as_given(self, arguments: Mapping[str, list[Any]]) -> Config:
        """Arguments, lists with one for each field, as the constructor takes them."""
        if isinstance(self.field, str):
            return {name: of_fields[0] for name, of_fields in arguments.items()}
        return {**arguments}


def _repeated(sizes: Sequence[int]) -> Ints:
    """The number of each field, int32, as often as its size."""
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


_FARTHEST = 8.0  # standard deviations from the mean, at which values are clipped


def standardized(
    values: tf.Tensor, means: Sequence[float], variances: Sequence[float]
) -> tf.Tensor:
    """(x - mean) / √variance, clipped to -8 and 8; a variance of 0 counts as 1."""
    scales = [1 / math.sqrt(variance) if variance else 1.0 for variance in variances]
    standard = (values - tf.constant(means, values.dtype)) * tf.constant(scales, values.dtype)
    return tf.clip_by_value(standard, -_FARTHEST, _FARTHEST)


@keras.saving.register_keras_serializable("keras_mmil")
class NumberEncoder(FieldEncoder):
    """A number, standardised and with a piecewise linear encoding.

    For edges b₀ < b₁ < … < b_T there are T features: feature t rises from 0 to 1 between b_t-1 and
    b_t, and is constant elsewhere. From these, a layer learns thresholds more easily than from the
    number alone.

    Args:
        mean, variance: of the numbers, which are clipped at 8 standard deviations from the mean.
        edges: increasing numbers, such as quantiles: none, or at least two.
        field: path of the field; or several paths, with lists of means, variances and edges, where
            all have as many edges.
        encoding: "piecewise"; or "rank" for one feature, the share of the quantiles `edges` below,
            standardised: outliers and skewed numbers are as good as others.

    Input shape:
        Floats [n], or in bags; NaN where they are missing. Several fields may be one [n, fields].

    Output shape:
        The same with a last axis of 2, or 1 + number of edges, for each field.

    Reference:
        Gorishniy, Rubachev and Babenko, On Embeddings for Numerical Features in Tabular Deep
        Learning, 2022.
    """

    kind: ClassVar[str] = "number"

    def __init__(
        self,
        mean: float | Sequence[float] = 0.0,
        variance: float | Sequence[float] = 1.0,
        edges: Sequence[float] | Sequence[Sequence[float]] = (),
        field: str | Sequence[str] = "",
        encoding: str = "piecewise",
        **kwargs: Any,
    ) -> None:
        super().__init__(field, **kwargs)
        if encoding not in ("piecewise", "rank"):
            raise ValueError(f"Expected 'piecewise' or 'rank'. Received: encoding={encoding!r}")
        self.encoding = encoding
        self._means = [check_number("mean", x) for x in self._of_each("mean", mean)]
        self._variances = [
            check_number("variance", x, least=0) for x in self._of_each("variance", variance)
        ]
        if not isinstance(field, str) and not edges:
            edges = [()] * len(self.fields)
        check = _increasing if encoding == "piecewise" else sorted
        self._edges = [check(each) for each in self._of_each("edges", edges)]
        if len(set(map(len, self._edges))) > 1:
            numbers = list(map(len, self._edges))
            raise ValueError(f"Expected as many edges for each field. Received: {numbers}")

    @property
    def _sizes(self) -> Sequence[int]:
        if self.encoding == "rank":
            return [1] * len(self.fields)
        return [1 + max(len(edges) - 1, 0) for edges in self._edges]

    def features(self, values: tf.Tensor) -> tf.Tensor:
        values = tf.where(tf.math.is_nan(values), tf.zeros_like(values), values)
        x = standardized(values, self._means, self._variances)
        if not self._edges[0]:
            return x
        edges = np.array(self._edges)
        lower, upper = (tf.constant(e, values.dtype) for e in (edges[:, :-1], edges[:, 1:]))
        between = (values[:, :, None] - lower) / (upper - lower)  # (n, fields, features)
        if self.encoding == "rank":  # of equal edges, none counts
            ranks = tf.reduce_mean(tf.where(upper > lower, tf.clip_by_value(between, 0, 1), 0.5), 2)
            return (ranks - 0.5) * math.sqrt(12.0)
        curves = tf.concat([x[:, :, None], tf.clip_by_value(between, 0, 1)], axis=2)
        return tf.reshape(curves, [-1, self.n_features])

    def get_config(self) -> Config:
        of_fields: dict[str, list[Any]] = {
            "mean": self._means,
            "variance": self._variances,
            "edges": self._edges,
        }
        return {**super().get_config(), **self._as_given(of_fields), "encoding": self.encoding}


def _increasing(edges: Sequence[float]) -> list[float]:
    edges = [check_number("edges", edge) for edge in edges]
    if len(edges) == 1 or sorted(set(edges)) != edges:
        raise ValueError(
            f"Expected increasing edges, none or at least two. Received: edges={edges}"
        )
    return edges


@keras.saving.register_keras_serializable("keras_mmil")
class BooleanEncoder(FieldEncoder):
    """A boolean: 1 for true, -1 for false.

    Args:
        field: path of the field, or of several.

    Input shape:
        Floats [n], or in bags: 1 or 0, NaN where they are missing.

    Output shape:
        The same with a last axis of 2 for each field.
    """

    kind: ClassVar[str] = "boolean"

    @property
    def _sizes(self) -> Sequence[int]:
        return [1] * len(self.fields)

    def features(self, values: tf.Tensor) -> tf.Tensor:
        return tf.where(values > 0.5, 1.0, -1.0)


@keras.saving.register_keras_serializable("keras_mmil")
class CategoryEncoder(FieldEncoder):
    """A category as a one-hot or a learned vector.

    All categories outside the vocabulary have the same vector: zeros in place of a one-hot vector,
    or a learned one that starts at zero.

    Args:
        vocabulary: the categories, all str or all int, in the order of the one-hot vectors.
        units: size of the learned vectors; None for one-hot vectors.
        field: path of the field; or several paths, with a list of vocabularies.
        groups: number of groups of the learned features: see `GroupedDense`.

    Input shape:
        Strings or integers [n], or in bags; "\\0" or -2⁶³ where they are missing.

    Output shape:
        The same with a last axis of 1 + number of categories, or 1 + `units`, for each field.

    Raises:
        ValueError: if there are no categories, or they are repeated or of other types.
    """

    kind: ClassVar[str] = "category"

    def __init__(
        self,
        vocabulary: Sequence[str] | Sequence[int] | Sequence[Sequence[str] | Sequence[int]],
        units: int | None = None,
        field: str | Sequence[str] = "",
        groups: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(field, **kwargs)
        self.units = positive_int("units", units, optional=True)
        self.groups = positive_int("groups", groups)
        self.n_learned = len(self.fields) * (self.units or 0)
        self._vocabularies = [_checked(x) for x in self._of_each("vocabulary", vocabulary)]
        if len({type(x[0]) for x in self._vocabularies}) > 1:
            shown = [x[:3] for x in self._vocabularies]
            raise ValueError(f"Expected categories all str or all int. Received: {shown}")
        self.takes_texts = isinstance(self._vocabularies[0][0], str)
        # One table for all fields. Keras's StringLookup takes "" for "\0", a missing value.
        self._lookup = Lookup(self._vocabularies)

    @property
    def vocabulary(self) -> list[Any]:
        """The categories, or a list of those of each field."""
        return self._vocabularies[0] if isinstance(self.field, str) else self._vocabularies

    @property
    def _sizes(self) -> Sequence[int]:
        return [self.units or len(each) for each in self._vocabularies]

    @property
    def field_of_each(self) -> Ints:
        return _repeated(self._sizes) if self.units is None else self._learned_fields(self.units)

    def build(self, values_shape: Shape | None = None) -> None:
        super().build(values_shape)
        if self.units is None:
            return
        self.vectors = self.add_weight(
            shape=(len(self._lookup.table), self.units), initializer="uniform", name="vectors"
        )
        self.unknown = self.add_weight(
            shape=(len(self.fields), self.units), initializer="zeros", name="unknown"
        )

    def are_missing(self, values: tf.Tensor) -> tf.Tensor:
        missing = MISSING_TEXT if self.takes_texts else tf.constant(MISSING_INT, values.dtype)
        return tf.equal(values, missing)

    def features(self, values: tf.Tensor) -> tf.Tensor:
        if self.units is None:
            one_hot = tf.equal(
                self._of_features(self.lookup(values)), tf.range(len(self._lookup.table))
            )
            return tf.cast(one_hot, self.compute_dtype)
        return self._in_groups(self._vectors_of(self._known_or_not(values)))

    def _known_or_not(self, values: tf.Tensor) -> tf.Tensor:
        """The row of each value in the vectors of categories, and of unknown ones of each field."""
        ids = self.lookup(values)
        return tf.where(ids < 0, len(self._lookup.table) + tf.range(len(self.fields)), ids)

    def _vectors_of(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.concat([self.vectors, self.unknown], axis=0), ids)

    def codes(self, values: tf.Tensor) -> tf.Tensor:
        return tf.where(self.are_missing(values), -1, self._known_or_not(values))

    def learned(self, codes: Nested) -> tf.Tensor:
        vectors = tf.cast(self._vectors_of(tf.maximum(codes, 0)), self.compute_dtype)
        return self._in_groups(
            tf.where(codes[:, :, None] < 0, tf.zeros([], vectors.dtype), vectors)
        )

    def lookup(self, values: tf.Tensor) -> tf.Tensor:
        """The index of each category in the table of all vocabularies, one after the other.

        Args:
            values: [n, fields].

        Returns:
            int32 [n, fields], -1 for unknown categories.
        """
        return self._lookup(values, tf.range(len(self.fields)))

    def get_config(self) -> Config:
        config = {"vocabulary": self.vocabulary, "units": self.units, "groups": self.groups}
        return {**super().get_config(), **config}

    def _check_dtype(self, dtype: str) -> None:
        super()._check_dtype(dtype)
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


_STEP = 0x1E3779B97F4A7C15  # between the keys of equal categories of two fields


def _keys(values: tf.Tensor, fields: Any) -> tf.Tensor:
    """An int64 key for each category of a field: itself or a hash, moved by the field's number."""
    keys = values
    if values.dtype == tf.string:
        keys = tf.strings.to_hash_bucket_fast(values, 2**63 - 1)
    return keys + tf.cast(fields, tf.int64) * _STEP


class Lookup:
    """The indices of categories, or words, in the joined vocabularies of several fields.

    Args:
        vocabularies: for each field, all str or all int. None is repeated in one of them.

    Attributes:
        table: the vocabularies, one after the other.
        fields: the number of the field of each, int32.

    Raises:
        ValueError: if the hashes of two categories are equal.
    """

    def __init__(self, vocabularies: Sequence[Sequence[Any]]) -> None:
        self.table = [x for each in vocabularies for x in each]
        self._n_fields = len(vocabularies)
        self.fields = _repeated(list(map(len, vocabularies)))
        dtype = tf.string if isinstance(self.table[0], str) else tf.int64
        known = _keys(tf.constant(self.table, dtype), self.fields).numpy()
        order = np.argsort(known)
        self._sorted_keys, self._order = known[order], order.astype(np.int32)
        if (same := self._sorted_keys[1:] == self._sorted_keys[:-1]).any():
            shown = [self.table[order[i + j]] for i in np.flatnonzero(same)[:1] for j in (0, 1)]
            raise ValueError(f"Expected categories of different hashes. Received: {shown}")

    def __call__(self, values: tf.Tensor, fields: Any) -> tf.Tensor:
        """The index of each value in the table, int32 in the shape of the values; -1 if unknown.

        `fields` are the numbers of their fields, which are broadcast.
        """
        keys = tf.reshape(_keys(values, fields), [1, -1])
        # `tf.searchsorted` makes twenty operations of this one.
        positions = tf.raw_ops.LowerBound(sorted_inputs=self._sorted_keys[None], values=keys)
        positions = tf.minimum(positions, len(self.table) - 1)
        ids = tf.reshape(tf.gather(self._order, positions), tf.shape(values))
        is_known = tf.equal(tf.gather(tf.constant(self.table, values.dtype), ids), values)
        if self._n_fields > 1:
            is_known &= tf.equal(tf.gather(self.fields, ids), fields)
        return tf.where(is_known, ids, -1)


@keras.saving.register_keras_serializable("keras_mmil")
class TextEncoder(FieldEncoder):
    """A text as the mean of learned word vectors, and the logarithm of the number of words.

    Words are lower case, and consist of letters and digits. They have a vector each if they are in
    the vocabulary, and others are left out of the mean. Without a vocabulary, the hash of a word
    selects its vector, and words of equal hash share one.

    Without learned vectors, there is one feature for each word of the vocabulary: whether the text
    contains it.

    Args:
        n_buckets: number of vectors, for each field, without a vocabulary.
        units: size of the vectors; None for none, which takes a vocabulary.
        field: path of the field, or of several.
        vocabulary: words; of several fields a list for each; or None.
        groups: number of groups of the vectors' features: see `GroupedDense`.

    Input shape:
        Strings [n], or in bags; "\\0" where they are missing.

    Output shape:
        The same with a last axis of `units` + 2, or 1 + number of words, for each field.

    Raises:
        ValueError: if there are neither vectors nor words.
    """

    kind: ClassVar[str] = "text"
    takes_texts = True

    def __init__(
        self,
        n_buckets: int = 4096,
        units: int | None = 32,
        field: str | Sequence[str] = "",
        vocabulary: Sequence[str] | Sequence[Sequence[str]] | None = None,
        groups: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(field, **kwargs)
        self.n_buckets = positive_int("n_buckets", n_buckets)
        self.units = positive_int("units", units, optional=True)
        self.groups = positive_int("groups", groups)
        self.n_learned = len(self.fields) * (self.units or 0)
        self._vocabularies = None
        if units is None and vocabulary is None:
            raise ValueError("Expected units, a vocabulary, or both. Received: neither")
        if vocabulary is not None:
            self._vocabularies = [_checked(x) for x in self._of_each("vocabulary", vocabulary)]
            self._lookup = Lookup(self._vocabularies)

    @property
    def _sizes(self) -> Sequence[int]:
        if self.units is None:
            return [len(each) for each in self._vocabularies or ()]
        return [self.units + 1] * len(self.fields)

    @property
    def field_of_each(self) -> Ints:
        if self.units is None:
            return _repeated(self._sizes)
        fields = np.arange(len(self.fields), dtype=np.int32)
        return np.concatenate([self._learned_fields(self.units), fields])

    @staticmethod
    def words(values: tf.Tensor) -> tf.RaggedTensor:
        """The words of texts [n]: strings [n, (words)]."""
        words, texts = TextEncoder.flat_words(values)
        return tf.RaggedTensor.from_value_rowids(words, texts, tf.size(values, tf.int64))

    @staticmethod
    def flat_words(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """All words of texts [n], and the text of each, int64."""
        texts = tf.strings.lower(values, encoding="utf-8")
        texts = tf.strings.regex_replace(texts, r"[^\pL\pM\pN]+", " ")
        # `tf.strings.split` makes a RaggedTensor of these, in twenty operations more.
        words = tf.raw_ops.StringSplitV2(input=texts, sep="")
        return words.values, words.indices[:, 0]

    def build(self, values_shape: Shape | None = None) -> None:
        super().build(values_shape)
        if self.units is None:
            return
        n = len(self.fields) * self.n_buckets
        self.vectors = self.add_weight(
            shape=(n if self._vocabularies is None else len(self._lookup.table), self.units),
            initializer="uniform",
            name="vectors",
        )

    def are_missing(self, values: tf.Tensor) -> tf.Tensor:
        return tf.equal(values, MISSING_TEXT)

    def features(self, values: tf.Tensor) -> tf.Tensor:
        n_texts = tf.size(values)
        words, texts = self.flat_words(tf.reshape(values, [-1]))
        n_known = n_words = _counts(texts, n_texts, self.compute_dtype)
        ids, texts = self._known(words, texts)
        if self.units is None:
            rows, n = texts // len(self.fields), tf.shape(values, tf.int64)[0]
            return tf.cast(multi_hot(ids, rows, n, len(self._lookup.table)), self.compute_dtype)
        if self._vocabularies is not None:
            n_known = _counts(texts, n_texts, self.compute_dtype)
        mean = self._mean(ids, texts, n_known)
        log = tf.reshape(tf.math.log1p(n_words), [-1, len(self.fields)])
        return tf.concat([mean, log], axis=1)

    def _known(self, words: tf.Tensor, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The rows of words in the vectors, and their texts, without unknown words.

        The texts of one value after another are those of the fields, in turn.
        """
        n_fields = len(self.fields)
        if self._vocabularies is None:
            ids = tf.strings.to_hash_bucket_fast(words, self.n_buckets)
            if n_fields > 1:  # each has its own
                ids += texts % n_fields * self.n_buckets
            return ids, texts
        ids = self._lookup(words, tf.cast(texts % n_fields, tf.int32))
        known = tf.where(ids >= 0)[:, 0]
        return tf.gather(ids, known), tf.gather(texts, known)

    def _mean(self, ids: tf.Tensor, texts: tf.Tensor, n_known: tf.Tensor) -> tf.Tensor:
        """The mean vectors [n, fields * units] of texts, by the number of words of each."""
        vectors = tf.gather(tf.cast(self.vectors, self.compute_dtype), ids)
        total = tf.math.unsorted_segment_sum(vectors, texts, tf.size(n_known))
        mean = total / tf.maximum(n_known, 1)[:, None]
        return self._in_groups(tf.reshape(mean, [-1, len(self.fields), self.units]))

    def codes(self, values: tf.Tensor) -> tf.RaggedTensor:
        words = self.flat_words(tf.reshape(values, [-1]))
        ids, texts = self._known(*words)
        return tf.RaggedTensor.from_value_rowids(
            tf.cast(ids, tf.int32), texts // len(self.fields), tf.shape(values, tf.int64)[0]
        )

    def learned(self, codes: Nested) -> tf.Tensor:
        ids, rows, n = codes.flat_values, codes.value_rowids(), codes.nrows()
        n_fields = len(self.fields)
        if n_fields > 1:  # each has vectors of its own
            each = [self.n_buckets] * n_fields
            fields = _repeated(each) if self._vocabularies is None else self._lookup.fields
            rows = rows * n_fields + tf.cast(tf.gather(fields, ids), n.dtype)
        return self._mean(ids, rows, _counts(rows, n * n_fields, self.compute_dtype))

    def get_config(self) -> Config:
        config = {"n_buckets": self.n_buckets, "units": self.units, "groups": self.groups}
        if self._vocabularies is not None:
            config |= self._as_given({"vocabulary": self._vocabularies})
        return {**super().get_config(), **config}


def multi_hot(ids: tf.Tensor, rows: tf.Tensor, n_rows: tf.Tensor, n: int) -> tf.Tensor:
    """Which ids there are in each row, 1.0 or 0.0: float32 [rows, n].

    Args:
        ids: from 0 to n - 1; others count for nothing.
        rows: the row of each id, int64.
        n_rows: how many rows there are, int64.
        n: how many ids.
    """
    ids = tf.cast(ids, tf.int64)
    cells = tf.where(ids < 0, n_rows * n, rows * n + ids)
    there = tf.math.unsorted_segment_max(tf.ones_like(cells, tf.float32), cells, n_rows * n + 1)
    return tf.reshape(tf.maximum(there[:-1], 0.0), [-1, n])


def _counts(texts: tf.Tensor, n_texts: tf.Tensor, dtype: str) -> tf.Tensor:
    """Number of words of each text [n_texts], by the text of each word."""
    return tf.math.unsorted_segment_sum(tf.ones_like(texts, dtype), texts, n_texts)


_DAY = 86_400  # seconds
_YEAR = 365.2425 * _DAY
_LIMIT = 3e11  # seconds from 1970, over 9,000 years, at which times are clipped
# The days on which the 4,800 months of the years 2000 to 2399 begin, after which weekdays and leap
# years come again.
_MONTHS = np.arange("2000-01", "2400-01", dtype="datetime64[M]").astype("datetime64[D]")
_MONTHS = (_MONTHS - _MONTHS[0]).astype(np.int64)
_DAYS_OF_CYCLE = 146_097
_CYCLES = (12, 7, 24)  # months, weekdays, hours


class Calendar(NamedTuple):
    """Parts of points in time (UTC), int64, each in the shape of the times."""

    year: tf.Tensor
    month: tf.Tensor  # 0 for January to 11
    weekday: tf.Tensor  # 0 for Monday to 6
    hour: tf.Tensor


def calendar(seconds: tf.Tensor) -> Calendar:
    """The parts of times in float64 seconds since 1970 (UTC), of any shape."""
    total = tf.cast(tf.math.floor(tf.clip_by_value(seconds, -_LIMIT, _LIMIT)), tf.int64)
    days = total // _DAY
    since_2000 = days - 10_957
    cycle = since_2000 // _DAYS_OF_CYCLE
    in_cycle = tf.reshape(since_2000 - cycle * _DAYS_OF_CYCLE, [1, -1])
    months = tf.raw_ops.UpperBound(sorted_inputs=_MONTHS[None], values=in_cycle) - 1
    months = tf.cast(tf.reshape(months, tf.shape(days)), tf.int64)
    year, month = 2000 + 400 * cycle + months // 12, months % 12
    return Calendar(year, month, weekday=(days + 3) % 7, hour=total % _DAY // 3600)


@keras.saving.register_keras_serializable("keras_mmil")
class TimeEncoder(FieldEncoder):
    """A point in time (UTC): standardised time and year, and where it is in year, week and day.

    Month, weekday and hour are angles, by their sine and cosine: one-hot vectors of them are many
    features that a network learns by heart.

    Args:
        mean, variance: of the times, in seconds since 1970.
        field: path of the field; or several paths, with lists of means and variances.

    Input shape:
        Floats [n], or in bags: float64 seconds since 1970 (UTC), NaN where they are missing.

    Output shape:
        The same with a last axis of 9 for each field.
    """

    kind: ClassVar[str] = "time"

    def __init__(
        self,
        mean: float | Sequence[float] = 0.0,
        variance: float | Sequence[float] = _YEAR**2,
        field: str | Sequence[str] = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(field, **kwargs)
        self._means = [check_number("mean", x) for x in self._of_each("mean", mean)]
        self._variances = [
            check_number("variance", x, least=0) for x in self._of_each("variance", variance)
        ]

    @property
    def _sizes(self) -> Sequence[int]:
        return [2 + 2 * len(_CYCLES)] * len(self.fields)

    def features(self, values: tf.Tensor) -> tf.Tensor:
        seconds = tf.cast(values, tf.float64)
        seconds = tf.where(tf.math.is_nan(seconds), tf.constant(self._means, tf.float64), seconds)
        parts = calendar(seconds)
        begun = tf.cast(parts.year - 1970, tf.float64) * _YEAR
        # Variances of at least a day squared, as closer times differ by the hour only.
        variances = [max(variance, float(_DAY) ** 2) for variance in self._variances]
        numbers = [standardized(x, self._means, variances) for x in (seconds, begun)]
        cycles = tf.stack([parts.month, parts.weekday, parts.hour], axis=2)
        angles = tf.cast(cycles, tf.float32) * (2 * math.pi / np.array(_CYCLES, np.float32))
        waves = [tf.sin(angles), tf.cos(angles)]
        features = [tf.cast(tf.stack(numbers, axis=2), tf.float32), *waves]
        return tf.reshape(tf.concat(features, axis=2), [-1, self.n_features])

    def get_config(self) -> Config:
        of_fields: dict[str, list[Any]] = {"mean": self._means, "variance": self._variances}
        return {**super().get_config(), **self._as_given(of_fields)}

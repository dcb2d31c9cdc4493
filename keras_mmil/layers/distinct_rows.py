"""Each distinct row of values once."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers._checks import assert_same_splits, splits_of
from keras_mmil.layers._hashing import are_equal, hash_rows, keep_distinct, stack_alike
from keras_mmil.layers._types import Nested
from keras_mmil.layers.grouping import with_rows

__all__ = ["DistinctRows"]


@keras.saving.register_keras_serializable("keras_mmil")
class DistinctRows(RawInputs):
    """Turn columns of values, such as the fields of records, into their distinct rows.

    The layers that follow work on each distinct row of the batch once, and `Gather` brings the
    results back. Rows are found by a hash and then compared, value by value, so that only equal
    ones are merged.

    Args:
        compress: False for a row at each place, whether or not they are equal.

    Call arguments:
        columns: list of tensors in the same bags, one for each column.

    Input shape:
        Each [batch], or ragged [batch, (n₁), …, (n_K)]; floats, integers or strings.

    Output shape:
        A list: for each column its values at the distinct rows, [rows]; then the row at each
        place, int32, in the shape of a column.

    Two rows are equal if they are in all columns. NaN equals NaN, and 0.0 equals -0.0.

    Raises:
        ValueError: if there are no columns, or they are nested differently.
        InvalidArgumentError: if columns are in bags of other sizes.

    Example:

    >>> prices = tf.ragged.constant([[9.5, 3.0, 9.5], []])
    >>> kinds = tf.ragged.constant([["toy", "toy", "toy"], []])
    >>> price, kind, ids = keras_mmil.layers.DistinctRows()([prices, kinds])
    >>> price.numpy(), ids
    (array([9.5, 3. ], dtype=float32), <tf.RaggedTensor [[0, 1, 0], []]>)
    """

    def __init__(self, compress: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.compress = bool(compress)

    def build(self, columns_shape: Sequence[Shape] | None = None) -> None:
        """Nothing to create."""

    def call(self, columns: Sequence[Nested]) -> list[Nested]:
        self._check(columns)
        flat = [tf.reshape(getattr(x, "flat_values", x), [-1]) for x in columns]
        *values, ids = _distinct(flat) if self.compress else _apart(flat)
        return [*values, with_rows(columns[0], ids, 0)]

    def compute_output_spec(self, columns: Sequence[keras.KerasTensor]) -> list[keras.KerasTensor]:
        self._check_shapes(columns)
        shape, is_ragged = columns[0].shape, columns[0].ragged
        values = [keras.KerasTensor((None,), dtype=x.dtype) for x in columns]
        return [*values, keras.KerasTensor(shape, dtype="int32", ragged=is_ragged)]

    def get_config(self) -> Config:
        return {**super().get_config(), "compress": self.compress}

    def _check(self, columns: Sequence[Nested]) -> None:
        self._check_shapes(columns)
        first, *others = map(splits_of, columns)
        assert_same_splits(
            {f"column {i}": (first, splits) for i, splits in enumerate(others, start=1)},
            f"DistinctRows '{self.name}' expected columns in bags of the same sizes",
        )

    def _check_shapes(self, columns: Sequence[Nested | keras.KerasTensor]) -> None:
        if not isinstance(columns, (list, tuple)) or not columns:
            raise ValueError(
                f"DistinctRows '{self.name}' expected a list of columns. Received: {columns!r}"
            )
        if len({len(x.shape) for x in columns}) > 1:
            shapes = [tuple(x.shape) for x in columns]
            raise ValueError(
                f"DistinctRows '{self.name}' expected columns that are nested alike. "
                f"Received: {shapes=}"
            )


def _apart(columns: list[tf.Tensor]) -> list[tf.Tensor]:
    """All rows, each for itself."""
    return [*columns, tf.range(tf.size(columns[0]))]


def _distinct(columns: list[tf.Tensor]) -> list[tf.Tensor]:
    """The columns at the distinct rows, and the distinct row at each place."""
    stacked = stack_alike(columns)

    def are_right(found: tf.Tensor) -> tf.Tensor:
        equal = [tf.reduce_all(are_equal(x, tf.gather(x, found, axis=1))) for x in stacked]
        return tf.reduce_all(equal)

    first, ids, _ = keep_distinct(hash_rows(columns), are_right)
    return [*(tf.gather(x, first) for x in columns), ids]

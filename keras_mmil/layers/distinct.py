"""Each distinct instance, row and bag of a batch once, and the way back."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.bags import input_names, level_names
from keras_mmil.layers._checks import (
    assert_in_same_bags,
    assert_same_splits,
    check_ids,
    check_nested_alike,
)
from keras_mmil.layers._types import Nested
from keras_mmil.layers.grouping import (
    bag_of_each,
    depth_of,
    flat_columns,
    group,
    with_innermost,
    with_rows,
)
from keras_mmil.layers.segments import gather_rows

__all__ = ["Distinct", "DistinctBags", "DistinctRows", "Gather", "bag_inputs", "hash_rows", "mix"]

# By name, as in `Bags.inputs`; optional ones may be None.
Inputs: TypeAlias = Mapping[str, tf.RaggedTensor]


def bag_inputs(
    depth: int = 2, dtype: str | tf.DType = "int32", window_size: int | None = None
) -> dict[str, keras.KerasTensor]:
    """Keras inputs for nested bags of ids, plain or compressed, as in `Bags.inputs`.

    Args:
        depth: K, how many times bags are nested.
        dtype: of the ids.
        window_size: number of ids of an instance, such as the 3 words of a trigram; None where an
            instance is one id.

    Returns:
        A dict of ragged `keras.Input`s: `bags` [batch, (n₁), …, (n_K)], with a last axis for
        `window_size`; and, all optional, `counts` [batch, (n₁), …, (n_K)], and `sub_bag_counts`,
        `sub_bag_keys` for every level of sub-bags.

    Raises:
        ValueError: if `depth` or `window_size` is not an integer ≥ 1, or `dtype` not of integers.
    """
    names = input_names(positive_int("depth", depth))
    window_size = positive_int("window_size", window_size, optional=True)
    if not keras.backend.is_int_dtype(keras.backend.standardize_dtype(dtype)):
        raise ValueError(f"Expected a dtype of integers. Received: dtype={dtype!r}")
    counts, keys = level_names(depth)
    inner = () if window_size is None else (window_size,)
    dtypes = {"bags": dtype} | dict.fromkeys(counts, "float32") | dict.fromkeys(keys, "int64")
    return {
        name: keras.Input(
            # Two inputs a level, from the instances upwards.
            (None,) * (depth - i // 2) + (inner if name == "bags" else ()),
            dtype=dtypes[name],
            ragged=True,
            optional=name != "bags",
            name=name,
        )
        for i, name in enumerate(names)
    }


@keras.saving.register_keras_serializable("keras_mmil")
class Distinct(RawInputs):
    """Turn nested bags of ids into distinct rows, and the members of the bags at each level.

    Any Keras layer can follow, as it sees a dense row for each distinct id of the batch. Sub-bags
    of equal key are merged, too.

    Call arguments:
        inputs: dict as in `Bags.inputs`: `bags`, and optionally the counts and keys of each level.

    Input shape:
        `bags` RaggedTensor of ids [batch, (n₁), …, (n_K)], or [batch, (n₁), …, (n_K), window_size];
        `counts` [batch, (n₁), …, (n_K)]; `sub_bag_counts` and `sub_bag_keys`
        [batch, (n₁), …, (n_K-1)]; and so on upwards.

    Output shape:
        A list: the distinct ids [rows]; then for each level, from the instances upwards, a tuple
        (members, weights) of RaggedTensors [bags, (n)]: the rows (or, above, the sub-bags) in
        each bag, and their multiplicities, None without counts. The bags of the last level are the
        batch. With `window_size` the first members are [bags, (n), window_size].

    Raises:
        ValueError: if ids or keys are not integers, or counts or keys are not nested like the bags.
        InvalidArgumentError: if counts or keys are in bags of other sizes.

    Example:

    >>> inputs = bag_inputs(depth=2)
    >>> rows, sub_bags, top_bags = Distinct()(inputs)
    >>> x = keras.layers.Embedding(1000, 16)(rows)
    >>> x = BagLayer(8)(x, *sub_bags)
    >>> x = BagLayer(8)(x, *top_bags)
    """

    def build(self, inputs_shape: Mapping[str, Shape] | None = None) -> None:
        """Nothing to create."""

    def call(self, inputs: Inputs) -> list[Any]:
        self._check(inputs)
        bags = inputs["bags"]
        flat = bags.flat_values
        counts, keys = (
            [inputs.get(name) for name in names]
            for names in level_names(bags.shape.rank - flat.shape.rank)
        )
        rows, ids = tf.unique(tf.reshape(flat, [-1]))
        ids = tf.reshape(ids, [-1, *flat.shape[1:]])
        levels, structure = [], bags
        for level, weights in enumerate(counts):
            members = _innermost(structure).with_values(ids)  # [bags of this level, (n)]
            if weights is not None:
                weights = members.with_values(weights.flat_values)
            if level < len(keys):
                structure = with_innermost(structure, tf.range(members.nrows()))
                ids, first = _merge(keys[level], members.nrows())
                if first is not None:
                    members = tf.gather(members, first)
                    if weights is not None:  # in the very row splits of the members
                        weights = members.with_values(tf.gather(weights, first).values)
            levels.append((members, weights))
        return [rows, *levels]

    def _check(self, inputs: Inputs) -> None:
        """Raise for counts or keys in bags of other sizes than the ids."""
        bags = inputs["bags"]
        check_ids(self, **{name: x for name, x in inputs.items() if "counts" not in name})
        splits = bags.nested_row_splits
        _, *names = input_names(len(splits))
        # From the instances upwards: the counts of one level, and the keys of the same bags.
        levels = {name: len(splits) - (i + 1) // 2 for i, name in enumerate(names)}
        pairs = {
            name: (splits[:level], inputs[name].nested_row_splits)
            for name, level in levels.items()
            if inputs.get(name) is not None
        }
        assert_same_splits(pairs, f"Distinct '{self.name}' expected bags of the sizes of the ids")

    def compute_output_spec(self, inputs: Mapping[str, keras.KerasTensor]) -> list[Any]:
        bags = inputs["bags"]
        check_ids(self, bags=bags)
        depth = depth_of(bags.shape) - 1
        inner = [bags.shape[1 + depth :], *[()] * (depth - 1)]
        levels = [
            (
                keras.KerasTensor((None, None, *axes), dtype="int32", ragged=True),
                keras.KerasTensor((None, None), dtype="float32", ragged=True),
            )
            for axes in inner
        ]
        return [keras.KerasTensor((None,), dtype=bags.dtype), *levels]


def _merge(keys: tf.RaggedTensor | None, num_bags: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor | None]:
    """The distinct sub-bag of each sub-bag, and the first one of each (None without keys)."""
    if keys is None:
        return tf.range(tf.cast(num_bags, tf.int32)), None
    distinct, ids = tf.unique(keys.flat_values)
    order = tf.range(tf.size(ids))
    return ids, tf.math.unsorted_segment_min(order, ids, tf.size(distinct))


def _innermost(ragged: tf.RaggedTensor) -> tf.RaggedTensor:
    """The innermost bags of a RaggedTensor, [bags, (n)]."""
    while ragged.ragged_rank > 1:
        ragged = ragged.values
    return ragged


@keras.saving.register_keras_serializable("keras_mmil")
class DistinctRows(RawInputs):
    """Turn columns of values, such as the fields of records, into their distinct rows.

    The next layers compute each distinct row of the batch once; `Gather` brings the results back.
    Rows of equal hash are compared value by value, so that only equal ones are merged: NaN equals
    NaN, and 0.0 equals -0.0.

    Args:
        compress: whether to merge equal rows.

    Call arguments:
        columns: list of tensors in the same bags.

    Input shape:
        Each [batch], or ragged [batch, (n₁), …, (n_K)]; floats, integers or strings.

    Output shape:
        A list: the values of each column in the distinct rows, [rows]; then the row at each
        position, int32, in the shape of a column.

    Raises:
        ValueError: if there are no columns, or they are nested differently.
        InvalidArgumentError: if columns are in bags of different sizes.

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
        flat = flat_columns(columns)
        *values, ids = _distinct_rows(flat) if self.compress else _all_rows(flat)
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
        names = [f"column {i}" for i in range(1, len(columns))]
        assert_in_same_bags(self, columns, names, "columns")

    def _check_shapes(self, columns: Sequence[Nested | keras.KerasTensor]) -> None:
        if not isinstance(columns, (list, tuple)) or not columns:
            raise ValueError(
                f"DistinctRows '{self.name}' expected a list of columns. Received: {columns!r}"
            )
        check_nested_alike(self, columns, "columns")


def _all_rows(columns: list[tf.Tensor]) -> list[tf.Tensor]:
    """The columns as they are, and the row at each position."""
    return [*columns, tf.range(tf.size(columns[0]))]


def _distinct_rows(columns: list[tf.Tensor]) -> list[tf.Tensor]:
    """The columns in the distinct rows, and the distinct row at each position."""
    indices = _by_dtype(columns)
    stacked = [tf.stack([columns[i] for i in alike]) for alike in indices]

    def are_right(firsts: tf.Tensor) -> tf.Tensor:
        equal = [tf.reduce_all(_are_equal(x, tf.gather(x, firsts, axis=1))) for x in stacked]
        return tf.reduce_all(equal)

    first, ids, _ = _keep_distinct(hash_rows(stacked), are_right)
    values: dict[int, tf.Tensor] = {}
    for alike, x in zip(indices, stacked, strict=True):
        values |= zip(alike, tf.unstack(tf.gather(x, first, axis=1)), strict=True)
    return [*(values[i] for i in range(len(columns))), ids]


@keras.saving.register_keras_serializable("keras_mmil")
class DistinctBags(RawInputs):
    """Turn bags of row ids into distinct bags for a `BagLayer`, and the way back.

    Repeated members of a bag become one with a weight, and equal bags (in any order of their
    members) become one. Bags of equal hash are compared, so that only equal ones are merged.
    `Gather` brings the results of a bag-layer back.

    Args:
        compress: whether to merge equal members and bags.
        field: path of the bags in nested records, such as "orders.items", for explanations.

    Call arguments:
        ids: bags of row ids.
        compress: overrides the argument of the constructor, unless None.

    Input shape:
        Integers [batch, (n₁), …, (n_K)], K ≥ 1, ragged or dense.

    Output shape:
        A list: members, ragged int32 [bags, (m)]; their weights, ragged float32 [bags, (m)]; and
        the distinct bag at each position, int32 [batch, (n₁), …, (n_K-1)].

    Raises:
        ValueError: if the ids are not integers, or not in bags.

    Example:

    >>> ids = tf.ragged.constant([[4, 4, 7], [], [7, 4, 4]])
    >>> members, weights, bags = keras_mmil.layers.DistinctBags()(ids)
    >>> members, weights, bags.numpy()
    (<tf.RaggedTensor [[4, 7], []]>, <tf.RaggedTensor [[2.0, 1.0], []]>, array([0, 1, 0], ...))
    """

    def __init__(self, compress: bool = True, field: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.compress = bool(compress)
        self.field = field

    def build(self, ids_shape: Shape | None = None) -> None:
        """Nothing to create."""

    def call(self, ids: Nested, compress: bool | None = None) -> list[Nested]:
        self._check(ids)
        rows, bags, wrap = group(ids, 0)
        read = _distinct_bags if (self.compress if compress is None else compress) else _all_bags
        members, weights, row_splits, bags = read(tf.cast(rows, tf.int64), bags.row_splits)
        members = tf.RaggedTensor.from_row_splits(
            tf.cast(members, tf.int32), row_splits, validate=False
        )
        return [members, members.with_values(tf.cast(weights, tf.float32)), wrap(bags)]

    def compute_output_spec(
        self, ids: keras.KerasTensor, compress: bool | None = None
    ) -> list[keras.KerasTensor]:
        self._check(ids)
        outer = ids.shape[:-1]
        return [
            keras.KerasTensor((None, None), dtype="int32", ragged=True),
            keras.KerasTensor((None, None), dtype="float32", ragged=True),
            keras.KerasTensor(outer, dtype="int32", ragged=ids.ragged and len(outer) > 1),
        ]

    def get_config(self) -> Config:
        return {**super().get_config(), "compress": self.compress, "field": self.field}

    def _check(self, ids: Nested | keras.KerasTensor) -> None:
        check_ids(self, ids=ids)
        if len(ids.shape) < 2:
            raise ValueError(
                f"DistinctBags '{self.name}' expected bags of ids, [batch, (n)] or deeper. "
                f"Received: ids.shape={tuple(ids.shape)}"
            )


def _all_bags(rows: tf.Tensor, row_splits: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """All bags as they are: members, weights, row splits, and the bag at each position."""
    return rows, tf.ones_like(rows), row_splits, tf.range(tf.size(row_splits) - 1)


def _distinct_bags(rows: tf.Tensor, row_splits: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Same as `_all_bags`, of the distinct bags with distinct members."""
    n_bags = tf.size(row_splits) - 1
    bag_of = tf.cast(bag_of_each(row_splits), tf.int64)
    n_rows = tf.reduce_max(tf.concat([rows, [0]], axis=0)) + 1
    # A pair of a bag and a row in it is one integer. Pairs stay in the order of the bags.
    pairs, ids = tf.unique(bag_of * n_rows + rows)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(rows), ids, tf.size(pairs))
    bag_of, members = pairs // n_rows, pairs % n_rows
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(bag_of), bag_of, n_bags)

    def are_right(firsts: tf.Tensor) -> tf.Tensor:
        # Bags are equal if they have as many different members, and each equally often.
        in_copy = tf.gather(tf.not_equal(firsts, tf.range(n_bags)), bag_of)
        wanted = tf.cast(tf.gather(firsts, bag_of), tf.int64) * n_rows + members
        _, positions = tf.unique(tf.concat([pairs, wanted[in_copy]], axis=0))
        positions = positions[tf.size(pairs) :]
        is_there = positions < tf.size(pairs)
        counts_there = tf.gather(counts, tf.where(is_there, positions, 0))
        equal = tf.reduce_all(is_there & tf.equal(counts_there, counts[in_copy]))
        return equal & tf.reduce_all(tf.equal(sizes, tf.gather(sizes, firsts)))

    hashes = _hash_bags(members, counts, bag_of, n_bags)
    first, bags, is_kept = _keep_distinct(hashes, are_right)
    is_kept = tf.gather(is_kept, bag_of)
    return members[is_kept], counts[is_kept], _splits(tf.gather(sizes, first)), bags


def _splits(sizes: tf.Tensor) -> tf.Tensor:
    return tf.concat([tf.zeros([1], sizes.dtype), tf.cumsum(sizes)], axis=0)


@keras.saving.register_keras_serializable("keras_mmil")
class Gather(RawInputs):
    """Rows by their ids: the way back from `DistinctRows` and `DistinctBags`.

    Call arguments:
        inputs: a pair of rows and ids.

    Input shape:
        Rows [rows, features], and ints [n] below the number of rows.

    Output shape:
        [n, features].

    Raises:
        ValueError: if the inputs are not such a pair, or the ids not integers.

    Example:

    >>> rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> keras_mmil.layers.Gather()([rows, tf.constant([1, 0, 1])]).numpy()
    array([[3., 4.],
           [1., 2.],
           [3., 4.]], dtype=float32)
    """

    def build(self, inputs_shape: Sequence[Shape] | None = None) -> None:
        """Nothing to create."""

    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        rows, ids = self._checked(inputs)
        return gather_rows(rows, ids)

    def compute_output_spec(self, inputs: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
        rows, ids = self._checked(inputs)
        return keras.KerasTensor((ids.shape[0], *rows.shape[1:]), dtype=rows.dtype)

    def _checked(self, inputs: Sequence[Any]) -> Sequence[Any]:
        shapes = [tuple(x.shape) for x in inputs] if isinstance(inputs, (list, tuple)) else inputs
        if not isinstance(shapes, list) or list(map(len, shapes)) != [2, 1]:
            raise ValueError(
                f"Gather '{self.name}' expected a pair of rows [rows, features] and ids [n]. "
                f"Received: {shapes}"
            )
        check_ids(self, ids=inputs[1])
        return inputs


def mix(x: tf.Tensor) -> tf.Tensor:
    """Integers spread over all 64 bits, one to one; the last step of MurmurHash3."""
    for factor in (-0xAE502812AA7333, -0x3B314601E57A13AD):  # 0xff51…, 0xc4ce… as signed
        x = _folded(x) * tf.constant(factor, tf.int64)
    return _folded(x)


def hash_rows(stacked: Sequence[tf.Tensor]) -> tf.Tensor:
    """Hashes int64 [n] of rows, given as tensors of columns [columns, n] of any dtypes."""
    bits = tf.concat(list(map(_bits, stacked)), axis=0)  # (columns, n)
    salts = mix(tf.range(1, sum(x.shape[0] for x in stacked) + 1, dtype=tf.int64))
    return tf.reduce_sum(mix(bits + salts[:, None]), axis=0)


def _by_dtype(columns: Sequence[tf.Tensor]) -> list[list[int]]:
    """The indices of columns of the same dtype."""
    groups: dict[tf.DType, list[int]] = {}
    for i, column in enumerate(columns):
        groups.setdefault(column.dtype, []).append(i)
    return list(groups.values())


def _hash_bags(
    members: tf.Tensor, counts: tf.Tensor, bags: tf.Tensor, n_bags: tf.Tensor
) -> tf.Tensor:
    """Hashes int64 [n_bags] of bags of distinct int64 `members` with `counts`, in any order."""
    return tf.math.unsorted_segment_sum(mix(mix(members) + counts), bags, n_bags)


def _are_equal(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Whether each value equals the other, bool; NaN equals NaN, and 0.0 equals -0.0."""
    equal = tf.equal(a, b)
    if a.dtype.is_floating:
        equal |= tf.math.is_nan(a) & tf.math.is_nan(b)
    return equal


def _keep_distinct(
    hashes: tf.Tensor, are_right: Callable[[tf.Tensor], tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Deduplicate n things by their `hashes`; keep all of them if hashes collide.

    `are_right` is told for each thing the index of the first one of equal hash, int32 [n], and
    returns whether all things are equal to these.

    Returns:
        The index of each distinct thing, int32 [distinct]; the distinct thing of each, int32 [n];
        and whether each is the first of its kind, bool [n].
    """
    distinct, ids = tf.unique(hashes)
    n_distinct, n = tf.size(distinct), tf.size(ids)
    order = tf.range(n)
    first = tf.math.unsorted_segment_min(order, ids, n_distinct)
    firsts = tf.gather(first, ids)
    right = are_right(firsts)
    # A slice in place of a conditional, which takes long to trace.
    start, size = tf.where(right, 0, n_distinct), tf.where(right, n_distinct, n)
    first = tf.slice(tf.concat([first, order], axis=0), [start], [size])
    return first, tf.where(right, ids, order), tf.equal(firsts, order) | ~right


def _folded(x: tf.Tensor) -> tf.Tensor:
    """x ^ (x >>> 33)."""
    upper = tf.bitwise.right_shift(x, tf.constant(33, tf.int64))
    return tf.bitwise.bitwise_xor(
        x, tf.bitwise.bitwise_and(upper, tf.constant(2**31 - 1, tf.int64))
    )


def _bits(column: tf.Tensor) -> tf.Tensor:
    """An int64 for each value, equal for equal values."""
    if column.dtype == tf.string:
        return tf.strings.to_hash_bucket_fast(column, 2**63 - 1)
    if column.dtype.is_floating:
        zero, nan = tf.zeros_like(column), tf.constant(float("nan"), column.dtype)
        column = tf.where(tf.equal(column, 0), zero, column)
        column = tf.where(tf.math.is_nan(column), nan, column)
        if column.dtype.size < 4:
            column = tf.cast(column, tf.float32)
        column = tf.bitcast(column, tf.int32 if column.dtype.size == 4 else tf.int64)
    return tf.cast(column, tf.int64)

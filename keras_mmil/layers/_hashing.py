"""Hashes of rows and of bags, by which equal ones are found; what was found is then compared."""

from collections.abc import Callable, Sequence

import tensorflow as tf

__all__ = ["are_equal", "hash_bags", "hash_rows", "keep_distinct", "mix", "stack_alike"]


def mix(x: tf.Tensor) -> tf.Tensor:
    """Integers spread over all 64 bits, one to one; the last step of MurmurHash3."""
    for factor in (-0xAE502812AA7333, -0x3B314601E57A13AD):  # 0xff51…, 0xc4ce… as signed
        x = _folded(x) * tf.constant(factor, tf.int64)
    return _folded(x)


def hash_rows(columns: Sequence[tf.Tensor]) -> tf.Tensor:
    """Hashes int64 [n] of rows, given as columns [n] of any dtype; equal for equal rows.

    Columns of one dtype are stacked, for what a graph costs is the number of its operations.
    """
    bits = tf.concat([_bits(stacked) for stacked in stack_alike(columns)], axis=0)  # (columns, n)
    salts = mix(tf.range(1, len(columns) + 1, dtype=tf.int64))
    return tf.reduce_sum(mix(bits + salts[:, None]), axis=0)


def stack_alike(columns: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Columns [n] of the same dtype as one tensor [columns, n]."""
    dtypes = dict.fromkeys(column.dtype for column in columns)
    return [tf.stack([x for x in columns if x.dtype == dtype]) for dtype in dtypes]


def hash_bags(
    members: tf.Tensor, counts: tf.Tensor, bags: tf.Tensor, n_bags: tf.Tensor
) -> tf.Tensor:
    """Hashes int64 [n_bags] of bags, whatever the order of their members.

    Args:
        members: int64 [members], of which none comes twice in a bag.
        counts: how often each of them does, int64 [members].
        bags: the bag of each, ints [members].
        n_bags: number of bags.
    """
    return tf.math.unsorted_segment_sum(mix(mix(members) + counts), bags, n_bags)


def are_equal(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Whether each value equals the other, bool; NaN equals NaN, and 0.0 equals -0.0."""
    equal = tf.equal(a, b)
    if a.dtype.is_floating:
        equal |= tf.math.is_nan(a) & tf.math.is_nan(b)
    return equal


def keep_distinct(
    hashes: tf.Tensor, are_right: Callable[[tf.Tensor], tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The distinct things, found by their hashes and then compared.

    Args:
        hashes: int64 [n].
        are_right: from the place of the first thing of equal hash, for each thing, int32 [n], to
            whether all are equal to these: a bool. Where they are not, all things are kept.

    Returns:
        The place of each distinct thing, int32 [distinct]; the distinct thing at each place, int32
        [n]; and whether each place is that of a distinct thing, bool [n].
    """
    distinct, ids = tf.unique(hashes)
    n_distinct, n = tf.size(distinct), tf.size(ids)
    order = tf.range(n)
    first = tf.math.unsorted_segment_min(order, ids, n_distinct)
    found = tf.gather(first, ids)
    right = are_right(found)
    # One or the other, without a conditional, which takes long to trace.
    start, size = tf.where(right, 0, n_distinct), tf.where(right, n_distinct, n)
    first = tf.slice(tf.concat([first, order], axis=0), [start], [size])
    return first, tf.where(right, ids, order), tf.equal(found, order) | ~right


def _folded(x: tf.Tensor) -> tf.Tensor:
    """The upper bits added to the lower ones by an exclusive or; the shift brings in zeros."""
    upper = tf.bitwise.right_shift(x, tf.constant(33, tf.int64))
    return tf.bitwise.bitwise_xor(
        x, tf.bitwise.bitwise_and(upper, tf.constant(2**31 - 1, tf.int64))
    )


def _bits(column: tf.Tensor) -> tf.Tensor:
    """An int64 for each value, the same for values that are equal."""
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

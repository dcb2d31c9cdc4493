"""Hashes of rows and of bags, by which equal ones are found; what was found is then compared."""

from collections.abc import Sequence

import tensorflow as tf

__all__ = ["are_equal", "first_of_each", "hash_bags", "hash_rows", "mix"]


def mix(x: tf.Tensor) -> tf.Tensor:
    """Integers spread over all 64 bits, one to one; the last step of MurmurHash3."""
    for factor in (-0xAE502812AA7333, -0x3B314601E57A13AD):  # 0xff51…, 0xc4ce… as signed
        x = _folded(x) * tf.constant(factor, tf.int64)
    return _folded(x)


def hash_rows(columns: Sequence[tf.Tensor]) -> tf.Tensor:
    """Hashes int64 [n] of rows, given as columns [n] of any dtype; equal for equal rows."""
    hashes = tf.ones_like(columns[0], tf.int64)
    for column in columns:
        hashes = mix(hashes + _bits(column))
    return hashes


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


def first_of_each(groups: tf.Tensor, n_groups: tf.Tensor) -> tf.Tensor:
    """The first place of each group, int32 [n_groups], from the group at each place."""
    return tf.math.unsorted_segment_min(tf.range(tf.size(groups)), groups, n_groups)


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

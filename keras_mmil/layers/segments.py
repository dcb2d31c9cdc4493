"""Reductions of instances to bags, as pure functions of values and sorted row ids.

Every function reduces `values` [instances, ...] to [num_segments, ...]; `row_ids` [instances],
sorted, int32 or int64, are the bags of the instances. An empty bag, also a trailing one, yields
zeros. `weights` [instances] are multiplicities or importance, all > 0; None means 1 for each.
Half-precision sums are accumulated in float32.

With `members` [instances], `values` are [rows, ...] and instance i is row `members[i]`: the result
is that for `gather_rows(values, members)`, which sums and means do not materialise.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf

__all__ = [
    "gather_rows",
    "segment_counts",
    "segment_lse",
    "segment_max",
    "segment_mean",
    "segment_pnorm",
    "segment_softmax",
    "segment_std",
    "segment_sum",
    "spread",
]


def segment_counts(
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """Number of instances, or sum of their weights, in each bag: [num_segments]."""
    ones = tf.ones_like(row_ids, dtype) if weights is None else tf.cast(weights, dtype)
    return _complete(tf.math.segment_sum(ones, row_ids), num_segments)


def segment_sum(
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
    members: tf.Tensor | None = None,
) -> tf.Tensor:
    """Weighted sum over each bag: Σᵢ wᵢ vᵢ."""
    total = _weighted_sum(values, row_ids, num_segments, weights, members)
    return tf.cast(total, values.dtype)


def segment_mean(
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
    members: tf.Tensor | None = None,
) -> tf.Tensor:
    """Weighted mean over each bag: Σᵢ wᵢ vᵢ / Σᵢ wᵢ."""
    total = _weighted_sum(values, row_ids, num_segments, weights, members)
    counts = segment_counts(row_ids, num_segments, weights, total.dtype)
    return tf.cast(tf.math.divide_no_nan(total, _align(counts, total)), values.dtype)


def segment_max(
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
    members: tf.Tensor | None = None,
) -> tf.Tensor:
    """Maximum over each bag. The gradient of a tie is shared in proportion to the weights.

    So {a, a, b} and its compressed form {a: 2, b: 1} have the same gradient, that of
    `tf.math.segment_max`.
    """
    if members is not None:
        values = gather_rows(values, members)

    def reduced(values: tf.Tensor) -> _Reduced:
        maxima = _reduce(tf.math.segment_max, values, row_ids, num_segments)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            is_max = tf.equal(values, tf.gather(maxima, row_ids))

            def alone() -> tf.Tensor:
                shares = tf.gather(upstream, row_ids)
                # TensorFlow 1's `where` does not broadcast, and takes four fifths of the time.
                return tf.compat.v1.where(is_max, shares, tf.zeros_like(shares))

            def shared() -> tf.Tensor:
                share = tf.cast(is_max, values.dtype)
                if weights is not None:
                    share = share * _align(tf.cast(weights, values.dtype), values)
                ties = tf.cast(_weighted_sum(share, row_ids, num_segments), share.dtype)
                return share * tf.gather(tf.math.divide_no_nan(upstream, ties), row_ids)

            # Sharing takes as long as all the rest, and ties are rare.
            n_maxima = _count_not_empty(row_ids) * tf.size(maxima[:1], tf.int64)
            return tf.cond(tf.equal(_count_true(is_max), n_maxima), alone, shared)

        return maxima, gradient

    return tf.custom_gradient(reduced)(values)


def segment_std(
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """Weighted population standard deviation; 0, with zero gradient, where all are equal."""
    wide = _widen(values)
    # Any shift will do; after this one, equal values are 0 and their mean is not off by rounding.
    shift = tf.stop_gradient(segment_max(wide, row_ids, num_segments))
    wide = wide - tf.gather(shift, row_ids)
    mean = segment_mean(wide, row_ids, num_segments, weights)
    centered = wide - tf.gather(mean, row_ids)
    variance = segment_mean(tf.square(centered), row_ids, num_segments, weights)
    return tf.cast(_safe_power(variance, 0.5), values.dtype)


def segment_lse(
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
    sharpness: tf.Tensor | float = 1.0,
) -> tf.Tensor:
    """Smooth maximum log(Σᵢ wᵢ exp(M vᵢ)) / M with sharpness M > 0 (Ramon & De Raedt, 2000)."""
    wide = _widen(values)
    sharpness = tf.cast(sharpness, wide.dtype)
    # Any shift gives the same value and gradient, so the maximum needs no gradient of its own.
    shift = tf.stop_gradient(segment_max(wide, row_ids, num_segments))
    scaled = tf.exp(sharpness * (wide - tf.gather(shift, row_ids)))
    total = _weighted_sum(scaled, row_ids, num_segments, weights)
    is_empty = total == 0
    log = tf.math.log(tf.where(is_empty, tf.ones_like(total), total))
    return tf.cast(shift + log / sharpness, values.dtype)


def segment_pnorm(
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
    p: tf.Tensor | float = 2.0,
) -> tf.Tensor:
    """Weighted power mean (Σᵢ wᵢ |vᵢ|ᵖ / Σᵢ wᵢ)^(1/p), p ≥ 1 (Gulcehre et al., 2014)."""
    wide = tf.abs(_widen(values))
    p = tf.cast(p, wide.dtype)
    # Scaling by the largest keeps the powers finite; it cancels out, so it needs no gradient.
    scale = tf.stop_gradient(segment_max(wide, row_ids, num_segments))
    relative = tf.math.divide_no_nan(wide, tf.gather(scale, row_ids))
    mean = segment_mean(_safe_power(relative, p), row_ids, num_segments, weights)
    return tf.cast(scale * _safe_power(mean, 1.0 / p), values.dtype)


def segment_softmax(
    scores: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """Weighted softmax within each bag: wᵢ exp(sᵢ) / Σⱼ wⱼ exp(sⱼ), shape of `scores`."""
    wide = _widen(scores)
    shift = tf.stop_gradient(segment_max(wide, row_ids, num_segments))
    exponentials = tf.exp(wide - tf.gather(shift, row_ids))
    if weights is not None:
        exponentials = exponentials * _align(tf.cast(weights, wide.dtype), wide)
    total = _weighted_sum(exponentials, row_ids, num_segments)
    return tf.cast(exponentials / tf.gather(total, row_ids), scores.dtype)


def _safe_power(base: tf.Tensor, exponent: tf.Tensor | float) -> tf.Tensor:
    """base ** exponent for base ≥ 0, with a zero instead of an infinite gradient at 0."""
    is_zero = base == 0
    power = tf.pow(tf.where(is_zero, tf.ones_like(base), base), exponent)
    return tf.where(is_zero, tf.zeros_like(power), power)


_HALF = (tf.float16, tf.bfloat16)
_SHARDS = 4
_WORTH_SHARDS = 2**17  # instances

# What `tf.custom_gradient` wants: the result, and a function from the gradient with respect to it
# to that with respect to the arguments.
_Reduced: TypeAlias = tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor | tuple[tf.Tensor, ...]]]
# A sorted segment reduction of TensorFlow: of values and row ids.
_Reduction: TypeAlias = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def gather_rows(values: tf.Tensor, members: tf.Tensor) -> tf.Tensor:
    """The row of each instance: [instances, ...].

    Same as `tf.gather`, but the gradient is summed by a scatter, which is faster than TensorFlow's
    unsorted segment sum.
    """

    def gather(values: tf.Tensor) -> _Reduced:
        shape = tf.shape(values, out_type=members.dtype)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            summed = tf.scatter_nd(members[:, None], _widen(upstream), shape)
            return tf.cast(summed, values.dtype)

        return tf.gather(values, members), gradient

    return tf.custom_gradient(gather)(values)


def spread(values: tf.Tensor, row_ids: tf.Tensor) -> tf.Tensor:
    """The value of its bag for each instance: [num_segments, ...] to [instances, ...].

    Same as `tf.gather`, but the gradient is a sum of sorted segments.
    """

    def gather(values: tf.Tensor) -> _Reduced:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            total = _weighted_sum(upstream, row_ids, tf.shape(values)[0])
            return tf.cast(total, upstream.dtype)

        return tf.gather(values, row_ids), gradient

    return tf.custom_gradient(gather)(values)


def _weighted_sum(
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
    members: tf.Tensor | None = None,
) -> tf.Tensor:
    """Weighted sum over each bag, in float32 where the values are of half precision."""
    values = _widen(values)
    if members is None:
        if weights is not None:
            values = values * _align(tf.cast(weights, values.dtype), values)
        return _sum(values, row_ids, num_segments)
    if weights is None:
        return tf.sparse.segment_sum(values, members, row_ids, num_segments=num_segments)
    weights = tf.cast(weights, values.dtype)
    return _sum_of_members(values, row_ids, num_segments, weights, members)


def _count_true(mask: tf.Tensor) -> tf.Tensor:
    """Number of true values, int64, in less than half the time of `tf.math.count_nonzero`.

    Eight bytes of 0 or 1 are added at once, as an integer: 128 of them keep within their bytes.
    """
    ones = tf.reshape(tf.cast(mask, tf.uint8), [-1])
    n = tf.size(ones, tf.int64) // 1024 * 1024
    words = tf.bitcast(tf.reshape(ones[:n], [-1, 128, 8]), tf.int64)  # (blocks, 128)
    counts = tf.bitcast(tf.reduce_sum(words, axis=1), tf.uint8)  # (blocks, 8)
    rest = tf.reduce_sum(tf.cast(ones[n:], tf.int64))
    return tf.reduce_sum(tf.cast(counts, tf.int64)) + rest


def _complete(reduced: tf.Tensor, num_segments: tf.Tensor | int) -> tf.Tensor:
    """Append the trailing empty bags, which TensorFlow's sorted segment reductions drop."""
    missing = tf.cast(num_segments, tf.int32) - tf.shape(reduced)[0]
    padding = [[0, missing]] + [[0, 0]] * (reduced.shape.rank - 1)
    return tf.pad(reduced, padding)


def _align(vector: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Reshape [n] to [n, 1, ...], so that it broadcasts against `values` [n, ...]."""
    return tf.reshape(vector, [-1] + [1] * (values.shape.rank - 1))


def _widen(values: tf.Tensor) -> tf.Tensor:
    """Values of half precision as float32; others as they are."""
    return tf.cast(values, tf.float32) if values.dtype in _HALF else values


def _sum_of_members(
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor,
    members: tf.Tensor,
) -> tf.Tensor:
    # `tf.sparse.segment_sum`, which does not gather the instances, takes no weights.
    is_unweighted = tf.reduce_all(tf.equal(weights, 1))

    def total(values: tf.Tensor, weights: tf.Tensor) -> _Reduced:
        # TensorFlow's gradient of a cond fails under two tapes if there is one of ours in it.
        def of_rows() -> tf.Tensor:
            return tf.sparse.segment_sum(values, members, row_ids, num_segments=num_segments)

        def of_instances() -> tf.Tensor:
            instances = tf.gather(values, members) * _align(weights, values)
            return _reduce(tf.math.segment_sum, instances, row_ids, num_segments)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            shape = tf.shape(values, out_type=members.dtype)

            def to_rows() -> tf.Tensor:
                n_rows = tf.cast(shape[0], tf.int32)
                return tf.raw_ops.SparseSegmentSumGrad(
                    grad=upstream, indices=members, segment_ids=row_ids, output_dim0=n_rows
                )

            def to_instances() -> tf.Tensor:
                shares = tf.gather(upstream, row_ids) * _align(weights, values)
                return tf.scatter_nd(members[:, None], shares, shape)

            products = tf.gather(values, members) * tf.gather(upstream, row_ids)
            axes = list(range(1, values.shape.rank))
            return tf.cond(is_unweighted, to_rows, to_instances), tf.reduce_sum(products, axes)

        return tf.cond(is_unweighted, of_rows, of_instances), gradient

    return tf.custom_gradient(total)(values, weights)


def _sum(values: tf.Tensor, row_ids: tf.Tensor, num_segments: tf.Tensor | int) -> tf.Tensor:
    def total(values: tf.Tensor) -> _Reduced:
        # TensorFlow's own gradient would go back through the shards one by one.
        return (
            _reduce(tf.math.segment_sum, values, row_ids, num_segments),
            lambda upstream: tf.gather(upstream, row_ids),
        )

    return tf.custom_gradient(total)(values)


def _reduce(
    reduce: _Reduction,
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
) -> tf.Tensor:
    """A sorted segment reduction on several cores, as TensorFlow's own run on one; no gradient."""
    values = tf.stop_gradient(values)  # or a cond under two tapes would be traced repeatedly
    n = tf.size(row_ids, tf.int64)

    def in_shards() -> tf.Tensor:
        rows = tf.reshape(values, [n, -1])
        last = tf.cast(num_segments, row_ids.dtype)
        reduced = _reduction_in_shards(reduce, values.dtype, row_ids.dtype)(rows, row_ids, last)
        return tf.reshape(reduced, tf.concat([tf.shape(reduced)[:1], tf.shape(values)[1:]], axis=0))

    def at_once() -> tf.Tensor:
        return _complete(reduce(values, row_ids), num_segments)

    return tf.cond(n < _WORTH_SHARDS, at_once, in_shards)


@functools.cache
def _reduction_in_shards(reduce: _Reduction, dtype: tf.DType, id_dtype: tf.DType) -> Any:
    """`reduce` of [instances, units] in shards, traced once for all layers."""

    def reduction(values: tf.Tensor, row_ids: tf.Tensor, num_segments: tf.Tensor) -> tf.Tensor:
        n = tf.size(row_ids, tf.int64)
        cuts = n * tf.range(1, _SHARDS, dtype=tf.int64) // _SHARDS
        first_bags = tf.gather(row_ids, cuts)  # a shard starts with the bag it would cut
        starts = tf.cast(tf.searchsorted(row_ids, first_bags), tf.int64)
        starts = tf.concat([[0], starts, [n]], axis=0)
        first_bags = tf.concat([tf.zeros([1], id_dtype), first_bags, [num_segments]], axis=0)
        shards = []
        for i in range(_SHARDS):
            shard = slice(starts[i], starts[i + 1])
            reduced = reduce(values[shard], row_ids[shard] - first_bags[i])
            shards.append(_complete(reduced, first_bags[i + 1] - first_bags[i]))
        return tf.concat(shards, axis=0)

    types = [tf.TensorSpec([None, None], dtype), tf.TensorSpec([None], id_dtype)]
    types.append(tf.TensorSpec([], id_dtype))
    return tf.function(reduction, input_signature=types, autograph=False)


def _count_not_empty(row_ids: tf.Tensor) -> tf.Tensor:
    """Number of bags with instances, int64."""
    n_changes = tf.math.count_nonzero(row_ids[1:] - row_ids[:-1])
    return n_changes + tf.cast(tf.size(row_ids) > 0, tf.int64)

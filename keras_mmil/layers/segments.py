"""Reductions of instances to bags, as pure functions on values and sorted row ids.

Every function reduces `values` [instances, ...] to [num_segments, ...]; `row_ids` [instances],
sorted, int32 or int64, says to which bag an instance belongs. A bag without instances, also a
trailing one, yields zeros. `weights` [instances] are multiplicities or importance, all > 0; None
means 1 for each. Half-precision sums are accumulated in float32.

Where `members` [instances] is given, `values` are [rows, ...] and instance i is row `members[i]`:
the result is that for `gather_rows(values, members)`, but sums and means never make it.
"""

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

_HALF = (tf.float16, tf.bfloat16)
_SHARDS = 4
_WORTH_SHARDS = 2**17  # instances


def segment_counts(row_ids, num_segments, weights=None, dtype=tf.float32):
    """Number of instances, or sum of their weights, in each bag: [num_segments]."""
    ones = tf.ones_like(row_ids, dtype) if weights is None else tf.cast(weights, dtype)
    return _complete(tf.math.segment_sum(ones, row_ids), num_segments)


def gather_rows(values, members):
    """The row of each instance: [instances, ...].

    It is `tf.gather`, but the gradient is summed by a scatter instead of an unsorted segment sum,
    which takes a seventh longer (and, where other work goes on, twice as long).
    """

    @tf.custom_gradient
    def gather(values):
        shape = tf.shape(values, out_type=members.dtype)

        def gradient(upstream):
            summed = tf.scatter_nd(members[:, None], _widen(upstream), shape)
            return tf.cast(summed, values.dtype)

        return tf.gather(values, members), gradient

    return gather(values)


def spread(values, row_ids):
    """The value of its bag for each instance: [num_segments, ...] to [instances, ...].

    It is `tf.gather`, but the gradient is summed as that of sorted rows.
    """

    @tf.custom_gradient
    def gather(values):
        def gradient(upstream):
            return segment_sum(upstream, row_ids, tf.shape(values)[0])

        return tf.gather(values, row_ids), gradient

    return gather(values)


def segment_sum(values, row_ids, num_segments, weights=None, members=None):
    """Weighted sum over each bag: Σᵢ wᵢ vᵢ."""
    total = _accumulate(values, row_ids, num_segments, weights, members)
    return tf.cast(total, values.dtype)


def segment_mean(values, row_ids, num_segments, weights=None, members=None):
    """Weighted mean over each bag: Σᵢ wᵢ vᵢ / Σᵢ wᵢ."""
    total = _accumulate(values, row_ids, num_segments, weights, members)
    counts = segment_counts(row_ids, num_segments, weights, total.dtype)
    return tf.cast(tf.math.divide_no_nan(total, _align(counts, total)), values.dtype)


def segment_max(values, row_ids, num_segments, weights=None, members=None):
    """Maximum over each bag. The gradient of a tie is shared in proportion to the weights.

    So a bag {a, a, b} and the same bag in compressed form {a: 2, b: 1} have the same gradient,
    that of `tf.math.segment_max` on the former.
    """
    if members is not None:
        values = gather_rows(values, members)

    @tf.custom_gradient
    def maximum(values):
        maxima = _reduce(tf.math.segment_max, values, row_ids, num_segments)

        def gradient(upstream):
            is_max = tf.equal(values, tf.gather(maxima, row_ids))

            def alone():
                shares = tf.gather(upstream, row_ids)
                # That of TensorFlow 1 does not broadcast, and takes four fifths of the time.
                return tf.compat.v1.where(is_max, shares, tf.zeros_like(shares))

            def shared():
                share = tf.cast(is_max, values.dtype)
                if weights is not None:
                    share = share * _align(tf.cast(weights, values.dtype), values)
                ties = segment_sum(share, row_ids, num_segments)
                return share * tf.gather(tf.math.divide_no_nan(upstream, ties), row_ids)

            # Sharing takes as long as all the rest, and ties are rare.
            n_maxima = _count_not_empty(row_ids) * tf.size(maxima[:1], tf.int64)
            return tf.cond(tf.equal(_count_true(is_max), n_maxima), alone, shared)

        return maxima, gradient

    return maximum(values)


def segment_std(values, row_ids, num_segments, weights=None):
    """Weighted population standard deviation; 0, with zero gradient, where all are equal."""
    wide = _widen(values)
    # Any shift will do; after this one, equal values are 0 and their mean is not off by rounding.
    shift = tf.stop_gradient(segment_max(wide, row_ids, num_segments))
    wide = wide - tf.gather(shift, row_ids)
    mean = segment_mean(wide, row_ids, num_segments, weights)
    centered = wide - tf.gather(mean, row_ids)
    variance = segment_mean(tf.square(centered), row_ids, num_segments, weights)
    return tf.cast(_safe_power(variance, 0.5), values.dtype)


def segment_lse(values, row_ids, num_segments, weights=None, sharpness=1.0):
    """Smooth maximum log(Σᵢ wᵢ exp(M vᵢ)) / M with sharpness M > 0 (Ramon & De Raedt, 2000)."""
    wide = _widen(values)
    sharpness = tf.cast(sharpness, wide.dtype)
    # Any shift gives the same value and gradient, so the maximum needs no gradient of its own.
    shift = tf.stop_gradient(segment_max(wide, row_ids, num_segments))
    scaled = tf.exp(sharpness * (wide - tf.gather(shift, row_ids)))
    total = _accumulate(scaled, row_ids, num_segments, weights)
    is_empty = total == 0
    log = tf.math.log(tf.where(is_empty, tf.ones_like(total), total))
    return tf.cast(shift + log / sharpness, values.dtype)


def segment_pnorm(values, row_ids, num_segments, weights=None, p=2.0):
    """Weighted power mean (Σᵢ wᵢ |vᵢ|ᵖ / Σᵢ wᵢ)^(1/p), p ≥ 1 (Gulcehre et al., 2014)."""
    wide = tf.abs(_widen(values))
    p = tf.cast(p, wide.dtype)
    # Scaling by the largest keeps the powers finite; it cancels out, so it needs no gradient.
    scale = tf.stop_gradient(segment_max(wide, row_ids, num_segments))
    relative = tf.math.divide_no_nan(wide, tf.gather(scale, row_ids))
    mean = segment_mean(_safe_power(relative, p), row_ids, num_segments, weights)
    return tf.cast(scale * _safe_power(mean, 1.0 / p), values.dtype)


def segment_softmax(scores, row_ids, num_segments, weights=None):
    """Weighted softmax within each bag: wᵢ exp(sᵢ) / Σⱼ wⱼ exp(sⱼ), shape of `scores`."""
    wide = _widen(scores)
    shift = tf.stop_gradient(segment_max(wide, row_ids, num_segments))
    exponentials = tf.exp(wide - tf.gather(shift, row_ids))
    if weights is not None:
        exponentials = exponentials * _align(tf.cast(weights, wide.dtype), wide)
    total = _accumulate(exponentials, row_ids, num_segments)
    return tf.cast(exponentials / tf.gather(total, row_ids), scores.dtype)


def _accumulate(values, row_ids, num_segments, weights=None, members=None):
    values = _widen(values)
    if members is None:
        if weights is not None:
            values = values * _align(tf.cast(weights, values.dtype), values)
        return _sum(values, row_ids, num_segments)
    if weights is None:
        return tf.sparse.segment_sum(values, members, row_ids, num_segments=num_segments)
    weights = tf.cast(weights, values.dtype)
    return _sum_of_members(values, row_ids, num_segments, weights, members)


def _sum_of_members(values, row_ids, num_segments, weights, members):
    # The operation that never makes the instances knows no weights.
    is_unweighted = tf.reduce_all(tf.equal(weights, 1))

    @tf.custom_gradient
    def total(values, weights):
        # TensorFlow's gradient of a cond fails under two tapes if there is one of ours in it.
        def of_rows():
            return tf.sparse.segment_sum(values, members, row_ids, num_segments=num_segments)

        def of_instances():
            instances = tf.gather(values, members) * _align(weights, values)
            return _reduce(tf.math.segment_sum, instances, row_ids, num_segments)

        def gradient(upstream):
            shape = tf.shape(values, out_type=members.dtype)

            def to_rows():
                n_rows = tf.cast(shape[0], tf.int32)
                return tf.raw_ops.SparseSegmentSumGrad(
                    grad=upstream, indices=members, segment_ids=row_ids, output_dim0=n_rows
                )

            def to_instances():
                shares = tf.gather(upstream, row_ids) * _align(weights, values)
                return tf.scatter_nd(members[:, None], shares, shape)

            products = tf.gather(values, members) * tf.gather(upstream, row_ids)
            axes = list(range(1, values.shape.rank))
            return tf.cond(is_unweighted, to_rows, to_instances), tf.reduce_sum(products, axes)

        return tf.cond(is_unweighted, of_rows, of_instances), gradient

    return total(values, weights)


def _sum(values, row_ids, num_segments):
    @tf.custom_gradient
    def total(values):
        # TensorFlow's own gradient would go back through the shards one by one.
        return (
            _reduce(tf.math.segment_sum, values, row_ids, num_segments),
            lambda upstream: tf.gather(upstream, row_ids),
        )

    return total(values)


def _reduce(reduce, values, row_ids, num_segments):
    """A sorted segment reduction of TensorFlow's, each of which runs on one core, on several."""
    n = tf.size(row_ids, tf.int64)

    def in_shards():
        cuts = n * tf.range(1, _SHARDS, dtype=tf.int64) // _SHARDS
        first_bags = tf.gather(row_ids, cuts)  # a shard starts with the bag it would cut
        starts = tf.cast(tf.searchsorted(row_ids, first_bags), tf.int64)
        starts = tf.concat([[0], starts, [n]], axis=0)
        last = tf.cast([num_segments], row_ids.dtype)
        first_bags = tf.concat([tf.zeros([1], row_ids.dtype), first_bags, last], axis=0)
        shards = []
        for i in range(_SHARDS):
            shard = slice(starts[i], starts[i + 1])
            reduced = reduce(values[shard], row_ids[shard] - first_bags[i])
            shards.append(_complete(reduced, first_bags[i + 1] - first_bags[i]))
        return tf.concat(shards, axis=0)

    def at_once():
        return _complete(reduce(values, row_ids), num_segments)

    return tf.cond(n < _WORTH_SHARDS, at_once, in_shards)


def _count_not_empty(row_ids):
    """Number of bags with instances, int64."""
    n_changes = tf.math.count_nonzero(row_ids[1:] - row_ids[:-1])
    return n_changes + tf.cast(tf.size(row_ids) > 0, tf.int64)


def _count_true(mask):
    """Number of true values, int64, in less than half the time of `tf.math.count_nonzero`.

    Eight bytes of 0 or 1 are added at once, as an integer: 128 of them keep within their bytes.
    """
    ones = tf.reshape(tf.cast(mask, tf.uint8), [-1])
    n = tf.size(ones, tf.int64) // 1024 * 1024
    words = tf.bitcast(tf.reshape(ones[:n], [-1, 128, 8]), tf.int64)  # (blocks, 128)
    counts = tf.bitcast(tf.reduce_sum(words, axis=1), tf.uint8)  # (blocks, 8)
    rest = tf.reduce_sum(tf.cast(ones[n:], tf.int64))
    return tf.reduce_sum(tf.cast(counts, tf.int64)) + rest


def _complete(reduced, num_segments):
    """Append the trailing empty bags, which TensorFlow's sorted segment reductions drop."""
    missing = tf.cast(num_segments, tf.int32) - tf.shape(reduced)[0]
    padding = [[0, missing]] + [[0, 0]] * (reduced.shape.rank - 1)
    return tf.pad(reduced, padding)


def _align(vector, values):
    """Reshape [n] to [n, 1, ...], so that it broadcasts against `values` [n, ...]."""
    return tf.reshape(vector, [-1] + [1] * (values.shape.rank - 1))


def _widen(values):
    return tf.cast(values, tf.float32) if values.dtype in _HALF else values


def _safe_power(base, exponent):
    """base ** exponent for base ≥ 0, with a zero instead of an infinite gradient at 0."""
    is_zero = base == 0
    power = tf.pow(tf.where(is_zero, tf.ones_like(base), base), exponent)
    return tf.where(is_zero, tf.zeros_like(power), power)

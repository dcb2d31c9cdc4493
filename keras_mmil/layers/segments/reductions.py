"""Reductions of instances to bags, as pure functions on values and sorted row ids.

Every function reduces `values` [instances, ...] to [num_segments, ...]; `row_ids` [instances],
sorted, int32 or int64, says to which bag an instance belongs. A bag without instances, also a
trailing one, yields zeros. `weights` [instances] are multiplicities or importance, all > 0; None
means 1 for each. Half-precision sums are accumulated in float32.

Where `members` [instances] is given, `values` are [rows, ...] and instance i is row `members[i]`:
the result is that for `gather_rows(values, members)`, but sums and means never make it.
"""

import tensorflow as tf

from keras_mmil.layers.segments.kernels import (
    align,
    complete,
    gather_rows,
    maximum,
    weighted_sum,
    widen,
)

__all__ = [
    "segment_counts",
    "segment_lse",
    "segment_max",
    "segment_mean",
    "segment_pnorm",
    "segment_softmax",
    "segment_std",
    "segment_sum",
]


def segment_counts(
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """Number of instances, or sum of their weights, in each bag: [num_segments]."""
    ones = tf.ones_like(row_ids, dtype) if weights is None else tf.cast(weights, dtype)
    return complete(tf.math.segment_sum(ones, row_ids), num_segments)


def segment_sum(
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
    members: tf.Tensor | None = None,
) -> tf.Tensor:
    """Weighted sum over each bag: Σᵢ wᵢ vᵢ."""
    total = weighted_sum(values, row_ids, num_segments, weights, members)
    return tf.cast(total, values.dtype)


def segment_mean(
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
    members: tf.Tensor | None = None,
) -> tf.Tensor:
    """Weighted mean over each bag: Σᵢ wᵢ vᵢ / Σᵢ wᵢ."""
    total = weighted_sum(values, row_ids, num_segments, weights, members)
    counts = segment_counts(row_ids, num_segments, weights, total.dtype)
    return tf.cast(tf.math.divide_no_nan(total, align(counts, total)), values.dtype)


def segment_max(
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
    members: tf.Tensor | None = None,
) -> tf.Tensor:
    """Maximum over each bag. The gradient of a tie is shared in proportion to the weights.

    So a bag {a, a, b} and the same bag in compressed form {a: 2, b: 1} have the same gradient,
    that of `tf.math.segment_max` on the former.
    """
    if members is not None:
        values = gather_rows(values, members)
    return maximum(values, row_ids, num_segments, weights)


def segment_std(
    values: tf.Tensor,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor | int,
    weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """Weighted population standard deviation; 0, with zero gradient, where all are equal."""
    wide = widen(values)
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
    wide = widen(values)
    sharpness = tf.cast(sharpness, wide.dtype)
    # Any shift gives the same value and gradient, so the maximum needs no gradient of its own.
    shift = tf.stop_gradient(segment_max(wide, row_ids, num_segments))
    scaled = tf.exp(sharpness * (wide - tf.gather(shift, row_ids)))
    total = weighted_sum(scaled, row_ids, num_segments, weights)
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
    wide = tf.abs(widen(values))
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
    wide = widen(scores)
    shift = tf.stop_gradient(segment_max(wide, row_ids, num_segments))
    exponentials = tf.exp(wide - tf.gather(shift, row_ids))
    if weights is not None:
        exponentials = exponentials * align(tf.cast(weights, wide.dtype), wide)
    total = weighted_sum(exponentials, row_ids, num_segments)
    return tf.cast(exponentials / tf.gather(total, row_ids), scores.dtype)


def _safe_power(base: tf.Tensor, exponent: tf.Tensor | float) -> tf.Tensor:
    """base ** exponent for base ≥ 0, with a zero instead of an infinite gradient at 0."""
    is_zero = base == 0
    power = tf.pow(tf.where(is_zero, tf.ones_like(base), base), exponent)
    return tf.where(is_zero, tf.zeros_like(power), power)

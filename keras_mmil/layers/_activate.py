"""Activation and aggregation, in the order that costs less."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from keras_mmil.layers.aggregations import Aggregation
from keras_mmil.layers.segments import segment_counts

__all__ = ["activate_and_aggregate"]

# As max α(x) = α(max x) for these, they need not be computed for every instance; and while many
# instances may have a ReLU of 0, few have the same x, so that the gradient need not be shared.
_INCREASING = {
    keras.activations.get(name)
    for name in (
        "elu",
        "exponential",
        "hard_sigmoid",
        "hard_tanh",
        "leaky_relu",
        "linear",
        "log_sigmoid",
        "relu",
        "relu6",
        "selu",
        "sigmoid",
        "softplus",
        "softsign",
        "tanh",
    )
}


def activate_and_aggregate(
    parts: Sequence[tf.Tensor],
    *,
    activation: Callable[[tf.Tensor], tf.Tensor],
    aggregations: Sequence[Aggregation],
    empty: keras.Variable | float,
    row_ids: tf.Tensor,
    num_segments: tf.Tensor,
    weights: tf.Tensor | None,
    members: tf.Tensor | None,
) -> tf.Tensor:
    """Ξ α(x) for each bag, with an activation α and several aggregations Ξ, side by side.

    Args:
        parts: x of each aggregation, [rows, units].
        activation: α.
        aggregations: Ξ, one for each part.
        empty: what an empty bag yields, [all units] or a number.
        row_ids, num_segments, weights, members: as for an `Aggregation`.

    Returns:
        [num_segments, all units].
    """
    bags = {
        "row_ids": row_ids,
        "num_segments": num_segments,
        "weights": weights,
        "members": members,
    }
    pairs = zip(parts, aggregations, strict=True)
    reduced = tf.concat([_reduced(x, activation, each, **bags) for x, each in pairs], axis=1)
    is_empty = tf.equal(segment_counts(row_ids, num_segments), 0)
    return tf.where(is_empty[:, None], tf.cast(empty, reduced.dtype), reduced)


def _reduced(
    x: tf.Tensor,
    activation: Callable[[tf.Tensor], tf.Tensor],
    aggregation: Aggregation,
    **bags: tf.Tensor | None,
) -> tf.Tensor:
    """Ξ α(x) for each bag, [num_segments, units]. For an empty bag it is zero or α(0)."""
    if aggregation.keeps_order and activation in _INCREASING:
        return activation(aggregation(x, **bags))
    return aggregation(activation(x), **bags)

"""Activation and aggregation, in the order that costs less."""

import keras

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


def activate_and_aggregate(x, activation, aggregation, **bags):
    """Ξ α(x) for each bag.

    Args:
        x: [rows, units].
        activation: α.
        aggregation: Ξ, an `Aggregation`.
        bags: arguments of an aggregation: row_ids, num_segments, weights, members.

    Returns:
        [num_segments, units]. For an empty bag it is zero or α(0).
    """
    if aggregation.keeps_order and activation in _INCREASING:
        return activation(aggregation(x, **bags))
    return aggregation(activation(x), **bags)

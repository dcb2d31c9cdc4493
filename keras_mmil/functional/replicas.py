"""Batches that a `tf.distribute.Strategy` splits between replicas."""

from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from keras_mmil.layers._types import Nested

__all__ = [
    "assert_not_empty",
    "check_averaged",
    "first_batch",
    "n_replicas",
    "weigh_gradient",
    "with_inner_axes",
]


def n_replicas() -> int:
    """Number of replicas that run this step at a time: 1 outside of `Strategy.run`."""
    if tf.distribute.in_cross_replica_context():
        return 1
    return tf.distribute.get_strategy().num_replicas_in_sync


def assert_not_empty(layers: Iterable[keras.Layer], y_pred: Nested) -> None:
    """Raise, when run, where this replica has no examples, and one of the layers would learn that.

    The mean and variance of nothing are NaN, which would be averaged with those of the others.

    Args:
        layers: all layers of the model.
        y_pred: the predictions for the replica's examples.
    """
    for layer in layers:
        if isinstance(layer, keras.layers.BatchNormalization) and not layer.synchronized:
            tf.debugging.assert_positive(
                _n_examples(y_pred),
                "Expected batches with a part for every replica, for a BatchNormalization that is "
                "not synchronized: choose a batch size that leaves no small last batch, or set "
                f"synchronized=True. Received: layer={layer.name!r} without any examples",
            )


def check_averaged(losses: Any) -> None:
    """Raise ValueError where the loss that a model was compiled with is no mean over examples.

    Keras reports the mean loss of replicas times their number, whatever it was.

    Args:
        losses: `model.loss`: what `compile` was given, one loss or nested ones.
    """
    for loss in keras.tree.flatten(losses):
        reduction = getattr(loss, "reduction", "mean")  # a name or function is averaged
        if reduction not in ("mean", "sum_over_batch_size"):
            raise ValueError(
                "Expected a loss that is averaged over the examples, for a strategy of several "
                f"replicas. Received: loss {loss.name!r} with reduction={reduction!r}"
            )


def weigh_gradient(loss: tf.Tensor, y_pred: Nested) -> tf.Tensor:
    """A loss, averaged over a replica's examples, whose gradients add up to that of all examples.

    Keras divides the sum of the replicas' gradients by their number, which is right only where all
    have as many examples: not in a last batch that is smaller.

    Args:
        loss: mean over the examples of this replica.
        y_pred: the predictions for them, which may be none.

    Returns:
        The same value; its gradient is multiplied with the share that the replica has of all
        examples, and with the number of replicas, which Keras divides by.
    """
    context = tf.distribute.get_replica_context()
    n_examples = _n_examples(y_pred)
    n_all = context.all_reduce(tf.distribute.ReduceOp.SUM, n_examples)
    share = tf.math.divide_no_nan(tf.cast(n_examples, loss.dtype), tf.cast(n_all, loss.dtype))
    factor = share * context.num_replicas_in_sync
    return loss + (factor - 1) * (loss - tf.stop_gradient(loss))


def first_batch(epoch_iterator: Iterable[Any], strategy: tf.distribute.Strategy) -> Any:
    """The part of the first batch that is the first replica's."""

    # In a graph, as eagerly TensorFlow's `get_next` fails where some replica has no part of the
    # batch (2.21: a ragged tensor's variant gets the shape (0,); a dense model fails in AddN).
    def first_part(iterator: tf.data.Iterator) -> Any:
        batch = iterator.get_next()
        return keras.tree.map_structure(lambda x: strategy.experimental_local_results(x)[0], batch)

    for _, _, iterator in epoch_iterator:
        return tf.function(first_part)(iterator)


def with_inner_axes(inputs: Any) -> Any:
    """The inputs of a replica; where it has no examples, TensorFlow forgets the axes of instances.

    Args:
        inputs: a tensor, or a list or dict of tensors.
    """

    def reshaped(x: Any) -> Any:
        if not isinstance(x, tf.RaggedTensor) or not x.flat_values.shape[1:].is_fully_defined():
            return x
        return x.with_flat_values(tf.reshape(x.flat_values, [-1, *x.flat_values.shape[1:]]))

    return keras.tree.map_structure(reshaped, inputs)


def _n_examples(y_pred: Nested) -> tf.Tensor:
    is_ragged = isinstance(y_pred, tf.RaggedTensor)
    return y_pred.nrows(tf.int32) if is_ragged else tf.shape(y_pred)[0]

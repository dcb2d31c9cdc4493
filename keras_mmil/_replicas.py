"""Batches that a `tf.distribute.Strategy` splits between replicas."""

import keras
import tensorflow as tf

__all__ = ["check_averaged", "first_batch", "n_replicas", "weigh_gradient", "with_inner_axes"]


def n_replicas():
    """Number of replicas that run this step at a time: 1 outside of `Strategy.run`."""
    if tf.distribute.in_cross_replica_context():
        return 1
    return tf.distribute.get_strategy().num_replicas_in_sync


def check_averaged(compile_loss):
    """Raise ValueError for a compiled loss that is no mean over examples.

    Keras reports the mean loss of replicas times their number, whatever it was.
    """
    for loss in keras.tree.flatten(getattr(compile_loss, "_user_loss", None)):
        reduction = getattr(loss, "reduction", "mean")  # a name or function is averaged
        if reduction not in ("mean", "sum_over_batch_size"):
            raise ValueError(
                "Expected a loss that is averaged over the examples, for a strategy of several "
                f"replicas. Received: loss {loss.name!r} with reduction={reduction!r}"
            )


def weigh_gradient(loss, y_pred):
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
    is_ragged = isinstance(y_pred, tf.RaggedTensor)
    n_examples = y_pred.nrows(tf.int32) if is_ragged else tf.shape(y_pred)[0]
    n_all = context.all_reduce(tf.distribute.ReduceOp.SUM, n_examples)
    share = tf.math.divide_no_nan(tf.cast(n_examples, loss.dtype), tf.cast(n_all, loss.dtype))
    factor = share * context.num_replicas_in_sync
    return loss + (factor - 1) * (loss - tf.stop_gradient(loss))


def first_batch(epoch_iterator, strategy):
    """The part of the first batch that is the first replica's."""
    for _, _, iterator in epoch_iterator:
        # Eagerly, TensorFlow fails where some replica is left without a part of the batch.
        batch = tf.function(iterator.get_next)()
        break
    return keras.tree.map_structure(lambda x: strategy.experimental_local_results(x)[0], batch)


def with_inner_axes(inputs):
    """The inputs of a replica; where it has no examples, TensorFlow forgets the axes of instances.

    Args:
        inputs: a tensor, or a list or dict of tensors.
    """

    def reshaped(x):
        if not isinstance(x, tf.RaggedTensor) or not x.flat_values.shape[1:].is_fully_defined():
            return x
        return x.with_flat_values(tf.reshape(x.flat_values, [-1, *x.flat_values.shape[1:]]))

    return keras.tree.map_structure(reshaped, inputs)

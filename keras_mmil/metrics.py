"""Metrics that Keras lacks."""

import keras
import tensorflow as tf

__all__ = ["OverlookedPrecision"]


@keras.saving.register_keras_serializable("keras_mmil")
class OverlookedPrecision(keras.metrics.Metric):
    """How highly what was overlooked is ranked among what was not seen: the paper's mAP.

    Of an example in which Q things were overlooked, the mean over i from 1 to Q of the share of
    overlooked ones among the i things of the highest scores that were not seen. The metric is the
    mean over the examples that have some, and NaN where none has, as in training. The function
    `datasets.plants.mean_average_precision` is the same for arrays.

    Args:
        name, dtype: as in `keras.metrics.Metric`.

    Call arguments:
        y_true: labels 0 (not there), 1 (seen) or 2 (overlooked), [batch, things].
        y_pred: scores [batch, things]; of equal ones the first counts as higher.

    Example:

    >>> metric = OverlookedPrecision()
    >>> metric.update_state([[1, 2, 2, 0]], [[0.9, 0.8, 0.1, 0.3]])
    >>> float(metric.result())
    0.75

    Source:
        Paper, equation for mAP in the section "Plant Distribution Data".
    """

    def __init__(self, name="map", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Add a batch; `sample_weight` [batch] weighs examples."""
        labels = tf.cast(y_true, tf.int32)
        scores = tf.convert_to_tensor(y_pred)
        scores = tf.where(labels == 1, tf.constant(-float("inf"), scores.dtype), scores)
        order = tf.argsort(scores, axis=1, direction="DESCENDING", stable=True)
        hits = tf.cast(tf.gather(labels, order, batch_dims=1) == 2, self.dtype)  # by rank
        ranks = tf.range(1, tf.shape(hits)[1] + 1)
        n_hidden = tf.reduce_sum(hits, axis=1, keepdims=True)
        precision = tf.cumsum(hits, axis=1) / tf.cast(ranks, self.dtype)
        counted = tf.where(tf.cast(ranks, self.dtype) <= n_hidden, precision, 0.0)
        means = tf.math.divide_no_nan(tf.reduce_sum(counted, axis=1), n_hidden[:, 0])
        weights = tf.cast(n_hidden[:, 0] > 0, self.dtype)
        if sample_weight is not None:
            weights *= tf.reshape(tf.cast(sample_weight, self.dtype), [-1])
        self.total.assign_add(tf.reduce_sum(weights * means))
        self.count.assign_add(tf.reduce_sum(weights))

    def result(self):
        """The mean so far."""
        return self.total.value / self.count.value

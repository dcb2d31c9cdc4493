"""Metrics that Keras lacks."""

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

__all__ = ["HeldOutPrecision", "held_out_labels", "held_out_precision"]


def held_out_labels(seen: npt.ArrayLike, present: npt.ArrayLike) -> npt.NDArray[np.int8]:
    """Labels of things from bools of one shape: whether they were seen, whether they are there.

    Returns:
        int8 of that shape: 0 (not there), 1 (seen) or 2 (there, but overlooked).
    """
    return np.where(seen, 1, np.where(present, 2, 0)).astype(np.int8)


def held_out_precision(labels: npt.ArrayLike, scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """How highly overlooked things are ranked among those that were not seen.

    For an example with Q overlooked things it is the mean, over i from 1 to Q, of the share of
    overlooked ones among the i unseen things of the highest scores. The paper calls its mean over
    the examples mAP; average precision would use the ranks of the overlooked things instead.

    Args:
        labels: 0 (not there), 1 (seen) or 2 (overlooked), [examples, things]; `held_out_labels`
            makes them.
        scores: any numbers [examples, things]; of equal ones the first counts as higher.

    Returns:
        float64 [examples], from 0 to 1; NaN where nothing was overlooked.

    Raises:
        ValueError: if shapes differ, a label is another, or a score is NaN.

    Example:

    >>> held_out_precision([[1, 2, 2, 0]], [[0.9, 0.8, 0.1, 0.3]])
    array([0.75])

    Source:
        Paper, equation for mAP in the section "Plant Distribution Data".
    """
    labels, scores = np.asarray(labels), np.asarray(scores, np.float64)
    if labels.shape != scores.shape or labels.ndim != 2:
        raise ValueError(
            "Expected labels and scores of one shape, [examples, things]. "
            f"Received: labels.shape={labels.shape}, scores.shape={scores.shape}"
        )
    if not np.isin(labels, (0, 1, 2)).all():
        raise ValueError(f"Expected labels 0, 1 or 2. Received: labels={np.unique(labels)}")
    if np.isnan(scores).any():
        raise ValueError(f"Expected scores. Received: {np.isnan(scores).sum()} of them NaN")
    means, n_overlooked = (x.numpy() for x in _precision(tf.constant(labels), tf.constant(scores)))
    return np.where(n_overlooked > 0, means, np.nan)


@keras.saving.register_keras_serializable("keras_mmil", name="OverlookedPrecision")
class HeldOutPrecision(keras.metrics.Metric):
    """The mean of `held_out_precision` over the examples in which something was overlooked.

    It is NaN if nothing was, as in training. The paper calls it mAP. It is saved under the name
    that it had before, "OverlookedPrecision".

    Args:
        name, dtype: as in `keras.metrics.Metric`.

    Call arguments:
        y_true: labels 0 (not there), 1 (seen) or 2 (overlooked), [batch, things].
        y_pred: scores [batch, things]; of equal ones the first counts as higher.

    Example:

    >>> metric = HeldOutPrecision()
    >>> metric.update_state([[1, 2, 2, 0]], [[0.9, 0.8, 0.1, 0.3]])
    >>> float(metric.result())
    0.75

    Source:
        Paper, equation for mAP in the section "Plant Distribution Data".
    """

    def __init__(self, name: str = "map", dtype: str | None = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(
        self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> None:
        """Add a batch; `sample_weight` [batch] weighs examples."""
        means, n_overlooked = _precision(y_true, tf.convert_to_tensor(y_pred), self.dtype)
        weights = tf.cast(n_overlooked > 0, self.dtype)
        if sample_weight is not None:
            weights *= tf.reshape(tf.cast(sample_weight, self.dtype), [-1])
        self.total.assign_add(tf.reduce_sum(weights * means))
        self.count.assign_add(tf.reduce_sum(weights))

    def result(self) -> tf.Tensor:
        """The mean so far."""
        return self.total.value / self.count.value


def _precision(
    labels: tf.Tensor, scores: tf.Tensor, dtype: str = "float64"
) -> tuple[tf.Tensor, tf.Tensor]:
    """The precision of each example, 0 if nothing was overlooked; and how many things were."""
    labels = tf.cast(labels, tf.int32)
    scores = tf.where(labels == 1, tf.constant(-float("inf"), scores.dtype), scores)
    order = tf.argsort(scores, axis=1, direction="DESCENDING", stable=True)
    hits = tf.cast(tf.gather(labels, order, batch_dims=1) == 2, dtype)  # by rank
    ranks = tf.cast(tf.range(1, tf.shape(hits)[1] + 1), dtype)
    n_overlooked = tf.reduce_sum(hits, axis=1)
    precision = tf.cumsum(hits, axis=1) / ranks
    counted = tf.where(ranks <= n_overlooked[:, None], precision, tf.zeros_like(precision))
    return tf.math.divide_no_nan(tf.reduce_sum(counted, axis=1), n_overlooked), n_overlooked

"""Losses that Keras lacks."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_mmil._support.types import Config

__all__ = ["SmoothedCrossentropy", "seen_crossentropy"]


@keras.saving.register_keras_serializable("keras_mmil")
class SmoothedCrossentropy(keras.losses.Loss):
    """`keras.losses.SparseCategoricalCrossentropy` with label smoothing, which Keras's lacks.

    Args:
        label_smoothing: ε, from 0 to 1: the target is 1 - ε + ε/n for the label, ε/n for each of
            the n - 1 other classes.
        name, reduction, dtype: as in `keras.losses.Loss`.

    Call arguments:
        y_true: int labels [batch] or [batch, 1].
        y_pred: probabilities [batch, n].

    Raises:
        ValueError: if `label_smoothing` is out of range.

    Example:

    >>> model.compile("adam", keras_mmil.losses.SmoothedCrossentropy(0.1), metrics=["accuracy"])

    Reference:
        Szegedy et al., Rethinking the Inception Architecture for Computer Vision, 2016.
    """

    def __init__(
        self, label_smoothing: float = 0.1, name: str = "smoothed_crossentropy", **kwargs: Any
    ) -> None:
        super().__init__(name=name, **kwargs)
        if not 0 <= label_smoothing <= 1:
            raise ValueError(f"Expected a share from 0 to 1. Received: {label_smoothing=}")
        self.label_smoothing = label_smoothing

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        n_classes = y_pred.shape[-1]
        labels = ops.one_hot(ops.reshape(y_true, [-1]), n_classes, dtype=y_pred.dtype)
        return keras.losses.categorical_crossentropy(
            labels, y_pred, label_smoothing=self.label_smoothing
        )

    def get_config(self) -> Config:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


@keras.saving.register_keras_serializable("keras_mmil")
def seen_crossentropy(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """Binary cross-entropy of what was seen, as if nothing had been overlooked, [batch].

    Args:
        y_true: labels 0, 1 or 2, [batch, things].
        y_pred: probabilities [batch, things].
    """
    seen = tf.cast(tf.equal(y_true, tf.cast(1, y_true.dtype)), y_pred.dtype)
    return keras.losses.binary_crossentropy(seen, y_pred)

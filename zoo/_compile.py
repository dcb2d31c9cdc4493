"""How the zoo's classifiers end, and are compiled."""

from typing import Any

import keras

from keras_mmil._support.types import LearningRate
from keras_mmil.losses import SmoothedCrossentropy
from keras_mmil.model import Model

__all__ = ["compile_binary", "compile_logits", "compile_smoothed_classes"]


def compile_binary(model: Model, learning_rate: LearningRate) -> Model:
    """Compile with Adam and binary cross-entropy; return the model."""
    return _compile(model, "binary_crossentropy", learning_rate)


def compile_logits(model: Model, learning_rate: LearningRate) -> Model:
    """Compile with Adam and softmax cross-entropy of logits, for labels that are ints."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return _compile(model, loss, learning_rate)


def compile_smoothed_classes(
    model: Model, learning_rate: LearningRate, *, label_smoothing: float, **adam: float
) -> Model:
    """The same of probabilities, with smoothed labels; return the model.

    Args:
        model: to be compiled.
        learning_rate: of Adam.
        label_smoothing: of the cross-entropy.
        adam: further arguments of Adam.
    """
    return _compile(model, SmoothedCrossentropy(label_smoothing), learning_rate, **adam)


def _compile(model: Model, loss: Any, learning_rate: LearningRate, **adam: float) -> Model:
    model.compile(keras.optimizers.Adam(learning_rate, **adam), loss, metrics=["accuracy"])
    return model

"""How the zoo's classifiers begin and end: frozen features of ids, and losses."""

import keras
import numpy as np
import numpy.typing as npt

from keras_mmil._support.types import LearningRate
from keras_mmil.losses import SmoothedCrossentropy
from keras_mmil.model import Model

__all__ = ["compile_binary", "compile_smoothed_classes", "frozen_embedding"]


def frozen_embedding(vectors: npt.ArrayLike, name: str) -> keras.layers.Embedding:
    """Embedding of ids whose vectors, float [ids, size], are not trained."""
    table = np.asarray(vectors, np.float32)
    layer = keras.layers.Embedding(*table.shape, trainable=False, name=name)
    layer.build()
    layer.set_weights([table])
    return layer


def compile_binary(model: Model, learning_rate: LearningRate) -> Model:
    """Compile with Adam and binary cross-entropy; return the model."""
    adam = keras.optimizers.Adam(learning_rate)
    model.compile(adam, "binary_crossentropy", metrics=["accuracy"])
    return model


def compile_smoothed_classes(
    model: Model, learning_rate: LearningRate, *, label_smoothing: float, **adam: float
) -> Model:
    """Compile with Adam and cross-entropy with smoothed labels; return the model."""
    optimizer = keras.optimizers.Adam(learning_rate, **adam)
    model.compile(optimizer, SmoothedCrossentropy(label_smoothing), metrics=["accuracy"])
    return model

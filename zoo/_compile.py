"""How the zoo's classifiers are compiled."""

import keras

from keras_mmil.losses import SmoothedCrossentropy

__all__ = ["compile_binary", "compile_classes", "compile_smoothed_classes"]


def compile_binary(model, learning_rate):
    """Compile with Adam and binary cross-entropy; return the model."""
    return _compile(model, learning_rate, "binary_crossentropy")


def compile_classes(model, learning_rate, from_logits=False):
    """Compile with Adam and softmax cross-entropy, for labels that are ints; return the model."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits)
    return _compile(model, learning_rate, loss)


def compile_smoothed_classes(model, learning_rate, label_smoothing, **adam):
    """The same for a model whose outputs are probabilities, with smoothed labels."""
    return _compile(model, learning_rate, SmoothedCrossentropy(label_smoothing), **adam)


def _compile(model, learning_rate, loss, **adam):
    model.compile(keras.optimizers.Adam(learning_rate, **adam), loss, metrics=["accuracy"])
    return model

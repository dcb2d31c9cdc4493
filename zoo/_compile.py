"""How the zoo's binary classifiers are compiled."""

import keras

__all__ = ["compile_binary"]


def compile_binary(model, learning_rate):
    """Compile with Adam and binary cross-entropy; return the model."""
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss="binary_crossentropy",
        metrics=["accuracy"],
    )
    return model

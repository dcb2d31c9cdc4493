"""Features of ids that stay as they are."""

import keras
import numpy as np

__all__ = ["frozen_embedding"]


def frozen_embedding(vectors, name):
    """Embedding of ids whose vectors, float [ids, size], are not trained."""
    vectors = np.asarray(vectors, np.float32)
    layer = keras.layers.Embedding(*vectors.shape, trainable=False, name=name)
    layer.build()
    layer.set_weights([vectors])
    return layer

"""Features of ids that are not trained."""

import keras
import numpy as np
import numpy.typing as npt

__all__ = ["frozen_embedding"]


def frozen_embedding(vectors: npt.ArrayLike, name: str) -> keras.layers.Embedding:
    """Embedding of ids whose vectors, float [ids, size], are not trained."""
    table = np.asarray(vectors, np.float32)
    layer = keras.layers.Embedding(*table.shape, trainable=False, name=name)
    layer.build()
    layer.set_weights([table])
    return layer

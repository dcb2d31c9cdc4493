"""Imported first by the package: checks that Keras runs on TensorFlow."""

import os
import sys


def require_tensorflow() -> None:
    """Raise ImportError if the backend, which cannot change once Keras is imported, is another."""
    backend = os.environ.get("KERAS_BACKEND")
    if not backend or backend == "tensorflow" or "keras" in sys.modules:
        # Only here, as Keras's own import fails, less clearly, where the chosen backend is missing.
        import keras

        backend = keras.backend.backend()
    if backend != "tensorflow":
        raise ImportError(
            "keras_mmil needs Keras to run on TensorFlow, for ragged tensors: set "
            f"KERAS_BACKEND=tensorflow before importing keras. Received: backend={backend!r}"
        )


require_tensorflow()

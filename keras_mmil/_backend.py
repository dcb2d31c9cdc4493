"""Imported first by the package: refuses to go on where Keras does not run on TensorFlow."""

import os
import sys


def require_tensorflow() -> None:
    """Checks Keras's backend, which is settled for good when Keras is first imported.

    Raises:
        ImportError: if the backend is not TensorFlow.
    """
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

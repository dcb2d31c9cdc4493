"""Layers that are given their inputs as they are."""

import numpy as np
import tensorflow as tf

__all__ = ["RawInputs"]


class RawInputs:
    """Mixin, before `keras.Layer`, of layers of ragged tensors, ids or strings.

    Keras does not cast the inputs; the layer does what it needs. For Keras casts ids like numbers,
    and forgets of symbolic inputs it casts that they are ragged. Nor does Keras compile a model
    with such a layer by XLA, which has no kernels for them.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._convert_input_args = False
        self.supports_jit = False

    def __call__(self, *args, **kwargs):
        """Call the layer; a dense argument may be a NumPy array, if it is not given by name."""
        args = [tf.convert_to_tensor(x) if isinstance(x, np.ndarray) else x for x in args]
        return super().__call__(*args, **kwargs)

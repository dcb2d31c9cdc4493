"""Layers that are given their inputs as they are."""

import numpy as np
import tensorflow as tf

__all__ = ["RawInputs"]


class RawInputs:
    """Mixin, before `keras.Layer`: Keras does not cast the inputs; the layer does what it needs.

    For Keras casts ids like numbers, and forgets of symbolic inputs it casts that they are ragged.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._convert_input_args = False

    def __call__(self, inputs, *args, **kwargs):
        """Call the layer; dense `inputs` may be a NumPy array."""
        if isinstance(inputs, np.ndarray):
            inputs = tf.convert_to_tensor(inputs)
        return super().__call__(inputs, *args, **kwargs)

"""Layers that are given their inputs as they are."""

from typing import Any, NoReturn

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Shape

__all__ = ["RawInputs", "check_no_mask"]


class RawInputs(keras.Layer):
    """Base of layers of ragged tensors, ids or strings; before that of a layer of Keras's.

    Keras does not cast the inputs; the layer does what it needs. For Keras casts ids like numbers,
    and forgets of symbolic inputs it casts that they are ragged. Nor does Keras compile a model
    with such a layer by XLA, which has no kernels for them. A Keras mask is refused: a bag holds
    what is in it, and nothing to be skipped.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._convert_input_args = False
        self.supports_jit = False
        self.supports_masking = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer; a dense argument may be a NumPy array, if it is not given by name.

        Raises:
            ValueError: if an argument has a Keras mask.
        """
        tensors = [tf.convert_to_tensor(x) if isinstance(x, np.ndarray) else x for x in args]
        check_no_mask(self, (tensors, kwargs), "inputs")
        return super().__call__(*tensors, **kwargs)

    def compute_output_shape(self, *shapes: Shape, **named_shapes: Shape) -> NoReturn:
        """Refused: a shape does not say whether a tensor is ragged; see `compute_output_spec`.

        Keras's wrappers ask for it, such as `TimeDistributed`, before they cut their input.
        """
        raise NotImplementedError(
            f"Expected {type(self).__name__} '{self.name}' to be called itself, and not by a "
            "wrapper such as TimeDistributed: it takes bags of any depth, ragged or dense. "
            f"Received: shapes={[*shapes, *named_shapes.values()]}"
        )


def check_no_mask(layer: keras.Layer, tensors: Any, what: str) -> None:
    """Raise ValueError where one of nested tensors, the inputs or outputs of a layer, is masked."""
    for x in keras.tree.flatten(tensors):
        if getattr(x, "_keras_mask", None) is not None:
            raise ValueError(
                f"{type(layer).__name__} '{layer.name}' expected {what} without a Keras mask, as "
                "of Masking or Embedding(mask_zero=True): it would be ignored. Leave out of the "
                "bags what shall not count (tf.ragged.boolean_mask), or give it weight 0 in a "
                f"BagLayer. Received: a mask on {what} of shape {tuple(x.shape)}"
            )

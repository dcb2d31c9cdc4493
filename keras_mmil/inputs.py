"""Data, and the inputs of a functional model: the same checks for training and for explaining."""

import numpy as np
import tensorflow as tf

from keras_mmil import ragged, text
from keras_mmil.bags import Bags

__all__ = ["check_inputs", "complete_inputs"]


def check_inputs(x, expected, name="x"):
    """Check top-bags, and bring them into the structure of a model's inputs.

    Args:
        x: RaggedTensor, tensor, array, `Bags`, or a dict or list of the model's inputs; for an
            input of strings also a list of str or bytes.
        expected: the model's inputs: a `KerasTensor`, or a dict or list of them. Of a dict, all but
            `bags` are optional.
        name: what to call `x` in errors.

    Returns:
        A tensor, a list of tensors, or a dict without the optional inputs that are not given.

    Raises:
        TypeError: for a list, strings, or anything else that is not nested bags of numbers.
        ValueError: if there are no top-bags, the depth is not the model's, values are not finite,
            or the model has no such input.
    """
    if isinstance(x, Bags):
        x = x.inputs
    if isinstance(expected, dict):
        x = _by_name(x, expected, name)
        x = {key: part for key, part in x.items() if part is not None}
        return {
            key: _checked(part, expected[key], name if len(x) == 1 else f"{name}[{key!r}]")
            for key, part in x.items()
        }
    if isinstance(expected, (list, tuple)):
        if not isinstance(x, (list, tuple)) or len(x) != len(expected):
            raise ValueError(
                f"Expected {len(expected)} inputs in a list or tuple. "
                f"Received: {name} of type {type(x).__name__}"
            )
        pairs = enumerate(zip(x, expected, strict=True))
        return [_checked(part, spec, f"{name}[{i}]") for i, (part, spec) in pairs]
    return _checked(x, expected, name)


def complete_inputs(x, expected):
    """The inputs of a model with None for the optional ones that are not given.

    Args:
        x: what `check_inputs` returned, `Bags`, a symbolic tensor, or a dict of those.
        expected: the model's inputs.

    Raises:
        ValueError: if the model has no such input.
    """
    if isinstance(x, Bags):
        x = x.inputs
    if not isinstance(expected, dict):
        is_plain = isinstance(x, (list, tuple, np.ndarray, str, bytes))
        is_text = is_plain and getattr(expected, "dtype", None) == "string"
        return _strings(x, "inputs") if is_text else x
    x = _by_name(x, expected, "inputs")
    return {key: x.get(key) for key in expected}


def _by_name(x, expected, name):
    x = x if isinstance(x, dict) else {"bags": x}
    if not expected.keys() >= x.keys():
        raise ValueError(
            f"Expected inputs among {sorted(expected)}. Received: {name} with {sorted(x)}"
        )
    return x


def _checked(x, spec, name):
    if spec.dtype == "string" and not tf.is_tensor(x):
        x = _strings(x, name)
    if not isinstance(x, (tf.RaggedTensor, tf.Tensor, np.ndarray)):
        raise TypeError(
            "Expected a RaggedTensor, an array or Bags; `keras_mmil.ragged.from_nested_lists` "
            f"makes the first of nested lists. Received: {name} of type {type(x).__name__}"
        )
    dtype = tf.as_dtype(x.dtype)  # a string also for NumPy's objects
    if (dtype == tf.string) != (spec.dtype == "string"):
        expected = "texts" if spec.dtype == "string" else "numbers"
        raise TypeError(f"Expected {expected}. Received: {name} of dtype {x.dtype.name}")
    if len(x.shape) != len(spec.shape):
        raise ValueError(
            f"Expected the nesting of the model's input, shape {spec.shape}. "
            f"Received: {name}.shape={tuple(x.shape)}"
        )
    if x.shape[0] == 0:
        raise ValueError(f"Expected at least one top-bag. Received: {name}.shape={tuple(x.shape)}")
    if dtype != tf.string:
        ragged.check_finite(x, name)
    return x


def _strings(x, name):
    """Texts [n] as a tensor."""
    if isinstance(x, (str, bytes)):
        raise TypeError(f"Expected a list of texts. Received: {name}={x!r}")
    encoded = list(map(text.as_bytes, x))
    return tf.constant(encoded, tf.string, shape=(len(encoded),))

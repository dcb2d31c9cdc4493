"""Checks of data against the inputs of a functional model, for training and explaining."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_mmil import ragged, text
from keras_mmil._support.keras_internals import is_optional
from keras_mmil._support.rows import first_difference, path_to
from keras_mmil._support.types import Array, Bools
from keras_mmil.bags import Bags

__all__ = ["check_alike", "check_ids", "check_inputs", "complete_inputs", "is_data"]

# The inputs of a functional model, in the structure that it was made with.
Inputs: TypeAlias = (
    keras.KerasTensor | Mapping[str, keras.KerasTensor] | Sequence[keras.KerasTensor]
)

_LIMIT_OF_FLOATS = 2**24  # the integers up to here are exact in float32


def is_data(x: Any) -> bool:
    """Whether data are in memory, not in a Dataset or from a generator."""
    return isinstance(x, (Bags, dict, list, tuple, str, bytes)) or hasattr(x, "shape")


def check_inputs(
    x: Any, expected: Inputs, name: str = "x", may_be_missing: Container[int | str | None] = ()
) -> Any:
    """Check top-bags, and bring them into the structure of a model's inputs.

    Args:
        x: RaggedTensor, tensor, array, `Bags`, or a dict or list of the model's inputs; for an
            input of strings also a list of str or bytes.
        expected: the model's inputs: a `KerasTensor`, or a dict or list of them. Inputs of a dict
            that were made with `optional=True`, as by `bag_inputs`, may be left out.
        name: of `x` in errors.
        may_be_missing: the inputs that may hold NaN, which means missing: keys of a dict, positions
            in a list, or None for a single input.

    Returns:
        A tensor, a list of tensors, or a dict without the optional inputs that were left out.

    Raises:
        TypeError: for anything but nested bags of numbers, or numbers other than integers for an
            input of integers.
        ValueError: if there are no top-bags, or parts with different numbers of them; if the depth
            is not the model's; if values are not finite, or out of the range of the input's
            integers; or if the model has no such input.
    """
    if isinstance(x, Bags):
        x = x.inputs
    if isinstance(expected, dict):
        parts = _by_name(x, expected, name)
        names = {key: f"{name}[{key!r}]" if isinstance(x, dict) else name for key in parts}
        checked = {
            key: _checked(part, expected[key], names[key], key in may_be_missing)
            for key, part in parts.items()
            if part is not None
        }
        _check_lengths({names[key]: part for key, part in checked.items()})
        return checked
    if isinstance(expected, (list, tuple)):
        if not isinstance(x, (list, tuple)) or len(x) != len(expected):
            is_dict = isinstance(x, dict)
            advice = " A model that is made with a dict of inputs takes dicts." if is_dict else ""
            raise ValueError(
                f"Expected {len(expected)} inputs in a list or tuple. "
                f"Received: {name} of type {type(x).__name__}.{advice}"
            )
        by_name = {
            f"{name}[{i}]": _checked(part, spec, f"{name}[{i}]", i in may_be_missing)
            for i, (part, spec) in enumerate(zip(x, expected, strict=True))
        }
        _check_lengths(by_name)
        return list(by_name.values())
    return _checked(x, expected, name, None in may_be_missing)


def check_ids(
    x: tf.RaggedTensor | tf.Tensor | Array,
    expected: keras.KerasTensor,
    *,
    size: int | None = None,
    layer: str | None = None,
    name: str = "x",
) -> None:
    """Raise ValueError if an id is negative, not an integer, or not below `size`, unless None.

    `expected` is the model's input; `layer` and `name` are those of the layer and of `x` in errors.
    """
    values = _flat(x)
    if not values.size:
        return
    if values.dtype.kind == "f" and (fractions := values % 1 != 0).any():
        raise ValueError(f"Expected ids, integers. {_received(x, name, values, fractions)}")
    is_float = tf.as_dtype(expected.dtype).is_floating
    bounds = [] if size is None else [(size, f"the number of ids of layer '{layer}'")]
    if is_float:
        bounds.append((_LIMIT_OF_FLOATS, f"what an input of {expected.dtype} holds exactly"))
    if values.min() < 0:
        raise ValueError(f"Expected ids of at least 0. {_received(x, name, values, values < 0)}")
    for bound, reason in bounds:
        if values.max() >= bound:
            raise ValueError(
                f"Expected ids below {bound}, {reason}. "
                f"{_received(x, name, values, values >= bound)}"
            )


def check_alike(
    bags: tf.RaggedTensor, part: tf.RaggedTensor, levels: int, names: tuple[str, str]
) -> None:
    """Raise ValueError if ragged inputs differ in the sizes of their outermost `levels` levels."""
    differing = first_difference(bags, part, levels)
    if differing is not None:
        sizes = differing.sizes
        raise ValueError(
            f"Expected bags of the same sizes in {names[0]} and {names[1]}. Received: in top-bag "
            f"{differing.top_bag} a bag of {sizes[0]} members in {names[0]}, of {sizes[1]} in "
            f"{names[1]}"
        )


def complete_inputs(x: Any, expected: Inputs) -> Any:
    """The inputs of a model, with None for optional ones that are left out.

    `x` is what `check_inputs` returned, `Bags`, a symbolic tensor, or a dict of those.

    Raises:
        ValueError: if the model has no such input, or a required one is missing.
    """
    if isinstance(x, Bags):
        x = x.inputs
    if not isinstance(expected, dict):
        is_plain = isinstance(x, (list, tuple, np.ndarray, str, bytes))
        is_text = is_plain and getattr(expected, "dtype", None) == "string"
        if is_text:
            return _strings(x, "inputs")
        if isinstance(expected, keras.KerasTensor):
            _check_instances(x, expected, "inputs")
        return x
    x = _by_name(x, expected, "inputs")
    for key, part in x.items():
        _check_instances(part, expected[key], key)
    return {key: x.get(key) for key in expected}


def _by_name(x: Any, expected: Mapping[str, keras.KerasTensor], name: str) -> Mapping[str, Any]:
    """The parts of `x` by the names of the model's inputs."""
    if not isinstance(x, dict):
        if "bags" not in expected:
            raise ValueError(
                f"Expected a dict of the inputs {sorted(expected)}. "
                f"Received: {name} of type {type(x).__name__}"
            )
        x = {"bags": x}
    if not expected.keys() >= x.keys():
        raise ValueError(
            f"Expected inputs among {sorted(expected)}. Received: {name} with {sorted(x)}"
        )
    missing = [
        key for key, spec in expected.items() if x.get(key) is None and not is_optional(spec)
    ]
    if missing:
        given = sorted(key for key, part in x.items() if part is not None)
        raise ValueError(f"Expected the inputs {missing}, too. Received: {name} with {given}")
    return x


def _checked(x: Any, spec: keras.KerasTensor, name: str, may_be_missing: bool) -> Any:
    if spec.dtype == "string" and not tf.is_tensor(x):
        x = _strings(x, name)
    if not isinstance(x, (tf.RaggedTensor, tf.Tensor, np.ndarray)):
        way = "an array or a tensor"
        if getattr(spec, "ragged", True):
            way = (
                "a RaggedTensor, an array or Bags; `keras_mmil.ragged.from_nested_lists` makes "
                "the first of nested lists"
            )
        raise TypeError(f"Expected {way}. Received: {name} of type {type(x).__name__}")
    dtype = tf.as_dtype(x.dtype)  # a string also for NumPy's objects
    if (dtype == tf.string) != (spec.dtype == "string"):
        expected = "texts" if spec.dtype == "string" else "numbers"
        raise TypeError(f"Expected {expected}. Received: {name} of dtype {x.dtype.name}")
    if len(x.shape) != len(spec.shape):
        raise ValueError(
            f"Expected the nesting of the model's input, shape {spec.shape}. "
            f"Received: {name}.shape={tuple(x.shape)}"
        )
    _check_instances(x, spec, name)
    if x.shape[0] == 0:
        raise ValueError(f"Expected at least one top-bag. Received: {name}.shape={tuple(x.shape)}")
    if dtype != tf.string:
        if not may_be_missing:
            ragged.check_finite(x, name)
        _check_integers(x, tf.as_dtype(spec.dtype), name)
    return x


def _check_instances(x: Any, spec: keras.KerasTensor, name: str) -> None:
    """Raise ValueError if instances are numbers, but the model's instances are vectors."""
    if not isinstance(x, tf.RaggedTensor) or len(x.shape) != len(spec.shape):
        return
    if x.shape[-1] is None and spec.shape[-1] is not None:
        shape = f"inner_shape=({spec.shape[-1]},)"
        raise ValueError(
            f"Expected instances of {spec.shape[-1]} features, for the model's input of shape "
            f"{spec.shape}. Received: {name}.shape={tuple(x.shape)}, of bags of numbers. If the "
            f"innermost lists are instances, give {shape} to `ragged.from_nested_lists` or "
            f"`tf.ragged.constant`; `ragged.from_nested_lists({name}.to_list(), {shape})` makes "
            "them of what there is"
        )


def _check_integers(x: tf.RaggedTensor | tf.Tensor | Array, expected: tf.DType, name: str) -> None:
    """Raise if values do not fit the dtype of an integer input."""
    given = tf.as_dtype(x.dtype)
    if not expected.is_integer or given.is_bool:
        return
    if not given.is_integer:
        raise TypeError(f"Expected integers, {expected.name}. Received: {name} of {given.name}")
    if expected.min <= given.min and given.max <= expected.max:
        return
    values = _flat(x)
    if values.size and not expected.min <= values.min() <= values.max() <= expected.max:
        wrong = (values < expected.min) | (values > expected.max)
        raise ValueError(
            f"Expected integers that fit {expected.name}, {expected.min} to {expected.max}. "
            f"{_received(x, name, values, wrong)}"
        )


def _check_lengths(parts: Mapping[str, Any]) -> None:
    """Raise ValueError if parts, by name, have different numbers of top-bags."""
    lengths = {name: int(part.shape[0]) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        received = ", ".join(f"{name} with {n}" for name, n in lengths.items())
        raise ValueError(f"Expected parts of equally many top-bags. Received: {received}")


def _flat(x: tf.RaggedTensor | tf.Tensor | Array) -> Array:
    return np.asarray(getattr(x, "flat_values", x))


def _received(
    x: tf.RaggedTensor | tf.Tensor | Array, name: str, values: Array, is_wrong: Bools
) -> str:
    """The end of an error message: the first wrong value of an input, and its position."""
    first = tuple(np.argwhere(is_wrong)[0])
    lengths = ragged.nested_lengths(x) if isinstance(x, tf.RaggedTensor) else ()
    where = path_to(first[0], lengths) + "".join(f"[{i}]" for i in first[1:])
    return f"Received: {name}{where}={values[first]}"


def _strings(x: Iterable[str | bytes], name: str) -> tf.Tensor:
    """Texts [n] as a tensor."""
    if isinstance(x, (str, bytes)):
        raise TypeError(f"Expected a list of texts. Received: {name}={x!r}")
    encoded = list(map(text.as_bytes, x))
    return tf.constant(encoded, tf.string, shape=(len(encoded),))

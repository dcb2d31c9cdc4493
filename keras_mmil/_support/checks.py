"""Checks of arguments: numbers, of Python or NumPy, and labels and weights of top-bags."""

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Number, Real
from typing import Any, Literal, NoReturn, overload

import numpy as np

from keras_mmil._support.types import Array, Labels

_SHOWN = 40  # characters of a label in an error


def is_int(value: object) -> bool:
    """Whether a value is an integer, Python's or NumPy's, and not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


@overload
def check_int(
    name: str, value: Any, least: int = 0, most: float = math.inf, optional: Literal[False] = False
) -> int: ...


@overload
def check_int(
    name: str, value: Any, least: int = 0, most: float = math.inf, *, optional: Literal[True]
) -> int | None: ...


def check_int(
    name: str, value: Any, least: int = 0, most: float = math.inf, optional: bool = False
) -> int | None:
    """The value as a Python int, or ValueError if it is no integer from `least` to `most`."""
    if value is None and optional:
        return None
    if not is_int(value) or not least <= value <= most:
        _raise("an int", name, value, least, most, " or None" if optional else "")
    return int(value)


@overload
def positive_int(name: str, value: Any, optional: Literal[False] = False) -> int: ...


@overload
def positive_int(name: str, value: Any, optional: Literal[True]) -> int | None: ...


def positive_int(name: str, value: Any, optional: bool = False) -> int | None:
    """The value as a Python int, or ValueError if it is no integer of at least 1."""
    return check_int(name, value, 1, optional=True) if optional else check_int(name, value, 1)


def check_number(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    """The value as a Python float, or ValueError if it is no number from `least` to `most`."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        _raise("a number", name, value, least, most)
    return float(value)


def _raise(
    kind: str, name: str, value: object, least: float, most: float, alternative: str = ""
) -> NoReturn:
    wanted = f"{kind} ≥ {least}" if most == math.inf else f"{kind} from {least} to {most}"
    raise ValueError(f"Expected {wanted}{alternative}. Received: {name}={value!r}")


def check_labels(y: Labels, n: int, n_outputs: int = 1, name: str = "y") -> Labels:
    """Check labels of n top-bags, and turn lists of numbers into arrays.

    For several outputs they are a list, tuple or dict of those, whose parts may be None.

    Raises:
        TypeError: for labels that are not numbers.
        ValueError: if there are not n labels, or one is NaN or infinite.
    """
    return _each_part(y, n_outputs, name, lambda part, name: _checked(part, n, name, "label"))


def check_weights(
    weights: Labels, n: int, n_outputs: int = 1, name: str = "sample_weight"
) -> Labels:
    """Check weights like `check_labels`; they must not be negative either."""

    def check(part: Any, name: str) -> Any:
        part = _checked(part, n, name, "weight")
        values = _as_array(part, name)
        if (negative := values < 0).any():
            first = tuple(np.argwhere(negative)[0])
            raise ValueError(f"Expected weights ≥ 0. Received: {_at(name, first)}={values[first]}")
        return part

    return _each_part(weights, n_outputs, name, check)


def _each_part(y: Labels, n_outputs: int, name: str, check: Callable[[Any, str], Any]) -> Labels:
    if y is None:
        return None
    if isinstance(y, dict):
        return {
            key: part if part is None else check(part, f"{name}[{key!r}]")
            for key, part in y.items()
        }
    is_parts = isinstance(y, (list, tuple)) and (
        n_outputs > 1 or (len(y) == 1 and np.ndim(y[0]) > 0 and hasattr(y[0], "shape"))
    )
    if not is_parts:
        return check(y, name)
    parts = [p if p is None else check(p, f"{name}[{i}]") for i, p in enumerate(y)]
    return tuple(parts) if isinstance(y, tuple) else parts


def _checked(y: Any, n: int, name: str, kind: str) -> Any:
    """The labels or weights of one output, checked; an array for a list."""
    values = _as_array(y, name)
    if values.dtype.kind not in "biuf":
        others = (i for i in np.ndindex(values.shape) if not isinstance(values[i], Number))
        first = next(others, None)
        shown = name if first is None else f"{_at(name, first)}={_short(values[first])}"
        raise TypeError(
            f"Expected {kind}s that are numbers; `np.unique(labels, return_inverse=True)[1]` makes "
            "numbers of the names of classes, `keras.layers.StringLookup` those of a given "
            f"vocabulary. Received: {shown} of type {values.dtype.name}"
        )
    if values.ndim == 0 or _length(y, values) != n:
        found = "a single number" if values.ndim == 0 else f"{_length(y, values)} {kind}s"
        raise ValueError(
            f"Expected one {kind} for each of {n} top-bags. "
            f"Received: {found}, {name}.shape={_shape(y, values)}"
        )
    if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
        first = tuple(np.argwhere(~finite)[0])
        raise ValueError(
            f"Expected finite {kind}s, found {(~finite).sum()} that are NaN or infinite. "
            f"Received: {_at(name, first)}={values[first]}"
        )
    is_plain = isinstance(y, (list, tuple)) or _is_object(y)
    return values if is_plain else y


def _as_array(y: Any, name: str) -> Array:
    """The numbers in a list, array or tensor; the flat values of a RaggedTensor."""
    if isinstance(y, (str, bytes)) or not (hasattr(y, "shape") or isinstance(y, (list, tuple))):
        raise TypeError(
            f"Expected an array, tensor or list. Received: {name} of type {type(y).__name__}"
        )
    y = getattr(y, "flat_values", y)
    try:
        # Of objects, such as a column of a table, the list: NumPy then finds their common dtype.
        values = np.asarray(y.tolist() if _is_object(y) else y)
    except ValueError as error:
        raise ValueError(
            f"Expected rows of equal shape. Received: {name} of uneven lists"
        ) from error
    # ml_dtypes' bfloat16 is of kind V.
    return values.astype("float32") if values.dtype.name == "bfloat16" else values


def _is_object(y: object) -> bool:
    return getattr(getattr(y, "dtype", None), "kind", None) == "O" and hasattr(y, "tolist")


def _length(y: Any, values: Array) -> int:
    return y.shape[0] if hasattr(y, "flat_values") else len(values)


def _shape(y: Any, values: Array) -> tuple[int, ...]:
    return tuple(y.shape if hasattr(y, "flat_values") else values.shape)


def _at(name: str, index: Sequence[int]) -> str:
    return name + "".join(f"[{i}]" for i in index)


def _short(value: object) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"

"""Nested Python lists taken apart into flat values and the lengths of all lists."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeAlias

import keras
import numpy as np

from keras_mmil._support.splits import path_to
from keras_mmil._support.types import Array, Ints

__all__ = ["flatten"]

_Values: TypeAlias = tuple[Array, list[Ints]]  # of all instances; and the sizes of all bags


def flatten(x: Any, inner_shape: Sequence[int] | None = None, depth: int | None = None) -> _Values:
    """Takes nested lists apart; the arguments are those of `keras_mmil.ragged.from_nested_lists`.

    Returns:
        Values of all instances `[instances, *inner_shape]`, and a list of K int64 arrays with the
        sizes of all bags, from the top-bags inwards.
    """
    if isinstance(x, np.ndarray) and x.dtype == object:
        x = x.tolist()
    if not isinstance(x, list | tuple):
        raise TypeError(f"Expected nested lists. Received: x={x!r} of type {type(x).__name__}")
    lengths, leaves = _peel(x)
    if not leaves:
        values, lengths = _no_values(inner_shape or (), lengths, depth)
    elif isinstance(leaves[0], np.ndarray):
        values, lengths = _stack_arrays(leaves, inner_shape, lengths)
    else:
        values, lengths = _stack_numbers(leaves, inner_shape or (), lengths)
    if depth not in (None, len(lengths)) or not lengths:
        raise ValueError(f"Expected lists of depth {depth or 1}. Received: depth {len(lengths)}")
    return values, lengths


def _peel(x: Sequence[Any]) -> tuple[list[Ints], Sequence[Any]]:
    """Takes nested lists apart into the lengths of the lists at every level, and the leaves."""
    lengths: list[Ints] = []
    items = x
    while items:
        kinds = {kind: issubclass(kind, list | tuple) for kind in set(map(type, items))}
        if not any(kinds.values()):
            break
        if not all(kinds.values()):
            first = next(i for i, item in enumerate(items) if not kinds[type(item)])
            raise ValueError(
                "Expected lists nested equally deep everywhere, found lists beside other things. "
                f"Received: x{path_to(first, lengths)}={items[first]!r}"
            )
        lengths.append(np.fromiter(map(len, items), np.int64, len(items)))
        items = list(chain.from_iterable(items))
    return lengths, items


def _no_values(inner_shape: Sequence[int], lengths: list[Ints], depth: int | None) -> _Values:
    missing = max(0, (depth or 1) - len(lengths))
    lengths = lengths + [np.zeros(0, np.int64)] * missing
    return np.zeros((0, *inner_shape), keras.config.floatx()), lengths


def _stack_arrays(
    arrays: Sequence[Any], inner_shape: Sequence[int] | None, lengths: list[Ints]
) -> _Values:
    for i, array in enumerate(arrays):
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise TypeError(f"Expected numeric arrays. Received: x{path_to(i, lengths)}={array!r}")
    inner_shape = arrays[0].shape[1:] if inner_shape is None else tuple(inner_shape)
    are_bags = arrays[0].ndim == len(inner_shape) + 1
    for i, array in enumerate(arrays):
        if (array.shape[1:] if are_bags else array.shape) != inner_shape:
            raise ValueError(
                f"Expected instances of shape {inner_shape}. "
                f"Received: x{path_to(i, lengths)} of shape {array.shape}"
            )
    if are_bags:
        lengths = [*lengths, np.fromiter(map(len, arrays), np.int64, len(arrays))]
        return np.concatenate(arrays), lengths
    return np.stack(arrays), lengths


def _stack_numbers(
    numbers: Sequence[Any], inner_shape: Sequence[int], lengths: list[Ints]
) -> _Values:
    values = np.asarray(numbers)
    if values.dtype.kind not in "biuf":
        first = next(i for i, v in enumerate(numbers) if np.asarray(v).dtype.kind not in "biuf")
        where = path_to(first, lengths)
        raise TypeError(f"Expected numbers. Received: x{where}={numbers[first]!r}")
    n_levels = len(lengths) - len(inner_shape)
    for size, sizes in zip(inner_shape, lengths[max(n_levels, 0) :], strict=True):
        if (sizes != size).any():
            raise ValueError(
                f"Expected instances of shape {tuple(inner_shape)}. "
                f"Received: a list of length {sizes[sizes != size][0]} for an axis of {size}"
            )
    if values.dtype.kind == "f":
        values = values.astype(keras.config.floatx())
    return values.reshape(-1, *inner_shape), lengths[:n_levels]

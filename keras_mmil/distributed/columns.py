"""Columns of Arrow as the inputs of a functional model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from keras_mmil._support.arrow_lists import as_numpy, lengths_and_members
from keras_mmil._support.keras_internals import is_optional
from keras_mmil._support.rows import row_splits
from keras_mmil._support.types import Array
from keras_mmil.layers.grouping import depth_of

__all__ = ["InputColumns"]

_PREFIX = "x/"  # of columns that `keras_mmil.io.write` made of several inputs


@dataclass(frozen=True)
class _Input:
    """An input of a model: the names that its column may have, and its symbolic tensor."""

    names: tuple[str, ...]
    spec: Any


class InputColumns:
    """The columns that a functional model reads, by its inputs.

    A column has the name of the input, or the one that `keras_mmil.io.write` gives it: "x", for the
    only input of a model or its bags of ids, or "x/NAME". Nested bags are lists of lists, of any
    type of lists; vectors and images are lists within those, of the sizes that the model expects.
    """

    def __init__(self, inputs: Any) -> None:
        self._structure = inputs
        self._by_key = dict(_inputs(inputs))

    def names(self, schema: pa.Schema) -> dict[Any, str]:
        """The column of each input, by its key; optional inputs may have none.

        Raises ValueError if there is no column for an input, or more than one; or if there is a
        column "x/NAME" for which the model has no input.
        """
        names: dict[Any, str] = {}
        for key, each in self._by_key.items():
            here = [name for name in each.names if name in schema.names]
            if len(here) > 1 or (not here and not is_optional(each.spec)):
                wanted = " or ".join(map(repr, each.names))
                raise ValueError(
                    f"Expected one column {wanted} for an input of the model. "
                    f"Received: columns {schema.names}"
                )
            if here:
                names[key] = here[0]
        unknown = [n for n in schema.names if n.startswith(_PREFIX) and n not in names.values()]
        if unknown:
            raise ValueError(
                f"Expected columns of the inputs of the model, {sorted(names.values())}. "
                f"Received: also {unknown}"
            )
        return names

    def tensors(self, batch: pa.RecordBatch) -> Any:
        """Top-bags in the structure of the model's inputs.

        Raises TypeError for columns that are not bags of numbers or strings; ValueError as `names`,
        and for nulls and other depths of lists, or sizes of instances, than the model expects.
        """
        tensors = {
            key: _tensor(name, batch.column(name), self._by_key[key].spec)
            for key, name in self.names(batch.schema).items()
        }
        if isinstance(self._structure, dict):
            return tensors
        return list(tensors.values()) if None not in tensors else tensors[None]


def _inputs(inputs: Any) -> Iterator[tuple[Any, _Input]]:
    """The inputs by their keys: their names, positions, or None for a single one."""
    if isinstance(inputs, Mapping):
        for key, spec in inputs.items():
            plain = ("x",) if key == "bags" else ()
            yield key, _Input((key, f"{_PREFIX}{key}", *plain), spec)
    elif isinstance(inputs, Sequence):
        for i, spec in enumerate(inputs):
            yield i, _Input((spec.name, f"{_PREFIX}{i}"), spec)
    else:
        yield None, _Input(tuple(dict.fromkeys((inputs.name, "x"))), inputs)


def _tensor(name: str, array: pa.Array, spec: keras.KerasTensor) -> tf.Tensor | tf.RaggedTensor:
    """A column as an input of the model."""
    depth = depth_of(spec.shape) - 1 if spec.ragged else 0
    inner = tuple(spec.shape[1 + depth :])
    splits = []
    for level in range(depth):
        if not _is_list(array.type):
            raise ValueError(
                f"Expected bags nested {depth} deep, for the model's input of shape {spec.shape}. "
                f"Received: column {name!r} of {level} levels of lists"
            )
        _check_no_nulls(name, array)
        lengths, array = lengths_and_members(array)
        splits.append(row_splits(lengths))
    values = _instances(name, array, inner)
    if not splits:
        return tf.constant(values)
    return tf.RaggedTensor.from_nested_row_splits(tf.constant(values), splits, validate=False)


def _instances(name: str, array: pa.Array, inner: tuple[int | None, ...]) -> Array:
    """Numbers or strings, [instances, *inner]; images may be flat lists, as in files."""
    n = len(array)
    is_flat = True
    while _is_list(array.type):
        _check_no_nulls(name, array)
        lengths, array = lengths_and_members(array)
        is_flat = is_flat and (lengths == lengths[:1]).all()
    known = [size for size in inner if size is not None]
    size = len(array) // n if n else int(np.prod(known))
    fits = size == np.prod(known) if len(known) == len(inner) else len(inner) == 1
    if not (is_flat and fits and (inner or len(array) == n)):
        raise ValueError(
            f"Expected instances of shape {inner}. "
            f"Received: column {name!r}, nested otherwise or of other sizes"
        )
    _check_no_nulls(name, array)
    return as_numpy(_scalars(name, array)).reshape(n, *(inner if None not in inner else [size]))


def _scalars(name: str, array: pa.Array) -> pa.Array:
    """Numbers as they are, strings as bytes."""
    of, is_ = array.type, pa.types
    if is_.is_dictionary(of):
        return _scalars(name, array.dictionary_decode())
    if is_.is_integer(of) or is_.is_floating(of) or is_.is_boolean(of):
        return array
    if any(f(of) for f in (is_.is_string, is_.is_large_string, is_.is_string_view)):
        return array.cast(pa.large_binary())
    if any(f(of) for f in (is_.is_binary, is_.is_large_binary, is_.is_binary_view)):
        return array
    raise TypeError(f"Expected bags of numbers or texts. Received: column {name!r} of {of}")


def _is_list(of: pa.DataType) -> bool:
    is_ = pa.types
    return bool(is_.is_list(of) or is_.is_large_list(of) or is_.is_fixed_size_list(of))


def _check_no_nulls(name: str, array: pa.Array) -> None:
    if array.null_count:
        where = pc.index(pc.is_null(array), True).as_py()
        raise ValueError(
            f"Expected a column without nulls. Received: column {name!r} with {array.null_count}, "
            f"the first at place {where} of its level"
        )

"""The layout of batches: their structure, and the dtype and shape of each tensor."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil._support.checks import check_int
from keras_mmil._support.types import Array, Config

__all__ = ["NAMES", "FlatTensor", "Layout", "TensorLayout"]

NAMES = ("x", "y", "sample_weight")
_MAX_DEPTH = 64  # levels of bags, and levels of dicts and tuples
_MAX_SIZE = 2**31 - 1  # of an instance, as Arrow has it
_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "string"),
)


@dataclass(frozen=True)
class TensorLayout:
    """One tensor of a batch.

    Attributes:
        name: path in the batch: "x", "x/counts", "y/0".
        dtype: name of the dtype; "string" for any bytes.
        ragged_rank: nesting depth of the bags, 0 for a dense tensor.
        inner_shape: shape of an instance, or of a row of a dense tensor.
    """

    name: str
    dtype: str
    ragged_rank: int
    inner_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise TypeError(
                f"Expected one of {', '.join(_DTYPES)}. Received: {self.name} of {self.dtype}"
            )
        if not 0 < self.size <= _MAX_SIZE:
            raise ValueError(
                f"Expected instances of 1 to {_MAX_SIZE} numbers. "
                f"Received: {self.name} with instances of shape {self.inner_shape}"
            )

    @classmethod
    def of(cls, name: str, tensor: tf.Tensor | tf.RaggedTensor) -> "TensorLayout":
        """The layout of a tensor."""
        values = getattr(tensor, "flat_values", tensor)
        depth = getattr(tensor, "ragged_rank", 0)
        return cls(name, tensor.dtype.name, depth, tuple(values.shape[1:]))

    @classmethod
    def from_dict(cls, name: str, content: Mapping[str, Any]) -> "TensorLayout":
        """The inverse of `to_dict`, checked."""
        inner_shape = tuple(check_int("inner_shape", n, 1) for n in content["inner_shape"])
        depth = check_int("ragged_rank", content["ragged_rank"], 0, _MAX_DEPTH)
        return cls(name, content["dtype"], depth, inner_shape)

    def to_dict(self) -> Config:
        """All but the name, for JSON."""
        content = {**asdict(self), "inner_shape": list(self.inner_shape)}
        del content["name"]
        return content

    @property
    def size(self) -> int:
        """The number of numbers in an instance."""
        return math.prod(self.inner_shape)

    @property
    def spec(self) -> Any:
        """The `TypeSpec` of the tensor in a Dataset."""
        shape = [None] * (1 + self.ragged_rank) + list(self.inner_shape)
        if self.ragged_rank:
            return tf.RaggedTensorSpec(shape, self.dtype, self.ragged_rank, tf.int64)
        return tf.TensorSpec(shape, self.dtype)

    def __str__(self) -> str:
        axes = ["top-bags", *["(…)"] * self.ragged_rank, *map(str, self.inner_shape)]
        return f"{self.dtype} [{', '.join(axes)}]"


@dataclass(frozen=True)
class Layout:
    """The layout of batches `(x,)`, `(x, y)` or `(x, y, sample_weight)`.

    Attributes:
        names: a batch with names in place of the tensors.
        parts: the tensors, in the order of `flatten`.
    """

    names: tuple[Any, ...]
    parts: tuple[TensorLayout, ...]

    @classmethod
    def of(cls, batch: tuple[Any, ...]) -> "Layout":
        """The layout of a batch of tensors.

        Raises:
            TypeError: for dtypes that files cannot hold.
            ValueError: for instances without numbers, or two tensors of one name.
        """
        names = tuple(_named(part, name) for part, name in zip(batch, NAMES, strict=False))
        flat = tf.nest.flatten(names)
        if len(set(flat)) < len(flat):
            raise ValueError(f"Expected different names of all tensors. Received: {sorted(flat)}")
        parts = zip(flat, tf.nest.flatten(batch), strict=True)
        return cls(names, tuple(TensorLayout.of(name, tensor) for name, tensor in parts))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Layout":
        """The inverse of `to_dict`.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: for any other content.
        """
        structure, parts = content["structure"], content["parts"]
        keys = [name for name in NAMES if name in structure]
        if list(NAMES[: len(keys)]) != keys or len(keys) != len(structure) or not keys:
            raise ValueError(f"Expected some of {NAMES}. Received: {sorted(structure)}")
        names = tuple(_with_tuples(structure[key]) for key in keys)
        flat = tf.nest.flatten(names)
        if sorted(flat) != sorted(parts):
            raise ValueError("Expected each part once in the structure. Received: others")
        return cls(names, tuple(TensorLayout.from_dict(name, parts[name]) for name in flat))

    def to_dict(self) -> Config:
        """Content for JSON, which makes lists of tuples."""
        return {
            "structure": dict(zip(NAMES, self.names, strict=False)),
            "parts": {part.name: part.to_dict() for part in self.parts},
        }

    @cached_property
    def element_spec(self) -> Any:
        """The `element_spec` of a Dataset of such batches."""
        return self.pack([part.spec for part in self.parts])

    def flatten(self, batch: tuple[Any, ...]) -> list[Any]:
        """The tensors of a batch, in the order of `parts`."""
        return tf.nest.flatten(batch)

    def pack(self, tensors: Sequence[Any]) -> Any:
        """A batch of these tensors for `Model.fit`, with x alone in no tuple."""
        batch = tf.nest.pack_sequence_as(self.names, tensors)
        is_alone = len(batch) == 1 and not isinstance(batch[0], tuple)
        return batch[0] if is_alone else batch

    def difference(self, other: "Layout") -> str | None:
        """How another layout differs, as text; None if it does not."""
        if self == other:
            return None
        ours, theirs = ({part.name: str(part) for part in x.parts} for x in (self, other))
        found = [
            f"{name} {theirs.get(name, 'missing')} instead of {ours.get(name, 'nothing')}"
            for name in sorted(ours.keys() | theirs.keys())
            if ours.get(name) != theirs.get(name)
        ]
        return ", ".join(found) or "the same tensors in another structure"


def _named(part: Any, name: str) -> Any:
    """A structure of tensors, with their names in place of them."""
    if isinstance(part, dict):
        return {key: _named(inner, f"{name}/{key}") for key, inner in part.items()}
    if isinstance(part, tuple):
        return tuple(_named(inner, f"{name}/{i}") for i, inner in enumerate(part))
    return name


def _with_tuples(structure: Any, depth: int = 0) -> Any:
    """A structure of JSON, with tuples for lists."""
    if depth > _MAX_DEPTH or not isinstance(structure, dict | list | str):
        raise ValueError(f"Expected dicts and lists of names. Received: {structure!r:.40}")
    if isinstance(structure, dict):
        return {key: _with_tuples(inner, depth + 1) for key, inner in structure.items()}
    if isinstance(structure, list):
        return tuple(_with_tuples(inner, depth + 1) for inner in structure)
    return structure


@dataclass(frozen=True, eq=False)
class FlatTensor:
    """A tensor as flat arrays.

    Attributes:
        values: of all instances, `[instances, *inner_shape]`; texts are objects, bytes.
        splits: row splits of each level, from the top-bags inwards; none for a dense tensor.
    """

    values: Array
    splits: tuple[npt.NDArray[np.int64], ...]

    @classmethod
    def of(cls, tensor: tf.Tensor | tf.RaggedTensor) -> "FlatTensor":
        """The arrays of an eager tensor."""
        if isinstance(tensor, tf.RaggedTensor):
            splits = tuple(part.numpy() for part in tensor.nested_row_splits)
            return cls(tensor.flat_values.numpy(), splits)
        return cls(tensor.numpy(), ())

    @property
    def top_bags(self) -> int:
        """The number of top-bags."""
        return len(self.splits[0]) - 1 if self.splits else len(self.values)

    @property
    def n_bytes(self) -> int:
        """The size of the arrays, and of the texts that they refer to."""
        arrays = [self.values, *self.splits]
        n_of_texts = sum(map(len, self.values.flat)) if self.values.dtype == object else 0
        return n_of_texts + sum(array.nbytes for array in arrays)

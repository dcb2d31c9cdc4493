"""Hashes of top-bags, by which they are recognised later."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support import multisets
from keras_mmil._support.rows import positions_in_bags
from keras_mmil._support.types import Array, Ints, Tensors
from keras_mmil.bags import Bags, input_names, level_names
from keras_mmil.layers.grouping import depth_of
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.sources import Step

__all__ = ["Hashing", "fingerprints"]

T = TypeVar("T")


@dataclass(frozen=True)
class Hashing(Generic[T]):
    """A `Step` that does another one, and hashes the top-bags."""

    step: Step[T]

    def __call__(
        self, network: Network, batches: Iterable[Tensors], first: int
    ) -> tuple[T, list[npt.NDArray[np.uint64]]]:
        """The result of the step, and the hashes of each batch."""
        hashes: list[npt.NDArray[np.uint64]] = []

        def hashed() -> Iterator[Tensors]:
            for batch in batches:
                hashes.append(fingerprints(batch, network.model.input, network.paths))
                yield batch

        return self.step(network, hashed(), first), hashes


def fingerprints(
    batch: Tensors, expected: Any, paths: Sequence[str] = ()
) -> npt.NDArray[np.uint64]:
    """A hash of the content of each top-bag.

    Equal top-bags have equal hashes: ragged or dense, of any dtype that the model casts, and bags
    of ids plain or compressed. Bags are multisets: the order of members has no effect where
    bag-layers read them and it is known which inputs belong to the same members: for a single
    input, and for records. Among n different top-bags, two have equal hashes with a probability of
    about n²/2⁶⁵.

    Args:
        batch: checked inputs of a model.
        expected: the model's inputs: a `KerasTensor`, or a dict or list of them.
        paths: the names of the bags of each bag-layer in the data, see `bag_paths`.

    Returns:
        uint64 [top-bags].
    """
    inputs, specs = _parts(batch, expected)
    columns: dict[_Position, tuple[Array, list[Ints]]] = {}
    for name, part in inputs.items():
        values, splits = _flat(part, specs.get(name))
        found = _enclosing(name, len(splits), len(inputs), paths)
        ordered = [(name, i) for i in range(len(found), len(splits))]
        position: _Position = (*found, *ordered, name)
        columns[position] = _numbers(values), splits
    n = ragged.n_top_bags(batch)
    # Which inputs there are is a part of the content; those of `Bags` are not the model's.
    names = np.full((n, 1), _hash(repr(sorted(inputs)).encode()))
    rows = np.concatenate([names, _rows(columns, ())], axis=1)
    return _hashed(rows, np.arange(n + 1)).view(np.uint64)


# The bags around a value, outermost first, and its input. A bag is that of a bag-layer, known by
# its path, or, where the order of members counts, a level of an input.
_Position: TypeAlias = tuple[str | tuple[str, int], ...]


def _enclosing(name: str, rank: int, n_inputs: int, paths: Sequence[str]) -> tuple[str, ...]:
    """The bags around the values of an input whose members have no order, outermost first."""
    if not any(paths):
        return tuple(f"level {i}" for i in range(min(rank, len(paths)))) if n_inputs == 1 else ()
    inside = {path for path in paths if name == path or name.startswith((f"{path}.", f"{path}[]"))}
    return tuple(sorted(inside, key=len)) if len(inside) == rank else ()


def _rows(columns: Mapping[_Position, tuple[Array, list[Ints]]], outer: _Position) -> Ints:
    """What is known of each member of some bags, or of the top-bags: int64 [members, columns]."""
    depth, found = len(outer), []
    inner = {key[depth]: key for key in sorted(columns, key=repr) if key[:depth] == outer}
    for here, key in inner.items():
        values, splits = columns[key]
        if len(key) == depth + 1:
            found.append(values)
            continue
        members = _rows(columns, (*outer, here))
        row_splits = splits[depth]
        if isinstance(here, tuple):
            members = np.concatenate([members, positions_in_bags(row_splits)[:, None]], axis=1)
        found.append(_hashed(members, row_splits)[:, None])
    return np.concatenate(found, axis=1)


def _hashed(members: Ints, row_splits: Ints) -> Ints:
    """The hashes of bags of members [members, columns]: int64 [bags]."""
    return multisets.fingerprints(members, np.ones(len(members), np.float32), row_splits)


def _numbers(values: Array) -> Ints:
    """Values as integers, which are equal where their bytes are: int64 [n, columns]."""
    if values.dtype == object:
        distinct, index = np.unique(values.reshape(-1), return_inverse=True)
        hashes = np.array([_hash(bytes(text)) for text in distinct], np.int64)
        numbers = hashes[index.reshape(-1)]
    elif values.dtype.kind == "f":
        numbers = values.view(f"<i{values.dtype.itemsize}").astype(np.int64)
    else:
        numbers = values.astype(np.int64)
    return numbers.reshape(len(values), math.prod(values.shape[1:]))


def _hash(content: bytes) -> np.int64:
    return np.frombuffer(hashlib.blake2b(content, digest_size=8).digest(), "<i8")[0]


def _parts(batch: Any, expected: Any) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The inputs by name, and what the model expects of them."""
    if isinstance(expected, Mapping):
        return dict(_compressed(batch)), expected
    if isinstance(expected, (list, tuple)):
        numbers = [f"{i:03}" for i in range(len(expected))]
        return dict(zip(numbers, batch, strict=True)), dict(zip(numbers, expected, strict=True))
    return {"": batch}, {"": expected}


def _compressed(batch: Mapping[str, Any]) -> Mapping[str, Any]:
    """Inputs in which bags of ids, plain or compressed in whatever way, are as `Bags` has them."""
    given = {name: part for name, part in batch.items() if part is not None}
    bags: Any = given.get("bags")
    is_ids = isinstance(bags, tf.RaggedTensor) and bags.dtype.is_integer
    if not is_ids or bags.flat_values.shape.rank != 1:
        return given
    bags = tf.cast(bags.with_row_splits_dtype(tf.int64), tf.int64)
    names = input_names(bags.ragged_rank)
    if all(name in given for name in names):
        counts, *level_counts = (given[name] for name in level_names(bags.ragged_rank).counts)
        keys = tuple(given[name] for name in level_names(bags.ragged_rank).keys)
        found = Bags.concat([Bags(bags, counts, tuple(level_counts), keys)])
    elif not any(name in given for name in names[1:]):
        found = Bags.from_ragged(bags)
    else:
        return given
    others = {name: part for name, part in given.items() if name not in names}
    return {**others, **found.inputs}


def _flat(part: Any, spec: Any) -> tuple[Array, list[Ints]]:
    """The values of an input, as the model casts them, and the row splits of each level of bags."""
    is_ragged = isinstance(part, tf.RaggedTensor)
    levels = part.nested_row_splits if is_ragged else ()
    splits = [level.numpy().astype(np.int64) for level in levels]
    values = np.asarray(part.flat_values if is_ragged else part)
    if getattr(spec, "ragged", False):
        for _ in range(depth_of(spec.shape) - 1 - len(splits)):  # axes of bags of equal size
            n, size = values.shape[:2]
            splits.append(np.arange(n + 1) * size)
            values = values.reshape(n * size, *values.shape[2:])
    if values.dtype.kind in "US":
        values = np.char.encode(values).astype(object) if values.dtype.kind == "U" else values
        values = values.astype(object)
    if values.dtype != object:
        dtype = values.dtype if spec is None else tf.as_dtype(spec.dtype).as_numpy_dtype
        values = values.astype(np.dtype(dtype).newbyteorder("<"))
    return values, splits

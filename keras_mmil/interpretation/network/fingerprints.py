"""Hashes of top-bags, by which they are recognised later."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.types import Array, Ints, Tensors
from keras_mmil.bags import Bags
from keras_mmil.bags.components import input_names, level_names
from keras_mmil.interpretation.network.passes import Step
from keras_mmil.layers._bags import depth_of

if TYPE_CHECKING:
    from keras_mmil.interpretation.network.capture import Network

__all__ = ["Hashing", "fingerprints"]

T = TypeVar("T")


@dataclass(frozen=True)
class Hashing(Generic[T]):
    """Do a step, and hash the top-bags: a `Step`.

    Attributes:
        step: the other one.
    """

    step: Step[T]

    def __call__(
        self, network: "Network", batches: Iterable[Tensors], first: int
    ) -> tuple[T, list[npt.NDArray[np.uint64]]]:
        """What the step yields, and the hashes of each batch."""
        hashes: list[npt.NDArray[np.uint64]] = []

        def hashed() -> Iterator[Tensors]:
            for batch in batches:
                hashes.append(fingerprints(batch, network.model.input))
                yield batch

        return self.step(network, hashed(), first), hashes


def fingerprints(batch: Tensors, expected: Any) -> npt.NDArray[np.uint64]:
    """A hash of the content of each top-bag.

    Equal top-bags have equal hashes, whether they are ragged or dense, of whatever dtype the model
    casts to its own, and, if they are bags of ids, whether they are plain or compressed. Members in
    another order make another top-bag, except in bags of ids. Among n different top-bags, some two
    have equal hashes with a probability of about n²/2⁶⁵.

    Args:
        batch: checked inputs of a model.
        expected: the model's inputs: a `KerasTensor`, or a dict or list of them.

    Returns:
        uint64 [top-bags].
    """
    hashes = [hashlib.blake2b(digest_size=8) for _ in range(ragged.n_top_bags(batch))]
    for part, spec in _parts(batch, expected):
        for content, ends in _contents(part, spec):
            view, stops = memoryview(content), ends.tolist()
            for found, start, stop in zip(hashes, stops[:-1], stops[1:], strict=True):
                found.update(view[start:stop])
    digests = b"".join(found.digest() for found in hashes)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def _parts(batch: Any, expected: Any) -> Iterator[tuple[Any, Any]]:
    """Each input, in an order that does not depend on the batch, with what the model expects."""
    if isinstance(expected, Mapping):
        batch = _compressed(batch)
        for name in sorted(batch):
            # Which inputs there are is a part of the content; those of `Bags` are not the model's.
            n = ragged.n_top_bags(batch)
            yield tf.constant([name] * n), None
            yield batch[name], expected.get(name)
    elif isinstance(expected, (list, tuple)):
        yield from zip(batch, expected, strict=True)
    else:
        yield batch, expected


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


def _contents(part: Any, spec: Any) -> Iterator[tuple[bytes, Ints]]:
    """What an input holds, as bytes, and where in them each top-bag begins and ends.

    First come the sizes of the bags of each level, so that no two contents are alike by accident.
    """
    values, splits = _flat(part, spec)
    edges: Ints = np.arange(ragged.n_top_bags(part) + 1)
    for of_level in splits:
        sizes = np.diff(of_level).astype("<i8")
        yield sizes.tobytes(), edges * 8
        edges = of_level[edges]
    if values.dtype == object:
        texts = [bytes(text) for text in values.reshape(-1)]
        n_each = values.size // len(values) if len(values) else 1
        lengths = np.fromiter(map(len, texts), "<i8", len(texts))
        yield lengths.tobytes(), edges * n_each * 8
        yield b"".join(texts), np.append(0, np.cumsum(lengths))[edges * n_each]
    else:
        yield values.tobytes(), edges * values.itemsize * int(np.prod(values.shape[1:]))


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

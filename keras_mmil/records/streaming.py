"""Records as a `tf.data.Dataset` that holds few of them at a time."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mmil._support.rows import rebatch
from keras_mmil.records.fields import Field
from keras_mmil.records.noticing import Noticed
from keras_mmil.records.reading import UNSEEN, Reader
from keras_mmil.records.sources import Batch
from keras_mmil.records.targets import Target

__all__ = ["streamed"]


def streamed(
    root: Field,
    open_source: Callable[[], Iterator[Batch]],
    *,
    batch_size: int,
    shuffle: int,
    seed: int | None,
    target: Target | None,
    unseen: str,
) -> tf.data.Dataset:
    """Batches of tensors, made anew in each epoch from what `open_source` gives."""
    if batch_size < 1 or shuffle < 0:
        raise ValueError(
            "Expected a batch_size of at least 1, and shuffle of at least 0. "
            f"Received: batch_size={batch_size}, shuffle={shuffle}"
        )
    epochs = itertools.count()

    def tensors() -> Iterator[Any]:
        found = open_source()
        if shuffle:
            random = np.random.default_rng(None if seed is None else (seed, next(epochs)))
            found = _shuffled(found, max(shuffle, batch_size), batch_size, random)
        noticed = _noticed(target)
        try:
            for pieces in _rebatched(found, batch_size):
                yield _read(root, pieces, target, unseen, noticed)
        finally:  # also where no more batches are wanted
            noticed.warn()

    dataset = tf.data.Dataset.from_generator(tensors, output_signature=_signature(root, target))
    # Otherwise tf.data appends a buffer that grows whenever the reader is slower than its user.
    return dataset.prefetch(1)


def _noticed(target: Target | None) -> Noticed:
    return Noticed(() if target is None else [part.path for part in target.parts])


def _read(
    root: Field,
    pieces: Iterable[Batch],
    target: Target | None,
    unseen: str,
    noticed: Noticed,
) -> Any:
    reader = Reader(root, unseen=unseen, noticed=noticed)
    for piece in pieces:
        reader.add(piece)
    x = reader.result()
    return x if target is None else target.split(x)


def _signature(root: Field, target: Target | None) -> Any:
    if target is None:
        return {
            path: _spec(each) for path, each in _read(root, (), None, UNSEEN[0], Noticed()).items()
        }
    x, _ = _read(root, (), target, UNSEEN[0], Noticed())
    return {path: _spec(each) for path, each in x.items()}, tf.TensorSpec(
        [None, *target.shape], target.dtype
    )


def _spec(empty: tf.Tensor | tf.RaggedTensor) -> Any:
    if isinstance(empty, tf.RaggedTensor):
        return tf.RaggedTensorSpec([None] * len(empty.shape), empty.dtype, empty.ragged_rank)
    return tf.TensorSpec([None], empty.dtype)


def _rebatched(found: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """Pieces of exactly so many records together, fewer at the end."""
    return rebatch(found, size, lambda batch: len(batch.records), Batch.part)


def _shuffled(
    found: Iterable[Batch], n_held: int, size: int, random: np.random.Generator
) -> Iterator[Batch]:
    """The records of each `n_held` in a random order, those of a batch piece by piece."""
    for held in _rebatched(found, n_held):
        piece_of = np.repeat(np.arange(len(held)), [len(each.records) for each in held])
        place_of = np.concatenate([np.arange(len(each.records)) for each in held])
        order = random.permutation(len(piece_of))
        for start in range(0, len(order), size):
            some = order[start : start + size]
            for i, piece in enumerate(held):
                places = place_of[some[piece_of[some] == i]]
                if len(places):
                    yield piece.part(places)

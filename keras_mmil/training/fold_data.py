"""The top-bags of a cross-validation: in memory, or in files."""

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_mmil import io, ragged
from keras_mmil._support.types import Array, Config, Ints, PathLike, Tensors
from keras_mmil.bags import Bags, inputs_of
from keras_mmil.batches import feed
from keras_mmil.io.manifest import MANIFEST
from keras_mmil.model import Model
from keras_mmil.model.checks import InputChecks

__all__ = ["FoldData", "Part", "fold_data"]


def fold_data(x: Tensors | Bags | PathLike, y: Ints | Sequence[int] | None) -> "FoldData":
    """Top-bags and their classes, to be divided into folds.

    Raises:
        FileNotFoundError: if `x` is a path, and there are no files of top-bags.
        TypeError: if `x` is a stream, or no top-bags.
        ValueError: if the classes are not one int for each top-bag.
    """
    if isinstance(x, str | os.PathLike):
        if y is not None:
            raise ValueError(
                "Expected y=None, as the files hold the labels. "
                f"Received: x={os.fspath(x)!r} with y of type {type(y).__name__}"
            )
        return InFiles(Path(x).absolute())
    return InMemory(tf.nest.map_structure(_as_tensor, inputs_of(x)), np.asarray(y))


class InMemory:
    """Top-bags in memory.

    Args:
        x: tensors that lead with top-bags.
        y: class of each top-bag, int [top-bags].

    Attributes:
        labels: the same.
    """

    def __init__(self, x: Tensors, y: Ints) -> None:
        self.x, self.labels = x, _checked_labels(y, ragged.n_top_bags(x))

    @cached_property
    def x(self) -> Tensors:
        """The tensors; in another process they are made of arrays when they are first needed."""
        spec, arrays = self._arrays
        parts = [tf.constant(part) for part in arrays]
        return tf.nest.pack_sequence_as(spec, parts, expand_composites=True)

    @cached_property
    def _arrays(self) -> tuple[Any, list[Array]]:
        """The same as arrays: always the same ones, which joblib writes for all processes once."""
        spec = tf.nest.map_structure(tf.type_spec_from_value, self.x)
        return spec, [part.numpy() for part in tf.nest.flatten(self.x, expand_composites=True)]

    def __getstate__(self) -> Config:
        """Arrays: a tensor would start TensorFlow in a process before its threads are told."""
        return {"_arrays": self._arrays, "labels": self.labels}

    @property
    def digest(self) -> str:
        """A short hash of the data."""
        digest = hashlib.sha256()
        for part in [*tf.nest.flatten(self.x, expand_composites=True), self.labels]:
            if tf.is_tensor(part) and part.dtype == tf.string:
                digest.update(tf.io.serialize_tensor(part).numpy())
            else:
                digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()[:12]

    def part(self, rows: Ints, batch_size: int) -> "_PartInMemory":
        """Some of the top-bags."""
        return _PartInMemory(ragged.take(self.x, rows), self.labels[rows], batch_size)


class InFiles:
    """Top-bags in files with their classes, as `io.write(folder, x, y)` writes them.

    Args:
        folder: of the files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def labels(self) -> Ints:
        """Class of each top-bag, int [top-bags]: all that is read of them, and kept."""
        info = io.info(self.folder)
        spec = info.element_spec
        if not isinstance(spec, tuple) or len(spec) != 2:
            raise ValueError(
                "Expected files of top-bags with labels, and nothing else. "
                f"Received: x={str(self.folder)!r}, of {spec}"
            )
        labels = [np.asarray(y) for _, y in io.read(self.folder, _READ)]
        return _checked_labels(np.concatenate(labels), info.n_top_bags)

    @property
    def digest(self) -> str:
        """A short hash of the manifest, which holds the checksums of all files."""
        return hashlib.sha256((self.folder / MANIFEST).read_bytes()).hexdigest()[:12]

    def part(self, rows: Ints, batch_size: int) -> "_PartInFiles":
        """Some of the top-bags."""
        return _PartInFiles(self.folder, self.labels, rows, batch_size)


FoldData: TypeAlias = InMemory | InFiles

_READ = 256  # top-bags that are read at once for their labels


class _PartInMemory:
    """Some top-bags, `x` with `labels`, to train on or to test on."""

    def __init__(self, x: Tensors, labels: Ints, batch_size: int) -> None:
        self.x, self.labels, self._batch_size = x, labels, batch_size

    def labelled(self) -> tuple[Any, ...]:
        """Arguments for `evaluate`."""
        return self.x, self.labels

    def fed(self, model: keras.Model, seed: int) -> Config:
        """Arguments for `Model.fit`."""
        x = self.x
        if isinstance(model, Model):  # which cannot look into the Dataset that it is trained on
            x = InputChecks(model)(x)
        return feed(x, self.labels, batch_size=self._batch_size, seed=seed)

    def for_rules(self, fraction: float, seed: int | None) -> tuple[Any, ...]:
        """Arguments for `Explainer.fit`, which sets validation data aside itself."""
        return (self.x,)


class _PartInFiles:
    """The rows of some top-bags in files, to train on or to test on."""

    def __init__(self, folder: Path, labels: Ints, rows: Ints, batch_size: int) -> None:
        self.labels = labels[rows]
        self._folder, self._rows, self._batch_size = folder, rows, batch_size

    @property
    def x(self) -> tf.data.Dataset:
        """Batches of them, without their labels."""
        return self._read(self._rows).map(lambda x, y: x)

    def labelled(self) -> tuple[Any, ...]:
        """Arguments for `evaluate`."""
        return (self._read(self._rows),)

    def fed(self, model: keras.Model, seed: int) -> Config:
        """Arguments for `Model.fit`."""
        return {
            "x": self._read(self._rows, shuffle=True, seed=seed, first_epoch=0),
            "steps_per_epoch": -(-len(self._rows) // self._batch_size),
            "shuffle": False,
        }

    def for_rules(self, fraction: float, seed: int | None) -> tuple[Any, ...]:
        """Arguments for `Explainer.fit`: of files nothing can be set aside but here."""
        order = np.random.default_rng(seed).permutation(self._rows)
        n_aside = round(fraction * len(order))
        return self._read(order[n_aside:]), self._read(order[:n_aside])

    def _read(self, rows: Ints, **order: Any) -> tf.data.Dataset:
        return io.read(self._folder, self._batch_size, rows=rows, **order)


Part: TypeAlias = _PartInMemory | _PartInFiles


def _as_tensor(x: Any) -> tf.RaggedTensor | tf.Tensor:
    """Top-bags, or a part of their inputs, as a tensor."""
    if tf.is_tensor(x):
        return x
    if not hasattr(x, "__array__"):
        raise TypeError(
            "Expected a RaggedTensor, an array, Bags, or a dict or tuple of these, or a folder: "
            "top-bags to be divided into folds. "
            f"Received: x of type {type(x).__name__}"
        )
    return tf.convert_to_tensor(x)


def _checked_labels(y: Ints, n: int) -> Ints:
    """Classes as an int array [n]."""
    if y.ndim != 1 or y.dtype.kind not in "iu" or len(y) != n:
        raise ValueError(
            f"Expected the class, an int, of each of {n} top-bags. "
            f"Received: y of {y.dtype}, shape {y.shape}"
        )
    return y

"""The folds of a cross-validation: their data, in memory or in files, and their trainings."""

import dataclasses
import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from sklearn.base import clone

from keras_mmil import io, ragged
from keras_mmil._support.types import Array, Config, Ints, PathLike, Tensors
from keras_mmil.bags import Bags, inputs_of
from keras_mmil.batches import feed
from keras_mmil.io.manifest import MANIFEST
from keras_mmil.model import Model
from keras_mmil.model.checks import InputChecks
from keras_mmil.model.seeds import seeded
from keras_mmil.training._networks import new_model
from keras_mmil.training.schedules import Schedule

__all__ = ["Fold", "FoldData", "FoldResult", "FoldTraining", "fold_data", "run_in_processes"]

FoldResult: TypeAlias = dict[str, Any]  # "seconds", metrics by name, and perhaps "rules", a text

_READ = 256  # top-bags that are read at once for their labels


# Data -------------------------------------------------------------------------------------------


def fold_data(
    x: Tensors | Bags | PathLike, y: Ints | Sequence[int] | None, batch_size: int
) -> "FoldData":
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
        return _InFiles(Path(x).absolute(), batch_size)
    return _InMemory(tf.nest.map_structure(_as_tensor, inputs_of(x)), np.asarray(y), batch_size)


class _InMemory:
    """Top-bags in memory, with the class of each, `labels`."""

    def __init__(self, x: Tensors, y: Ints, batch_size: int) -> None:
        self.x, self.labels = x, _checked_labels(y, ragged.n_top_bags(x))
        self._batch_size = batch_size

    @cached_property
    def x(self) -> Tensors:
        """The tensors; another process makes them from arrays when it first needs them."""
        spec, arrays = self._arrays
        parts = [tf.constant(part) for part in arrays]
        return tf.nest.pack_sequence_as(spec, parts, expand_composites=True)

    @cached_property
    def _arrays(self) -> tuple[Any, list[Array]]:
        """The same as arrays: always the same ones, which joblib writes once for all processes."""
        spec = tf.nest.map_structure(tf.type_spec_from_value, self.x)
        return spec, [part.numpy() for part in tf.nest.flatten(self.x, expand_composites=True)]

    def __getstate__(self) -> Config:
        """Arrays: a tensor would start TensorFlow in a process before its threads are set."""
        return {
            "_arrays": self._arrays,
            "labels": self.labels,
            "_batch_size": self._batch_size,
        }

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

    def take(self, rows: Ints) -> Tensors:
        """Some top-bags, without their labels."""
        return ragged.take(self.x, rows)

    def labelled(self, rows: Ints) -> tuple[Any, ...]:
        """Arguments for `evaluate`."""
        return self.take(rows), self.labels[rows]

    def fed(self, rows: Ints, model: keras.Model, seed: int) -> Config:
        """Arguments for `Model.fit`."""
        x = self.take(rows)
        if isinstance(model, Model):  # which cannot look into the Dataset that it is trained on
            x = InputChecks(model)(x)
        return feed(x, self.labels[rows], batch_size=self._batch_size, seed=seed)

    def for_rules(self, rows: Ints, fraction: float, seed: int | None) -> tuple[Any, ...]:
        """Arguments for `Explainer.fit`, which sets validation data aside itself."""
        return (self.take(rows),)


class _InFiles:
    """Top-bags in files with their classes, written by `io.write(folder, x, y)`."""

    def __init__(self, folder: Path, batch_size: int) -> None:
        self._folder, self._batch_size = folder, batch_size

    @cached_property
    def labels(self) -> Ints:
        """Class of each top-bag, int [top-bags]: all that is kept of them."""
        info = io.info(self._folder)
        spec = info.element_spec
        if not isinstance(spec, tuple) or len(spec) != 2:
            raise ValueError(
                "Expected files of top-bags with labels, and nothing else. "
                f"Received: x={str(self._folder)!r}, of {spec}"
            )
        labels = [np.asarray(y) for _, y in io.read(self._folder, _READ)]
        return _checked_labels(np.concatenate(labels), info.n_top_bags)

    @property
    def digest(self) -> str:
        """A short hash of the manifest, which holds the checksums of all files."""
        return hashlib.sha256((self._folder / MANIFEST).read_bytes()).hexdigest()[:12]

    def take(self, rows: Ints) -> tf.data.Dataset:
        """Batches of some top-bags, without their labels."""
        return self._read(rows).map(lambda x, y: x)

    def labelled(self, rows: Ints) -> tuple[Any, ...]:
        """Arguments for `evaluate`."""
        return (self._read(rows),)

    def fed(self, rows: Ints, model: keras.Model, seed: int) -> Config:
        """Arguments for `Model.fit`."""
        return {
            "x": self._read(rows, shuffle=True, seed=seed, first_epoch=0),
            "steps_per_epoch": -(-len(rows) // self._batch_size),
            "shuffle": False,
        }

    def for_rules(self, rows: Ints, fraction: float, seed: int | None) -> tuple[Any, ...]:
        """Arguments for `Explainer.fit`, which cannot set top-bags in files aside itself."""
        order = np.random.default_rng(seed).permutation(rows)
        n_aside = round(fraction * len(order))
        return self._read(order[n_aside:]), self._read(order[:n_aside])

    def _read(self, rows: Ints, **order: Any) -> tf.data.Dataset:
        return io.read(self._folder, self._batch_size, rows=rows, **order)


FoldData: TypeAlias = _InMemory | _InFiles


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
    if y.ndim != 1 or y.dtype.kind not in "iu" or len(y) != n:
        raise ValueError(
            f"Expected the class, an int, of each of {n} top-bags. "
            f"Received: y of {y.dtype}, shape {y.shape}"
        )
    return y


# Trainings --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Fold:
    """A fold: its round and number, from 0, its training and test rows, and its seed."""

    place: tuple[int, int]
    train: Ints
    test: Ints
    seed: int


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FoldTraining:
    """What all trainings of a cross-validation share.

    Attributes:
        build, epochs, schedule, explainer: as in `cross_validate`.
        takes_data: whether `build` is given the training part of a fold.
        key: that of these trainings alone, for `new_model`.
    """

    build: Callable[..., keras.Model]
    takes_data: bool
    epochs: int
    schedule: Schedule | None
    explainer: Any
    key: str

    def run(self, fold: Fold, data: FoldData, verbose: int = 0) -> FoldResult:
        """Train on a fold: its seconds, the metrics on its test part, and its rules."""
        with seeded(fold.seed):
            started = time.perf_counter()
            is_new = self.takes_data
            model = self._build(fold, data) if is_new else new_model(self.build, self.key)
            schedule = self.schedule
            model.fit(
                **data.fed(fold.train, model, fold.seed),
                epochs=self.epochs,
                callbacks=[keras.callbacks.LearningRateScheduler(schedule)] if schedule else [],
                verbose=verbose,
            )
            seconds = time.perf_counter() - started
            test = data.labelled(fold.test)
            scores = model.evaluate(*test, verbose=0, return_dict=True)
            result: FoldResult = {"seconds": seconds}
            result |= {name: float(score) for name, score in scores.items()}
            if self.explainer is not None:
                explainer = clone(self.explainer)
                aside = explainer.validation_fraction, explainer.random_state
                explainer.fit(model, *data.for_rules(fold.train, *aside))
                for metric, score in explainer.evaluate(*test).items():
                    result[metric.replace("accuracy", "rule_accuracy")] = score
                result["rules"] = str(explainer.rules_)
        return result

    def untrained(self, fold: Fold, data: FoldData) -> keras.Model:
        """The network of a fold before its training."""
        with seeded(fold.seed):
            return self._build(fold, data)

    def _build(self, fold: Fold, data: FoldData) -> keras.Model:
        if self.takes_data:
            return self.build(data.take(fold.train), data.labels[fold.train])
        return self.build()


def run_in_processes(
    training: FoldTraining, folds: Sequence[Fold], data: FoldData, n_jobs: int
) -> Iterator[tuple[tuple[int, int], FoldResult]]:
    """The places and results of folds, as they come."""
    threads = max(1, cpu_count() // effective_n_jobs(n_jobs))
    parallel = Parallel(n_jobs, return_as="generator_unordered")
    results = parallel(delayed(_run_in_process)(training, fold, data, threads) for fold in folds)
    try:
        # `yield from` would close the other generator before the filter below is set.
        for result in results:  # noqa: UP028
            yield result
    finally:
        with warnings.catch_warnings():
            # Whoever stops early knows that some folds were computed for nothing.
            warnings.filterwarnings("ignore", ".*tasks", UserWarning)
            results.close()


def _run_in_process(
    training: FoldTraining, fold: Fold, data: FoldData, threads: int
) -> tuple[tuple[int, int], FoldResult]:
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)  # TensorFlow starts with the first tensor
    if training.explainer is not None:  # the number of threads makes no difference to the rules
        explainer = clone(training.explainer).set_params(n_jobs=threads)
        training = dataclasses.replace(training, explainer=explainer)
    return fold.place, training.run(fold, data)

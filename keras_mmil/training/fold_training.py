"""The trainings of a cross-validation: one for each fold, in this process or in several."""

import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from sklearn.base import clone

from keras_mmil import ragged
from keras_mmil._support.types import Array, Ints, Tensors
from keras_mmil.batches import feed
from keras_mmil.functional.input_checks import InputChecks
from keras_mmil.functional.seeds import seeded
from keras_mmil.model import Model
from keras_mmil.training._reuse import new_model
from keras_mmil.training.folds import FoldResult, Place
from keras_mmil.training.schedules import Schedule

__all__ = ["Fold", "FoldTraining", "run_in_processes"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Fold:
    """One fold: its place, its training rows and test rows, and the seed of its training."""

    place: Place
    train: Ints
    test: Ints
    seed: int


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FoldTraining:
    """What all trainings of a cross-validation share.

    Attributes:
        build, epochs, batch_size, schedule, explainer: as in `cross_validate`.
        takes_data: whether `build` is given the training part of a fold.
        y: class of each top-bag.
        key: tells these trainings from those of another call.
    """

    build: Callable[..., keras.Model]
    takes_data: bool
    y: Ints
    epochs: int
    batch_size: int
    schedule: Schedule | None
    explainer: Any
    key: str

    def run(self, fold: Fold, x: Tensors, verbose: int = 0) -> FoldResult:
        """Train on a fold: its seconds, the metrics on its test part, and its rules."""
        x_train, x_test = (ragged.take(x, rows) for rows in (fold.train, fold.test))
        y_train, y_test = self.y[fold.train], self.y[fold.test]
        with seeded(fold.seed):
            started = time.perf_counter()
            model = self._new_model(x_train, y_train)
            if isinstance(model, Model):  # which cannot look into the Dataset that it is trained on
                x_train = InputChecks(model)(x_train)
            schedule = self.schedule
            model.fit(
                **feed(x_train, y_train, batch_size=self.batch_size, seed=fold.seed),
                epochs=self.epochs,
                callbacks=[keras.callbacks.LearningRateScheduler(schedule)] if schedule else [],
                verbose=verbose,
            )
            seconds = time.perf_counter() - started
            scores = model.evaluate(x_test, y_test, verbose=0, return_dict=True)
            found = {"seconds": seconds, **{name: float(score) for name, score in scores.items()}}
            if self.explainer is not None:
                found |= _rules(clone(self.explainer).fit(model, x_train), x_test, y_test)
        return found

    def _new_model(self, x: Tensors, y: Ints) -> keras.Model:
        return self.build(x, y) if self.takes_data else new_model(self.build, self.key)


def run_in_processes(
    training: FoldTraining, folds: Sequence[Fold], x: Tensors, n_jobs: int
) -> Iterator[tuple[Place, FoldResult]]:
    """Results in the order in which they come."""
    # As arrays: a tensor would start TensorFlow in the process before its threads are told.
    spec = tf.nest.map_structure(tf.type_spec_from_value, x)
    arrays = [part.numpy() for part in tf.nest.flatten(x, expand_composites=True)]
    threads = max(1, cpu_count() // effective_n_jobs(n_jobs))
    parallel = Parallel(n_jobs, return_as="generator_unordered")
    results = parallel(
        delayed(_run_in_process)(training, fold, spec=spec, arrays=arrays, threads=threads)
        for fold in folds
    )
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
    training: FoldTraining, fold: Fold, *, spec: Any, arrays: Sequence[Array], threads: int
) -> tuple[Place, FoldResult]:
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)  # TensorFlow starts with the first tensor
    x = tf.nest.pack_sequence_as(
        spec, [tf.constant(part) for part in arrays], expand_composites=True
    )
    if training.explainer is not None:  # the number of threads makes no difference to the rules
        explainer = clone(training.explainer).set_params(n_jobs=threads)
        training = dataclasses.replace(training, explainer=explainer)
    return fold.place, training.run(fold, x)


def _rules(explainer: Any, x: Tensors, y: Ints) -> FoldResult:
    found = explainer.evaluate(x, y)
    of_rules = {metric.replace("accuracy", "rule_accuracy"): x for metric, x in found.items()}
    return {**of_rules, "rules": str(explainer.rules_)}

"""The trainings of a cross-validation: one for each fold, in this process or in several."""

import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from sklearn.base import clone

from keras_mmil._support.types import Ints
from keras_mmil.model.seeds import seeded
from keras_mmil.training._reuse import new_model
from keras_mmil.training.fold_data import FoldData, Part
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
        key: tells these trainings from those of another call.
    """

    build: Callable[..., keras.Model]
    takes_data: bool
    epochs: int
    batch_size: int
    schedule: Schedule | None
    explainer: Any
    key: str

    def run(self, fold: Fold, data: FoldData, verbose: int = 0) -> FoldResult:
        """Train on a fold: its seconds, the metrics on its test part, and its rules."""
        train, test = (data.part(rows, self.batch_size) for rows in (fold.train, fold.test))
        with seeded(fold.seed):
            started = time.perf_counter()
            model = self._new_model(train)
            schedule = self.schedule
            model.fit(
                **train.fed(model, fold.seed),
                epochs=self.epochs,
                callbacks=[keras.callbacks.LearningRateScheduler(schedule)] if schedule else [],
                verbose=verbose,
            )
            seconds = time.perf_counter() - started
            scores = model.evaluate(*test.labelled(), verbose=0, return_dict=True)
            found = {"seconds": seconds, **{name: float(score) for name, score in scores.items()}}
            if self.explainer is not None:
                explainer = clone(self.explainer)
                aside = explainer.validation_fraction, explainer.random_state
                explainer.fit(model, *train.for_rules(*aside))
                found |= _rules(explainer.evaluate(*test.labelled()), str(explainer.rules_))
        return found

    def new_network(self, fold: Fold, data: FoldData) -> keras.Model:
        """The network of a fold before its training."""
        with seeded(fold.seed):
            if not self.takes_data:
                return self.build()
            train = data.part(fold.train, self.batch_size)
            return self.build(train.x, train.labels)

    def _new_model(self, train: Part) -> keras.Model:
        if self.takes_data:
            return self.build(train.x, train.labels)
        return new_model(self.build, self.key)


def run_in_processes(
    training: FoldTraining, folds: Sequence[Fold], data: FoldData, n_jobs: int
) -> Iterator[tuple[Place, FoldResult]]:
    """Results in the order in which they come."""
    threads = max(1, cpu_count() // effective_n_jobs(n_jobs))
    parallel = Parallel(n_jobs, return_as="generator_unordered")
    results = parallel(
        delayed(_run_in_process)(training, fold, data, threads=threads) for fold in folds
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
    training: FoldTraining, fold: Fold, data: FoldData, *, threads: int
) -> tuple[Place, FoldResult]:
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)  # TensorFlow starts with the first tensor
    if training.explainer is not None:  # the number of threads makes no difference to the rules
        explainer = clone(training.explainer).set_params(n_jobs=threads)
        training = dataclasses.replace(training, explainer=explainer)
    return fold.place, training.run(fold, data)


def _rules(scores: Mapping[str, float], rules: str) -> FoldResult:
    of_rules = {metric.replace("accuracy", "rule_accuracy"): x for metric, x in scores.items()}
    return {**of_rules, "rules": rules}

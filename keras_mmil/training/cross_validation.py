"""Cross-validation that goes on after a kill."""

import dataclasses
import hashlib
import json
import os
import time
import uuid
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from sklearn.model_selection import StratifiedKFold

from keras_mmil import ragged
from keras_mmil._atomic import write_json
from keras_mmil._checks import check_int, positive_int
from keras_mmil.bags import inputs_of
from keras_mmil.datasets.feeding import feed
from keras_mmil.layers.graph import seed_generators

__all__ = ["CrossValidation", "cross_validate"]

_FILE = "cross_validation.json"


@dataclasses.dataclass(frozen=True, eq=False)
class CrossValidation:
    """What a cross-validation found.

    Attributes:
        scores: dict from metric, such as "accuracy", to its values on the test folds, float
            [rounds, folds].
        seconds: of each training, float [rounds, folds].
    """

    scores: dict
    seconds: np.ndarray

    def mean(self, metric="accuracy"):
        """Mean over all folds of all rounds."""
        return float(self.scores[metric].mean())

    def std(self, metric="accuracy"):
        """Standard deviation of the rounds' means; of the folds, where there is one round."""
        values = self.scores[metric]
        return float(np.std(values.mean(axis=1) if len(values) > 1 else values, ddof=1))

    def __str__(self):
        rounds, folds = self.seconds.shape
        figures = ", ".join(f"{m} {self.mean(m):.4f} ± {self.std(m):.4f}" for m in self.scores)
        minutes = self.seconds.sum() / 60
        return f"{figures} ({rounds} x {folds} folds, {minutes:.0f} min of training)"


def cross_validate(
    build,
    x,
    y,
    *,
    epochs,
    batch_size=32,
    folds=10,
    rounds=10,
    seed=0,
    schedule=None,
    folder=None,
    resume=False,
    n_jobs=1,
    verbose=1,
):
    """Train on all folds but one and test on that, for each fold of several random partitions.

    The test fold is looked at once, after the last epoch: nothing is chosen by it. Folds have the
    classes in the proportions of the whole.

    Args:
        build: function without arguments that returns a compiled model, each time alike but for its
            initial weights.
        x: top-bags: RaggedTensor, array, `Bags`, or a dict or tuple of the model's inputs.
        y: int array [top-bags], the class of each.
        epochs, batch_size: of each training.
        folds: in each round.
        rounds: number of random partitions.
        seed: integer; of the partitions, the weights, the orders of the data, and dropout.
        schedule: function from the number of an epoch, from 0, to its learning rate; None for the
            model's own rate.
        folder: where `cross_validation.json` keeps what is finished; None to keep nothing.
        resume: whether to go on with the folds that are finished there; otherwise they are
            forgotten. More rounds than before may be asked for.
        n_jobs: number of trainings side by side, each in a process with as many threads as remain
            for it. With more than one, `build` and `schedule` are sent to the processes: they must
            be picklable, as functions made of numbers and arrays are. The processes disturb each
            other's sums in the last bits, if anything.
        verbose: 0 for silence, 1 for a line a fold, 2 also for Keras's line an epoch.

    Returns:
        `CrossValidation`.

    Raises:
        ValueError: if an argument is out of range, a class has fewer members than there are folds,
            or what is to be resumed had other data or settings.

    Example:

    >>> result = cross_validate(lambda: zoo.social_mmil(networks), bags, networks.labels,
    ...                         epochs=100, batch_size=20)
    >>> result.mean(), result.std()

    Source:
        Paper, section "Social Network Datasets".
    """
    # As ints of Python, which the log of finished folds can hold.
    epochs, batch_size = positive_int("epochs", epochs), positive_int("batch_size", batch_size)
    rounds, folds = positive_int("rounds", rounds), positive_int("folds", folds)
    seed = check_int("seed", seed, optional=True)
    x = inputs_of(x)
    x = tf.nest.map_structure(lambda p: p if tf.is_tensor(p) else tf.convert_to_tensor(p), x)
    y = _checked_labels(y, ragged.n_top_bags(x), folds)
    settings = {"folds": folds, "epochs": epochs, "batch_size": batch_size, "seed": seed}
    if schedule is not None:
        rates = np.array([schedule(epoch) for epoch in range(epochs)])
        settings["rates"] = hashlib.sha256(rates.tobytes()).hexdigest()[:12]
    log = _Log(folder, {**settings, "data": _digest(x, y)}, resume, rounds, verbose)
    one_fold = {"build": build, "y": y, "epochs": epochs, "batch_size": batch_size}
    one_fold["schedule"] = schedule
    one_fold["of"] = uuid.uuid4().hex  # tells these trainings from those of another call
    tasks = [
        (place, {**one_fold, "train": train, "test": test, "seed": _seed_of(seed, *place)})
        for r in range(rounds)
        for place, train, test in _partition(y, folds, seed, r)
        if place not in log.done
    ]
    if effective_n_jobs(n_jobs) == 1:
        keras_verbose = 2 if verbose > 1 else 0
        found = ((place, _train(x=x, **task, verbose=keras_verbose)) for place, task in tasks)
    else:
        found = _in_processes(x, tasks, n_jobs)
    for place, result in found:
        log.add(place, result)
    _model_of.clear()
    return log.result(rounds, folds)


def _partition(y, folds, seed, r):
    """Place, training rows and test rows of each fold of a round."""
    splitter = StratifiedKFold(folds, shuffle=True, random_state=_seed_of(seed, r))
    for fold, (train, test) in enumerate(splitter.split(y, y)):
        yield (r, fold), train, test


def _seed_of(*numbers):
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _train(build, of, x, y, train, test, epochs, batch_size, schedule, seed, verbose=0):
    """One training: dict of its seconds, and of the metrics on the test fold."""
    keras.utils.set_random_seed(seed)
    started = time.perf_counter()
    model = _new_model(build, of)
    model.fit(
        **feed(ragged.take(x, train), y[train], batch_size, seed=seed),
        epochs=epochs,
        callbacks=[keras.callbacks.LearningRateScheduler(schedule)] if schedule else [],
        verbose=verbose,
    )
    seconds = time.perf_counter() - started
    scores = model.evaluate(ragged.take(x, test), y[test], verbose=0, return_dict=True)
    return {"seconds": seconds, **{name: float(score) for name, score in scores.items()}}


# The model of each process, by the cross-validation that it is for.
_model_of = {}


def _new_model(build, of):
    """A model as `build` makes it, but compiled by TensorFlow only once.

    That takes longer than some epochs, and the memory it takes is never given back: from the second
    time on, the first model gets the initial values of a new one.
    """
    model = build()
    if of not in _model_of:
        _model_of.clear()
        _model_of[of] = model
        return model
    used = _model_of[of]
    model.optimizer.build(model.trainable_variables)
    for olds, news in (
        (used.weights, model.weights),
        (used.optimizer.variables, model.optimizer.variables),
        (_states(used), _states(model)),
    ):
        for old, new in zip(olds, news, strict=True):
            old.assign(new)
    return used


def _states(model):
    return [generator.state for generator in seed_generators(model)]


def _in_processes(x, tasks, n_jobs):
    """Results in the order in which they come."""
    # As arrays: a tensor would start TensorFlow in the process before its threads are told.
    spec = tf.nest.map_structure(tf.type_spec_from_value, x)
    arrays = [part.numpy() for part in tf.nest.flatten(x, expand_composites=True)]
    threads = max(1, cpu_count() // effective_n_jobs(n_jobs))
    parallel = Parallel(n_jobs, return_as="generator_unordered")
    return parallel(
        delayed(_train_in_process)(place, spec, arrays, threads, task) for place, task in tasks
    )


def _train_in_process(place, spec, arrays, threads, task):
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)  # TensorFlow starts with the first tensor
    x = tf.nest.pack_sequence_as(
        spec, [tf.constant(part) for part in arrays], expand_composites=True
    )
    return place, _train(x=x, **task)


class _Log:
    """What is finished, on disk and on the screen."""

    def __init__(self, folder, settings, resume, rounds, verbose):
        self.path = None if folder is None else Path(folder) / _FILE
        self.settings = settings
        self.verbose = verbose
        self.done = self._read() if resume and self.path and self.path.exists() else {}
        self.missing = rounds * settings["folds"] - sum(r < rounds for r, _ in self.done)
        self._started, self._new = time.perf_counter(), 0

    def add(self, place, result):
        """Keep the result of a fold."""
        self.done[place] = result
        self.missing -= 1
        self._new += 1
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            entries = [
                {"round": r, "fold": fold, **values}
                for (r, fold), values in sorted(self.done.items())
            ]
            write_json(self.path, {"settings": self.settings, "folds": entries})
        if self.verbose:
            minutes = (time.perf_counter() - self._started) / self._new * self.missing / 60
            scores = ", ".join(f"{n} {v:.4f}" for n, v in result.items() if n != "seconds")
            r, fold = (number + 1 for number in place)
            print(
                f"round {r}, fold {fold}: {scores}, {result['seconds']:.0f} s; "
                f"{self.missing} folds left, some {minutes:.0f} min",
                flush=True,
            )

    def result(self, rounds, folds):
        """All scores, in order."""
        places = [[(r, fold) for fold in range(folds)] for r in range(rounds)]
        names = self.done[0, 0]
        scores = {
            name: np.array([[self.done[place][name] for place in row] for row in places])
            for name in names
        }
        return CrossValidation(seconds=scores.pop("seconds"), scores=scores)

    def _read(self):
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            settings, entries = found["settings"], found["folds"]
            done = {(entry.pop("round"), entry.pop("fold")): entry for entry in entries}
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"Expected finished folds of a cross-validation. Received: {self.path}, {error!r}"
            ) from error
        if settings != self.settings:
            raise ValueError(
                f"Expected the data and settings of the cross-validation in {self.path}, "
                f"{settings}, for resume=True. Received: {self.settings}"
            )
        return done


def _checked_labels(y, n, folds):
    """Classes as an int array [n]."""
    y = np.asarray(y)
    if y.ndim != 1 or y.dtype.kind not in "iu" or len(y) != n:
        raise ValueError(
            f"Expected the class, an int, of each of {n} top-bags. "
            f"Received: y of {y.dtype}, shape {y.shape}"
        )
    classes, sizes = np.unique(y, return_counts=True)
    if not 2 <= folds <= sizes.min():
        raise ValueError(
            f"Expected from 2 to {sizes.min()} folds, as class {classes[sizes.argmin()]} has "
            f"{sizes.min()} members. Received: folds={folds}"
        )
    return y


def _digest(x, y):
    """Some letters that tell data apart."""
    digest = hashlib.sha256()
    for part in [*tf.nest.flatten(x, expand_composites=True), y]:
        digest.update(np.ascontiguousarray(part))
    return digest.hexdigest()[:12]

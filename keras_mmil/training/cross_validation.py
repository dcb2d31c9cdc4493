"""Cross-validation that continues after an interruption."""

import contextlib
import dataclasses
import hashlib
import inspect
import json
import math
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.model_selection import StratifiedKFold

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.files import locked, write_json
from keras_mmil._support.formatting import majority
from keras_mmil._support.types import Ints, PathLike, Tensors
from keras_mmil.bags import Bags
from keras_mmil.training._networks import check_can_resume, differences, forget, network_digest
from keras_mmil.training.folds import (
    Fold,
    FoldResult,
    FoldTraining,
    fold_data,
    run_in_processes,
)
from keras_mmil.training.schedules import Schedule

__all__ = ["CrossValidation", "cross_validate"]

_FILE = "cross_validation.json"
_NO_SCORES = "seconds", "rules"


@dataclasses.dataclass(frozen=True, eq=False)
class CrossValidation:
    """The scores of a cross-validation.

    Attributes:
        scores: dict from metric, such as "accuracy", to its values on the test folds, float
            [rounds, folds].
        seconds: of each training, float [rounds, folds].
        majority: share of the most frequent class of all top-bags, the accuracy of always
            predicting it.
        rules: the rules of each network as text, a tuple of one tuple of str for each round; None
            without an explainer.
    """

    scores: dict[str, npt.NDArray[np.float64]]
    seconds: npt.NDArray[np.float64]
    majority: float
    rules: tuple[tuple[str, ...], ...] | None = None

    def mean(self, metric: str = "accuracy") -> float:
        """Mean over all folds of all rounds."""
        return float(self.scores[metric].mean())

    def std(self, metric: str = "accuracy") -> float:
        """Standard deviation of the rounds' means, or of the folds of a single round."""
        values = self.scores[metric]
        return float(np.std(values.mean(axis=1) if len(values) > 1 else values, ddof=1))

    def __str__(self) -> str:
        rounds, folds = self.seconds.shape
        figures = ", ".join(f"{m} {self.mean(m):.4f} ± {self.std(m):.4f}" for m in self.scores)
        minutes = self.seconds.sum() / 60
        return (
            f"{figures}; most frequent class {self.majority:.4f} "
            f"({rounds} x {folds} folds, {minutes:.0f} min of training)"
        )


def cross_validate(
    build: Callable[..., keras.Model],
    x: Tensors | Bags | PathLike,
    y: Ints | Sequence[int] | None = None,
    *,
    epochs: int,
    batch_size: int = 32,
    folds: int = 10,
    rounds: int = 10,
    seed: int = 0,
    schedule: Schedule | None = None,
    folder: PathLike | None = None,
    resume: bool = False,
    n_jobs: int = 1,
    explainer: Any = None,
    verbose: int = 1,
) -> CrossValidation:
    """Train on all folds but one and test on it, for each fold of several random partitions.

    The test fold is used once, after the last epoch: no choice depends on it. Folds are stratified
    by class. The program's own random numbers are not touched.

    Args:
        build: function that returns a compiled model. Without arguments, it must return the same
            model each time, except for its initial weights; TensorFlow compiles it only once. With
            two arguments without defaults, it gets `x` and `y` of the training part of the fold, to
            learn scales or vocabularies on, and its model is compiled for each fold. `Bags` come as
            the dict of their inputs, top-bags in files as a `tf.data.Dataset` of batches of `x`.
        x: top-bags in memory: RaggedTensor, array, `Bags`, or a dict or tuple of the model's
            inputs. Or a folder of `io.write(folder, x, y)`, from which few are read at a time.
        y: int array [top-bags], the class of each; None for a folder.
        epochs, batch_size: of each training.
        folds: number of folds of each round.
        rounds: number of random partitions.
        seed: integer; of the partitions, the weights, the orders of the data, and dropout.
        schedule: function from the number of an epoch, from 0, to its learning rate; None for the
            model's own rate.
        folder: where `cross_validation.json` keeps finished folds; None to keep nothing.
        resume: whether to continue with the finished folds in `folder`, perhaps with more rounds;
            otherwise they are deleted.
        n_jobs: number of parallel trainings, each in a process with its share of the threads. With
            more than one, `build` and `schedule` must be picklable, as functions of numbers and
            arrays are. Scores may differ in the last bits from those of a single process.
        explainer: an `Explainer`. A copy of it reads the rules of each network, on its training
            part alone; if that is in files, `validation_fraction` of it are the validation data.
            The scores then include "fidelity" and "rule_accuracy" on each test fold, and
            "fidelity_majority" and "rule_accuracy_majority", those of constant rules. None for no
            rules.
        verbose: 0 for silence, 1 for a line for each fold, 2 also for Keras's line for each epoch.

    Returns:
        `CrossValidation`.

    Raises:
        BlockingIOError: if another process trains in the folder.
        FileNotFoundError: if `x` is a path, and there are no files of top-bags.
        TypeError: if `x` is a stream, such as a `tf.data.Dataset`, or `explainer` no Explainer.
        ValueError: if an argument is out of range, `build` needs other arguments, a class has fewer
            members than there are folds, or the folds to resume had other data, settings or another
            network, or one that Keras cannot serialize.

    Example:

    >>> result = cross_validate(lambda: zoo.social_mmil(networks), bags, networks.labels,
    ...                         epochs=100, batch_size=20)
    >>> result.mean(), result.std()

    >>> def build(x, y):
    ...     scale = keras.layers.Normalization()
    ...     scale.adapt(x.flat_values)
    ...     ...  # InstanceWise(scale) and bag-layers
    >>> cross_validate(build, x, y, epochs=20, explainer=Explainer(max_clusters=5)).rules[0][0]

    Source:
        Paper, section "Social Network Datasets".
    """
    # As ints of Python, which JSON knows.
    epochs, batch_size = positive_int("epochs", epochs), positive_int("batch_size", batch_size)
    rounds, folds = positive_int("rounds", rounds), positive_int("folds", folds)
    seed = check_int("seed", seed)
    data = fold_data(x, y, batch_size)
    classes = _checked_classes(data.labels, folds)
    settings: dict[str, Any] = {
        "folds": folds,
        "epochs": epochs,
        "batch_size": batch_size,
        "seed": seed,
    }
    if schedule is not None:
        rates = np.array([schedule(epoch) for epoch in range(epochs)])
        settings["rates"] = hashlib.sha256(rates.tobytes()).hexdigest()[:12]
    if explainer is not None:
        settings |= _checked_parameters(explainer)
    training = FoldTraining(
        build=build,
        takes_data=_takes_data(build),
        epochs=epochs,
        schedule=schedule,
        explainer=explainer,
        key=uuid.uuid4().hex,
    )
    all_folds = [
        fold for r in range(rounds) for fold in _partition(classes, n_folds=folds, seed=seed, r=r)
    ]
    with contextlib.ExitStack() as held:
        if folder is not None:
            held.enter_context(locked(Path(folder)))
            network = training.untrained(all_folds[0], data)
            settings["model"] = network_digest(network)
        log = FoldLog(folder, {**settings, "data": data.digest}, rounds, folds, verbose)
        if resume and log.read():
            check_can_resume(network)
        todo = [fold for fold in all_folds if fold.place not in log.done]
        if effective_n_jobs(n_jobs) == 1:
            for fold in todo:
                log.add(fold.place, training.run(fold, data, verbose=2 if verbose > 1 else 0))
        else:
            for place, result in run_in_processes(training, todo, data, n_jobs):
                log.add(place, result)
    forget()
    return log.result(majority(classes))


def _partition(y: Ints, *, n_folds: int, seed: int, r: int) -> Iterator[Fold]:
    """The folds of a round."""
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=_seed_of(seed, r))
    for fold, (train, test) in enumerate(splitter.split(y, y)):
        yield Fold((r, fold), train, test, _seed_of(seed, r, fold))


def _seed_of(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _takes_data(build: Callable[..., keras.Model]) -> bool:
    """Whether `build` takes the training part of a fold."""
    if not callable(build):
        raise TypeError(f"Expected a function that builds a model. Received: build={build!r}")
    signature = inspect.signature(build)
    needed = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if not needed:
        return False
    if len(needed) == 2 and all(parameter.kind != parameter.KEYWORD_ONLY for parameter in needed):
        return True
    raise ValueError(
        "Expected a function that needs no arguments, or x and y of the training part of a fold. "
        f"Received: build with arguments {signature}"
    )


def _checked_parameters(explainer: Any) -> dict[str, str]:
    """The parameters of an explainer that the rules depend on, for JSON."""
    if not isinstance(explainer, BaseEstimator) or not hasattr(explainer, "evaluate"):
        raise TypeError(f"Expected an Explainer. Received: explainer={explainer!r}")
    parameters = explainer.get_params().items()
    return {
        f"explainer.{name}": getattr(x, "__qualname__", repr(x))
        for name, x in parameters
        if name not in ("n_jobs", "verbose")
    }


def _checked_classes(y: Ints, folds: int) -> Ints:
    """The classes, or ValueError if one has fewer members than there are folds."""
    classes, sizes = np.unique(y, return_counts=True)
    if not 2 <= folds <= sizes.min():
        raise ValueError(
            f"Expected from 2 to {sizes.min()} folds, as class {classes[sizes.argmin()]} has "
            f"{sizes.min()} members. Received: folds={folds}"
        )
    return y


class FoldLog:
    """The results of finished folds, `done`, by round and number; in a file, and printed."""

    def __init__(
        self,
        folder: PathLike | None,
        settings: dict[str, Any],
        rounds: int,
        folds: int,
        verbose: int = 1,
    ) -> None:
        self.path = None if folder is None else Path(folder) / _FILE
        self.settings, self.verbose = settings, verbose
        self.places = [(r, fold) for r in range(rounds) for fold in range(folds)]
        self.shape = rounds, folds
        self.done: dict[tuple[int, int], FoldResult] = {}
        self._started, self._new = time.perf_counter(), 0

    def read(self) -> bool:
        """Continue with the finished folds in the file, if any, which must have these settings."""
        if self.path is None or not self.path.exists():
            return False
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            theirs, entries = dict(content["settings"]), content["folds"]
            self.done = dict(_decoded(entry, self.shape[1]) for entry in entries)
            kinds = {frozenset(each) for each in self.done.values()}
            if len(self.done) < len(entries) or len(kinds) > 1:
                raise ValueError("a fold twice, or folds of different scores")
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(
                f"Expected finished folds of a cross-validation. Received: {self.path}, {error!r}"
            ) from error
        if others := differences(theirs, self.settings):
            raise ValueError(
                f"Expected the data and settings of the cross-validation in {self.path}, for "
                f"resume=True. Received: {others}"
            )
        return bool(self.done)

    def add(self, place: tuple[int, int], result: FoldResult) -> None:
        """Keep the result of a fold."""
        self.done[place] = result
        self._new += 1
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            entries = [
                {"round": r, "fold": fold, **values}
                for (r, fold), values in sorted(self.done.items())
            ]
            write_json(self.path, {"settings": self.settings, "folds": entries})
        if self.verbose:
            n_left = sum(each not in self.done for each in self.places)
            minutes = (time.perf_counter() - self._started) / self._new * n_left / 60
            scores = ", ".join(f"{n} {v:.4f}" for n, v in result.items() if n not in _NO_SCORES)
            print(
                f"round {place[0] + 1}, fold {place[1] + 1}: {scores}, "
                f"{result['seconds']:.0f} s; {n_left} folds left, some {minutes:.0f} min",
                flush=True,
            )

    def result(self, majority: float) -> CrossValidation:
        """All scores, in order, and the share of the most frequent class."""
        results = [self.done[place] for place in self.places]

        def table(name: str) -> npt.NDArray[Any]:
            values = np.array([each[name] for each in results])
            return values.reshape(self.shape)

        return CrossValidation(
            scores={name: table(name) for name in results[0] if name not in _NO_SCORES},
            seconds=table("seconds"),
            majority=majority,
            rules=tuple(map(tuple, table("rules").tolist())) if "rules" in results[0] else None,
        )


def _decoded(entry: dict[str, Any], folds: int) -> tuple[tuple[int, int], FoldResult]:
    place = (
        check_int("round", entry.pop("round"), 0),
        check_int("fold", entry.pop("fold"), 0, folds - 1),
    )
    # JSON has no NaN.
    entry |= {n: math.nan for n, x in entry.items() if x is None and n not in _NO_SCORES}
    are_right = all(isinstance(x, str if name == "rules" else float) for name, x in entry.items())
    if not are_right or "seconds" not in entry:
        raise ValueError(f"scores {entry!r:.200}")
    return place, entry

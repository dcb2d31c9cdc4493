"""Cross-validation that continues after an interruption."""

import contextlib
import hashlib
import inspect
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.model_selection import StratifiedKFold

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.files import locked
from keras_mmil._support.formatting import majority
from keras_mmil._support.types import Ints, PathLike, Tensors
from keras_mmil.bags import Bags
from keras_mmil.training._folder import check_can_resume, fingerprint_of_network
from keras_mmil.training._reuse import forget
from keras_mmil.training.fold_data import fold_data
from keras_mmil.training.fold_training import Fold, FoldTraining, run_in_processes
from keras_mmil.training.folds import CrossValidation, FoldLog, Place
from keras_mmil.training.schedules import Schedule

__all__ = ["cross_validate"]


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
    """Train on all folds but one and test on that, for each fold of several random partitions.

    The test fold is used once, after the last epoch: nothing is chosen by it. Folds are stratified
    by class. The program's own random numbers are left as they are.

    Args:
        build: function that returns a compiled model. One without arguments returns each time the
            same but for its initial weights; TensorFlow then compiles it only once. One of two
            arguments, none of them with a default, gets `x` and `y` of the training part of the
            fold, so that scales or vocabularies are learned on that, and never on the test fold;
            `Bags` come as the dict of their inputs, and top-bags in files as a `tf.data.Dataset` of
            batches of `x` alone. What it returns is compiled for each fold.
        x: top-bags in memory: RaggedTensor, array, `Bags`, or a dict or tuple of the model's
            inputs. Or a folder of files with top-bags and their classes, by `io.write(folder, x,
            y)`, of which few are in memory at a time.
        y: int array [top-bags], the class of each; None for a folder.
        epochs, batch_size: of each training.
        folds: in each round.
        rounds: number of random partitions.
        seed: integer; of the partitions, the weights, the orders of the data, and dropout.
        schedule: function from the number of an epoch, from 0, to its learning rate; None for the
            model's own rate.
        folder: where `cross_validation.json` keeps what is finished; None to keep nothing.
        resume: whether to continue with the folds that are finished there; otherwise they are
            forgotten. There may be more rounds than before.
        n_jobs: number of parallel trainings, each in a process with its share of the threads. With
            more than one, `build` and `schedule` are sent to the processes, so they must be
            picklable, as functions made of numbers and arrays are. Scores may differ in the last
            bits from those of a single process.
        explainer: an `Explainer`, of which a copy reads the rules of each network, on top-bags of
            its training part alone; None for no rules. Of top-bags in files, it gets
            `validation_fraction` of the training part as validation data. The scores then have
            "fidelity" and "rule_accuracy" on each test fold, too, and beside them
            "fidelity_majority" and "rule_accuracy_majority": what constant rules would reach.
        verbose: 0 for silence, 1 for a line a fold, 2 also for Keras's line an epoch.

    Returns:
        `CrossValidation`.

    Raises:
        BlockingIOError: if another process trains in the folder.
        FileNotFoundError: if `x` is a path, and there are no files of top-bags.
        TypeError: if `x` is a stream, such as a `tf.data.Dataset`, or `explainer` not an Explainer.
        ValueError: if an argument is out of range, `build` needs others than those arguments, a
            class has fewer members than there are folds, or what is to be resumed had other data,
            settings or another network, or one that Keras cannot serialize.

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
    data = fold_data(x, y)
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
        batch_size=batch_size,
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
            network = training.new_network(all_folds[0], data)
            settings["model"] = fingerprint_of_network(network)
        log = FoldLog(
            folder,
            {**settings, "data": data.digest},
            rounds=rounds,
            folds=folds,
            resume=resume,
            verbose=verbose,
        )
        if log.done:
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
        place = Place(r, fold)
        yield Fold(place=place, train=train, test=test, seed=_seed_of(seed, *place))


def _seed_of(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _takes_data(build: Callable[..., keras.Model]) -> bool:
    """Whether `build` is to be given the training part of a fold."""
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
    """What decides the rules, as JSON knows it."""
    if not isinstance(explainer, BaseEstimator) or not hasattr(explainer, "evaluate"):
        raise TypeError(f"Expected an Explainer. Received: explainer={explainer!r}")
    parameters = explainer.get_params().items()
    return {
        f"explainer.{name}": getattr(x, "__qualname__", repr(x))
        for name, x in parameters
        if name not in ("n_jobs", "verbose")
    }


def _checked_classes(y: Ints, folds: int) -> Ints:
    """Classes that can be divided into so many folds."""
    classes, sizes = np.unique(y, return_counts=True)
    if not 2 <= folds <= sizes.min():
        raise ValueError(
            f"Expected from 2 to {sizes.min()} folds, as class {classes[sizes.argmin()]} has "
            f"{sizes.min()} members. Received: folds={folds}"
        )
    return y

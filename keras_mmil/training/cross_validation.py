"""Cross-validation that goes on after a kill."""

import hashlib
import inspect
import os
import time
import uuid

import keras
import numpy as np
import tensorflow as tf
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import StratifiedKFold

from keras_mmil import ragged
from keras_mmil._support.agreement import majority
from keras_mmil._support.checks import check_int, positive_int
from keras_mmil.bags import inputs_of
from keras_mmil.batches import feed
from keras_mmil.functional.input_checks import InputChecks
from keras_mmil.functional.seeds import seeded
from keras_mmil.model import Model
from keras_mmil.training._reuse import forget, new_model
from keras_mmil.training.folds import FoldLog

__all__ = ["cross_validate"]


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
    explainer=None,
    verbose=1,
):
    """Train on all folds but one and test on that, for each fold of several random partitions.

    The test fold is looked at once, after the last epoch: nothing is chosen by it. Folds have the
    classes in the proportions of the whole. Random numbers of the program are left as they are.

    Args:
        build: function that returns a compiled model. One without arguments returns each time the
            same but for its initial weights; TensorFlow then compiles it only once. One of two
            arguments, none of them with a default, gets `x` and `y` of the training part of the
            fold, so that scales or vocabularies are learned on that, and never on the test fold;
            `Bags` come as the dict of their inputs. What it returns is compiled for each fold.
        x: top-bags in memory: RaggedTensor, array, `Bags`, or a dict or tuple of the model's
            inputs.
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
        explainer: an `Explainer`, of which a copy reads the rules of each network, on top-bags of
            its training part alone; None for no rules. The scores then have "fidelity" and
            "rule_accuracy" on each test fold, too, and beside them "fidelity_majority" and
            "rule_accuracy_majority": what constant rules would reach.
        verbose: 0 for silence, 1 for a line a fold, 2 also for Keras's line an epoch.

    Returns:
        `CrossValidation`.

    Raises:
        TypeError: if `x` is a stream, such as a `tf.data.Dataset`, or `explainer` not an Explainer.
        ValueError: if an argument is out of range, `build` needs others than those arguments, a
            class has fewer members than there are folds, or what is to be resumed had other data or
            settings.

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
    # As ints of Python, which the log of finished folds can hold.
    epochs, batch_size = positive_int("epochs", epochs), positive_int("batch_size", batch_size)
    rounds, folds = positive_int("rounds", rounds), positive_int("folds", folds)
    seed = check_int("seed", seed)
    x = tf.nest.map_structure(_in_memory, inputs_of(x))
    y = _checked_labels(y, ragged.n_top_bags(x), folds)
    settings = {"folds": folds, "epochs": epochs, "batch_size": batch_size, "seed": seed}
    if schedule is not None:
        rates = np.array([schedule(epoch) for epoch in range(epochs)])
        settings["rates"] = hashlib.sha256(rates.tobytes()).hexdigest()[:12]
    if explainer is not None:
        settings["explainer"] = _checked_parameters(explainer)
    log = FoldLog(folder, {**settings, "data": _digest(x, y)}, resume, rounds, verbose)
    one_fold = {"build": build, "takes_data": _takes_data(build), "y": y, "epochs": epochs}
    one_fold |= {"batch_size": batch_size, "schedule": schedule, "explainer": explainer}
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
    forget()
    return log.result(rounds, folds, majority(y))


def _partition(y, folds, seed, r):
    """Place, training rows and test rows of each fold of a round."""
    splitter = StratifiedKFold(folds, shuffle=True, random_state=_seed_of(seed, r))
    for fold, (train, test) in enumerate(splitter.split(y, y)):
        yield (r, fold), train, test


def _seed_of(*numbers):
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _train(
    build,
    takes_data,
    of,
    x,
    y,
    train,
    test,
    epochs,
    batch_size,
    schedule,
    explainer,
    seed,
    verbose=0,
):
    """One training: dict of its seconds, of the metrics on the test fold, and of its rules."""
    x_train, x_test = (ragged.take(x, rows) for rows in (train, test))
    y_train, y_test = y[train], y[test]
    with seeded(seed):
        started = time.perf_counter()
        model = build(x_train, y_train) if takes_data else new_model(build, of)
        if isinstance(model, Model):  # which cannot look into the Dataset that it is trained on
            x_train = InputChecks(model)(x_train)
        model.fit(
            **feed(x_train, y_train, batch_size, seed=seed),
            epochs=epochs,
            callbacks=[keras.callbacks.LearningRateScheduler(schedule)] if schedule else [],
            verbose=verbose,
        )
        seconds = time.perf_counter() - started
        scores = model.evaluate(x_test, y_test, verbose=0, return_dict=True)
        found = {"seconds": seconds, **{name: float(score) for name, score in scores.items()}}
        if explainer is not None:
            found |= _rules(clone(explainer).fit(model, x_train), x_test, y_test)
    return found


def _rules(explainer, x, y):
    found = explainer.evaluate(x, y)
    of_rules = {metric.replace("accuracy", "rule_accuracy"): x for metric, x in found.items()}
    return {**of_rules, "rules": str(explainer.rules_)}


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
    if task["explainer"] is not None:  # the number of threads makes no difference to the rules
        task = {**task, "explainer": clone(task["explainer"]).set_params(n_jobs=threads)}
    return place, _train(x=x, **task)


def _takes_data(build):
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


def _in_memory(x):
    """Top-bags, or a part of their inputs, as a tensor."""
    if tf.is_tensor(x):
        return x
    if not hasattr(x, "__array__"):
        raise TypeError(
            "Expected a RaggedTensor, an array, Bags, or a dict or tuple of these: top-bags in "
            f"memory, to be divided into folds. Received: x of type {type(x).__name__}"
        )
    return tf.convert_to_tensor(x)


def _checked_parameters(explainer):
    """What decides the rules, as JSON knows it."""
    if not isinstance(explainer, BaseEstimator) or not hasattr(explainer, "evaluate"):
        raise TypeError(f"Expected an Explainer. Received: explainer={explainer!r}")
    parameters = explainer.get_params().items()
    return {
        name: getattr(x, "__qualname__", repr(x))
        for name, x in parameters
        if name not in ("n_jobs", "verbose")
    }


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
        is_text = tf.is_tensor(part) and part.dtype == tf.string
        digest.update(
            tf.io.serialize_tensor(part).numpy() if is_text else np.ascontiguousarray(part)
        )
    return digest.hexdigest()[:12]

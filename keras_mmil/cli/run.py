"""One experiment of the paper, from the data to the rules."""

import argparse
import statistics
import time
from dataclasses import replace

import keras

from keras_mmil import ragged
from keras_mmil._support.agreement import majority
from keras_mmil._support.atomic import replacing
from keras_mmil.cli.output import print_figures, print_run, write_rules, write_shown, write_texts
from keras_mmil.cli.results import METRICS, figures_of_folds, record, results_folder, variant_of
from keras_mmil.cli.run_folder import RunFolder
from keras_mmil.interpretation import Explainer
from keras_mmil.training import VirtualAdversarialModel, cross_validate, fit_resumable
from keras_mmil.zoo import ReadOn

__all__ = ["run", "run_seeds"]


def run_seeds(experiment, options):
    """Run an experiment with several seeds, one after the other, and print means.

    Args:
        experiment, options: as for `run`; `options.seeds` besides, their number, counted from
            `options.seed`. Each has a folder of its own.

    Raises:
        FileExistsError, FileNotFoundError: as `run`.
    """
    if options.seeds == 1:
        run(experiment, options)
        return
    found = []
    for seed in range(options.seed, options.seed + options.seeds):
        out = options.out and f"{options.out}/seed{seed}"
        one = argparse.Namespace(**{**vars(options), "seed": seed, "out": out})
        found.append(run(experiment, one)[-1])
    columns = {metric: [metrics[metric] for metrics in found] for metric in found[0]}
    print(f"\nMeans of {len(found)} seeds")
    print_figures(
        {metric: statistics.mean(figures) for metric, figures in columns.items()},
        _figures_beside(experiment, options.source),
        {metric: statistics.stdev(figures) for metric, figures in columns.items()},
    )


def run(experiment, options):
    """Train, test, extract the rules, and write everything to a folder.

    The folder then holds `model.keras`, `rules/` (for `Explainer.load`), `rules.txt`,
    `metrics.json`, `history.csv`, `fidelity.png` and `clusters.png`; for texts also
    `text_model.keras`, which takes strings, and `clusters.md`, what stands for the clusters; for
    graphs also `clusters.md` and `explanations.txt`, of top-bags of the test set.

    Where the paper's figures are of a cross-validation, that comes first, and its scores are in
    `cross_validation.json`. The rules are then read of one more network, trained on eight tenths.

    Args:
        experiment: an `Experiment` of the zoo's registry.
        options: parsed arguments, checked: seed, epochs, limit, source, vat, folds, rounds, jobs,
            rules, out, record, resume, replace, max_clusters, verbose.

    Returns:
        The fitted `Explainer` (None without rules), the test set (x, y, instance labels) and a dict
        of metrics.

    Raises:
        FileExistsError: if there is a run already, and it is not to be resumed.
        FileNotFoundError: if there is no place for records, and the figures are to be recorded.
    """
    results = results_folder() if options.record else None
    settings = _settings(experiment, options)
    path = options.out or f"runs/{_name(experiment, settings)}"
    folder = RunFolder(path, settings, resume=options.resume, replace=options.replace)
    data = experiment.load(
        seed=options.seed,
        limit=options.limit,
        source=settings["source"],
        unlabelled=settings["adversarial"],
    )
    folder.create()  # not before: without data there is no run to resume
    beside = _figures_beside(experiment, options.source)
    if settings["folds"]:
        result = _cross_validate(experiment, settings, options, data, folder)
        figures, variant = figures_of_folds(result)
        metrics = {metric: statistics.mean(values.values()) for metric, values in figures.items()}
        print_figures(metrics, beside)
        if results:
            of_folds = {**settings, "rounds": len(result.seconds)}
            record(results, experiment, of_folds, figures, variant)
        if not options.rules:
            return None, data.test, metrics
        beside = {}  # the paper's figure is not of the network that comes now
    explainer, metrics = _train_and_read(experiment, settings, options, data, folder)
    print_run(explainer, metrics, beside, folder)
    if results:
        figures = {metric: {settings["seed"]: figure} for metric, figure in metrics.items()}
        variant = "eight tenths" if settings["folds"] else ""
        record(results, experiment, settings, figures, variant)
    return explainer, data.test, metrics


# Pieces of the function above -------------------------------------------------------------------


def _settings(experiment, options):
    """What decides the outcome of the run."""
    source = options.source or experiment.sources[0]
    epochs = experiment.epochs if options.epochs is None else options.epochs
    folds = experiment.folds if options.folds is None else options.folds
    return {
        "experiment": experiment.key,
        "adversarial": options.vat,
        "source": source,
        "seed": options.seed,
        "epochs": epochs,
        "limit": options.limit,
        "folds": folds,
    }


def _name(experiment, settings):
    variant = variant_of(replace(experiment, split=""), settings)  # which is in the key
    return "-".join(filter(None, (experiment.key, variant, f"seed{settings['seed']}")))


def _figures_beside(experiment, source):
    """The paper's figures, if it has them of these data."""
    return experiment.paper if source in (None, experiment.sources[0]) else {}


def _cross_validate(experiment, settings, options, data, folder):
    """A `CrossValidation`."""
    rounds = experiment.rounds if options.rounds is None else options.rounds
    folds = settings["folds"]
    x, y = data.whole
    print(f"{len(y)} top-bags, {rounds} x {folds} folds")
    result = cross_validate(
        lambda: experiment.build(**data.build_arguments),
        x,
        y,
        epochs=settings["epochs"],
        batch_size=experiment.batch_size,
        folds=folds,
        rounds=rounds,
        seed=options.seed,
        schedule=experiment.learning_rate(settings["epochs"]),
        folder=folder.path,
        resume=options.resume,
        n_jobs=options.jobs,
        verbose=options.verbose,
    )
    print(f"\n{result}\n")
    return result


def _train_and_read(experiment, settings, options, data, folder):
    """Train and test a network, and read its rules: the `Explainer`, or None, and metrics."""
    model, minutes = _train(experiment, settings, options, data, folder)
    x_test, y_test, _ = data.test
    figure = model.evaluate(x_test, y_test, verbose=0, return_dict=True)[experiment.metric]
    metrics = {METRICS[experiment.metric]: figure}
    if experiment.metric == "accuracy":
        metrics["test_accuracy_majority"] = majority(y_test)
    metrics["train_minutes"] = minutes
    if not options.rules:
        folder.write_json("metrics.json", metrics)
        return None, metrics
    x_valid, _, z_valid = data.valid
    read_on = data.read_on() if data.read_on else ReadOn(_labelled(data.train), x_valid)
    judged_by = read_on.test or (x_test, y_test)
    started = time.perf_counter()
    explainer = Explainer(
        class_names=data.class_names or experiment.class_names,
        random_state=options.seed,
        verbose=min(options.verbose, 1),
        **_explainer_arguments({**experiment.explainer, **data.explainer}, options),
    ).fit(model, read_on.x, read_on.x_valid)
    found = explainer.evaluate(*judged_by)
    metrics |= {
        "rule_accuracy": found["accuracy"],
        "rule_accuracy_majority": found["accuracy_majority"],
        "fidelity": found["fidelity"],
        "fidelity_majority": found["fidelity_majority"],
        "extract_seconds": time.perf_counter() - started,
    }
    if experiment.check_rules is not None:
        metrics["rules_match"] = float(experiment.check_rules(explainer, x_valid, z_valid))
    write_rules(folder, explainer, metrics, explainer.describe(x_valid, instance_labels=z_valid))
    if data.vocabulary is not None:
        write_texts(folder, model, explainer, read_on.x, data)
    if data.shown is not None:
        write_shown(folder, explainer, data.shown())
    return explainer, metrics


def _labelled(triple):
    x, y, _ = triple
    return x if (y >= 0).all() else ragged.take(x, _is_labelled(y))


def _is_labelled(y):
    """Whether each top-bag has labels, of which it may have several: bool [top-bags]."""
    return (y.reshape(len(y), -1) >= 0).all(axis=1)


def _train(experiment, settings, options, data, folder):
    """A trained network, and how many minutes it took."""
    x, y, _ = data.train
    is_labelled = _is_labelled(y)
    print(
        f"{is_labelled.sum()} top-bags for training, {(~is_labelled).sum()} without labels, "
        f"{len(data.valid[1])} for validation, {len(data.test[1])} for test"
    )
    schedule = experiment.learning_rate(settings["epochs"])
    callbacks = [keras.callbacks.LearningRateScheduler(schedule)] if schedule else []
    model, history = fit_resumable(
        lambda: experiment.build(**data.build_arguments),
        x,
        y,
        folder=folder.path,
        validation_data=data.valid[:2] if experiment.keeps_best else None,
        epochs=settings["epochs"],
        batch_size=experiment.batch_size,
        seed=options.seed,
        resume=options.resume,
        patience=experiment.patience,
        wrap=_adversarial(experiment, options.seed) if settings["adversarial"] else None,
        callbacks=callbacks,
        verbose=options.verbose,
    )
    with replacing(folder / "model.keras") as part:
        model.save(part)
    return model, sum(epoch["seconds"] for epoch in history) / 60


def _adversarial(experiment, seed):
    return lambda model: VirtualAdversarialModel(model, seed=seed, **experiment.adversarial)


def _explainer_arguments(arguments, options):
    if options.max_clusters is None:
        return arguments
    # Numbers of clusters that an experiment gives would win over the search that is asked for.
    return {**arguments, "n_clusters": None, "max_clusters": options.max_clusters}

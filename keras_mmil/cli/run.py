"""One experiment of the paper, from the data to the rules."""

import time

import keras

from keras_mmil.cli.results import record, results_folder
from keras_mmil.cli.run_folder import RunFolder
from keras_mmil.interpretation import Explainer, plots
from keras_mmil.training import cosine_decay, fit_resumable

__all__ = ["run"]


def run(experiment, options):
    """Train, test, extract the rules, and write everything to a folder.

    The folder then holds `model.keras`, `rules/` (for `Explainer.load`), `rules.txt`,
    `metrics.json`, `history.csv`, `fidelity.png` and `clusters.png`.

    Args:
        experiment: an `Experiment` of the zoo's registry.
        options: parsed arguments: seed, epochs, limit, source, out, resume, max_clusters, verbose.

    Returns:
        The fitted `Explainer`, the test set (x, y, digits or None) and a dict of metrics.
    """
    epochs = experiment.epochs if options.epochs is None else options.epochs
    source = options.source or experiment.sources[0]
    _check(experiment, options, source, epochs)
    settings = {
        "experiment": experiment.name,
        "source": source,
        "seed": options.seed,
        "epochs": epochs,
        "limit": options.limit,
    }
    variant = "" if source == experiment.sources[0] else source
    name = "-".join(filter(None, (experiment.name, variant, f"seed{options.seed}")))
    folder = RunFolder(options.out or f"runs/{name}", settings, options.resume)

    keras.utils.set_random_seed(options.seed)
    (x, y, _), (x_valid, y_valid, z_valid), test = experiment.load(
        seed=options.seed, limit=options.limit, source=source, instance_labels=True
    )
    print(f"{len(y)} top-bags for training, {len(y_valid)} for validation, {len(test[1])} for test")
    model, history = fit_resumable(
        experiment.build,
        x,
        y,
        folder=folder.path,
        validation_data=(x_valid, y_valid),
        epochs=epochs,
        batch_size=experiment.batch_size,
        resume=options.resume,
        callbacks=[
            keras.callbacks.LearningRateScheduler(cosine_decay(experiment.learning_rate, epochs))
        ],
        verbose=options.verbose,
    )
    model.save(folder / "model.keras")

    started = time.perf_counter()
    explainer = Explainer(
        max_clusters=options.max_clusters,
        class_names=experiment.class_names,
        random_state=options.seed,
        verbose=min(options.verbose, 1),
    ).fit(model, x, x_valid)
    extract_seconds = time.perf_counter() - started

    metrics = {
        "test_accuracy": model.evaluate(test[0], test[1], verbose=0, return_dict=True)["accuracy"],
        "rule_accuracy": explainer.score(test[0], test[1]),
        "fidelity": explainer.fidelity(test[0]),
        "train_minutes": sum(epoch["seconds"] for epoch in history) / 60,
        "extract_seconds": extract_seconds,
    }
    if experiment.check_rules is not None:
        metrics["rules_match"] = float(experiment.check_rules(explainer, x_valid, z_valid))
    _write(folder, explainer, metrics, explainer.describe(x_valid, instance_labels=z_valid))
    _report(experiment, explainer, metrics, folder)
    if options.limit is None and (results := results_folder()):
        command = f"keras-mmil run {experiment.name} --epochs {epochs} --seed S"
        if variant:
            command += f" --source {source}"
        record(
            results, experiment, variant, metrics, epochs=epochs, seed=options.seed, command=command
        )
    return explainer, test, metrics


def _check(experiment, options, source, epochs):
    if source not in experiment.sources:
        raise ValueError(
            f"Expected a source among {', '.join(experiment.sources)}. Received: --source {source}"
        )
    if epochs < 1:
        raise ValueError(f"Expected at least one epoch. Received: --epochs {epochs}")
    if options.limit is not None and options.limit < 2:
        raise ValueError(f"Expected at least two top-bags. Received: --limit {options.limit}")


def _write(folder, explainer, metrics, description):
    explainer.save(folder / "rules")
    folder.write_text("rules.txt", f"{explainer.rules_}\n\n{description}\n")
    folder.write_json("metrics.json", metrics)
    plots.plot_grid(explainer, folder / "fidelity.png")
    plots.plot_correspondence(description[0], folder / "clusters.png")


def _report(experiment, explainer, metrics, folder):
    print(f"\n{explainer.rules_}\n")
    clusters = ", ".join(f"{level.n_clusters} of {level.word}" for level in explainer.levels_)
    print(f"Clusters: {clusters}; fidelity on validation data {explainer.fidelity_:.2%}\n")
    for metric, figure in metrics.items():
        paper = experiment.paper.get(metric)
        beside = "" if paper is None else f"   (paper: {paper:.2%})"
        text = f"{figure:.2%}" if paper is not None or metric.endswith("match") else f"{figure:.1f}"
        print(f"{metric:16} {text:>8}{beside}")
    print(f"\nAll of it is in {folder.path}")

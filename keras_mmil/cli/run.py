"""One experiment of the paper, from the data to the rules."""

import time

import keras

from keras_mmil import ragged
from keras_mmil.cli.results import record, results_folder, variant_of
from keras_mmil.cli.run_folder import RunFolder
from keras_mmil.interpretation import Explainer, plots
from keras_mmil.interpretation.text_spans import window_words
from keras_mmil.training import VirtualAdversarialModel, fit_resumable
from keras_mmil.zoo.imdb import with_text

__all__ = ["run"]

_NOT_FRACTIONS = ("train_minutes", "extract_seconds")


def run(experiment, options):
    """Train, test, extract the rules, and write everything to a folder.

    The folder then holds `model.keras`, `rules/` (for `Explainer.load`), `rules.txt`,
    `metrics.json`, `history.csv`, `fidelity.png` and `clusters.png`; for texts also
    `text_model.keras`, which takes strings, and `clusters.md`, what stands for the clusters.

    Args:
        experiment: an `Experiment` of the zoo's registry.
        options: parsed arguments: seed, epochs, limit, source, vat, out, resume, replace,
            max_clusters, verbose.

    Returns:
        The fitted `Explainer`, the test set (x, y, instance labels) and a dict of metrics.

    Raises:
        ValueError: if an option is out of range, or the experiment has no such thing.
        FileExistsError: if there is a run already, and it is not to be resumed.
    """
    settings = _settings(experiment, options)
    path = options.out or f"runs/{_name(experiment, settings)}"
    folder = RunFolder(path, settings, resume=options.resume, replace=options.replace)
    keras.utils.set_random_seed(options.seed)
    data = experiment.load(
        seed=options.seed,
        limit=options.limit,
        source=settings["source"],
        unlabelled=settings["adversarial"],
    )
    x, y, _ = data.train
    is_labelled = y >= 0
    print(
        f"{is_labelled.sum()} top-bags for training, {(~is_labelled).sum()} without labels, "
        f"{len(data.valid[1])} for validation, {len(data.test[1])} for test"
    )
    model, history = fit_resumable(
        lambda: experiment.build(**data.build_arguments),
        x,
        y,
        folder=folder.path,
        validation_data=data.valid[:2],
        epochs=settings["epochs"],
        batch_size=experiment.batch_size,
        seed=options.seed,
        resume=options.resume,
        wrap=_adversarial(experiment, options.seed) if settings["adversarial"] else None,
        callbacks=[keras.callbacks.LearningRateScheduler(experiment.schedule(settings["epochs"]))],
        verbose=options.verbose,
    )
    x = ragged.take(x, is_labelled) if not is_labelled.all() else x
    model.save(folder / "model.keras")

    started = time.perf_counter()
    explainer = Explainer(
        class_names=experiment.class_names,
        random_state=options.seed,
        verbose=min(options.verbose, 1),
        **_explainer_arguments(experiment, options),
    ).fit(model, x, data.valid[0])
    extract_seconds = time.perf_counter() - started
    metrics = {
        **_test(model, explainer, *data.test[:2]),
        "train_minutes": sum(epoch["seconds"] for epoch in history) / 60,
        "extract_seconds": extract_seconds,
    }
    x_valid, _, z_valid = data.valid
    if experiment.check_rules is not None:
        metrics["rules_match"] = float(experiment.check_rules(explainer, x_valid, z_valid))
    _write(folder, explainer, metrics, explainer.describe(x_valid, instance_labels=z_valid))
    if data.vocabulary is not None:
        _write_texts(folder, model, explainer, x, data)
    _print(experiment, settings, explainer, metrics, folder)
    if options.limit is None and (results := results_folder()):
        record(results, experiment, settings, metrics)
    return explainer, data.test, metrics


def _settings(experiment, options):
    """What decides the outcome of the run."""
    source = options.source or experiment.sources[0]
    epochs = experiment.epochs if options.epochs is None else options.epochs
    if source not in experiment.sources:
        raise ValueError(
            f"Expected a source among {', '.join(experiment.sources)}. Received: --source {source}"
        )
    if epochs < 1:
        raise ValueError(f"Expected at least one epoch. Received: --epochs {epochs}")
    if options.limit is not None and options.limit < 2:
        raise ValueError(f"Expected at least two top-bags. Received: --limit {options.limit}")
    if options.vat and experiment.adversarial is None:
        raise ValueError(
            f"Expected an experiment with virtual adversarial training. "
            f"Received: --vat for {experiment.name}"
        )
    return {
        "experiment": experiment.key,
        "adversarial": options.vat,
        "source": source,
        "seed": options.seed,
        "epochs": epochs,
        "limit": options.limit,
    }


def _name(experiment, settings):
    variant = variant_of(experiment, settings)
    return "-".join(filter(None, (experiment.key, variant, f"seed{settings['seed']}")))


def _adversarial(experiment, seed):
    return lambda model: VirtualAdversarialModel(model, seed=seed, **experiment.adversarial)


def _explainer_arguments(experiment, options):
    if options.max_clusters is None:
        return experiment.explainer
    return {**experiment.explainer, "max_clusters": options.max_clusters}


def _test(model, explainer, x, y):
    return {
        "test_accuracy": model.evaluate(x, y, verbose=0, return_dict=True)["accuracy"],
        "rule_accuracy": explainer.score(x, y),
        "fidelity": explainer.fidelity(x),
    }


def _write(folder, explainer, metrics, description):
    explainer.save(folder / "rules")
    folder.write_text("rules.txt", f"{explainer.rules_}\n\n{description}\n")
    folder.write_json("metrics.json", metrics)
    try:
        plots.plot_grid(explainer, folder / "fidelity.png")
        if description[0].table is not None:
            plots.plot_correspondence(description[0], folder / "clusters.png")
    except ImportError as error:  # matplotlib is not a dependency of the rest
        print(f"There are no pictures. {error}")


def _write_texts(folder, model, explainer, x, data):
    text_model = with_text(model, data.vocabulary, data.splitter)
    text_model.save(folder / "text_model.keras")
    table = explainer.cluster_table(x, show=window_words(x, data.vocabulary))
    folder.write_text("clusters.md", table.to_markdown() + "\n")


def _print(experiment, settings, explainer, metrics, folder):
    print(f"\n{explainer.rules_}\n")
    clusters = ", ".join(f"{level.n_clusters} of {level.word}" for level in explainer.levels_)
    print(f"Clusters: {clusters}; fidelity on validation data {explainer.fidelity_:.2%}\n")
    is_papers = settings["source"] == experiment.sources[0]
    for metric, figure in metrics.items():
        paper = experiment.paper.get(metric) if is_papers else None
        beside = "" if paper is None else f"   (paper: {paper:.2%})"
        text = f"{figure:.1f}" if metric in _NOT_FRACTIONS else f"{figure:.2%}"
        print(f"{metric:16} {text:>8}{beside}")
    print(f"\nAll of it is in {folder.path}")

"""One experiment of the paper, from the data to the rules."""

import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import numpy.typing as npt

from keras_mmil._support.archives import load_network
from keras_mmil._support.files import atomic_write
from keras_mmil.bags import inputs_of
from keras_mmil.cli.finished_run import PAGE, FinishedRun, write_page
from keras_mmil.cli.options import RunOptions, Settings
from keras_mmil.cli.output import (
    figures_of_network,
    figures_of_rules,
    print_figures,
    print_run,
    write_shown,
)
from keras_mmil.cli.results import figures_of_folds, record, results_folder, variant_of
from keras_mmil.cli.run_folder import RunFolder
from keras_mmil.model import Model
from keras_mmil.rules import Explainer
from keras_mmil.training import (
    CrossValidation,
    VirtualAdversarialModel,
    cross_validate,
    fit_resumable,
)
from keras_mmil.training.resumable import Wrap
from keras_mmil.zoo.experiments.experiment import (
    Data,
    Experiment,
    RunWriter,
    Split,
    is_labelled,
    put_in_words,
)
from keras_mmil.zoo.experiments.registry import registry

__all__ = ["RunResult", "run", "run_seeds"]


class RunResult(NamedTuple):
    """The `Explainer`, if there are rules, the test set, and the figures by metric."""

    explainer: Explainer | None
    test: Split
    metrics: dict[str, float]


def run_seeds(experiment: Experiment, options: RunOptions) -> None:
    """Run an experiment with several seeds, one after the other, and print means.

    Each of several seeds has a folder of its own in `options.out`. Raises what `run` does.
    """
    if options.seeds == 1:
        run(experiment, options)
        return
    found = []
    for seed in range(options.seed, options.seed + options.seeds):
        out = options.out and f"{options.out}/seed{seed}"
        found.append(run(experiment, replace(options, seed=seed, out=out)).metrics)
    columns = {metric: [metrics[metric] for metrics in found] for metric in found[0]}
    print(f"\nMeans of {len(found)} seeds")
    print_figures(
        {metric: statistics.mean(figures) for metric, figures in columns.items()},
        _papers_figures(experiment, options),
        {metric: statistics.stdev(figures) for metric, figures in columns.items()},
    )


def run(experiment: Experiment, options: RunOptions) -> RunResult:
    """Train, test, extract the rules, and write everything to a folder.

    The folder then holds `model.keras`, `rules/` (for `Explainer.load`), `rules.txt`,
    `metrics.json`, `history.csv`, `report.html` and `fidelity.png`; where true labels of instances
    are known, `clusters.png`; and what the experiment adds, see its `Data.report`.

    Where the paper's figures are from a cross-validation, that comes first, and its scores are in
    `cross_validation.json`. The rules are then those of one more network, trained on eight tenths.
    Where an experiment has a teacher, that is run first, without rules, in the folder `teacher`.
    """
    results = results_folder() if options.record else None
    settings = Settings.of(experiment, options)
    path = options.out or f"runs/{_name(experiment, settings)}"
    folder = RunFolder(path, asdict(settings), resume=options.resume, replace=options.replace)
    data = experiment.load(
        seed=settings.seed,
        limit=settings.limit,
        source=settings.source,
        unlabelled=settings.adversarial or bool(experiment.teacher),
    )
    one = _Run(experiment, options, settings, data, folder)
    with folder.held():  # not before: without data there is no run to resume
        return one.result(results)


def _name(experiment: Experiment, settings: Settings) -> str:
    variant = variant_of(replace(experiment, split=""), settings)  # which is in the key
    return "-".join(filter(None, (experiment.key, variant, f"seed{settings.seed}")))


def _papers_figures(experiment: Experiment, options: RunOptions) -> Mapping[str, float]:
    """The paper's figures, if it has any for these data."""
    return experiment.paper if options.source in (None, experiment.sources[0]) else {}


@dataclass(frozen=True, eq=False)
class _Run:
    """The steps of a run."""

    experiment: Experiment
    options: RunOptions
    settings: Settings
    data: Data
    folder: RunFolder

    def result(self, results: Path | None) -> RunResult:
        """Take all steps, and add the figures to the records in a folder, if one is given."""
        experiment, options, settings = self.experiment, self.options, self.settings
        data, folder = self.data, self.folder
        paper = _papers_figures(experiment, options)
        if settings.folds:
            result = self.cross_validate()
            figures, variant = figures_of_folds(result)
            metrics = {
                metric: statistics.mean(values.values()) for metric, values in figures.items()
            }
            print_figures(metrics, paper)
            if results:
                rounds = len(result.seconds)
                record(results, experiment, settings, figures, rounds=rounds, more=variant)
            if not options.rules:
                return RunResult(None, data.test, metrics)
            paper = {}  # its figure is not of the network that comes now
        model, metrics = self.train()
        explainer = self.extract_rules(model, metrics) if options.rules else None
        if explainer is None:
            folder.write_json("metrics.json", metrics)
        print_run(explainer, metrics, paper, folder.path)
        if results:
            by_seed = {metric: {settings.seed: figure} for metric, figure in metrics.items()}
            variant = "eight tenths" if settings.folds else ""
            record(results, experiment, settings, by_seed, more=variant)
        return RunResult(explainer, data.test, metrics)

    def cross_validate(self) -> CrossValidation:
        experiment, options, settings = self.experiment, self.options, self.settings
        rounds = experiment.rounds if options.rounds is None else options.rounds
        assert self.data.whole is not None  # of experiments with folds
        x, y, _ = self.data.whole
        print(f"{len(y)} top-bags, {rounds} x {settings.folds} folds")
        result = cross_validate(
            lambda: experiment.build(**self.data.build_arguments),
            x,
            y,
            epochs=settings.epochs,
            batch_size=experiment.batch_size,
            folds=settings.folds,
            rounds=rounds,
            seed=settings.seed,
            schedule=experiment.learning_rate(settings.epochs),
            folder=self.folder.path,
            resume=options.resume,
            n_jobs=options.jobs or 1,
            verbose=options.verbose,
        )
        print(f"\n{result}\n")
        return result

    def train(self) -> tuple[Model, dict[str, float]]:
        """Train a network, save it, and test it: the network and its metrics."""
        model, seconds = self._fit()
        with atomic_write(self.folder / "model.keras") as part:
            model.save(part)
        metrics = figures_of_network(self.experiment, model, self.data.test)
        return model, {**metrics, "train_minutes": seconds / 60}

    def _fit(self) -> tuple[Model, float]:
        """A trained network, and how many seconds it took."""
        experiment, data, epochs = self.experiment, self.data, self.settings.epochs
        x, y, _ = self._taught() if experiment.teacher else data.train
        n_labelled = is_labelled(data.train.y).sum()
        print(
            f"{n_labelled} top-bags for training, {len(y) - n_labelled} without labels, "
            f"{len(data.valid.y)} for validation, {len(data.test.y)} for test"
        )
        schedule = experiment.learning_rate(epochs)
        model, history = fit_resumable(
            lambda: experiment.build(**data.build_arguments),
            x,
            y,
            folder=self.folder.path,
            validation_data=(data.valid.x, data.valid.y) if experiment.keeps_best else None,
            epochs=epochs,
            batch_size=experiment.batch_size,
            seed=self.settings.seed,
            resume=self.options.resume,
            # The best epoch's network also where the training does not end early.
            patience=(experiment.patience or epochs) if experiment.keeps_best else None,
            wrap=self._adversarial() if self.settings.adversarial else None,
            callbacks=[keras.callbacks.LearningRateScheduler(schedule)] if schedule else [],
            verbose=self.options.verbose,
        )
        return model, sum(epoch["seconds"] for epoch in history)

    def _taught(self) -> Split:
        """All top-bags; those without labels have the class that the teacher predicts."""
        teacher, settings = registry[self.experiment.teacher], self.settings
        folder = self.folder / "teacher"
        print(f"Teacher: {teacher.key}")
        run(teacher, replace(self.options, out=str(folder), rules=False, record=False))
        shown = teacher.load(
            seed=settings.seed, limit=settings.limit, source=settings.source, unlabelled=True
        ).train
        own = self.data.train
        network = load_network(folder / "model.keras")
        said = network.predict(shown.x, batch_size=teacher.batch_size, verbose=0).argmax(axis=1)
        print(f"\nStudent: {self.experiment.key}")
        return Split(own.x, np.where(is_labelled(own.y), own.y, said))

    def _adversarial(self) -> Wrap:
        assert self.experiment.adversarial is not None  # of those that may be adversarial
        arguments = {**self.experiment.adversarial, "seed": self.settings.seed}
        return lambda model, *x: (VirtualAdversarialModel(model, **arguments), *x)

    def extract_rules(self, model: Model, metrics: dict[str, float]) -> Explainer:
        """Extract rules, add their figures to `metrics`, and write the report."""
        experiment, data, options = self.experiment, self.data, self.options
        x_rules, x_rules_valid = data.for_rules()
        started = time.perf_counter()
        arguments = {**experiment.explainer, **data.explainer}
        if options.max_clusters is not None:
            # Numbers of clusters that an experiment gives would win over the search.
            arguments |= {"n_clusters": None, "max_clusters": options.max_clusters}
        explainer = Explainer(
            class_names=data.class_names or experiment.class_names,
            random_state=self.settings.seed,
            verbose=min(options.verbose, 1),
            **arguments,
        ).fit(model, x_rules, x_rules_valid)
        put_in_words(explainer, experiment, data, x_rules)
        metrics |= figures_of_rules(explainer, data.for_testing_rules())
        metrics["extract_seconds"] = time.perf_counter() - started
        x, _, instance_labels = data.valid
        if experiment.check_rules is not None:
            metrics["rules_match"] = float(experiment.check_rules(explainer, x, instance_labels))
        report = RunWriter(self.folder.path, model, explainer, x_rules)
        explainer.save(self.folder / "rules")
        write_shown(report, metrics, explainer.describe(x, instance_labels=instance_labels))
        if data.report is not None:
            data.report(report)
        run = FinishedRun(experiment, data, model, explainer, self._trained_on(explainer))
        run.write_trained_on(self.folder.path)
        write_page(self.folder.path / PAGE, run)
        return explainer

    def _trained_on(self, explainer: Explainer) -> npt.NDArray[np.uint64]:
        """Hashes of the top-bags for training and model selection."""
        data = self.data
        parts = [data.train.x, data.valid.x] if self.experiment.keeps_best else [data.train.x]
        return np.concatenate([explainer.hashes(inputs_of(x)) for x in parts])

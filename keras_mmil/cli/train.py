"""Own data: from a file or a folder of tables to a network, its figures, and its rules."""

import csv
import re
import shlex
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_mmil._support.files import atomic_write
from keras_mmil.cli.doubts import advice
from keras_mmil.cli.figures import figures_of_rules
from keras_mmil.cli.output import print_run, write_shown
from keras_mmil.cli.own_data import OwnData
from keras_mmil.cli.page import PAGE, write_page
from keras_mmil.cli.progress import Progress
from keras_mmil.cli.run_folder import RunFolder
from keras_mmil.cli.train_options import TrainOptions, TrainSettings
from keras_mmil.cli.trained_run import TrainedRun
from keras_mmil.estimators import NestedClassifier, NestedRegressor
from keras_mmil.records import Schema
from keras_mmil.zoo.experiments.experiment import Part
from keras_mmil.zoo.experiments.report import Report

__all__ = ["Trained", "UnfinishedError", "train"]

_SCHEMA, _SPLIT = "schema.json", "split.csv"
# What data and machines, but no faults of the program, make of the reading of rules.
_FAIL = (MemoryError, OSError, ValueError, tf.errors.OpError)
_MOST_SENTENCES, _MOST_LINES = 12, 40  # that are printed


class UnfinishedError(Exception):
    """A command has done a part of its work, which stays. The message says what to do."""

    exit_status = 1  # of the command line, which knows the error by it


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training on own data found.

    Attributes:
        estimator: the fitted one, with its rules.
        data: what it was trained and tested on.
        metrics: figures by metric.
    """

    estimator: NestedClassifier | NestedRegressor
    data: OwnData
    metrics: dict[str, float]


def train(options: TrainOptions) -> Trained:
    """Train a network on own data, test it, read its rules, and write everything to a folder.

    The folder is that of a saved estimator, for `NestedClassifier.load` or `NestedRegressor.load`.
    It also holds `schema.json`, `split.csv` (the part that each record is in), `history.csv`,
    `metrics.json`, `rules.txt`, `report.html` and `fidelity.png`.

    The network is saved before its rules are read: where that fails, it is there without them.

    Raises:
        UnfinishedError: if the rules cannot be read.
        BlockingIOError: if another process trains in the folder.
        FileExistsError: if there is a run already, and it is not to be resumed.
        FileNotFoundError: if there are no data.
        ValueError: as `TrainSettings.of` and `OwnData.of`.
    """
    settings = TrainSettings.of(options)
    folder = RunFolder(
        options.out or f"runs/{_name(settings)}",
        settings.to_dict(),
        resume=options.resume,
        replace=options.replace,
    )
    data = OwnData.of(settings)
    schema = data.schema_of_training()
    estimator = _estimator(settings, data, schema, options)
    with folder.held():  # not before: without data there is no run to resume
        return _train(estimator, data, schema, folder, settings, options)


def _train(
    estimator: NestedClassifier | NestedRegressor,
    data: OwnData,
    schema: Schema,
    folder: RunFolder,
    settings: TrainSettings,
    options: TrainOptions,
) -> Trained:
    schema.save(folder / _SCHEMA)
    _write_split(folder / _SPLIT, data)
    print(schema)
    print(f"\nSchema: {folder / _SCHEMA}")
    print('  To have a field taken for something else, or left out, set "choices" there, such as')
    print('  {"FIELD": "category"} or {"FIELD": "dropped"}, and pass the file as --schema.')
    print("\n".join(data.about), flush=True)
    _fit(estimator, data, folder, resume=options.resume, shows_progress=options.verbose == 1)
    run = TrainedRun(estimator, data)
    history = _history(folder)
    best = min(history, key=lambda epoch: np.nan_to_num(epoch["val_loss"], nan=np.inf))
    print(
        f"Training: {len(history)} epochs; the loss on the records for validation was lowest in "
        f"epoch {best['epoch'] + 1:.0f}, {best['val_loss']:.4g}"
    )
    estimator.save(folder.path, overwrite=True)  # now the network is not lost, whatever comes
    metrics = {**run.figures, "train_minutes": sum(epoch["seconds"] for epoch in history) / 60}
    folder.write_json("metrics.json", metrics)
    print("Reading the rules …", flush=True)
    try:
        metrics |= _figures(run)
    except _FAIL as error:
        place = shlex.quote(str(folder.path))
        raise UnfinishedError(
            f"the network is trained, but its rules cannot be read: "
            f"{' '.join(f'{type(error).__name__}: {error}'.split())}\n"
            f"The network is saved in {place}: `keras-mmil predict {place} NEW_FILE` works, "
            "without --explain. To try the rules again, which trains no more, repeat the command "
            "with --resume; where memory was short, on a machine with more."
        ) from error
    estimator.save(folder.path, overwrite=True)
    _write(run, metrics, folder)
    lost = run.doubt is not None and run.doubt.is_lost
    _print_sentences(estimator.rules_.in_words(), "no finding, see the end" if lost else "")
    print_run(estimator.explainer_, metrics, {}, folder.path, most_lines=_MOST_LINES)
    print(f"To look at: {folder / PAGE}")
    if not run.explainer.n_clusters_:
        print(
            "These records hold no lists: for flat tables, gradient boosting is the better choice."
        )
    if run.doubt is not None:
        print(f"\n{run.doubt.text}")
        if run.doubt.is_lost:
            print("\n".join(advice(estimator, settings, len(data.split.train), folder.path)))
    return Trained(estimator, data, metrics)


def _name(settings: TrainSettings) -> str:
    stem = Path(settings.data).name.partition(".")[0]
    return re.sub(r"[^\w.-]+", "-", f"{stem}-{settings.target}-seed{settings.seed}")


def _estimator(
    settings: TrainSettings, data: OwnData, schema: Schema, options: TrainOptions
) -> NestedClassifier | NestedRegressor:
    shows_bar = options.verbose > 0 and sys.stdout.isatty()
    explainer = {"random_state": settings.seed, "verbose": int(shows_bar)}
    if options.max_clusters is not None:
        explainer["max_clusters"] = options.max_clusters
    kind = NestedRegressor if data.is_number else NestedClassifier
    return kind(
        schema=schema,
        learning_rate=settings.learning_rate,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        patience=settings.patience,
        explainer=explainer,
        random_state=settings.seed,
        verbose=2 if options.verbose == 2 else 0,
    )


def _fit(
    estimator: NestedClassifier | NestedRegressor,
    data: OwnData,
    folder: RunFolder,
    *,
    resume: bool,
    shows_progress: bool,
) -> None:
    train, valid, _ = map(data.take, data.split)
    estimator.fit(
        train,
        data.target,
        validation_data=(valid, data.target),
        callbacks=[Progress(estimator.epochs)] if shows_progress else [],
        folder=folder.path,
        resume=resume,
    )


def _history(folder: RunFolder) -> list[dict[str, float]]:
    """What was measured in each epoch."""
    with open(folder / "history.csv", newline="") as file:
        return [{name: float(x) for name, x in row.items()} for row in csv.DictReader(file)]


def _figures(run: TrainedRun) -> dict[str, float]:
    """The figures of the rules, which are read here, on the records for test."""
    started = time.perf_counter()
    with warnings.catch_warnings():  # there are as many clusters as can be: that is all right
        warnings.filterwarnings("ignore", message="Level .* distinct points")
        explainer = run.explainer
    page = run.page()
    return {
        **figures_of_rules(explainer, Part(page.x, page.y)),
        "extract_seconds": time.perf_counter() - started,
    }


def _write(run: TrainedRun, metrics: dict[str, float], folder: RunFolder) -> None:
    """Write what there is to show."""
    x_train, x_valid = map(run.read, run.data.split[:2])
    report = Report(folder.path, run.estimator.model_, run.explainer, x_train)
    write_shown(report, metrics, run.explainer.describe(x_valid))
    write_page(folder / PAGE, run)


def _write_split(path: Path, data: OwnData) -> None:
    """Write the part of each record."""
    with atomic_write(path) as part, open(part, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["record", "part"])
        writer.writerows(enumerate(data.parts()))


def _print_sentences(sentences: Sequence[str], note: str) -> None:
    print(f"\nThe rules in words{f' ({note})' if note else ''}:")
    for sentence in sentences[:_MOST_SENTENCES]:
        print(f"  {sentence}")
    if len(sentences) > _MOST_SENTENCES:
        print(f"  … and {len(sentences) - _MOST_SENTENCES} more")

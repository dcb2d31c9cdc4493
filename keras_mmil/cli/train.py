"""Own data: from a file or a folder of tables to a network, its figures, and its rules."""

import csv
import json
import re
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.files import atomic_write
from keras_mmil.cli.doubts import advice
from keras_mmil.cli.finished_run import PAGE, TrainedRun, write_page
from keras_mmil.cli.options import TrainOptions, TrainSettings
from keras_mmil.cli.output import figures_of_rules, print_run, write_shown
from keras_mmil.cli.own_data import OwnData
from keras_mmil.cli.run_folder import RunFolder
from keras_mmil.estimators import NestedClassifier, NestedRegressor
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.estimators.trials import table
from keras_mmil.records import Schema
from keras_mmil.records.database import is_url
from keras_mmil.records.linking import Links
from keras_mmil.rules import UsedTopBagsError
from keras_mmil.zoo.experiments.experiment import RunWriter

__all__ = ["Trained", "UnfinishedError", "settings_of", "train"]

Logs: TypeAlias = Mapping[str, Any] | None

_SCHEMA, _SPLIT = "schema.json", "split.csv"
# Errors that data and machines, rather than bugs, cause when rules are learned.
_FAIL = (MemoryError, OSError, ValueError, tf.errors.OpError)
_MOST_LINES = 40  # of rules that are printed
_WIDTH = 20  # characters of the progress bar
_SECONDS = 0.2  # between its updates


class UnfinishedError(Exception):
    """A command has done a part of its work, which is kept. The message says what to do."""

    exit_status = 1  # of the command line, which knows the error by it


@dataclass(frozen=True, eq=False)
class Trained:
    """A fitted estimator with its rules, its data, and figures by metric."""

    estimator: NestedEstimator
    data: OwnData
    metrics: dict[str, float]


def train(options: TrainOptions) -> Trained:
    """Train a network on own data, test it, learn its rules, and write everything to a folder.

    The folder is that of a saved estimator, for `NestedClassifier.load` or `NestedRegressor.load`.
    It also holds `schema.json`, `split.csv` (the part of each record), `history.csv`,
    `metrics.json`, `rules.txt`, `report.html` and `fidelity.png`.

    The network is saved before its rules are learned: where that fails, there is an
    `UnfinishedError`, and the network is there without them.
    """
    settings = settings_of(options)
    data = OwnData.of(settings)
    settings = replace(settings, files=data.files, times=data.times)
    folder = RunFolder(
        options.out or settings.default_out,
        asdict(settings),
        resume=options.resume,
        replace=options.replace,
    )
    schema = data.schema_of_training()
    estimator = _estimator(settings, data, schema, options)
    with folder.held():  # not before: without data there is no run to resume
        return _train(estimator, data, schema, folder, settings, options)


def settings_of(options: TrainOptions) -> TrainSettings:
    """The settings of a training; ValueError if the schema or tables do not fit the options."""
    values = {each.name: getattr(options, each.name) for each in fields(TrainSettings)}
    keys, top = options.keys, options.top
    choices, links = _choices_in(options.schema)
    choices |= dict(options.kind) | dict.fromkeys(options.drop, "dropped")
    values["choices"] = choices
    if links is not None:
        known = [*links.keys]
        if keys not in ([], known) or top not in (None, links.top):
            raise ValueError(
                f"Expected the keys of the schema in {options.schema}, {known} from "
                f"{links.top!r}. Received: {keys} from {top!r}"
            )
        keys, top = known, links.top
    settings = TrainSettings(**values | {"keys": keys, "top": top})
    data = options.data
    if not is_url(data):
        data = str(Path(data).absolute())
    elif re.match(r"[^/]*//[^/@]*:[^/@]+@", data):
        raise ValueError(
            "Expected a URL without a password, which the settings of the run would keep: put it "
            "where the driver looks for it, such as PGPASSWORD. Received: one"
        )
    return replace(settings, data=data)


def _choices_in(path: str | None) -> tuple[dict[str, str], Links | None]:
    """The choices in a file, of a schema or alone, and how tables are linked, if it says so."""
    if path is None:
        return {}, None
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"Expected JSON as --schema. Received: {path}, {error}") from error
    if isinstance(content, dict) and all(isinstance(kind, str) for kind in content.values()):
        return content, None
    schema = Schema.load(path)
    return schema.choices, schema.links


def _train(
    estimator: NestedEstimator,
    data: OwnData,
    schema: Schema,
    folder: RunFolder,
    settings: TrainSettings,
    options: TrainOptions,
) -> Trained:
    schema.save(folder / _SCHEMA)
    with atomic_write(folder / _SPLIT) as part, open(part, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["record", "part"])
        writer.writerows(enumerate(data.parts()))
    print(schema)
    print(f"\nSchema: {folder / _SCHEMA}")
    print('  To have a field taken for something else, or left out, set "choices" there, such as')
    print('  {"FIELD": "category"} or {"FIELD": "dropped"}, and pass the file as --schema.')
    print("\n".join(data.about), flush=True)
    _fit(estimator, data, folder, options)
    run = TrainedRun(estimator, data)
    with open(folder / "history.csv", newline="") as file:
        history = [{name: float(x) for name, x in row.items()} for row in csv.DictReader(file)]
    best = min(history, key=lambda epoch: np.nan_to_num(epoch["val_loss"], nan=np.inf))
    print(
        f"Training: {len(history)} epochs; the loss on records that were held out was lowest in "
        f"epoch {best['epoch'] + 1:.0f}, {best['val_loss']:.4g}"
    )
    print("On records that were held out:")
    print(table(estimator.trials_, data.is_number))
    estimator.save(folder.path, overwrite=True)  # the network is safe now, whatever comes
    metrics = {**run.figures, "train_minutes": sum(epoch["seconds"] for epoch in history) / 60}
    folder.write_json("metrics.json", metrics)
    print("Reading the rules …", flush=True)
    try:
        metrics |= _figures_of_rules(run)
    except _FAIL as error:
        place = shlex.quote(str(folder.path))
        raise UnfinishedError(
            f"the network is trained, but its rules cannot be read: "
            f"{' '.join(f'{type(error).__name__}: {error}'.split())}\n"
            f"The network is saved in {place}: `keras-mmil predict {place} NEW_FILE` works, "
            "without --explain. To try the rules again, without another training, repeat the "
            "command with --resume; if memory was short, on a machine with more."
        ) from error
    estimator.save(folder.path, overwrite=True)
    train, valid, _ = data.split
    report = RunWriter(folder.path, estimator.model_, run.explainer, run.read(train))
    described = run.read(valid if len(valid) else train)
    write_shown(report, metrics, run.explainer.describe(described))
    write_page(folder / PAGE, run)
    if run.doubt is not None and run.doubt.is_lost:
        print("\nThe rules are no finding, see the end.")
    print_run(run.explainer, metrics, {}, folder.path, most_lines=_MOST_LINES)
    _print_rare(run)
    print(f"To look at: {folder / PAGE}")
    if metrics.get("rule_accuracy", 0.0) > metrics.get("test_accuracy", 1.0):
        print(
            "Here the rules are right more often than the network. To let them predict: "
            f"keras-mmil predict {shlex.quote(str(folder.path))} NEW_FILE --by rules"
        )
    if not run.explainer.n_clusters_:
        print(
            "These records hold no lists: for flat tables, gradient boosting is the better choice."
        )
    if run.doubt is not None:
        print(f"\n{run.doubt.text}")
        if run.doubt.is_lost:
            print("\n".join(advice(estimator, settings, len(data.split.train), folder.path)))
    return Trained(estimator, data, metrics)


def _estimator(
    settings: TrainSettings, data: OwnData, schema: Schema, options: TrainOptions
) -> NestedEstimator:
    shows_bar = options.verbose > 0 and sys.stdout.isatty()
    explainer = {"random_state": settings.seed, "verbose": int(shows_bar)}
    if options.max_clusters is not None:
        explainer["max_clusters"] = options.max_clusters
    kind: type[NestedEstimator] = NestedRegressor
    of_classes: dict[str, Any] = {}
    if not data.is_number:
        kind, of_classes = NestedClassifier, {"class_weight": settings.class_weight}
    elif settings.class_weight is not None:
        raise ValueError(
            "Expected classes to predict, for --class-weight. "
            f"Received: --target {settings.target}, a number"
        )
    return kind(
        **of_classes,
        schema=schema,
        effort=settings.effort,
        aggregation=settings.aggregation,
        learning_rate=settings.learning_rate,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        patience=settings.patience,
        explainer=explainer,
        random_state=settings.seed,
        verbose=2 if options.verbose == 2 else 0,
    )


def _fit(
    estimator: NestedEstimator, data: OwnData, folder: RunFolder, options: TrainOptions
) -> None:
    train, valid, _ = map(data.take, data.split)
    estimator.fit(
        train,
        data.target,
        validation_data=(valid, data.target) if len(valid) else None,
        callbacks=[_Progress(estimator.epochs)] if options.verbose == 1 else [],
        folder=folder.path,
        resume=options.resume,
    )


def _figures_of_rules(run: TrainedRun) -> dict[str, float]:
    """Learn the rules; their figures on the records for test."""
    started = time.perf_counter()
    run.estimator.fit_rules()
    return {
        **figures_of_rules(run.explainer, run.for_testing_rules()),
        "extract_seconds": time.perf_counter() - started,
    }


def _print_rare(run: TrainedRun) -> None:
    """Of rules about where a rare class is likelier, how often it is there on records for test."""
    estimator = run.estimator
    if not isinstance(estimator, NestedClassifier) or (rare := estimator.rare_class_) is None:
        return
    x, y, _ = run.for_testing_rules()
    name = str(estimator.classes_[rare])
    print(f"Of {len(y):,} records for test, {(y == rare).sum():,} are {name}:")
    try:
        found = run.explainer.certify(x, y).rules
    except UsedTopBagsError as error:
        print(f"  Of each rule, that is not known. {error}")
        return
    rules = zip(run.explainer.levels_[-1].rules, found, strict=True)
    for each in (each for rule, each in rules if rule.conclusion == rare):
        if each.right is not None and each.lift is not None:
            print(
                f"  rule {each.number}: {each.right.k:,} of {each.right.n:,} that match, "
                f"{each.lift:.2g} times the average"
            )


class _Progress(keras.callbacks.Callback):
    """One progress bar for all epochs on a terminal, which is erased at the end; elsewhere none."""

    is_progress = True  # so that `loop` need not tell of each batch

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self._epochs, self._epoch = epochs, 0
        self._seen: list[float] = []
        self._shown_at = 0.0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if time.perf_counter() - self._shown_at >= _SECONDS:
            self._show((batch + 1) / (self.params.get("steps") or np.inf))

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._seen.append(float((logs or {})["val_loss"]))
        self._show(1.0)

    def on_train_end(self, logs: Logs = None) -> None:
        if sys.stdout.isatty():
            print("\r\x1b[K", end="", flush=True)

    def _show(self, share_of_epoch: float) -> None:
        if not sys.stdout.isatty():
            return
        self._shown_at = time.perf_counter()
        share = (self._epoch + share_of_epoch) / self._epochs
        bar = ("━" * round(_WIDTH * share)).ljust(_WIDTH, "·")
        text = f"{bar} epoch {self._epoch + 1} of at most {self._epochs}"
        if self._seen:
            lowest = min((x for x in self._seen if not np.isnan(x)), default=np.nan)
            text += f", loss {self._seen[-1]:.4g}, lowest {lowest:.4g}"
        print(f"\r{text}\x1b[K", end="", flush=True)

"""Finished runs, read from their folders, and their reports."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.metrics import mean_absolute_error, r2_score

from keras_mmil._support import archives
from keras_mmil._support.archives import load_network
from keras_mmil._support.files import atomic_write
from keras_mmil._support.formatting import majority
from keras_mmil._support.types import Array, Ints, PathLike
from keras_mmil.bags import inputs_of
from keras_mmil.cli.doubts import Doubt, doubt_of_classes, doubt_of_numbers
from keras_mmil.cli.output import figures_of_network
from keras_mmil.cli.own_data import OwnData
from keras_mmil.cli.run_folder import SETTINGS, holds_own_data, read_settings, train_settings
from keras_mmil.estimators import NestedClassifier, NestedRegressor
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.estimators.storage import is_saved
from keras_mmil.model import Model
from keras_mmil.rules import Explainer
from keras_mmil.rules.report.page import Report
from keras_mmil.zoo.experiments.experiment import Data, Experiment, Page, RuleData, Split
from keras_mmil.zoo.experiments.registry import registry

__all__ = [
    "PAGE",
    "AnyRun",
    "FinishedRun",
    "TrainedRun",
    "any_run",
    "check_has_rules",
    "finished_run",
    "load_estimator",
    "page_of_run",
    "trained_run",
    "write_page",
]

PAGE = "report.html"
_TRAINED_ON = "trained_on.npy"
# The arguments of `Experiment.load`: the settings that they were, and their types.
_LOADED: dict[str, tuple[str, Any]] = {
    "seed": ("seed", int),
    "limit": ("limit", int | None),
    "source": ("source", str | None),
    "unlabelled": ("adversarial", bool),
}


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A finished run of an experiment with rules; its data are loaded again.

    `trained_on` holds the `Explainer.hashes` of the top-bags for training and model selection.
    """

    experiment: Experiment
    data: Data
    model: Model
    explainer: Explainer
    trained_on: npt.NDArray[np.uint64]

    @property
    def key(self) -> str:
        """What its figures are recorded by."""
        return self.experiment.key

    @property
    def title(self) -> str:
        """Title of the report."""
        return f"{self.experiment.title} ({self.experiment.name})"

    @property
    def figures(self) -> dict[str, float]:
        """Those of the network on the data for test, by metric: see `print_figures`."""
        return figures_of_network(self.experiment, self.model, self.data.test)

    def for_rules(self) -> RuleData:
        """The data that rules are fitted to and chosen on."""
        return self.data.for_rules()

    def for_testing_rules(self) -> Split:
        """The data for test of the rules."""
        return self.data.for_testing_rules()

    def report(self, *, include_data: bool = True) -> Report:
        """The report, with or without top-bags."""
        x, y, _ = self.for_testing_rules()
        page = self.data.page() if self.data.page else Page(x, y)
        return self.explainer.report(
            inputs_of(page.x),
            page.y,
            page.show,
            include_data=include_data,
            title=self.title,
            trained_on=self.trained_on,
        )

    def write_trained_on(self, folder: PathLike) -> None:
        """Write `trained_on` to the folder of the run."""
        with atomic_write(Path(folder) / _TRAINED_ON) as part, open(part, "wb") as file:
            np.save(file, self.trained_on, allow_pickle=False)


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A finished training on own data; most attributes need its rules."""

    estimator: NestedEstimator
    data: OwnData

    @property
    def key(self) -> str:
        """What its figures are recorded by."""
        return Path(self.data.name).stem

    @property
    def model(self) -> Model:
        """The network, and what else decides."""
        return self.estimator.model_

    @property
    def explainer(self) -> Explainer:
        """The rules."""
        return self.estimator.explainer_

    @property
    def title(self) -> str:
        """Title of the report."""
        return f"Rules for {self.data.target}, learned from {self.data.name}"

    @property
    def about(self) -> list[str]:
        """Sentences at the top of the report."""
        about = [f"{line}." for line in self.data.about]
        if isinstance(self.estimator, NestedRegressor):
            figures = self.figures
            about.append(
                f"On the records for test, R² is {figures['test_r2']:.3f} (of a constant "
                f"{figures['test_r2_constant']:.3f}), and the mean absolute error "
                f"{figures['test_mae']:.4g} (of a constant {figures['test_mae_constant']:.4g}). "
                f"Classes are ranges of {self.data.target}."
            )
        return about if self.doubt is None else [self.doubt.text, *about]

    @cached_property
    def doubt(self) -> Doubt | None:
        """Why the network is no better than a constant answer; None if it is better."""
        estimator, target, (_, y) = self.estimator, self.data.target, self._test
        if not isinstance(estimator, NestedClassifier):
            r2, constant = (self.figures[name] for name in ("test_r2", "test_r2_constant"))
            return doubt_of_numbers(r2, constant, target)
        probabilities = estimator.predict_proba(self.data.take(self.data.split.test))
        names = [str(name) for name in estimator.classes_.tolist()]
        return doubt_of_classes(estimator.rule_classes(y), probabilities, names, target)

    @cached_property
    def figures(self) -> dict[str, float]:
        """Those of the network on the records for test, by metric: see `print_figures`.

        Constants are the mean, or for the error the median, of the records for training.
        """
        data, estimator, (_, y) = self.data, self.estimator, self._test
        test = data.take(data.split.test)
        if isinstance(estimator, NestedClassifier):
            return {
                "test_accuracy": estimator.score(test, data.target),
                "test_accuracy_majority": majority(y),
            }
        assert isinstance(estimator, NestedRegressor)
        _, known, _ = estimator.schema_.read_labelled(data.take(data.split.train), data.target)
        predicted = estimator.predict(test)
        mean, median = (np.full(len(y), middle(known)) for middle in (np.mean, np.median))
        return {
            "test_r2": float(r2_score(y, predicted)),
            "test_r2_constant": float(r2_score(y, mean)),
            "test_mae": float(mean_absolute_error(y, predicted)),
            "test_mae_constant": float(mean_absolute_error(y, median)),
        }

    @cached_property
    def trained_on(self) -> npt.NDArray[np.uint64]:
        """`Explainer.hashes` of the records for training and model selection."""
        parts = [part for part in self.data.split[:2] if len(part)]
        return np.concatenate([self.explainer.hashes(self.read(part)) for part in parts])

    def read(self, chosen: Ints) -> Any:
        """Some of the records as inputs of the network."""
        records = self.data.take(chosen)
        return self.estimator.schema_.read(records, without=self.data.target)

    def for_rules(self) -> RuleData:
        """The records that rules are fitted to and chosen on."""
        train, valid = map(self.read, self.data.split[:2])
        return RuleData(train, valid if len(self.data.split.valid) else None)

    def for_testing_rules(self) -> Split:
        """The records for test."""
        x, y = self._test
        return Split(x, self.estimator.rule_classes(y))

    def report(self, *, include_data: bool = True) -> Report:
        """The report on the records for test, with or without these."""
        return self.estimator.report(
            self.data.take(self.data.split.test),
            self.data.target,
            include_data=include_data,
            title=self.title,
            about=self.about,
            trained_on=self.trained_on,
        )

    @cached_property
    def _test(self) -> tuple[Any, Array]:
        """The records for test as inputs of the network, and their labels."""
        records = self.data.take(self.data.split.test)
        x, y, _ = self.estimator.schema_.read_labelled(records, self.data.target)
        return x, y


AnyRun: TypeAlias = FinishedRun | TrainedRun


def finished_run(folder: PathLike) -> FinishedRun:
    """The run in a folder; FileNotFoundError if it is not finished, ValueError if damaged."""
    path = Path(folder)
    needed = [path / name for name in ("rules", "model.keras", _TRAINED_ON)]
    settings = read_settings(path) if (path / SETTINGS).is_file() else None
    if settings is None or not all(each.exists() for each in needed):
        raise FileNotFoundError(
            "Expected the folder of a finished run with rules, of `keras-mmil run` or `train`. "
            f"Received: {folder}"
        )
    arguments = {name: settings.get(setting) for name, (setting, _) in _LOADED.items()}
    name = settings["experiment"]
    are_right = all(isinstance(x, _LOADED[argument][1]) for argument, x in arguments.items())
    if not (isinstance(name, str) and name in registry and are_right):
        raise ValueError(
            f"Expected the settings of a run. Received: {path / SETTINGS}, {settings!r:.300}"
        )
    experiment = registry[name]
    data = experiment.load(**arguments)
    model = load_network(path / "model.keras")
    explainer = Explainer.load(path / "rules", model)
    trained_on = archives.read_npy(path / _TRAINED_ON)
    if trained_on.dtype != np.uint64 or trained_on.ndim != 1:
        raise ValueError(
            f"Expected hashes, uint64 [top-bags]. Received: {path / _TRAINED_ON} with "
            f"{trained_on.dtype} {trained_on.shape}"
        )
    return FinishedRun(experiment, data, model, explainer, trained_on)


def load_estimator(folder: PathLike, *, with_rules: bool = False) -> NestedEstimator:
    """The estimator in a folder; FileNotFoundError if there is none, ValueError if damaged."""
    if not is_saved(folder):
        raise FileNotFoundError(
            "Expected the folder of a finished `keras-mmil train`, or of a saved estimator. "
            f"Received: {folder}"
        )
    estimator = NestedEstimator.load(folder)
    if with_rules:
        check_has_rules(estimator, folder)
    return estimator


def check_has_rules(estimator: NestedEstimator, folder: PathLike) -> None:
    """Raise ValueError if the estimator in a folder has no rules."""
    if not estimator._explainers:
        raise ValueError(
            "Expected a run with rules, which `keras-mmil train` with --resume reads for a network "
            f"that is trained. Received: {folder}, with a network but no rules"
        )


def trained_run(folder: PathLike) -> TrainedRun:
    """The training in a folder; ValueError if files are damaged or the data have changed."""
    settings = train_settings(folder)
    if not is_saved(folder):
        raise FileNotFoundError(
            f"Expected the folder of a finished `keras-mmil train`. Received: {folder}"
        )
    estimator = load_estimator(folder, with_rules=True)
    data = OwnData.of(settings)
    if (estimator.target_, isinstance(estimator, NestedRegressor)) != (data.target, data.is_number):
        raise ValueError(
            f"Expected an estimator of the settings, for {data.target}. Received: {folder}, with a "
            f"{type(estimator).__name__} for {estimator.target_}"
        )
    return TrainedRun(estimator, data)


def write_page(path: PathLike, run: AnyRun, *, include_data: bool = True) -> Path:
    """Write the report of a finished run, with or without top-bags; the path is returned."""
    return run.report(include_data=include_data).save(path)


def any_run(folder: PathLike) -> AnyRun:
    """The run in a folder, of an experiment or on own data; errors as `finished_run`."""
    return trained_run(folder) if holds_own_data(folder) else finished_run(folder)


def page_of_run(run: PathLike, out: PathLike | None = None, *, include_data: bool = True) -> Path:
    """Write the report of a finished run again, to `report.html` in its folder by default."""
    path = Path(run) / PAGE if out is None else out
    return write_page(path, any_run(run), include_data=include_data)

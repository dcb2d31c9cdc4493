"""What a training on own data left in its folder, with the data."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import mean_absolute_error, r2_score

from keras_mmil._support.formatting import majority
from keras_mmil._support.types import Array, Ints, PathLike
from keras_mmil.cli.doubts import Doubt, doubt_of_classes, doubt_of_numbers
from keras_mmil.cli.own_data import OwnData
from keras_mmil.cli.own_files import checksums
from keras_mmil.cli.run_folder import read_settings
from keras_mmil.cli.train_options import TrainSettings
from keras_mmil.estimators import NestedClassifier, NestedRegressor
from keras_mmil.estimators.saved import is_saved, load
from keras_mmil.interpretation import Explainer
from keras_mmil.zoo.experiments.page import Page

__all__ = ["TrainedRun", "check_has_rules", "trained_run"]


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A finished training with rules.

    Attributes:
        estimator: the fitted one.
        data: its data.
    """

    estimator: NestedClassifier | NestedRegressor
    data: OwnData

    @property
    def explainer(self) -> Explainer:
        """The rules."""
        return self.estimator.explainer_

    @property
    def title(self) -> str:
        """What the page is called."""
        return f"Rules for {self.data.target}, learned from {self.data.name}"

    @property
    def about(self) -> list[str]:
        """What the page begins with."""
        about = [f"{line}." for line in self.data.about]
        if isinstance(self.estimator, NestedRegressor):
            found = self.figures
            about.append(
                f"On the records for test, R² is {found['test_r2']:.3f} (of a constant "
                f"{found['test_r2_constant']:.3f}), and the mean absolute error "
                f"{found['test_mae']:.4g} (of a constant {found['test_mae_constant']:.4g}). "
                f"Classes are ranges of {self.data.target}."
            )
        return about if self.doubt is None else [self.doubt.text, *about]

    @cached_property
    def doubt(self) -> Doubt | None:
        """Why the network is no better than a constant answer; None where it is."""
        target = self.data.target
        if isinstance(self.estimator, NestedRegressor):
            return doubt_of_numbers(
                self.figures["test_r2"], self.figures["test_r2_constant"], target
            )
        estimator, (_, y) = self.estimator, self._test
        probabilities = estimator.predict_proba(self.data.take(self.data.split.test))
        names = [str(name) for name in estimator.classes_.tolist()]
        return doubt_of_classes(estimator.rule_classes(y), probabilities, names, target)

    @cached_property
    def figures(self) -> dict[str, float]:
        """Those of the network on the records for test, by metric.

        Under "<metric>_majority" is the share of the most frequent class; under "<metric>_constant"
        what the mean, or for the error the median, of the records to train on reaches.
        """
        data, estimator = self.data, self.estimator
        test = data.take(data.split.test)
        _, y = self._test
        if isinstance(estimator, NestedClassifier):
            return {
                "test_accuracy": estimator.score(test, data.target),
                "test_accuracy_majority": majority(y),
            }
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
        """Hashes of the records that the network was trained or chosen on."""
        return np.concatenate([self.explainer.hashes(self.read(x)) for x in self.data.split[:2]])

    def read(self, chosen: Ints) -> Any:
        """Some of the records as the network takes them."""
        records = self.data.take(chosen)
        return self.estimator.schema_.read(records, without=self.data.target)

    def page(self) -> Page:
        """The records for test."""
        x, y = self._test
        return Page(x, self.estimator.rule_classes(y))

    @cached_property
    def _test(self) -> tuple[Any, Array]:
        """The records for test as the network takes them, and their labels."""
        records = self.data.take(self.data.split.test)
        x, y, _ = self.estimator.schema_.read_labelled(records, self.data.target)
        return x, y


def trained_run(folder: PathLike) -> TrainedRun:
    """Read the folder of a training on own data.

    Raises:
        FileNotFoundError: if it holds no finished one, or the data are gone.
        ValueError: if a file of it is damaged, there are no rules, or the data have changed.
    """
    path = Path(folder) / "settings.json"
    settings = TrainSettings.from_dict(read_settings(folder), path)
    if not is_saved(folder):
        raise FileNotFoundError(
            f"Expected the folder of a finished `keras-mmil train`. Received: {folder}"
        )
    found = checksums(settings.data, settings.tables, settings.keys, settings.top)
    names = found.keys() | settings.files.keys()
    if changed := sorted(x for x in names if found.get(x) != settings.files.get(x)):
        raise ValueError(
            f"Expected the data of the run in {folder} as they were. "
            f"Received: {settings.data}, of which {', '.join(changed)} has changed"
        )
    estimator = load(folder)
    check_has_rules(estimator, folder)
    data = OwnData.of(settings)
    if (estimator.target_, isinstance(estimator, NestedRegressor)) != (data.target, data.is_number):
        raise ValueError(
            f"Expected an estimator of the settings, for {data.target}. Received: {folder}, with a "
            f"{type(estimator).__name__} for {estimator.target_}"
        )
    return TrainedRun(estimator, data)


def check_has_rules(estimator: NestedClassifier | NestedRegressor, folder: PathLike) -> None:
    """Refuse an estimator from a folder without rules.

    Raises:
        ValueError: naming the folder.
    """
    if not estimator._explainers:
        raise ValueError(
            "Expected a run with rules, which `keras-mmil train` with --resume reads for a network "
            f"that is trained. Received: {folder}, with a network but no rules"
        )

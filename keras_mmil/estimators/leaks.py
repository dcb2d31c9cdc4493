"""What knows the target, though it may not be known when records are predicted."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Array, Floats, Ints
from keras_mmil.estimators import trials
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.estimators.classifier import NestedClassifier
from keras_mmil.estimators.regressor import NestedRegressor
from keras_mmil.records import Schema
from keras_mmil.records.moments import Past
from keras_mmil.records.network import Labels
from keras_mmil.records.sources import read_all

__all__ = ["Leak", "find_leaks"]

_DEPTH, _LEAST = 3, 5  # of the trees that judge a field, and records in a leaf
_N_FOLDS = 3
# Share of the constant's loss that is left where something is a leak; and on the records that a
# tree was fitted to.
_LEAK, _HOPELESS = 0.2, 0.5


@dataclass(frozen=True)
class Leak:
    """Something that knows the target.

    Attributes:
        path: of a field or a bag, or the name of a statistic of it.
        why: the evidence.
        score: accuracy, or R² of numbers, of what this alone tells of records that it was not
            fitted to.
        of_constant: the same of the most frequent class, or the mean.
    """

    path: str
    why: str
    score: float
    of_constant: float

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


def find_leaks(
    records: Any,
    target: str,
    moment: str | None = None,
    times: Mapping[str, str | None] | None = None,
) -> list[Leak]:
    """What knows the target too well, or comes after the moment when it is to be predicted.

    Fields, and statistics of bags such as the share of orders with a field, are leaks if each alone
    tells most records apart: if a small tree leaves less than a fifth of the loss of a constant.
    They may be good, or only known once the target is: whoever knows the data decides. With a
    moment, members and values after it are leaks, too, and fields are looked at without them, as
    `records.as_of` returns them.

    Args:
        records: in any form that `Schema.infer` accepts, such as the result of `records.link`.
        target: path of the target, a class or a number.
        moment, times: see `records.as_of`; None for records without a moment.

    Returns:
        Leaks, those after the moment first, which can be printed.

    Raises:
        KeyError, ValueError: as `records.as_of`, and as an estimator's `fit`.

    Example:

    >>> for leak in find_leaks(records, "churned", moment="when"):
    ...     print(leak)
    customers.closed: tells 99.1 % of churned alone (most frequent class: 60.2 %)
    """
    array, found = read_all(records), list[Leak]()
    past = None
    if moment is not None:
        past = Past(Schema.infer(array), moment, times or {})
        array = past.of(array)
    schema = Schema.infer(array)
    kind = NestedRegressor if schema[target].kind == "number" else NestedClassifier
    estimator: NestedEstimator = kind(schema=schema)
    labels, y, features, names, chosen = estimator.facts(array, target)
    judge = _Judge(labels, y)
    for later in past.later if past is not None else ():
        counts = later.by_record[chosen].astype(np.float32)
        if counts.any():
            what = "members" if later.path != later.time else "values"
            share = percent(later.by_record.sum() / later.n)
            scores = judge.scores(judge.predicted(counts[:, None]))
            told = judge.told(scores, target)
            why = f"{share} of {later.n:,} {what} are after {moment}; how many tells {told}"
            found.append(Leak(later.path, why, *scores))
    columns = defaultdict[str, list[int]](list)
    for i, name in enumerate(names):
        columns[name].append(i)
    for name, at in columns.items():
        predicted = judge.of_leak(features[:, at])
        if predicted is not None:
            scores = judge.scores(predicted)
            found.append(Leak(name, f"tells {judge.told(scores, target)}", *scores))
    return found


@dataclass(frozen=True, eq=False)
class _Judge:
    """What columns alone tell of labels."""

    labels: Labels
    y: Array

    def of_leak(self, columns: Array) -> Array | None:
        """What they predict, see `predicted`; None if they do not tell most records apart."""
        fitted = self._tree().fit(columns, self._goal).predict(columns).reshape(self._goal.shape)
        worst = self._loss(self._constant)
        if self._loss(fitted) > _HOPELESS * worst:
            return None
        found = self.predicted(columns)
        return found if self._loss(found) < _LEAK * worst else None

    def scores(self, predicted: Array) -> tuple[float, float]:
        """The score of predictions, and that of a constant."""
        return self._score(predicted), self._score(self._constant)

    def told(self, scores: tuple[float, float], target: str) -> str:
        """Scores in words."""
        score, of_constant = scores
        if self.labels.kind == "numbers":
            return f"{target} alone with R² {score:.3f}"
        return f"{percent(score)} of {target} alone (most frequent class: {percent(of_constant)})"

    @cached_property
    def _goal(self) -> Array:
        return trials.targets(self.labels, self.y)

    @cached_property
    def _constant(self) -> Array:
        return trials.constant(self.labels, self.y, self._weights)

    @cached_property
    def _folds(self) -> Ints:
        return trials.folds_of(self.y, _N_FOLDS, 0)

    @cached_property
    def _weights(self) -> Floats:
        return np.ones(len(self.y))

    @staticmethod
    def _tree() -> DecisionTreeRegressor:
        return DecisionTreeRegressor(max_depth=_DEPTH, min_samples_leaf=_LEAST, random_state=0)

    def predicted(self, columns: Array) -> Array:
        """Predictions for records that the tree was not fitted to."""
        goal, folds = self._goal, self._folds
        found = np.zeros(goal.shape)
        for fold in np.unique(folds):
            at = folds == fold
            tree = self._tree().fit(columns[~at], goal[~at])
            found[at] = tree.predict(columns[at]).reshape(-1, goal.shape[1])
        if self.labels.kind == "numbers":
            return found
        doubt = 1 / (len(goal) + 2)
        return found * (1 - 2 * doubt) + doubt

    def _loss(self, predicted: Array) -> float:
        return float(trials.losses_of(self.labels, predicted, self._goal).mean())

    def _score(self, predicted: Array) -> float:
        found = trials.trial_of("", self.labels, predicted, self.y, self._weights, 0.0)
        return 0.0 if found.score is None else found.score

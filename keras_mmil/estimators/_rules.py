"""The rules of an estimator, and what they say of records."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from keras_mmil import ragged
from keras_mmil._support.types import Array, Floats
from keras_mmil.estimators._given import Target
from keras_mmil.estimators._kept import Kept
from keras_mmil.interpretation import Explainer
from keras_mmil.interpretation.explain.explanation import Explanation
from keras_mmil.interpretation.export.rule_book import RuleBook
from keras_mmil.interpretation.report.page import Report
from keras_mmil.records import Schema

__all__ = ["Interpreted"]


class Interpreted(BaseEstimator):
    """What an estimator of nested records says in rules.

    A subclass sets these attributes once it is fitted.
    """

    explainer: Mapping[str, Any] | None
    keep_data: bool
    verbose: int
    target_: str | list[str] | None
    schema_: Schema
    model_: keras.Model
    # The records that rules are learned of, compressed; None in an estimator from a file.
    _kept: tuple[Kept, Kept | None] | None
    _explainers: dict[str | None, Explainer]

    @property
    def explainer_(self) -> Explainer:
        """The `Explainer` of the network, fitted on the training data when it is first asked for.

        Raises:
            NotFittedError: before `fit`.
            ValueError: for several labels, each of which has one: see `explainer_of`.
        """
        return self.explainer_of(None)

    @property
    def rules_(self) -> RuleBook:
        """The rules of `explainer_`."""
        return self.explainer_.rules_

    def explainer_of(self, label: str | None) -> Explainer:
        """The `Explainer` for one of several labels.

        Args:
            label: one of `classes_`; None where there is but one.

        Raises:
            NotFittedError: before `fit`.
            ValueError: if there is no such label; or if the estimator is from a file or a pickle
                without its training records, and had not been asked for rules before.
        """
        check_is_fitted(self, "model_")
        if label not in self._explainers:
            arguments = self._explained(label)
            if self._kept is None:
                raise ValueError(
                    "Expected an estimator that had been asked for its rules before it was saved "
                    "or pickled (as it is on its way from another process), which leaves the "
                    "training records out: ask for `rules_` before, or pickle one with "
                    "keep_data=True. Received: one without rules"
                )
            arguments |= {"verbose": self.verbose, **(self.explainer or {})}
            x, x_valid = (None if part is None else part.tensors() for part in self._kept)
            self._explainers[label] = Explainer(**arguments).fit(self.model_, x, x_valid)
        return self._explainers[label]

    def rules_of(self, label: str | None) -> RuleBook:
        """The rules for one of several labels: those of `explainer_of`."""
        return self.explainer_of(label).rules_

    def explain(self, X: Any, label: str | None = None) -> Sequence[Explanation]:
        """Why the rules say of each record what they say.

        Args:
            X: records.
            label: one of several labels; None where there is but one.
        """
        explainer, x = self.explainer_of(label), self._read(X)
        return explainer.explain(x) if ragged.n_top_bags(x) else []

    def report(
        self, X: Any, y: Target | None = None, label: str | None = None, **arguments: Any
    ) -> Report:
        """A page about the rules, one file of HTML: `report(X, y).save("report.html")`.

        Args:
            X: records that neither the network nor the rules have seen.
            y: their labels, or where they are, as of `fit`; None for no accuracy.
            label: one of several labels; None where there is but one.
            arguments: others of `Explainer.report`.

        Raises:
            NotFittedError: before `fit`.
            KeyError, TypeError, ValueError: as `fit` for X and y, and `explainer_of`.
        """
        explainer = self.explainer_of(label)
        if y is None:
            return explainer.report(self._read(X), **arguments)
        x, given, _ = self._labelled(X, y)
        return explainer.report(x, self.rule_classes(given, label), **arguments)

    def rule_classes(self, y: Array, label: str | None = None) -> Array:
        """Which of the classes of the rules labels are, [records].

        Args:
            y: labels, as the schema reads them or as they were given to `fit`.
            label: one of several labels; None where there is but one.
        """
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: all but the training records, unless `keep_data`."""
        state: dict[str, Any] = super().__getstate__()
        return state | {"_kept": None} if "_kept" in state and not self.keep_data else state

    def __copy__(self) -> Self:
        """A copy in this process, with the training records."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A deep copy, which shares the training records: nothing changes them."""
        new = memo[id(self)] = copy.copy(self)
        others = {name: value for name, value in vars(self).items() if name != "_kept"}
        new.__dict__.update(copy.deepcopy(others, memo))
        return new

    def _labelled(self, X: Any, y: Target) -> tuple[Any, Array, Floats]:
        """Records as the network takes them, their labels as they are given, and weights."""
        raise NotImplementedError

    def _read(self, X: Any) -> Any:
        """Records as the network takes them."""
        raise NotImplementedError

    def _explained(self, label: str | None) -> dict[str, Any]:
        """Arguments of the explainer that say what the classes are."""
        raise NotImplementedError

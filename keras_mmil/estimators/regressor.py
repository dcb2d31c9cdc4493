"""The regressor of nested records."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from keras_mmil._support.checks import check_int
from keras_mmil._support.formatting import number_text
from keras_mmil._support.types import Array, Floats, Ints
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.estimators.targets import Target
from keras_mmil.records.network import Labels

__all__ = ["NestedRegressor"]

_FAR = 1000.0  # standard deviations from 0: float32 has seven digits


class NestedRegressor(RegressorMixin, NestedEstimator):
    """Predict a number for nested records, and explain by rules why it is low or high.

    Args:
        bins: of the prediction, which are the classes of the rules: an int for that many bins with
            equally many training records each, whatever their weights (or fewer bins where many
            records have the same number); or the numbers between the bins, increasing.
        schema, units, activation, aggregation, dropout, member_dropout, weight_decay, min_count,
        n_edges, compress, learning_rate, effort, epochs, batch_size, validation_split, patience,
        explainer, random_state, keep_data, verbose: same as in `NestedClassifier`.

    Attributes:
        edges_: array of the numbers between the bins.
        offset_: number that is added to the output of the network: 0, unless all numbers are so far
            from 0, relative to their differences, that float32 could not tell them apart, such as
            times in seconds since 1970.
        schema_, model_, history_, trials_, target_, rules_, explainer_: same as in
            `NestedClassifier`.

    Example:

    >>> regressor = keras_mmil.NestedRegressor(random_state=0).fit(customers, "spent")
    >>> regressor.predict(new_customers)
    >>> print(regressor.fit_rules().rules_)
    """

    fitted: ClassVar[tuple[str, ...]] = ("edges_", "offset_")

    bins: int | Sequence[float]

    def __init__(
        self,
        *,
        bins: int | Sequence[float] = 3,
        schema: Any = None,
        units: int = 16,
        activation: str = "relu",
        aggregation: Any = ("max", "mean", "sum"),
        dropout: float = 0.0,
        member_dropout: float = 0.0,
        weight_decay: float = 1.0,
        min_count: int = 2,
        n_edges: int = 0,
        compress: Any = "auto",
        learning_rate: Any = 4e-3,
        effort: str = "auto",
        epochs: int = 100,
        batch_size: int = 64,
        validation_split: float | None = None,
        patience: int | None = 10,
        explainer: Any = None,
        random_state: Any = None,
        keep_data: bool = False,
        verbose: int | str = "auto",
    ) -> None:
        self._set(locals())

    def predict(self, X: Any) -> Floats:
        """The number of each record, [records]."""
        return self._decide(self._network_outputs(self._read(X)))

    def rule_classes(self, y: Array, label: str | None = None) -> Ints:
        """The class of the rules that each number belongs to, its bin, [records].

        Args:
            y: numbers.
            label: None, as there is only one.
        """
        return _bin_of(self.edges_, y)

    def score(self, X: Any, y: Target, sample_weight: Any = None) -> float:
        """R²: the fraction of the variance that is explained.

        Args:
            X: records.
            y: their numbers, or the path of these; records without one are left out.
            sample_weight: of the records.
        """
        true, predicted, weights = self._scored(X, y, sample_weight)
        return float(r2_score(true, predicted, sample_weight=weights))

    def _decide(self, outputs: Array) -> Array:
        numbers = outputs[:, 0]
        return numbers.astype(np.float64) + self.offset_ if self.offset_ else numbers

    def _mismatch(self) -> str:
        edges, n = self.edges_, self.model_.output_shape[-1]
        if n != 1:
            return f"a network with {n} outputs"
        if edges.ndim != 1 or not len(edges) or not (np.diff(edges) > 0).all():
            return f"edges_={edges.tolist()}"
        return "" if isinstance(self.offset_, float) else f"offset_={self.offset_!r}"

    def _choose_kinds(self) -> None:
        if isinstance(self.target_, str):
            field = self.schema_[self.target_]
            if field.kind != "number" and field.type != "boolean":  # those are 0 and 1
                self.schema_[self.target_] = "number"

    def _encode(self, y: Array, weights: Floats) -> tuple[Labels, Array]:
        if y.ndim != 1 or y.dtype.kind not in "biuf" or not np.isfinite(y).all():
            raise ValueError(
                "Expected one finite number for each record. "
                f"Received: y of shape {y.shape} and dtype {y.dtype}"
            )
        y = y.astype(np.float64)
        self.edges_ = _edges(self.bins, y)
        mean, scale = _moments(y, weights)
        self.offset_ = mean if abs(mean) > _FAR * scale > 0 else 0.0
        y -= self.offset_
        if np.abs(y).max() > np.finfo(np.float32).max:
            raise ValueError(
                f"Expected numbers that float32 can hold. Received: {y[np.abs(y).argmax()]} in y"
            )
        labels = Labels("numbers", 1, mean=(mean - self.offset_,), scale=(scale,))
        return labels, y.astype(np.float32)

    def _decode(self, y: Array) -> Array:
        return y

    def _rule_target(self, label: str | None) -> dict[str, Any]:
        if label is not None:
            raise ValueError(f"Expected no label, as there is only one. Received: {label=}")
        texts = _edge_texts(self.edges_)
        between = [f"{a} to {b}" for a, b in itertools.pairwise(texts)]
        names = [f"below {texts[0]}", *between, f"from {texts[-1]}"]
        edges = self.edges_ - self.offset_
        return {"target": functools.partial(_bin_of, edges), "class_names": names}


def _edge_texts(edges: Floats) -> list[str]:
    """Numbers between bins, with six digits, or with as many as it takes to tell them apart."""
    values = edges.tolist()
    for digits in range(6, 18):
        texts = [number_text(x if x.is_integer() else float(f"{x:.{digits}g}")) for x in values]
        if len(set(texts)) == len(texts):
            break
    return texts


def _moments(y: Floats, weights: Floats) -> tuple[float, float]:
    """Mean and standard deviation of numbers."""
    weights = weights if weights.any() else np.ones_like(weights)  # `fit` refuses these later
    mean = float(np.average(y, weights=weights))
    return mean, float(np.average((y - mean) ** 2, weights=weights) ** 0.5)


def _edges(bins: int | Sequence[float], y: Floats) -> Floats:
    """The numbers between bins."""
    if isinstance(bins, Sequence | np.ndarray):
        edges = np.asarray(bins, np.float64)
        if not len(edges) or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
            raise ValueError(f"Expected increasing numbers. Received: bins={bins!r}")
        return edges
    n = check_int("bins", bins, least=2)
    edges = np.unique(np.quantile(y, np.arange(1, n) / n))
    above = edges[edges > y.min()]  # no number is below the lowest
    if len(above):
        return above
    others = y[y > y.min()]
    return others.min(keepdims=True) if len(others) else edges[:1]


def _bin_of(edges: Floats, outputs: Array) -> Ints:
    """The bin of each output, int [records]."""
    return np.digitize(np.asarray(outputs).reshape(-1), edges)

"""The regressor."""

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
from keras_mmil.estimators._given import Target
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.records.network import Labels

__all__ = ["NestedRegressor"]

_FAR = 1000.0  # standard deviations from 0: float32 has seven digits


class NestedRegressor(RegressorMixin, NestedEstimator):
    """Predict a number for nested records, and say by which rules it is low or high.

    Args:
        bins: what the rules are about: between which numbers the prediction is. An int for so many
            bins that hold equally many training records, whatever their weights, or fewer bins
            where many records have the same number; or the numbers between them, increasing.
        schema, units, activation, aggregation, dropout, member_dropout, weight_decay, min_count,
        n_edges, compress, learning_rate, epochs, batch_size, validation_split, patience, explainer,
        random_state, keep_data, verbose: as of `NestedClassifier`.

    Attributes:
        edges_: array of the numbers between the bins.
        offset_: number that `predict` adds to what the network says: 0, but where all numbers are
            so far from 0, for how little they differ, that float32 would not tell them apart, such
            as times in seconds since 1970.
        schema_, model_, history_, target_: as of `NestedClassifier`.

    Example:

    >>> regressor = keras_mmil.NestedRegressor(random_state=0).fit(customers, "spent")
    >>> regressor.predict(new_customers)
    >>> print(regressor.rules_)
    """

    fitted: ClassVar[tuple[str, ...]] = ("edges_", "offset_")

    def __init__(
        self,
        *,
        bins: int | Sequence[float] = 3,
        schema: Any = None,
        units: int = 32,
        activation: str = "relu",
        aggregation: Any = ("max", "mean"),
        dropout: float = 0.0,
        member_dropout: float = 0.0,
        weight_decay: float = 0.0,
        min_count: int = 2,
        n_edges: int = 0,
        compress: Any = "auto",
        learning_rate: Any = 1e-3,
        epochs: int = 100,
        batch_size: int = 32,
        validation_split: float = 0.1,
        patience: int | None = 10,
        explainer: Any = None,
        random_state: Any = None,
        keep_data: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            schema=schema,
            units=units,
            activation=activation,
            aggregation=aggregation,
            dropout=dropout,
            member_dropout=member_dropout,
            weight_decay=weight_decay,
            min_count=min_count,
            n_edges=n_edges,
            compress=compress,
            learning_rate=learning_rate,
            epochs=epochs,
            batch_size=batch_size,
            validation_split=validation_split,
            patience=patience,
            explainer=explainer,
            random_state=random_state,
            keep_data=keep_data,
            verbose=verbose,
        )
        self.bins = bins

    def predict(self, X: Any) -> Floats:
        """The number of each record, [records]."""
        return self._decide(self._predicted(X))

    def rule_classes(self, y: Array, label: str | None = None) -> Ints:
        """Which of the classes of the rules numbers are: their bins, [records].

        Args:
            y: numbers.
            label: None, as there is but one.
        """
        return _bin_of(self.edges_, y)

    def score(self, X: Any, y: Target, sample_weight: Any = None) -> float:
        """R²: the share of the variance that is explained.

        Args:
            X: records.
            y: their numbers, or the path where they are; those without one do not count.
            sample_weight: of the records.
        """
        true, predicted, weights = self._scored(X, y, sample_weight)
        return float(r2_score(true, predicted, sample_weight=weights))

    def _decide(self, outputs: Array) -> Array:
        numbers = outputs[:, 0]
        return numbers.astype(np.float64) + self.offset_ if self.offset_ else numbers

    def _unlike_model(self) -> str:
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

    def _explained(self, label: str | None) -> dict[str, Any]:
        if label is not None:
            raise ValueError(f"Expected no label, for a number. Received: {label=}")
        texts = _texts(self.edges_)
        between = [f"{a} to {b}" for a, b in itertools.pairwise(texts)]
        names = [f"below {texts[0]}", *between, f"from {texts[-1]}"]
        edges = self.edges_ - self.offset_
        return {"target": functools.partial(_bin_of, edges), "class_names": names}


def _texts(edges: Floats) -> list[str]:
    """Numbers between bins: whole ones, and others in six digits or as many as tell them apart."""
    values = edges.tolist()
    for digits in range(6, 18):
        texts = [number_text(x if x.is_integer() else float(f"{x:.{digits}g}")) for x in values]
        if len(set(texts)) == len(texts):
            break
    return texts


def _moments(y: Floats, weights: Floats) -> tuple[float, float]:
    """Mean and standard deviation of numbers."""
    weights = weights if weights.any() else np.ones_like(weights)  # which is refused later
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

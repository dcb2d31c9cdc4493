"""The ways in which a bag of cluster labels is described to a decision tree."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from keras_mmil._support.types import Array, Ints

__all__ = [
    "COUNT",
    "FREQUENCY",
    "OCCURRENCE",
    "WEIGHT",
    "Feature",
    "Members",
    "bag_features",
    "get",
]

# Frequencies are rounded to float32 one by one, so that their sum is 1 up to this.
_ROUNDING = 1e-6


class Members(Protocol):
    """The members of some bags, as `bag_features` reads them."""

    @property
    def members(self) -> Ints:
        """Row of each member, [members]."""

    @property
    def bag_ids(self) -> Ints:
        """Bag of each member, [members]."""

    @property
    def weights(self) -> Array:
        """Multiplicity or importance of each member, [members]."""

    @property
    def n_bags(self) -> int:
        """Number of bags."""


@dataclass(frozen=True)
class Feature:
    """One number for each cluster: how much of it is in a bag.

    Its functions are functions of a module, because lambdas cannot be pickled.

    Attributes:
        name: "occurrence", "frequency", "count", or "weight" (a count with fractions).
        of_weights: maps the summed weights of each cluster in each bag [bags, k] to the features.
        feasible: whether boxes `(low, high]`, each [..., k], hold the features of any bag at all:
            bool [...]; true where rounding makes it doubtful.
    """

    name: str
    of_weights: Callable[[Array], Array]
    feasible: Callable[[Array, Array], Array]


def bag_features(feature: Feature, labels: Ints, n_clusters: int, nesting: Members) -> Array:
    """Describe bags by the labels of their members.

    Args:
        feature: what of the labels.
        labels: cluster of each row, int [rows].
        n_clusters: k.
        nesting: which rows are in which bag.

    Returns:
        float32 [bags, k]; zeros for an empty bag.
    """
    cells = nesting.bag_ids * n_clusters + labels[nesting.members]
    weights = np.bincount(cells, nesting.weights, minlength=nesting.n_bags * n_clusters)
    weights = weights.astype(float)  # of no members at all, NumPy makes ints
    return feature.of_weights(weights.reshape(-1, n_clusters)).astype(np.float32)


# From weights to features -----------------------------------------------------------------------


def _occurrences(weights: Array) -> Array:
    return weights > 0


def _frequencies(weights: Array) -> Array:
    totals = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)


def _weights(weights: Array) -> Array:
    return weights


# Feasible boxes ---------------------------------------------------------------------------------


def _some_occurrences(low: Array, high: Array) -> Array:
    """Every vector of zeros and ones is that of a bag."""
    return np.all(((low < 0) & (high >= 0)) | ((low < 1) & (high >= 1)), axis=-1)


def _some_frequencies(low: Array, high: Array) -> Array:
    """Frequencies are non-negative and sum to 1; those of an empty bag are all 0."""
    holds_zero = ((low < 0) & (high >= 0)).all(axis=-1)
    proper = ((low < high) & (low < 1) & (high >= 0)).all(axis=-1)
    least, most = np.maximum(low, 0).sum(axis=-1), np.minimum(high, 1).sum(axis=-1)
    return holds_zero | proper & (least <= 1 + _ROUNDING) & (most >= 1 - _ROUNDING)


def _some_weights(low: Array, high: Array) -> Array:
    """Every vector of non-negative numbers is that of a bag."""
    return np.all((low < high) & (high >= 0), axis=-1)


OCCURRENCE = Feature("occurrence", _occurrences, _some_occurrences)
FREQUENCY = Feature("frequency", _frequencies, _some_frequencies)
COUNT = Feature("count", _weights, _some_weights)
WEIGHT = Feature("weight", _weights, _some_weights)

_FEATURES = {feature.name: feature for feature in (OCCURRENCE, FREQUENCY, COUNT, WEIGHT)}


def get(name: str) -> Feature:
    """The `Feature` of a name.

    Raises:
        ValueError: if there is none.
    """
    if name not in _FEATURES:
        raise ValueError(f"Expected one of {sorted(_FEATURES)}. Received: features={name!r}")
    return _FEATURES[name]

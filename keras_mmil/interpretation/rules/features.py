"""The ways in which a bag of cluster labels is described to a decision tree."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["COUNT", "FREQUENCY", "OCCURRENCE", "WEIGHT", "Feature", "bag_features", "get"]

# Frequencies are rounded to float32 one by one, so that their sum is 1 up to this.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Feature:
    """One number for each cluster: how much of it is in a bag.

    Its functions are those of a module, no lambdas, so that whatever has a feature can be pickled.

    Attributes:
        name: "occurrence", "frequency", "count", or "weight" (a count with fractions).
        of_weights: maps the summed weights of each cluster in each bag [bags, k] to the features.
        feasible: whether boxes `(low, high]`, each [..., k], hold the features of any bag at all:
            bool [...]. Where rounding makes it doubtful the answer is yes.
        text: words a condition: (name of the cluster, low, high) to str.
    """

    name: str
    of_weights: Callable
    feasible: Callable
    text: Callable


def bag_features(feature, labels, n_clusters, nesting):
    """Describe bags by the labels of their members.

    Args:
        feature: a `Feature`.
        labels: cluster of each row, int [rows].
        n_clusters: k.
        nesting: the `Grouping` of the rows in bags.

    Returns:
        float32 [bags, k]; zeros for an empty bag.
    """
    cells = nesting.bag_ids * n_clusters + labels[nesting.members]
    weights = np.bincount(cells, nesting.weights, minlength=nesting.n_bags * n_clusters)
    weights = weights.astype(float)  # of no members at all, NumPy makes ints
    return feature.of_weights(weights.reshape(-1, n_clusters)).astype(np.float32)


# From weights to features -----------------------------------------------------------------------


def _occurrences(weights):
    return weights > 0


def _frequencies(weights):
    totals = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)


def _weights(weights):
    return weights


# Feasible boxes ---------------------------------------------------------------------------------


def _some_occurrences(low, high):
    """Every vector of zeros and ones is that of a bag."""
    return (((low < 0) & (high >= 0)) | ((low < 1) & (high >= 1))).all(axis=-1)


def _some_frequencies(low, high):
    """Frequencies are non-negative and sum to 1; those of an empty bag are all 0."""
    holds_zero = ((low < 0) & (high >= 0)).all(axis=-1)
    proper = ((low < high) & (low < 1) & (high >= 0)).all(axis=-1)
    least, most = np.maximum(low, 0).sum(axis=-1), np.minimum(high, 1).sum(axis=-1)
    return holds_zero | proper & (least <= 1 + _ROUNDING) & (most >= 1 - _ROUNDING)


def _some_weights(low, high):
    """Every vector of non-negative numbers is that of a bag."""
    return ((low < high) & (high >= 0)).all(axis=-1)


# Wording ----------------------------------------------------------------------------------------


def _occurrence_text(name, low, high):
    return f"o_{name}={int(low >= 0)}"


def _frequency_text(name, low, high):
    return _interval_text(f"f_{name}", 100 * low, 100 * high) + " %"


def _weight_text(name, low, high):
    return _interval_text(f"c_{name}", low, high)


def _count_text(name, low, high):
    least, most = np.floor(low) + 1, np.floor(high)
    if least == most:
        return f"c_{name} = {least:.0f}"
    if most == np.inf:
        return f"c_{name} ≥ {least:.0f}"
    if least <= 0:
        return f"c_{name} ≤ {most:.0f}"
    return f"c_{name} ∈ [{least:.0f}, {most:.0f}]"


def _interval_text(symbol, low, high):
    if high == np.inf:
        return f"{symbol} > {low:.4g}"
    if low < 0:
        return f"{symbol} ≤ {high:.4g}"
    return f"{symbol} ∈ ({low:.4g}, {high:.4g}]"


OCCURRENCE = Feature("occurrence", _occurrences, _some_occurrences, _occurrence_text)
FREQUENCY = Feature("frequency", _frequencies, _some_frequencies, _frequency_text)
COUNT = Feature("count", _weights, _some_weights, _count_text)
WEIGHT = Feature("weight", _weights, _some_weights, _weight_text)

_FEATURES = {feature.name: feature for feature in (OCCURRENCE, FREQUENCY, COUNT, WEIGHT)}


def get(name):
    """The `Feature` of a name.

    Raises:
        ValueError: if there is none.
    """
    if name not in _FEATURES:
        raise ValueError(f"Expected one of {sorted(_FEATURES)}. Received: features={name!r}")
    return _FEATURES[name]

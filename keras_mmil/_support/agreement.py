"""How often labels agree, and how often a constant label would."""

import numpy as np

from keras_mmil._support.types import Array

__all__ = ["agreement", "majority"]


def majority(labels: Array) -> float:
    """The share of the most frequent label among labels [n]: the accuracy of naming it for all."""
    return float(np.unique(labels, return_counts=True)[1].max() / len(labels))


def agreement(metric: str, labels: Array, truth: Array) -> dict[str, float]:
    """How often labels agree with the true ones.

    Args:
        metric: what to call that.
        labels, truth: int [n].

    Returns:
        Dict of fractions: under `metric` the share of labels that agree; under `metric` followed by
        "_majority" the share of the most frequent label in `truth`.
    """
    return {metric: float(np.mean(labels == truth)), f"{metric}_majority": majority(truth)}

"""How often labels agree, and how often they would if one class were named for all."""

import numpy as np

from keras_mmil._support.types import Array

__all__ = ["agreement", "majority"]


def majority(labels: Array) -> float:
    """The share of the most frequent of some labels [n]: how often it alone would be right."""
    return float(np.unique(labels, return_counts=True)[1].max() / len(labels))


def agreement(metric: str, labels: Array, truth: Array) -> dict[str, float]:
    """How often labels are what they should be.

    Args:
        metric: what to call that.
        labels, truth: int [n].

    Returns:
        Dict of fractions: under `metric` that of the labels that agree, under the same with
        "_majority" behind it the share of the most frequent label of `truth`.
    """
    return {metric: float(np.mean(labels == truth)), f"{metric}_majority": majority(truth)}

"""All that is private to scikit-learn."""

from typing import Any

from keras_mmil._support.types import Array

__all__ = ["boosted"]


def boosted(model: Any) -> tuple[list[list[Array]], Array] | None:
    """The trees of boosting by histograms, which has no public access to them.

    Args:
        model: a fitted model.

    Returns:
        For each round, the nodes of the tree of each output, as a structured array; and what is
        predicted without trees, [outputs]. None for models of other kinds.
    """
    if not hasattr(model, "_predictors"):
        return None
    rounds = [[tree.nodes for tree in of_round] for of_round in model._predictors]
    return rounds, model._baseline_prediction.reshape(-1)

"""Normalisation over distinct rows, which is refused."""

from typing import Any

import keras

from keras_mmil.functional.graph import all_layers, call_arguments, nodes_under
from keras_mmil.layers.bag_layer import BagLayer
from keras_mmil.layers.distinct import Distinct, DistinctRows

__all__ = ["check_normalisation"]


def check_normalisation(model: keras.Model) -> None:
    """Raise ValueError where a functional model averages over the distinct rows of a batch.

    `BatchNormalization` between `Distinct`, or `DistinctRows`, and a bag-layer that takes its
    members would count each row once, however often it occurs, and so compute another function than
    on plain instances.
    """
    for bag_layer in nodes_under(model.outputs, model.inputs):
        if not isinstance(bag_layer.operation, BagLayer):
            continue
        arguments = call_arguments(bag_layer)
        rows = [arguments["inputs"]] if "members" in arguments else []
        for node in nodes_under(rows, model.inputs):
            name = _normalisation_in(node.operation)
            below = nodes_under(node.input_tensors, model.inputs) if name else []
            if any(isinstance(other.operation, (Distinct, DistinctRows)) for other in below):
                raise ValueError(
                    "Expected no BatchNormalization between Distinct and a bag-layer: it would "
                    "average over distinct rows, not over their occurrences. LayerNormalization "
                    f"knows no such difference. Received: layer={name!r}"
                )


def _normalisation_in(layer: Any) -> str | None:
    """Name of a batch normalisation that a layer is or contains, or None."""
    if isinstance(layer, keras.Layer):
        for inner in [layer, *all_layers(layer)]:
            if isinstance(inner, keras.layers.BatchNormalization):
                return inner.name
    return None

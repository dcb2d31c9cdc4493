"""Normalisation over distinct rows, which is refused."""

import keras

from keras_mmil.layers.bag_layer import BagLayer
from keras_mmil.layers.distinct import Distinct

__all__ = ["check_normalisation"]


def check_normalisation(outputs):
    """Raise ValueError where a model averages over the distinct rows of a batch.

    `BatchNormalization` between `Distinct` and a bag-layer that takes its members would count each
    row once, however often it occurs, and so compute another function than on plain instances.

    Args:
        outputs: outputs of a functional model, a list of symbolic tensors.
    """
    found = set()  # (tensor, the normalisation above it that a bag-layer's rows go through)
    pending = [(x, None, False) for x in outputs]
    while pending:
        x, normalisation, are_rows = pending.pop()
        layer, node_index, _ = x._keras_history
        if (id(x), normalisation, are_rows) in found or not layer._inbound_nodes:
            continue
        found.add((id(x), normalisation, are_rows))
        if isinstance(layer, Distinct):
            if normalisation is not None:
                raise ValueError(
                    "Expected no BatchNormalization between Distinct and a bag-layer: it would "
                    "average over distinct rows, not over their occurrences. LayerNormalization "
                    f"knows no such difference. Received: layer={normalisation!r}"
                )
            continue
        node = layer._inbound_nodes[node_index]
        if isinstance(layer, BagLayer):
            members = node.arguments.kwargs.get("members", None)
            is_by_member = members is not None or len(node.arguments.args) > 1
            rows, *others = node.input_tensors
            pending.append((rows, normalisation, is_by_member))
            pending += [(tensor, None, False) for tensor in others]
            continue
        if are_rows and normalisation is None:
            normalisation = _normalisation_in(layer)
        pending += [(tensor, normalisation, are_rows) for tensor in node.input_tensors]


def _normalisation_in(layer):
    """Name of a batch normalisation that a layer is or contains, or None."""
    if isinstance(layer, keras.Layer):
        for inner in layer._flatten_layers():
            if isinstance(inner, keras.layers.BatchNormalization):
                return inner.name
    return None

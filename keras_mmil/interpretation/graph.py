"""The bag-layers of a functional model, and how they are connected."""

import itertools

import keras

from keras_mmil.layers import BagLayer
from keras_mmil.layers.graph import nodes_under

__all__ = ["bag_nodes", "functional"]


def functional(model):
    """The functional form of a Keras model.

    Raises:
        TypeError: if it is not a Keras model.
        ValueError: if it is not functional.
    """
    if not isinstance(model, keras.Model):
        raise TypeError(f"Expected a Keras model. Received: model of type {type(model).__name__}")
    if isinstance(model, keras.Sequential) and model.built:
        model = model._functional
    if not hasattr(model, "_inputs_struct"):
        raise ValueError(
            "Expected a functional model, whose bag-layers can be found. "
            f"Received: model={model.name!r} of type {type(model).__name__}"
        )
    return model


def bag_nodes(model):
    """The nodes where a functional model calls its bag-layers, from the instances upwards.

    Raises:
        ValueError: if it has none; if they are not a chain, each called once; or if a nested model
            or a layer hides some.
    """
    nodes = nodes_under(model.outputs, model.inputs)
    _check_nothing_hidden(node.operation for node in nodes)
    nodes = [node for node in nodes if isinstance(node.operation, BagLayer)]
    layers = [node.operation for node in nodes]
    if not nodes:
        raise ValueError(f"Expected a model with bag-layers. Received: model={model.name!r}")
    for layer in layers:
        if layers.count(layer) > 1:
            raise ValueError(
                "Expected bag-layers that are called once each, for one that is called twice "
                f"has no level of its own. Received: layer={layer.name!r}"
            )
    below = {id(n): nodes_under(n.input_tensors, model.inputs) for n in nodes}
    nodes = sorted(nodes, key=lambda node: sum(other in below[id(node)] for other in nodes))
    for lower, upper in itertools.pairwise(nodes):
        if lower not in below[id(upper)]:
            raise ValueError(
                "Expected bag-layers one above the other, for parallel ones use one BagLayer with "
                "several aggregations. Received: layers "
                f"{lower.operation.name!r} and {upper.operation.name!r} side by side"
            )
    return nodes


def _check_nothing_hidden(operations):
    for layer in operations:
        if not isinstance(layer, keras.Layer) or isinstance(layer, BagLayer):
            continue
        for inner in layer._flatten_layers(include_self=False):
            if isinstance(inner, BagLayer):
                raise ValueError(
                    "Expected bag-layers in the model itself, not inside one of its layers. "
                    f"Received: layer={inner.name!r} in {layer.name!r}"
                )

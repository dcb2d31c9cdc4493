"""The bag-layers of a functional model, and how they are connected."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras

from keras_mmil.functional.graph import (
    Node,
    all_layers,
    call_arguments,
    is_functional,
    nodes_under,
    operation_of,
)
from keras_mmil.layers import BagLayer

__all__ = ["bag_nodes", "functional", "tensors_above"]


def functional(model: Any) -> keras.Model:
    """The functional form of a Keras model.

    Raises:
        TypeError: if it is not a Keras model.
        ValueError: if it is not functional.
    """
    if not isinstance(model, keras.Model):
        raise TypeError(f"Expected a Keras model. Received: model of type {type(model).__name__}")
    if isinstance(model, keras.Sequential) and model.built:
        model = model._functional
    if not is_functional(model):
        raise ValueError(
            "Expected a functional model, whose bag-layers can be found. "
            f"Received: model={model.name!r} of type {type(model).__name__}"
        )
    return model


def bag_nodes(model: keras.Model) -> list[Node]:
    """The nodes where a functional model calls its bag-layers, from the instances upwards.

    Raises:
        ValueError: if it has none; if they are not a chain, each called once; if a nested model or
            a layer hides some; or if anything reaches what is above a bag-layer beside it.
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
    _check_nothing_beside(model, nodes)
    return nodes


def tensors_above(model: keras.Model, nodes: Sequence[Node]) -> list[list[keras.KerasTensor]]:
    """What is above each bag-layer: the `inputs` of the next; of the last, the model's outputs.

    Returns:
        A list of symbolic tensors for each node.
    """
    return [*([call_arguments(node)["inputs"]] for node in nodes[1:]), model.outputs]


def _check_nothing_hidden(operations: Iterable[Any]) -> None:
    for layer in operations:
        if not isinstance(layer, keras.Layer) or isinstance(layer, BagLayer):
            continue
        for inner in all_layers(layer):
            if isinstance(inner, BagLayer):
                raise ValueError(
                    "Expected bag-layers in the model itself, not inside one of its layers. "
                    f"Received: layer={inner.name!r} in {layer.name!r}"
                )


def _check_nothing_beside(model: keras.Model, nodes: Sequence[Node]) -> None:
    """Raise ValueError where what is above a bag-layer is not computed from its output alone.

    Rules read nothing of a bag but the clusters of its members. How bags are made of rows, the
    `members` and `weights` of a bag-layer, is read as it is, whatever it is computed from.
    """
    readers = [*(f"bag-layer {node.operation.name!r}" for node in nodes[1:]), "the model's output"]
    for node, tensors, reader in zip(nodes, tensors_above(model, nodes), readers, strict=True):
        if joins := list(_joins(model, node, tensors, reader)):
            raise ValueError(
                f"Expected {reader} to be computed from bag-layer {node.operation.name!r} alone, "
                f"for rules cannot read what joins it. Received: {'; '.join(joins)}"
            )


def _joins(
    model: keras.Model, node: Node, tensors: Sequence[keras.KerasTensor], reader: str
) -> Iterator[str]:
    """Where something joins the output of a bag-layer on the way to `tensors`: descriptions."""
    readers = [(reader, tensors)]
    for upper in nodes_under(tensors, node.outputs):
        if any(node in nodes_under([x], model.inputs) for x in upper.input_tensors):
            readers.append((f"layer {upper.operation.name!r}", upper.input_tensors))
    for name, read in readers:
        for x in read:
            below = nodes_under([x], node.outputs)
            inputs = sorted(lower.operation.name for lower in below if lower.is_input)
            if inputs and node not in nodes_under([x], model.inputs):
                source = operation_of(x).name
                is_input = inputs == [source]
                what = f"input {source!r}" if is_input else f"{source!r}, computed from {inputs}"
                yield f"{name} reads {what}"

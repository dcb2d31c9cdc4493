"""The graph of a functional model, as Keras keeps it: its nodes, tensors and layers."""

import inspect
from collections.abc import Iterable
from typing import Any, TypeAlias

import keras

__all__ = [
    "Node",
    "all_layers",
    "call_arguments",
    "is_functional",
    "is_optional",
    "nodes_under",
    "operation_of",
    "ordered_nodes",
    "producer_of",
    "seed_generators",
]

Node: TypeAlias = Any  # Keras's, one for each call of a layer or operation; its class is not public


def is_functional(layer: Any) -> bool:
    """Whether a layer is a functional model, whose graph is known."""
    return hasattr(layer, "_nodes_by_depth")


def operation_of(tensor: keras.KerasTensor) -> Any:
    """The layer or operation whose output a symbolic tensor is."""
    return tensor._keras_history.operation


def producer_of(tensor: keras.KerasTensor) -> Node:
    """The node, a call of a layer or operation, whose result a symbolic tensor is."""
    operation, index, _ = tensor._keras_history
    return operation._inbound_nodes[index]


def is_optional(tensor: keras.KerasTensor) -> bool:
    """Whether a symbolic tensor is an input made with `optional=True`."""
    history = getattr(tensor, "_keras_history", None)
    return history is not None and getattr(history.operation, "optional", False)


def all_layers(layer: keras.Layer) -> list[keras.Layer]:
    """All layers within a layer or model, at any depth, without itself."""
    return list(layer._flatten_layers(include_self=False))


def seed_generators(model: keras.Model) -> list[keras.random.SeedGenerator]:
    """All random number generators of a model's layers, such as that of a `Dropout`."""
    return [
        generator for layer in [model, *all_layers(model)] for generator in layer._seed_generators
    ]


def call_arguments(node: Node) -> dict[str, Any]:
    """What a layer is called with at a node, by the names of its arguments; those not None."""
    arguments = inspect.signature(node.operation.call).bind(
        *node.arguments.args, **node.arguments.kwargs
    )
    return {name: x for name, x in arguments.arguments.items() if x is not None}


def nodes_under(
    tensors: Iterable[keras.KerasTensor], inputs: Iterable[keras.KerasTensor]
) -> list[Node]:
    """All nodes whose results `tensors` are computed from, without those of the model's inputs."""
    stop = {id(x) for x in inputs}
    found: dict[int, Node] = {}
    pending = list(tensors)
    while pending:
        tensor = pending.pop()
        node = producer_of(tensor)
        if id(tensor) not in stop and id(node) not in found:
            found[id(node)] = node
            pending += node.input_tensors
    return list(found.values())


def ordered_nodes(model: keras.Model) -> list[Node]:
    """All nodes of a functional model, each after those it depends on, without those of inputs."""
    by_depth = model._nodes_by_depth
    nodes = [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]
    return [node for node in nodes if not node.is_input]

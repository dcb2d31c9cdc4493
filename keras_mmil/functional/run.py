"""Nodes of a functional model, run on values or on other symbolic tensors."""

from collections.abc import Iterable
from typing import Any

import keras

from keras_mmil.functional.graph import Node, ordered_nodes
from keras_mmil.layers import DistinctBags

__all__ = ["input_values", "reapply", "run_in_order", "run_nodes"]


def run_nodes(
    nodes: Iterable[Node],
    values: dict[int, Any],
    training: bool | None = None,
    compress: bool | None = None,
) -> None:
    """Compute the outputs of nodes, symbolic or not.

    Args:
        nodes: in an order in which each comes after those it depends on.
        values: dict from the ids of symbolic tensors to values, to which the outputs are added.
        training: whether this is training, for layers that take that argument; None not to say.
        compress: likewise of `DistinctBags`.
    """
    for node in nodes:
        args, kwargs = node.arguments.fill_in(values)
        if training is not None and getattr(node.operation, "_call_has_training_arg", False):
            kwargs["training"] = training
        if compress is not None and isinstance(node.operation, DistinctBags):
            kwargs["compress"] = compress
        outputs = node.operation(*args, **kwargs)
        for x, value in zip(node.outputs, keras.tree.flatten(outputs), strict=True):
            values[id(x)] = value


def run_in_order(model: keras.Model, inputs: Any) -> Any:
    """The outputs of a functional model, not in training, where all bags are as they are given.

    Args:
        model: a functional Keras model. Its `DistinctBags` leave members and bags in their order,
            equal ones each in its place.
        inputs: what it takes, in the structure of its inputs.
    """
    values = input_values(model, inputs)
    run_nodes(ordered_nodes(model), values, training=False, compress=False)
    return keras.tree.map_structure(lambda x: values[id(x)], model.output)


def input_values(model: keras.Model, inputs: Any) -> dict[int, Any]:
    """A dict from the ids of a functional model's symbolic inputs to values.

    Args:
        model: the model.
        inputs: what it takes, in the structure of its inputs.
    """
    flat = keras.tree.flatten(model._standardize_inputs(inputs))
    return {id(x): value for x, value in zip(model.inputs, flat, strict=True)}


def reapply(model: keras.Model, inputs: Any) -> Any:
    """The symbolic outputs of a functional model on others than its own symbolic inputs.

    Its layers, and so its weights, are shared, and stand side by side with the layers that
    `inputs` come from: calling the model would put it as one layer behind them, and
    `keras.models.clone_model` would cut it off from them.

    Args:
        model: a functional Keras model.
        inputs: symbolic tensors, in the structure of its inputs.
    """
    pairs = zip(model.inputs, keras.tree.flatten(inputs), strict=True)
    values = {id(x): value for x, value in pairs}
    run_nodes(ordered_nodes(model), values)
    return keras.tree.map_structure(lambda x: values[id(x)], model.output)

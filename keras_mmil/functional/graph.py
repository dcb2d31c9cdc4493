"""The graph of a functional model."""

import inspect

import keras

__all__ = [
    "call_arguments",
    "mark_cloned_inputs",
    "nodes_under",
    "ordered_nodes",
    "reapply",
    "run_nodes",
    "seed_generators",
]


def call_arguments(node):
    """The symbolic tensors that a bag-layer is called on: `inputs`, `members`, `weights`."""
    arguments = inspect.signature(node.operation.call).bind(
        *node.arguments.args, **node.arguments.kwargs
    )
    return {name: x for name, x in arguments.arguments.items() if x is not None}


def mark_cloned_inputs(inputs, originals):
    """Make inputs ragged and optional as the originals are, which `clone_model` of Keras forgets.

    Args:
        inputs: symbolic inputs, new and not used yet. Of another name than the original, somebody
            chose them, and they stay as they are.
        originals: the inputs of the model that is cloned.
    """
    for new, old in zip(keras.tree.flatten(inputs), originals, strict=True):
        if new.name == old.name:
            layer, original = (x._keras_history.operation for x in (new, old))
            new._ragged = layer.ragged = old.ragged
            layer.optional = original.optional


def nodes_under(tensors, inputs):
    """All nodes whose results `tensors` are computed from, without those of the model's inputs."""
    stop = {id(x) for x in inputs}
    found, pending = {}, list(tensors)
    while pending:
        tensor = pending.pop()
        operation, node_index, _ = tensor._keras_history
        node = operation._inbound_nodes[node_index]
        if id(tensor) not in stop and id(node) not in found:
            found[id(node)] = node
            pending += node.input_tensors
    return list(found.values())


def ordered_nodes(model):
    """All nodes of a functional model, each after those it depends on, without those of inputs."""
    by_depth = model._nodes_by_depth
    nodes = [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]
    return [node for node in nodes if not node.is_input]


def run_nodes(nodes, values, training=None):
    """Compute the outputs of nodes, symbolic or not.

    Args:
        nodes: list, each behind those it depends on.
        values: dict from the ids of symbolic tensors to values, to which the outputs are added.
        training: whether this is training, for layers that want to know; None not to say.
    """
    for node in nodes:
        args, kwargs = node.arguments.fill_in(values)
        if training is not None and getattr(node.operation, "_call_has_training_arg", False):
            kwargs["training"] = training
        outputs = node.operation(*args, **kwargs)
        for x, value in zip(node.outputs, keras.tree.flatten(outputs), strict=True):
            values[id(x)] = value


def reapply(model, inputs):
    """The symbolic outputs of a functional model on others than its own symbolic inputs.

    Its layers, and so its weights, are shared, and stand side by side with the layers that
    `inputs` come from: calling the model would put it as one layer behind them.

    Args:
        model: a functional Keras model.
        inputs: symbolic tensors, in the structure of its inputs.
    """
    pairs = zip(model.inputs, keras.tree.flatten(inputs), strict=True)
    values = {id(x): value for x, value in pairs}
    run_nodes(ordered_nodes(model), values)
    return keras.tree.map_structure(lambda x: values[id(x)], model._outputs_struct)


def seed_generators(model):
    """All random number generators of a model's layers, such as that of a `Dropout`."""
    return [generator for layer in model._flatten_layers() for generator in layer._seed_generators]

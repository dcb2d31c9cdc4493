"""The graph of a functional model."""

import inspect

__all__ = ["call_arguments", "nodes_under"]


def call_arguments(node):
    """The symbolic tensors that a bag-layer is called on: `inputs`, `members`, `weights`."""
    arguments = inspect.signature(node.operation.call).bind(
        *node.arguments.args, **node.arguments.kwargs
    )
    return {name: x for name, x in arguments.arguments.items() if x is not None}


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

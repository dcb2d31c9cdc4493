"""What the bags of a network are called in the data."""

import re
from collections.abc import Sequence

from keras_mmil._support.keras_internals import (
    Node,
    call_arguments,
    nodes_under,
    operation_of,
)
from keras_mmil.model.tree import BagTree

__all__ = ["bag_paths", "is_in_a_row"]

# What Keras calls inputs without a name, by how many it has made before.
_AUTOMATIC = re.compile(r"(?:input_layer|keras_tensor)(?:_\d+)?")


def bag_paths(tree: BagTree) -> tuple[str, ...]:
    """What the bags of each bag-layer are called in the data; empty where it has no name.

    Bags of records have the paths of their fields. In a chain of bag-layers others have no name, as
    their depth says what they are. In any other tree they are called as the input that they come
    from, and those in them by their depth there.
    """
    given = [_field(node) for node in tree.nodes]
    if is_in_a_row(tree.parents):
        return tuple(given)
    paths = dict(enumerate(given))
    for layer in reversed(range(len(given))):  # those around others first
        if not paths[layer]:
            around = paths.get(tree.parents[layer], "")
            word = "sub-bags" if layer in tree.parents else "instances"
            paths[layer] = f"{around}.{word}" if around else _input(tree.nodes[layer]) or word
    return tuple(paths.values())


def is_in_a_row(parents: Sequence[int]) -> bool:
    """Whether each bag-layer is above the one before."""
    return tuple(parents) == tuple(range(1, len(parents) + 1))


def _field(node: Node) -> str:
    """The path of the field whose bags a bag-layer reads; empty if they are of none."""
    members = call_arguments(node).get("members")
    return "" if members is None else getattr(operation_of(members), "field", "")


def _input(node: Node) -> str:
    """The name of the only input that a bag-layer is computed from; empty if it has none."""
    nodes = nodes_under(node.input_tensors, ())
    names = [each.operation.name for each in nodes if each.is_input]
    return names[0] if len(names) == 1 and not _AUTOMATIC.fullmatch(names[0]) else ""

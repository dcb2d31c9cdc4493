"""What the layers of a functional model take its inputs for."""

from typing import Any, NamedTuple

import keras

from keras_mmil.bags import input_names
from keras_mmil.functional.graph import Node, call_arguments, is_functional, ordered_nodes
from keras_mmil.layers._bags import depth_of
from keras_mmil.layers.bag_layer import BagLayer
from keras_mmil.layers.dense import ConcatDense
from keras_mmil.layers.distinct import Distinct, DistinctRows
from keras_mmil.layers.encoders import FieldEncoder
from keras_mmil.layers.instance_wise import InstanceWise

__all__ = [
    "AlikeInputs",
    "IdLimit",
    "alike_inputs",
    "compressed_inputs",
    "id_limits",
    "inputs_with_missing",
]

# They move ids, and leave each as it is.
_RESHAPING = (keras.layers.Flatten, keras.layers.Reshape, keras.layers.Permute)


class IdLimit(NamedTuple):
    """What a layer asks of ids.

    Attributes:
        size: number of its ids, from 0; None where that is not known.
        layer: its name.
    """

    size: int | None
    layer: str


class AlikeInputs(NamedTuple):
    """Two inputs whose bags have to be of the same sizes.

    Attributes:
        bags: index of the bags in `model.inputs`.
        part: index of what goes with them.
        levels: how many levels of bags they share, from the top-bags inwards.
    """

    bags: int
    part: int
    levels: int


def id_limits(model: keras.Model) -> dict[int, IdLimit]:
    """Find the inputs of a functional model that are ids, such as the rows of an `Embedding`.

    Followed are ids through `Distinct`, `DistinctRows`, `InstanceWise`, models within the model,
    and layers that reshape. What a layer does that is not of Keras or of this package is not known.

    Args:
        model: a functional Keras model.

    Returns:
        A dict from the index of an input, in `model.inputs`, to the smallest `IdLimit` on it.
    """
    source = {id(x): index for index, x in enumerate(model.inputs)}
    limits: dict[int, IdLimit] = {}
    for node in ordered_nodes(model):
        for x, limit in _ids_taken(node):
            if id(x) in source:
                index = source[id(x)]
                limits[index] = min(limits.get(index, limit), limit, key=_size)
        for x, output in _ids_passed_on(node):
            if id(x) in source:
                source[id(output)] = source[id(x)]
    return limits


def alike_inputs(model: keras.Model) -> list[AlikeInputs]:
    """Find the inputs of a functional model whose bags have to be of the same sizes.

    These are the parts of `Bags` that go into a `Distinct`, the columns of a `DistinctRows`, and
    the weights of a `BagLayer`.

    Args:
        model: a functional Keras model.

    Returns:
        List of `AlikeInputs`, without any twice.
    """
    index = {id(x): i for i, x in enumerate(model.inputs)}
    pairs = [
        AlikeInputs(bags=index[id(bags)], part=index[id(part)], levels=depth)
        for node in ordered_nodes(model)
        for bags, part, depth in _alike(node)
        if id(bags) in index and id(part) in index
    ]
    return sorted(set(pairs))


def compressed_inputs(model: keras.Model) -> list[dict[str, int]]:
    """Find the inputs of a functional model that are the components of `Bags`.

    Args:
        model: a functional Keras model.

    Returns:
        List of dicts, one for each `Distinct` that takes inputs of the model: from the name of a
        component to the index of the input.
    """
    index = {id(x): i for i, x in enumerate(model.inputs)}
    found = []
    for node in ordered_nodes(model):
        if isinstance(node.operation, Distinct):
            parts = call_arguments(node)["inputs"]
            found.append({name: index[id(x)] for name, x in parts.items() if id(x) in index})
    return [indices for indices in found if "bags" in indices]


def inputs_with_missing(model: keras.Model) -> set[int]:
    """Find the inputs of a functional model whose values may be NaN, which stands for missing.

    These are the ones that only layers read that know what is missing: `DistinctRows` and encoders.

    Args:
        model: a functional Keras model.

    Returns:
        Indices in `model.inputs`.
    """
    readers: dict[int, list[Any]] = {id(x): [] for x in model.inputs}
    for node in ordered_nodes(model):
        for x in node.input_tensors:
            if id(x) in readers:
                readers[id(x)].append(node.operation)
    return {
        i
        for i, x in enumerate(model.inputs)
        if all(isinstance(each, (DistinctRows, FieldEncoder)) for each in readers[id(x)])
    }


def _size(limit: IdLimit) -> float:
    return float("inf") if limit.size is None else limit.size


def _ids_taken(node: Node) -> list[tuple[keras.KerasTensor, IdLimit]]:
    """The tensors that a node takes for ids, each with a limit."""
    layer = node.operation
    if isinstance(layer, Distinct):
        return [(call_arguments(node)["inputs"]["bags"], IdLimit(None, layer.name))]
    if isinstance(layer, (BagLayer, ConcatDense)):
        arguments = call_arguments(node)
        taken = []
        if "members" in arguments:
            taken.append((arguments["members"], IdLimit(None, layer.name)))
        if getattr(layer, "vocabulary_size", None) is not None:
            taken.append((arguments["inputs"], IdLimit(layer.vocabulary_size, layer.name)))
        return taken
    limits, tensors = _limits_of(layer), node.input_tensors
    return [(tensors[i], limit) for i, limit in limits.items() if i < len(tensors)]


def _limits_of(layer: Any) -> dict[int, IdLimit]:
    """The limits of a layer on its inputs, by their indices."""
    if isinstance(layer, keras.layers.Embedding):
        return {0: IdLimit(layer.input_dim, layer.name)}
    if isinstance(layer, InstanceWise):
        return _limits_of(layer.layer)
    if isinstance(layer, keras.Sequential) and layer.built:
        layer = layer._functional
    return id_limits(layer) if is_functional(layer) else {}


def _ids_passed_on(node: Node) -> list[tuple[keras.KerasTensor, keras.KerasTensor]]:
    """The tensors whose values are found in an output of a node, each with it."""
    layer = node.operation
    if isinstance(layer, Distinct):
        return [(call_arguments(node)["inputs"]["bags"], node.outputs[0])]
    if isinstance(layer, DistinctRows):
        return list(zip(call_arguments(node)["columns"], node.outputs, strict=False))
    inner = layer.layer if isinstance(layer, InstanceWise) else layer
    return [(node.input_tensors[0], node.outputs[0])] if isinstance(inner, _RESHAPING) else []


def _alike(node: Node) -> list[tuple[keras.KerasTensor, keras.KerasTensor, int]]:
    """Pairs of tensors that a node takes to be nested alike, with how many levels they share."""
    layer = node.operation
    if isinstance(layer, Distinct):
        parts = call_arguments(node)["inputs"]
        depth = depth_of(parts["bags"].shape) - 1
        return [
            (parts["bags"], parts[name], depth - i // 2)
            for i, name in enumerate(input_names(depth))
            if name != "bags" and parts.get(name) is not None
        ]
    if isinstance(layer, DistinctRows):
        first, *others = call_arguments(node)["columns"]
        depth = depth_of(first.shape) - 1
        return [(first, other, depth) for other in others if first.ragged]
    arguments = call_arguments(node) if isinstance(layer, BagLayer) else {}
    if "weights" not in arguments or not arguments["weights"].ragged:
        return []
    bags = arguments.get("members", arguments["inputs"])
    return [(bags, arguments["weights"], depth_of(arguments["weights"].shape) - 1)]

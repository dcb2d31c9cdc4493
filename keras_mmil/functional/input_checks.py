"""What the layers of a functional model ask of its inputs."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.rows import as_tensor
from keras_mmil._support.sizes import first_difference
from keras_mmil.bags import Bags, check_keys, input_names
from keras_mmil.functional.graph import Node, call_arguments, is_functional, ordered_nodes
from keras_mmil.inputs import check_alike, check_ids, check_inputs, complete_inputs
from keras_mmil.layers._bags import depth_of
from keras_mmil.layers.bag_layer import BagLayer
from keras_mmil.layers.concat_dense import ConcatDense
from keras_mmil.layers.distinct import Distinct
from keras_mmil.layers.instance_wise import InstanceWise

__all__ = [
    "AlikeInputs",
    "IdLimit",
    "InputChecks",
    "alike_inputs",
    "compressed_inputs",
    "id_limits",
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


class InputChecks:
    """Checks of data for a functional model, by its inputs and by what its layers ask of them.

    Args:
        model: a functional Keras model.

    Call arguments:
        x: RaggedTensor, tensor, array, `Bags`, or a dict or list of the model's inputs.
        name: what to call `x` in errors.

    Returns:
        What `keras_mmil.inputs.check_inputs` returns.

    Raises:
        TypeError, ValueError: as `check_inputs`; for an id that is negative or not below the number
            of ids of a layer; for inputs whose bags meet, but differ in size; and for sub-bags of
            equal key that are not equal.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._id_limits = id_limits(model)
        self._alike = alike_inputs(model)
        self._compressed = compressed_inputs(model)
        # Pairs of inputs that the model was seen to take, though they differ in size.
        self._may_differ: set[tuple[int, ...]] = set()

    @property
    def expected(self) -> Any:
        """The model's inputs: a `KerasTensor`, or a dict or list of them."""
        return self._model.input

    def __call__(self, x: Any, name: str = "x") -> Any:  # noqa: D102
        is_named, has_checked_keys = isinstance(x, (Bags, dict)), isinstance(x, Bags)
        x = check_inputs(x, self.expected, name)
        parts = dict(self._by_index(x))
        names = self._names(name, is_named)
        for index, limit in self._id_limits.items():
            if index in parts:
                check_ids(parts[index], self._model.inputs[index], *limit, names[index])
        parts = {i: part for i, part in parts.items() if isinstance(part, tf.RaggedTensor)}
        for bags, part, levels in self._alike:
            if bags in parts and part in parts:
                check_alike(parts[bags], parts[part], levels, (names[bags], names[part]))
        for indices in [] if has_checked_keys else self._compressed:
            check_keys({name: parts[i] for name, i in indices.items() if i in parts})
        self._check_that_meet(x, parts, names)
        return x

    def _keys(self) -> list[Any]:
        """The key of each of `model.inputs` in the structure of inputs, None for a single one."""
        structure = self.expected
        if isinstance(structure, dict):
            return sorted(structure)  # as Keras flattens it
        return list(range(len(structure))) if isinstance(structure, (list, tuple)) else [None]

    def _by_index(self, x: Any) -> Iterator[tuple[int, Any]]:
        for index, key in enumerate(self._keys()):
            if key is None:
                yield index, x
            elif not isinstance(x, dict) or key in x:
                yield index, x[key]

    def _names(self, name: str, is_named: bool) -> list[str]:
        is_list = isinstance(self.expected, (list, tuple))
        return [f"{name}[{key!r}]" if is_named or is_list else name for key in self._keys()]

    def _check_that_meet(
        self, x: Any, parts: Mapping[int, tf.RaggedTensor], names: Sequence[str]
    ) -> None:
        """Raise where inputs differ in size that are joined; whether they are, tells the model.

        Only a single top-bag is computed, and only once for a pair of inputs that may differ.
        """
        for pair in itertools.combinations(parts, 2):
            differing = _difference(*(parts[i] for i in pair))
            if differing is None or pair in self._may_differ:
                continue
            one = ragged.take(x, [differing[0]])
            one = complete_inputs(tf.nest.map_structure(as_tensor, one), self.expected)
            try:
                self._model(one, training=False)
            except tf.errors.InvalidArgumentError as error:
                raise ValueError(
                    "Expected bags of the same sizes in inputs that are joined instance by "
                    f"instance. Received: {_described(differing[0], parts, names)}"
                ) from error
            self._may_differ.add(pair)


def _difference(a, b):
    return first_difference(*([s.numpy() for s in x.nested_row_splits] for x in (a, b)))


def _described(top_bag: int, parts: Mapping[int, tf.RaggedTensor], names: Sequence[str]) -> str:
    """How ragged inputs differ in a top-bag, pair by pair."""
    differing = []
    for a, b in itertools.combinations(parts, 2):
        found = _difference(*(parts[i][top_bag : top_bag + 1] for i in (a, b)))
        if found is not None:
            _, ours, theirs = found
            differing.append(f"a bag of {ours} members in {names[a]}, of {theirs} in {names[b]}")
    return f"in top-bag {top_bag} " + "; ".join(differing)


def id_limits(model: keras.Model) -> dict[int, IdLimit]:
    """Find the inputs of a functional model that are ids, such as the rows of an `Embedding`.

    Followed are ids through `Distinct`, `InstanceWise`, models within the model, and layers that
    reshape. What a layer does that is not of Keras or of this package is not known.

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

    These are the parts of `Bags` that go into a `Distinct`, and the weights of a `BagLayer`.

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
    arguments = call_arguments(node) if isinstance(layer, BagLayer) else {}
    if "weights" not in arguments or not arguments["weights"].ragged:
        return []
    bags = arguments.get("members", arguments["inputs"])
    return [(bags, arguments["weights"], depth_of(arguments["weights"].shape) - 1)]

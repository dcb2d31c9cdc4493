"""Checks of data for a functional model: by its inputs, and by what its layers need of them."""

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_mmil import ragged, text
from keras_mmil._support.keras_internals import (
    Node,
    all_layers,
    call_arguments,
    is_functional,
    is_optional,
    nodes_under,
    ordered_nodes,
)
from keras_mmil._support.rows import as_tensor, first_difference, path_to
from keras_mmil._support.types import Array, Bools
from keras_mmil.bags import Bags, check_keys, input_names
from keras_mmil.layers.bag_layer import BagLayer
from keras_mmil.layers.dense import ConcatDense
from keras_mmil.layers.distinct import Distinct, DistinctRows
from keras_mmil.layers.encoders import FieldEncoder
from keras_mmil.layers.grouping import depth_of
from keras_mmil.layers.instance_wise import InstanceWise

__all__ = [
    "InputChecks",
    "check_inputs",
    "check_normalisation",
    "complete_inputs",
    "id_limits",
    "inputs_with_missing",
]

# The inputs of a functional model, in the structure that it was made with.
Inputs: TypeAlias = (
    keras.KerasTensor | Mapping[str, keras.KerasTensor] | Sequence[keras.KerasTensor]
)

_LIMIT_OF_FLOATS = 2**24  # the integers up to here are exact in float32
# They move ids, and leave each as it is.
_RESHAPING = (keras.layers.Flatten, keras.layers.Reshape, keras.layers.Permute)


class InputChecks:
    """Checks of data for a functional model, by its inputs and by what its layers need of them.

    Call arguments:
        x: RaggedTensor, tensor, array, `Bags`, or a dict or list of the model's inputs.
        name: of `x` in errors.

    Returns:
        What `check_inputs` returns.

    Raises:
        TypeError, ValueError: as `check_inputs`; for an id that is negative or not below the number
            of ids of a layer; for inputs that are joined, but have bags of different sizes; and for
            unequal sub-bags of equal key.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._id_limits = id_limits(model)
        self._alike = _alike_inputs(model)
        self._compressed = _compressed_inputs(model)
        structure = self.expected
        self._keys: list[Any] = [None]  # of each of `model.inputs`; None for a single one
        if isinstance(structure, dict):
            self._keys = sorted(structure)  # as Keras flattens it
        elif isinstance(structure, (list, tuple)):
            self._keys = list(range(len(structure)))
        self._may_be_missing = {self._keys[i] for i in inputs_with_missing(model)}
        # Pairs of inputs that the model was seen to take, though they differ in size.
        self._may_differ: set[tuple[int, ...]] = set()

    @property
    def expected(self) -> Any:
        """The model's inputs: a `KerasTensor`, or a dict or list of them."""
        return self._model.input

    def __call__(self, x: Any, name: str = "x") -> Any:  # noqa: D102
        has_checked_keys = isinstance(x, Bags)
        has_names = isinstance(x, (Bags, dict)) or isinstance(self.expected, (list, tuple))
        names = [f"{name}[{key!r}]" if has_names else name for key in self._keys]
        x = check_inputs(x, self.expected, name, self._may_be_missing)
        parts = {
            index: x if key is None else x[key]
            for index, key in enumerate(self._keys)
            if not isinstance(x, dict) or key in x
        }
        for index, limit in self._id_limits.items():
            if index in parts:
                expected = self._model.inputs[index]
                _check_ids(
                    parts[index], expected, size=limit.size, layer=limit.layer, name=names[index]
                )
        parts = {i: part for i, part in parts.items() if isinstance(part, tf.RaggedTensor)}
        for bags, part, levels in self._alike:
            if bags in parts and part in parts:
                _check_alike(parts[bags], parts[part], levels, (names[bags], names[part]))
        for indices in [] if has_checked_keys else self._compressed:
            check_keys({name: parts[i] for name, i in indices.items() if i in parts})
        self._check_joined(x, parts, names)
        return x

    def _check_joined(
        self, x: Any, parts: Mapping[int, tf.RaggedTensor], names: Sequence[str]
    ) -> None:
        """Raise ValueError if inputs of different sizes are joined, which the model tells.

        It is run on a single top-bag, and only once for a pair of inputs that may differ.
        """
        for pair in itertools.combinations(parts, 2):
            if pair in self._may_differ:
                continue
            differing = first_difference(*(parts[i] for i in pair))
            if differing is None:
                continue
            one = ragged.take(x, [differing.top_bag])
            one = complete_inputs(tf.nest.map_structure(as_tensor, one), self.expected)
            try:
                self._model(one, training=False)
            except tf.errors.InvalidArgumentError as error:
                raise ValueError(
                    "Expected bags of the same sizes in inputs that are joined instance by "
                    f"instance. Received: {_described(differing.top_bag, parts, names)}"
                ) from error
            self._may_differ |= {pair for pair, _ in _differing(differing.top_bag, parts)}


def _differing(
    top_bag: int, parts: Mapping[int, tf.RaggedTensor]
) -> Iterator[tuple[tuple[int, int], tuple[int | None, int | None]]]:
    """Pairs of ragged inputs that differ in a top-bag, with the sizes of the first such bags."""
    ones = {i: part[top_bag : top_bag + 1] for i, part in parts.items()}
    for a, b in itertools.combinations(ones, 2):
        found = first_difference(ones[a], ones[b])
        if found is not None:
            yield (a, b), found.sizes


def _described(top_bag: int, parts: Mapping[int, tf.RaggedTensor], names: Sequence[str]) -> str:
    differing = [
        f"a bag of {ours} members in {names[a]}, of {theirs} in {names[b]}"
        for (a, b), (ours, theirs) in _differing(top_bag, parts)
    ]
    return f"in top-bag {top_bag} " + "; ".join(differing)


# The inputs alone -------------------------------------------------------------------------------


def check_inputs(
    x: Any, expected: Inputs, name: str = "x", may_be_missing: Container[int | str | None] = ()
) -> Any:
    """Check top-bags, and bring them into the structure of a model's inputs.

    Args:
        x: RaggedTensor, tensor, array, `Bags`, or a dict or list of the model's inputs; for an
            input of strings also a list of str or bytes.
        expected: the model's inputs: a `KerasTensor`, or a dict or list of them. Inputs of a dict
            that were made with `optional=True`, as by `bag_inputs`, may be left out.
        name: of `x` in errors.
        may_be_missing: the inputs that may hold NaN, which means missing: keys of a dict, positions
            in a list, or None for a single input.

    Returns:
        A tensor, a list of tensors, or a dict without the optional inputs that were left out.

    Raises:
        TypeError: for anything but nested bags of numbers, or numbers other than integers for an
            input of integers.
        ValueError: if there are no top-bags, or parts with different numbers of them; if the depth
            is not the model's; if values are not finite, or out of the range of the input's
            integers; or if the model has no such input.
    """
    if isinstance(x, Bags):
        x = x.inputs
    if isinstance(expected, dict):
        parts = _by_name(x, expected, name)
        names = {key: f"{name}[{key!r}]" if isinstance(x, dict) else name for key in parts}
        checked = {
            key: _checked(part, expected[key], names[key], key in may_be_missing)
            for key, part in parts.items()
            if part is not None
        }
        _check_lengths({names[key]: part for key, part in checked.items()})
        return checked
    if isinstance(expected, (list, tuple)):
        if not isinstance(x, (list, tuple)) or len(x) != len(expected):
            is_dict = isinstance(x, dict)
            advice = " A model that is made with a dict of inputs takes dicts." if is_dict else ""
            raise ValueError(
                f"Expected {len(expected)} inputs in a list or tuple. "
                f"Received: {name} of type {type(x).__name__}.{advice}"
            )
        by_name = {
            f"{name}[{i}]": _checked(part, spec, f"{name}[{i}]", i in may_be_missing)
            for i, (part, spec) in enumerate(zip(x, expected, strict=True))
        }
        _check_lengths(by_name)
        return list(by_name.values())
    return _checked(x, expected, name, None in may_be_missing)


def _check_ids(
    x: tf.RaggedTensor | tf.Tensor | Array,
    expected: keras.KerasTensor,
    *,
    size: int | None = None,
    layer: str | None = None,
    name: str = "x",
) -> None:
    """Raise ValueError if an id is negative, not an integer, or not below `size`, unless None.

    `expected` is the model's input; `layer` and `name` are those of the layer and of `x` in errors.
    """
    values = _flat(x)
    if not values.size:
        return
    if values.dtype.kind == "f" and (fractions := values % 1 != 0).any():
        raise ValueError(f"Expected ids, integers. {_received(x, name, values, fractions)}")
    is_float = tf.as_dtype(expected.dtype).is_floating
    bounds = [] if size is None else [(size, f"the number of ids of layer '{layer}'")]
    if is_float:
        bounds.append((_LIMIT_OF_FLOATS, f"what an input of {expected.dtype} holds exactly"))
    if values.min() < 0:
        raise ValueError(f"Expected ids of at least 0. {_received(x, name, values, values < 0)}")
    for bound, reason in bounds:
        if values.max() >= bound:
            raise ValueError(
                f"Expected ids below {bound}, {reason}. "
                f"{_received(x, name, values, values >= bound)}"
            )


def _check_alike(
    bags: tf.RaggedTensor, part: tf.RaggedTensor, levels: int, names: tuple[str, str]
) -> None:
    """Raise ValueError if ragged inputs differ in the sizes of their outermost `levels` levels."""
    differing = first_difference(bags, part, levels)
    if differing is not None:
        sizes = differing.sizes
        raise ValueError(
            f"Expected bags of the same sizes in {names[0]} and {names[1]}. Received: in top-bag "
            f"{differing.top_bag} a bag of {sizes[0]} members in {names[0]}, of {sizes[1]} in "
            f"{names[1]}"
        )


def complete_inputs(x: Any, expected: Inputs) -> Any:
    """The inputs of a model, with None for optional ones that are left out.

    `x` is what `check_inputs` returned, `Bags`, a symbolic tensor, or a dict of those.

    Raises:
        ValueError: if the model has no such input, or a required one is missing.
    """
    if isinstance(x, Bags):
        x = x.inputs
    if not isinstance(expected, dict):
        is_plain = isinstance(x, (list, tuple, np.ndarray, str, bytes))
        is_text = is_plain and getattr(expected, "dtype", None) == "string"
        if is_text:
            return _strings(x, "inputs")
        if isinstance(expected, keras.KerasTensor):
            _check_instances(x, expected, "inputs")
        return x
    x = _by_name(x, expected, "inputs")
    for key, part in x.items():
        _check_instances(part, expected[key], key)
    return {key: x.get(key) for key in expected}


def _by_name(x: Any, expected: Mapping[str, keras.KerasTensor], name: str) -> Mapping[str, Any]:
    """The parts of `x` by the names of the model's inputs."""
    if not isinstance(x, dict):
        if "bags" not in expected:
            raise ValueError(
                f"Expected a dict of the inputs {sorted(expected)}. "
                f"Received: {name} of type {type(x).__name__}"
            )
        x = {"bags": x}
    if not expected.keys() >= x.keys():
        raise ValueError(
            f"Expected inputs among {sorted(expected)}. Received: {name} with {sorted(x)}"
        )
    missing = [
        key for key, spec in expected.items() if x.get(key) is None and not is_optional(spec)
    ]
    if missing:
        given = sorted(key for key, part in x.items() if part is not None)
        raise ValueError(f"Expected the inputs {missing}, too. Received: {name} with {given}")
    return x


def _checked(x: Any, spec: keras.KerasTensor, name: str, may_be_missing: bool) -> Any:
    if spec.dtype == "string" and not tf.is_tensor(x):
        x = _strings(x, name)
    if not isinstance(x, (tf.RaggedTensor, tf.Tensor, np.ndarray)):
        way = "an array or a tensor"
        if getattr(spec, "ragged", True):
            way = (
                "a RaggedTensor, an array or Bags; `keras_mmil.ragged.from_nested_lists` makes "
                "the first of nested lists"
            )
        raise TypeError(f"Expected {way}. Received: {name} of type {type(x).__name__}")
    dtype = tf.as_dtype(x.dtype)  # a string also for NumPy's objects
    if (dtype == tf.string) != (spec.dtype == "string"):
        expected = "texts" if spec.dtype == "string" else "numbers"
        raise TypeError(f"Expected {expected}. Received: {name} of dtype {x.dtype.name}")
    if len(x.shape) != len(spec.shape):
        raise ValueError(
            f"Expected the nesting of the model's input, shape {spec.shape}. "
            f"Received: {name}.shape={tuple(x.shape)}"
        )
    _check_instances(x, spec, name)
    if x.shape[0] == 0:
        raise ValueError(f"Expected at least one top-bag. Received: {name}.shape={tuple(x.shape)}")
    if dtype != tf.string:
        if not may_be_missing:
            ragged.check_finite(x, name)
        _check_integers(x, tf.as_dtype(spec.dtype), name)
    return x


def _check_instances(x: Any, spec: keras.KerasTensor, name: str) -> None:
    """Raise ValueError if instances are numbers, but the model's instances are vectors."""
    if not isinstance(x, tf.RaggedTensor) or len(x.shape) != len(spec.shape):
        return
    if x.shape[-1] is None and spec.shape[-1] is not None:
        shape = f"inner_shape=({spec.shape[-1]},)"
        raise ValueError(
            f"Expected instances of {spec.shape[-1]} features, for the model's input of shape "
            f"{spec.shape}. Received: {name}.shape={tuple(x.shape)}, of bags of numbers. If the "
            f"innermost lists are instances, give {shape} to `ragged.from_nested_lists` or "
            f"`tf.ragged.constant`; `ragged.from_nested_lists({name}.to_list(), {shape})` makes "
            "them of what there is"
        )


def _check_integers(x: tf.RaggedTensor | tf.Tensor | Array, expected: tf.DType, name: str) -> None:
    """Raise if values do not fit the dtype of an integer input."""
    given = tf.as_dtype(x.dtype)
    if not expected.is_integer or given.is_bool:
        return
    if not given.is_integer:
        raise TypeError(f"Expected integers, {expected.name}. Received: {name} of {given.name}")
    if expected.min <= given.min and given.max <= expected.max:
        return
    values = _flat(x)
    if values.size and not expected.min <= values.min() <= values.max() <= expected.max:
        wrong = (values < expected.min) | (values > expected.max)
        raise ValueError(
            f"Expected integers that fit {expected.name}, {expected.min} to {expected.max}. "
            f"{_received(x, name, values, wrong)}"
        )


def _check_lengths(parts: Mapping[str, Any]) -> None:
    """Raise ValueError if parts, by name, have different numbers of top-bags."""
    lengths = {name: int(part.shape[0]) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        received = ", ".join(f"{name} with {n}" for name, n in lengths.items())
        raise ValueError(f"Expected parts of equally many top-bags. Received: {received}")


def _flat(x: tf.RaggedTensor | tf.Tensor | Array) -> Array:
    return np.asarray(getattr(x, "flat_values", x))


def _received(
    x: tf.RaggedTensor | tf.Tensor | Array, name: str, values: Array, is_wrong: Bools
) -> str:
    """The end of an error message: the first wrong value of an input, and its position."""
    first = tuple(np.argwhere(is_wrong)[0])
    lengths = ragged.nested_lengths(x) if isinstance(x, tf.RaggedTensor) else ()
    where = path_to(first[0], lengths) + "".join(f"[{i}]" for i in first[1:])
    return f"Received: {name}{where}={values[first]}"


def _strings(x: Iterable[str | bytes], name: str) -> tf.Tensor:
    """Texts [n] as a tensor."""
    if isinstance(x, (str, bytes)):
        raise TypeError(f"Expected a list of texts. Received: {name}={x!r}")
    encoded = list(map(text.as_bytes, x))
    return tf.constant(encoded, tf.string, shape=(len(encoded),))


# What the layers take the inputs for ------------------------------------------------------------


class IdLimit(NamedTuple):
    """The number of ids of a layer, from 0, None if unknown; and the name of the layer."""

    size: int | None
    layer: str


def id_limits(model: keras.Model) -> dict[int, IdLimit]:
    """The inputs of a functional model that are ids: from their indices to the smallest limits.

    Ids are followed through `Distinct`, `DistinctRows`, `InstanceWise`, models within the model,
    and layers that reshape. Layers that are not of Keras or of this package are not known.
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


def inputs_with_missing(model: keras.Model) -> set[int]:
    """Indices of the inputs of a functional model that may hold NaN, which means missing.

    These are read only by layers that know missing values: `DistinctRows` and encoders.
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


def _alike_inputs(model: keras.Model) -> list[tuple[int, int, int]]:
    """The inputs of a functional model that need bags of the same sizes.

    These are the parts of `Bags` that go into a `Distinct`, the columns of a `DistinctRows`, and
    the weights of a `BagLayer`.

    Returns:
        Triples: two indices in `model.inputs`, and how many levels the inputs share, from the
        top-bags inwards.
    """
    index = {id(x): i for i, x in enumerate(model.inputs)}
    pairs = [
        (index[id(bags)], index[id(part)], depth)
        for node in ordered_nodes(model)
        for bags, part, depth in _alike(node)
        if id(bags) in index and id(part) in index
    ]
    return sorted(set(pairs))


def _compressed_inputs(model: keras.Model) -> list[dict[str, int]]:
    """For each `Distinct` that takes inputs of a model: indices of the components of `Bags`."""
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
    """The tensors that are ids to the layer of a node, with their limits."""
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
    """The tensors whose values appear in an output of a node, each with that output."""
    layer = node.operation
    if isinstance(layer, Distinct):
        return [(call_arguments(node)["inputs"]["bags"], node.outputs[0])]
    if isinstance(layer, DistinctRows):
        return list(zip(call_arguments(node)["columns"], node.outputs, strict=False))
    inner = layer.layer if isinstance(layer, InstanceWise) else layer
    return [(node.input_tensors[0], node.outputs[0])] if isinstance(inner, _RESHAPING) else []


def _alike(node: Node) -> list[tuple[keras.KerasTensor, keras.KerasTensor, int]]:
    """Pairs of tensors that a node needs nested alike, and how many levels they share."""
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


# Normalisation ----------------------------------------------------------------------------------


def check_normalisation(model: keras.Model) -> None:
    """Raise ValueError if a functional model averages over the distinct rows of a batch.

    `BatchNormalization` between `Distinct`, or `DistinctRows`, and a bag-layer that takes its
    members would count each row once, however often it occurs, and so compute another function than
    on plain instances.
    """
    for bag_layer in nodes_under(model.outputs, model.inputs):
        if not isinstance(bag_layer.operation, BagLayer):
            continue
        arguments = call_arguments(bag_layer)
        rows = [arguments["inputs"]] if "members" in arguments else []
        for node in nodes_under(rows, model.inputs):
            name = _normalisation_in(node.operation)
            below = nodes_under(node.input_tensors, model.inputs) if name else []
            if any(isinstance(other.operation, (Distinct, DistinctRows)) for other in below):
                raise ValueError(
                    "Expected no BatchNormalization between Distinct and a bag-layer: it would "
                    "average over distinct rows, not over their occurrences. LayerNormalization "
                    f"knows no such difference. Received: layer={name!r}"
                )


def _normalisation_in(layer: Any) -> str | None:
    """Name of a batch normalisation that a layer is or contains, or None."""
    if isinstance(layer, keras.Layer):
        for inner in [layer, *all_layers(layer)]:
            if isinstance(inner, keras.layers.BatchNormalization):
                return inner.name
    return None

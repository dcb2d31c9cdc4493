"""A functional model as functions that TensorFlow serves without this package."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from keras_mmil._support.keras_internals import is_optional, ordered_nodes
from keras_mmil._support.types import PathLike
from keras_mmil.layers._types import Nested
from keras_mmil.layers.grouping import depth_of

__all__ = ["Endpoint", "check_dense", "endpoints", "write_saved_model"]

Endpoint: TypeAlias = tf.types.experimental.PolymorphicFunction  # what `tf.function` returns


def endpoints(model: keras.Model) -> dict[str, Endpoint]:
    """The functions of a SavedModel, by name, as `Model.export` describes them.

    Raises:
        ValueError: if two tensors would have the same name.
    """
    inputs = model.input
    served = {}
    if isinstance(inputs, dict):
        required = {name: x for name, x in inputs.items() if not is_optional(x)}
        bare = required["bags"] if required.keys() == {"bags"} else required
        served[""] = bare
        if len(required) < len(inputs):
            served["_compressed"] = inputs
    else:
        served[""] = inputs
    functions = {}
    for suffix, structure in served.items():
        serve = functions[f"serve{suffix}"] = _ragged_endpoint(model, structure)
        functions[f"serve{suffix}_flat"] = _flat_endpoint(model, structure, serve)
    return functions


def write_saved_model(model: keras.Model, folder: PathLike, verbose: bool) -> None:
    """Write the endpoints of a functional model as a SavedModel.

    Its signatures, among them "serving_default", are the flat endpoints, as TensorFlow Serving
    cannot pass ragged tensors. The others are functions of what `tf.saved_model.load` returns.
    """
    archive = keras.export.ExportArchive()
    archive.track(model)
    functions = endpoints(model)
    for name, function in functions.items():
        function.get_concrete_function()  # Keras takes its signature from the trace
        if name.endswith("_flat"):
            archive.add_endpoint(name, function)
        else:  # Keras would make a signature of it, with arguments inputs, inputs_1 …
            setattr(archive._tf_trackable, name, function)
    archive.write_out(folder, verbose=verbose)
    if verbose:
        others = [name for name in functions if not name.endswith("_flat")]
        print(f"Beside these signatures, tf.saved_model.load finds the functions {others}.")


def check_dense(model: keras.Model, format: str) -> None:
    """Raise ValueError if a functional model has tensors that only a SavedModel can hold."""
    tensors = {f"input '{x.name}'": [x] for x in model.inputs}
    tensors |= {f"layer '{node.operation.name}'": node.outputs for node in ordered_nodes(model)}
    for where, parts in tensors.items():
        for x in parts:
            kind = "ragged tensors" if x.ragged else "strings" if x.dtype == "string" else None
            if kind is not None:
                raise ValueError(
                    f"Expected format='tf_saved_model' for a model with {kind}, which only that "
                    f"knows; here {where} has them. Received: format={format!r}"
                )


def _ragged_endpoint(model: keras.Model, structure: Any) -> Endpoint:
    """A function of the model's inputs as they are."""
    single = isinstance(structure, keras.KerasTensor)
    serve = _with_arguments(
        lambda inputs: model(inputs), [_identifier(structure.name)] if single else ["inputs"]
    )
    return tf.function(serve, input_signature=[keras.tree.map_structure(_spec_of, structure)])


def _flat_endpoint(model: keras.Model, structure: Any, serve: Endpoint) -> Endpoint:
    """A function of dense tensors, which calls `serve` and returns a dict of dense tensors."""
    inputs = keras.tree.flatten(structure)
    arguments, specs = [], []
    for x in inputs:
        for name, spec in _flat_specs(x):
            arguments.append(name)
            specs.append(spec)
    _check_distinct(arguments, "inputs")
    output_names = _output_names(model)

    def serve_flat(*flat: tf.Tensor) -> dict[str, tf.Tensor]:
        tensors = _checked(inputs, dict(zip(arguments, flat, strict=True)))
        parts = [_assembled(_identifier(x.name), _depth(x), tensors) for x in inputs]
        outputs = serve(keras.tree.pack_sequence_as(structure, parts))
        pairs = zip(output_names, keras.tree.flatten(outputs), strict=True)
        flat_outputs = [pair for name, y in pairs for pair in _taken_apart(name, y)]
        _check_distinct([name for name, _ in flat_outputs], "outputs")
        return dict(flat_outputs)

    return tf.function(_with_arguments(serve_flat, arguments), input_signature=specs)


def _with_arguments(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """A function of positional arguments, with names for them."""

    def named(*args: Any) -> Any:
        return function(*args)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    vars(named)["__signature__"] = signature  # from which `tf.function` takes the names
    return named


def _spec_of(x: keras.KerasTensor) -> tf.TypeSpec:
    if not x.ragged:
        return tf.TensorSpec(x.shape, x.dtype, name=x.name)
    return tf.RaggedTensorSpec(x.shape, x.dtype, ragged_rank=_depth(x))


def _depth(x: keras.KerasTensor) -> int:
    """Number of ragged levels of a symbolic tensor, 0 if it is dense."""
    return depth_of(x.shape) - 1 if x.ragged else 0


def _flat_specs(x: keras.KerasTensor) -> list[tuple[str, tf.TensorSpec]]:
    """Names and specs of the dense tensors that stand for a symbolic one."""
    name = _identifier(x.name)
    if not x.ragged:
        return [(name, tf.TensorSpec(x.shape, x.dtype, name=name))]
    names = [f"{name}_values", *_row_split_names(name, _depth(x))]
    values = tf.TensorSpec((None, *x.shape[_depth(x) + 1 :]), x.dtype, name=names[0])
    return [(names[0], values)] + [
        (each, tf.TensorSpec((None,), tf.int64, name=each)) for each in names[1:]
    ]


def _row_split_names(name: str, depth: int) -> list[str]:
    return [f"{name}_row_splits_{level}" for level in range(depth)]


def _assembled(name: str, depth: int, tensors: Mapping[str, tf.Tensor]) -> Nested:
    """The tensor of a name, assembled from its dense tensors."""
    if depth == 0:
        return tensors[name]
    splits = [tensors[each] for each in _row_split_names(name, depth)]
    return tf.RaggedTensor.from_nested_row_splits(tensors[f"{name}_values"], splits, validate=False)


def _checked(
    inputs: Sequence[keras.KerasTensor], tensors: Mapping[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    """The dense tensors, which raise, when served, if they do not fit together."""
    tensors = dict(tensors)
    n_rows = {}
    for x in inputs:
        name, depth = _identifier(x.name), _depth(x)
        members = f"{name}_values" if depth else name
        n_members = tf.shape(tensors[members], tf.int64)[0]
        for each in reversed(_row_split_names(name, depth)):
            tensors[each] = _checked_row_splits(each, tensors[each], n_members, members)
            n_members, members = tf.size(tensors[each], tf.int64) - 1, f"bags in {each}"
        n_rows[name] = n_members
    first, *others = n_rows
    assertions = [
        tf.debugging.assert_equal(
            n_rows[name],
            n_rows[first],
            f"Expected `{first}` and `{name}` of equally many top-bags.",
        )
        for name in others
    ]
    # All of them wait for all row splits, or a layer might meet wrong ones first and speak of ids.
    waiting = [*assertions, *tensors.values()]
    return {name: _after(waiting, x) for name, x in tensors.items()}


def _checked_row_splits(
    name: str, splits: tf.Tensor, n_members: tf.Tensor, members: str
) -> tf.Tensor:
    """Row splits, which raise, when served, if they are none of so many members."""
    expected = f"Expected `{name}` to "
    some = tf.debugging.assert_positive(
        tf.size(splits), f"{expected}have one more entry than there are bags. Received: none"
    )
    splits = _after([some], splits)
    start = tf.debugging.assert_equal(splits[:1], tf.zeros([1], tf.int64), f"{expected}start at 0.")
    order = tf.debugging.assert_non_negative(splits[1:] - splits[:-1], f"{expected}never decrease.")
    end = tf.debugging.assert_equal(
        splits[-1], n_members, f"{expected}end at the number of {members}."
    )
    return _after([start, order, end], splits)


def _after(operations: Sequence[tf.Operation | tf.Tensor | None], x: tf.Tensor) -> tf.Tensor:
    """A tensor that waits for operations: TensorFlow runs assertions beside what they are about."""
    with tf.control_dependencies(operations):
        return tf.identity(x)


def _taken_apart(name: str, y: Nested) -> list[tuple[str, tf.Tensor]]:
    """Names and dense tensors that stand for an output."""
    if not isinstance(y, tf.RaggedTensor):
        return [(name, y)]
    splits = [tf.cast(part, tf.int64) for part in y.nested_row_splits]
    names = _row_split_names(name, len(splits))
    return [(f"{name}_values", y.flat_values), *zip(names, splits, strict=True)]


def _output_names(model: keras.Model) -> list[str]:
    """A name for each output: its key in a dict of outputs, or that of its layer."""
    outputs = model.output
    keyed = isinstance(outputs, dict) and len(outputs) == len(model.outputs)
    # Keras flattens a dict in the order of its sorted keys.
    names = [_identifier(name) for name in (sorted(outputs) if keyed else model.output_names)]
    if len(set(names)) < len(names):  # a layer of several outputs, or called several times
        names = [f"{name}_{i}" for i, name in enumerate(names)]
    return names


def _identifier(name: str) -> str:
    """A name as an argument of TensorFlow, which begins with an English letter."""
    name = re.sub(r"[^\x00-\x7f]", lambda letter: f"u{ord(letter[0]):x}", name)
    name = re.sub(r"\W", "_", name)
    return name if name[:1].isalpha() else f"x{name}"


def _check_distinct(names: Sequence[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Expected {what} of different names, for the arguments of `serve_flat`. "
            f"Received: {twice} twice"
        )

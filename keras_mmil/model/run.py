"""A functional model run batch by batch, node by node, or in two halves."""

import itertools
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.keras_internals import Node, ordered_nodes
from keras_mmil._support.types import Array
from keras_mmil.batches import in_order
from keras_mmil.layers import DistinctBags
from keras_mmil.layers._types import Nested

__all__ = [
    "Cut",
    "batches_to_predict",
    "input_values",
    "moved",
    "outputs_of",
    "predict_batches",
    "reapply",
    "rows_of",
    "run_in_order",
    "run_nodes",
]


def run_nodes(
    nodes: Iterable[Node],
    values: dict[int, Any],
    training: bool | None = None,
    compress: bool | None = None,
) -> None:
    """Add the outputs of nodes, in their order, to `values`, by the ids of symbolic tensors.

    `training`, for layers that take it, and `compress`, for `DistinctBags`, are passed unless None.
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


def input_values(model: keras.Model, inputs: Any) -> dict[int, Any]:
    """A dict from the ids of a functional model's symbolic inputs to values."""
    flat = keras.tree.flatten(model._standardize_inputs(inputs))
    return {id(x): value for x, value in zip(model.inputs, flat, strict=True)}


def run_in_order(model: keras.Model, inputs: Any) -> Any:
    """The outputs of a functional model whose `DistinctBags` keep all members in their order."""
    values = input_values(model, inputs)
    run_nodes(ordered_nodes(model), values, training=False, compress=False)
    return outputs_of(model, values)


def reapply(model: keras.Model, inputs: Any) -> Any:
    """The symbolic outputs of a functional model on other symbolic inputs than its own.

    Its layers, and so its weights, are shared, next to the layers that `inputs` come from. Calling
    the model would make it a single layer behind them, and `keras.models.clone_model` would cut it
    off from them.
    """
    pairs = zip(model.inputs, keras.tree.flatten(inputs), strict=True)
    values = {id(x): value for x, value in pairs}
    run_nodes(ordered_nodes(model), values)
    return outputs_of(model, values)


def outputs_of(model: keras.Model, values: dict[int, Any]) -> Any:
    """The outputs of a functional model, of which `values` are known by `run_nodes`."""
    return keras.tree.map_structure(lambda x: values[id(x)], model.output)


class Cut:
    """The two halves of a functional model: up to the output h of a layer, and what depends on h.

    Raises:
        ValueError: if there is no such layer, or it is called several times, or has several
            outputs.
    """

    def __init__(self, model: keras.Model, layer: str) -> None:
        nodes = ordered_nodes(model)
        called = [node for node in nodes if getattr(node.operation, "name", None) == layer]
        if len(called) != 1 or len(called[0].outputs) != 1:
            names = sorted({node.operation.name for node in nodes})
            raise ValueError(
                f"Expected a layer that is called once, with one output, among {names}. "
                f"Received: layer={layer!r}, called {len(called)} times"
            )
        (output,) = called[0].outputs
        dependent = {id(output)}
        self._below: list[Node] = []
        self._above: list[Node] = []
        for node in nodes:
            depends = any(id(x) in dependent for x in node.input_tensors)
            dependent |= {id(x) for x in node.outputs if depends}
            (self._above if depends else self._below).append(node)
        self._model, self._output = model, output

    def below(self, inputs: Any, training: bool) -> tuple[Nested, dict[int, Any]]:
        """Run the lower half on the model's inputs: h, and the other values that `above` needs."""
        values = input_values(self._model, inputs)
        run_nodes(self._below, values, training)
        return values[id(self._output)], values

    def above(self, h: Nested, values: dict[int, Any], training: bool) -> Any:
        """Run the upper half: the model's outputs if the layer's output is `h`."""
        values = {**values, id(self._output): h}
        run_nodes(self._above, values, training)
        return outputs_of(self._model, values)


def rows_of(h: Nested) -> tf.Tensor:
    """The rows of a layer's output: the flat values of a RaggedTensor, or the tensor itself."""
    return h.flat_values if isinstance(h, tf.RaggedTensor) else h


def moved(h: Nested, by: tf.Tensor | Array) -> Nested:
    """A layer's output with its rows moved: `by` has the shape of `rows_of(h)`."""
    if isinstance(h, tf.RaggedTensor):
        return h.with_flat_values(moved(h.flat_values, by))
    return h + tf.cast(by, h.dtype)


# Batch by batch ---------------------------------------------------------------------------------


def batches_to_predict(
    x: Any, batch_size: int | None = None, steps: int | None = None, **arguments: Any
) -> dict[str, Any]:
    """Arguments of `predict_batches` from those of `keras.Model.predict`.

    `x` is a Dataset, or checked data in memory, of which 32 top-bags, or as many as `steps` need,
    are a batch by default. ValueError for an endless Dataset without `steps`, or a Dataset with
    `batch_size`.
    """
    if isinstance(x, tf.data.Dataset):
        if batch_size is not None:
            raise ValueError(
                "Expected no batch_size, for a Dataset, which yields batches. "
                f"Received: batch_size={batch_size}"
            )
        n_batches = int(x.cardinality())
        if n_batches == tf.data.INFINITE_CARDINALITY and steps is None:
            raise ValueError("Expected steps, for an endless Dataset. Received: steps=None")
        batches = x if steps is None else x.take(steps)
        n_batches = int(batches.cardinality())
        known = n_batches if n_batches >= 0 else None
        return {"batches": batches, "n_batches": known, **arguments}
    n = ragged.n_top_bags(x)
    size = batch_size or (-(-n // steps) if steps else 32)
    n_batches = min(-(-n // size), steps or n)
    batches = itertools.islice(in_order(x, size), n_batches)
    return {"batches": batches, "n_batches": n_batches, **arguments}


def predict_batches(
    model: keras.Model,
    batches: Iterable[Any],
    n_batches: int | None = None,
    callbacks: Any = None,
    verbose: bool | int | str = 0,
) -> Any:
    """What `keras.Model.predict` returns, with only the outputs held in memory.

    Keras makes a Dataset of data in memory, which takes longer than a small network does for a few
    top-bags. It keeps a tensor for each batch until the end, and another one for its shape, which
    takes more memory than its numbers.

    Args:
        model: a functional Keras model.
        batches: inputs of the model, alone or in tuples (x, y) or (x, y, sample_weight).
        n_batches: for the progress bar; None if unknown.
        callbacks, verbose: as in `predict`.

    Returns:
        Arrays in the structure of the model's outputs, RaggedTensors where these are ragged.

    Raises:
        ValueError: if there are no batches, or the instances of their outputs differ in shape.
    """
    if not isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = keras.callbacks.CallbackList(
            callbacks,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=1,
            steps=n_batches,
            model=model,
        )
    model.make_predict_function()
    outputs = []
    model.stop_predicting = False
    callbacks.on_predict_begin()
    for step, batch in enumerate(batches):
        callbacks.on_predict_batch_begin(step)
        found = model.predict_function([batch if isinstance(batch, tuple) else (batch,)])
        # Copies: an array of a tensor's own memory would keep all that was allocated with it.
        outputs.append(tf.nest.map_structure(_copied, found))
        callbacks.on_predict_batch_end(step, {"outputs": found})
        if model.stop_predicting:
            break
    callbacks.on_predict_end()
    if not outputs:
        raise ValueError("Expected at least one batch of top-bags. Received: none")
    return tf.nest.map_structure(_joined, *outputs)


def _copied(output: Any) -> Any:
    return output if isinstance(output, tf.RaggedTensor) else np.array(output)


def _joined(*outputs: Any) -> Any:
    if isinstance(outputs[0], tf.RaggedTensor):
        return ragged.concat(outputs)
    shapes = {output.shape[1:] for output in outputs}
    if len(shapes) > 1:
        raise ValueError(
            "Expected outputs that have the same shape for all batches, beside the number of "
            f"top-bags. Received: shapes {sorted(shapes)}"
        )
    return np.concatenate(outputs)

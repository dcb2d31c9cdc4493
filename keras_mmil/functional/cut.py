"""A functional model, cut in two at the output of one of its layers."""

from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.types import Array
from keras_mmil.functional.graph import Node, ordered_nodes
from keras_mmil.functional.run import input_values, run_nodes
from keras_mmil.layers._types import Nested

__all__ = ["Cut", "moved", "rows_of"]


class Cut:
    """The two halves of a functional model: up to the output h of a layer, and what depends on h.

    Args:
        model: a functional Keras model.
        layer: name of one of its layers, called once, with a single output.

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
        """Run the lower half.

        Args:
            inputs: what the model takes, in the structure of its inputs.
            training: whether this is training.

        Returns:
            The output h of the layer, and all values that `above` needs besides.
        """
        values = input_values(self._model, inputs)
        run_nodes(self._below, values, training)
        return values[id(self._output)], values

    def above(self, h: Nested, values: dict[int, Any], training: bool) -> Any:
        """Run the upper half: the model's outputs where the layer's output is `h`."""
        values = {**values, id(self._output): h}
        run_nodes(self._above, values, training)
        return keras.tree.map_structure(lambda x: values[id(x)], self._model.output)


def rows_of(h: Nested) -> tf.Tensor:
    """The rows of a layer's output: of a RaggedTensor the flat values, else the tensor itself."""
    return h.flat_values if isinstance(h, tf.RaggedTensor) else h


def moved(h: Nested, by: tf.Tensor | Array) -> Nested:
    """A layer's output with its rows moved: `by` has the shape of `rows_of(h)`."""
    if isinstance(h, tf.RaggedTensor):
        return h.with_flat_values(moved(h.flat_values, by))
    return h + tf.cast(by, h.dtype)

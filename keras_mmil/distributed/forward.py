"""The outputs of a network for many top-bags, batch by batch, with little to do around it."""

from typing import Any

import keras
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil.functional.input_checks import InputChecks
from keras_mmil.inputs import complete_inputs
from keras_mmil.interpretation.network.data import top_bags

__all__ = ["Forward"]


class Forward:
    """What `predict` of a model does, in one graph for all batches.

    `keras.Model.predict` builds a Dataset for each call, which takes longer than a small network
    does for a block.

    Args:
        model: a functional Keras model.

    Call arguments:
        x: top-bags, as the model takes them.
        batch_size: number of top-bags that are computed at once.

    Returns:
        Tensors in the structure of the model's outputs, which lead with the top-bags.

    Raises:
        TypeError, ValueError: if the data do not fit the model.
    """

    def __init__(self, model: keras.Model) -> None:
        self._network, self._checks = model, InputChecks(model)
        self._functions: dict[Any, Any] = {}  # by which inputs there are, of what dtypes

    def __call__(self, x: Any, batch_size: int) -> Any:  # noqa: D102
        batches = top_bags(x, self._checks, batch_size).batches()
        return ragged.concat([self._function(batch)(batch) for batch in batches])

    def _function(self, batch: Any) -> Any:
        """A graph for such batches, of whatever sizes."""
        signature = tf.nest.map_structure(_any_size, batch)
        key = repr(signature)
        if key not in self._functions:
            self._functions[key] = tf.function(self._computed, input_signature=[signature])
        return self._functions[key]

    def _computed(self, x: Any) -> Any:
        return self._network(complete_inputs(x, self._network.input), training=False)


def _any_size(part: tf.Tensor | tf.RaggedTensor) -> Any:
    """The spec of a part of a batch, without its numbers of top-bags and members."""
    if isinstance(part, tf.RaggedTensor):
        inner = part.flat_values.shape[1:]
        shape = [None] * (1 + part.ragged_rank) + inner.as_list()
        splits = part.row_splits.dtype
        return tf.RaggedTensorSpec(shape, part.dtype, part.ragged_rank, splits)
    return tf.TensorSpec([None, *part.shape[1:]], part.dtype)

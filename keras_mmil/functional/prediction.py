"""Prediction batch by batch, in little memory, and with little to do around a batch."""

import itertools
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil.batches import in_order

__all__ = ["batches_to_predict", "predict_batches"]


def batches_to_predict(
    x: Any, batch_size: int | None = None, steps: int | None = None, **arguments: Any
) -> dict[str, Any]:
    """Arguments of `predict_batches`, of those of `keras.Model.predict`.

    Args:
        x: a `tf.data.Dataset`, or checked data in memory.
        batch_size: number of top-bags in a batch; by default 32, or as many as `steps` need.
        steps: number of batches; by default all.
        arguments: the others, as they are.

    Raises:
        ValueError: for an endless Dataset without `steps`, or a Dataset with `batch_size`.
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
        return {
            "batches": batches,
            "n_batches": n_batches if n_batches >= 0 else None,
            **arguments,
        }
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
    """What `keras.Model.predict` returns of batches, of which only the outputs are kept.

    Keras makes a Dataset of data in memory, which takes longer than a small network does for some
    top-bags. It keeps a tensor for each batch until the end, and then makes another for its shape,
    which takes more memory than the numbers in it.

    Args:
        model: a functional Keras model.
        batches: inputs as the model takes them, alone or in tuples (x, y) or (x, y, sample_weight).
        n_batches: their number, for the progress bar; None if it is not known.
        callbacks: as of `predict`: a list of `keras.callbacks.Callback`, or a CallbackList.
        verbose: as of `predict`: 0 for silent, 1 or "auto" for a progress bar, 2 for a line.

    Returns:
        Arrays in the structure of the model's outputs, RaggedTensors where these are ragged.

    Raises:
        ValueError: if there are no batches, or the outputs of batches have different shapes beside
            their numbers of top-bags.
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

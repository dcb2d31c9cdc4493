"""Testing a layer in one line."""

import atexit
import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array
from keras_mmil.bags import inputs_of
from keras_mmil.layers import BagLayer, InstanceWise
from keras_mmil.model import Model

__all__ = ["assert_close", "predict_in_fresh_process", "run_layer_test"]

# What a user's program does after `model.save`: one import, no custom objects, safe mode.
_FRESH_PROCESS = """
import json, sys
import keras_mmil
import keras, numpy as np, tensorflow as tf
for line in sys.stdin:
    folder = json.loads(line)
    model = keras.models.load_model(folder + "/model.keras")
    inputs = tf.data.Dataset.load(folder + "/inputs").get_single_element()
    outputs = keras.tree.flatten(model(inputs))
    tf.data.Dataset.from_tensors(tuple(outputs)).save(folder + "/outputs")
    print("done", flush=True)
"""


def run_layer_test(
    layer_class: type[keras.Layer],
    init_kwargs: Mapping[str, Any],
    inputs: Mapping[str, Any],
    expected: Array | tf.RaggedTensor | None = None,
    fresh_process: bool = True,
) -> Any:
    """Check that a layer behaves as a Keras layer, also on odd bags.

    Checked are: the config; that eager, graph and functional model agree; the symbolic output's
    shape; a training step, after which all weights are finite; saving and loading, in this process
    and in a fresh one; a batch without top-bags; a batch of empty bags.

    Args:
        layer_class: the class.
        init_kwargs: arguments of its constructor.
        inputs: dict of call arguments: tensors, RaggedTensors or nests of them.
        expected: the output for `inputs`, an array or RaggedTensor; None if unknown.
        fresh_process: whether to load in a fresh process, too.

    Returns:
        The layer's output for `inputs`.

    Raises:
        AssertionError: where a check fails.
    """
    layer = layer_class(**init_kwargs)
    outputs = layer(**inputs)
    if expected is not None:
        assert_close(outputs, expected)
    assert_close(tf.function(lambda: layer(**inputs))(), outputs)

    twin = layer_class.from_config(layer.get_config())
    twin(**inputs)
    assert json.dumps(twin.get_config()) == json.dumps(layer.get_config())
    twin.set_weights(layer.get_weights())
    assert_close(twin(**inputs), outputs)

    symbolic = _symbolic(inputs)
    model = Model(symbolic, layer(**symbolic))
    assert_close(model(inputs), outputs)
    for spec, output in zip(
        keras.tree.flatten(model.output), keras.tree.flatten(outputs), strict=True
    ):
        assert spec.ragged == isinstance(output, tf.RaggedTensor), (spec, output)
        assert output.shape.is_compatible_with(spec.shape), (spec, output.shape)
        assert keras.backend.standardize_dtype(output.dtype) == spec.dtype, (spec, output.dtype)

    for odd in (_no_top_bags(inputs), _no_instances(inputs)):
        for output in keras.tree.flatten(layer(**odd)):
            assert np.isfinite(np.asarray(_flat(output), "float64")).all(), output

    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        assert_close(keras.models.load_model(f"{folder}/model.keras")(inputs), outputs)
    if fresh_process:
        assert_close(predict_in_fresh_process(model, inputs), outputs)
    if layer.trainable_weights:
        _fit_once(symbolic, model.output, inputs)
    return outputs


def predict_in_fresh_process(model: keras.Model, inputs: Any) -> Any:
    """Save a model, load it in a process that has only imported keras_mmil, and call it there.

    Returns:
        The output for `inputs`; a list of several outputs.
    """
    inputs = inputs_of(inputs)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        tf.data.Dataset.from_tensors(inputs).save(f"{folder}/inputs")
        process = _fresh_process()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(folder) + "\n")
        process.stdin.flush()
        if process.stdout.readline() != "done\n":
            _fresh_process.cache_clear()
            raise AssertionError("The fresh process failed; its traceback is on stderr.")
        outputs = tf.data.Dataset.load(f"{folder}/outputs").get_single_element()
    return outputs[0] if len(outputs) == 1 else list(outputs)


def assert_close(actual: Any, expected: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Assert that two tensors, RaggedTensors, or nests of them, agree up to rounding."""
    actual, expected = keras.tree.flatten(actual), keras.tree.flatten(expected)
    assert len(actual) == len(expected), (len(actual), len(expected))
    for a, b in zip(actual, expected, strict=True):
        assert isinstance(a, tf.RaggedTensor) == isinstance(b, tf.RaggedTensor), (a, b)
        if isinstance(a, tf.RaggedTensor):
            for a_splits, b_splits in zip(a.nested_row_splits, b.nested_row_splits, strict=True):
                np.testing.assert_array_equal(a_splits, b_splits)
        np.testing.assert_allclose(
            np.asarray(_flat(a), "float64"), np.asarray(_flat(b), "float64"), rtol=rtol, atol=atol
        )


@functools.cache
def _fresh_process() -> subprocess.Popen[str]:
    """One process for all reloads of a test session: importing TensorFlow takes seconds."""
    process = subprocess.Popen(
        [sys.executable, "-c", _FRESH_PROCESS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],  # where a checkout is found without being installed
    )
    atexit.register(process.communicate)
    return process


def _fit_once(symbolic: Any, outputs: keras.KerasTensor, inputs: Any) -> None:
    """Train for one step, with bag-layers on top until the output is one number a row."""
    while outputs.ragged:
        if len(outputs.shape) > 3 and outputs.shape[-2] is not None:
            outputs = InstanceWise(keras.layers.Flatten())(outputs)
        outputs = BagLayer(2, aggregation="mean")(outputs)
    model = Model(symbolic, keras.layers.Dense(1)(keras.layers.Flatten()(outputs)))
    model.compile("sgd", "mse")
    labels = tf.ones((model(inputs).shape[0], 1))
    model.fit(tf.data.Dataset.from_tensors((inputs, labels)), shuffle=False, verbose=0)
    for weight in model.weights:
        assert np.isfinite(weight.numpy()).all(), weight.path


def _symbolic(x: Any, name: str | None = None) -> Any:
    if isinstance(x, dict):
        return {key: _symbolic(value, key) for key, value in x.items()}
    if isinstance(x, tuple):
        return tuple(_symbolic(value, f"{name}_{i}") for i, value in enumerate(x))
    ragged = isinstance(x, tf.RaggedTensor)
    return keras.Input(x.shape[1:], dtype=x.dtype.name, ragged=ragged, name=name)


def _flat(x: Any) -> tf.Tensor:
    return tf.cast(getattr(x, "flat_values", x), tf.float64)


def _no_top_bags(inputs: Any) -> Any:
    """The same structure without any top-bag (rows of dense tensors stay)."""
    return keras.tree.map_structure(
        lambda x: x[:0] if isinstance(x, tf.RaggedTensor) else x, inputs
    )


def _no_instances(inputs: Any) -> Any:
    """As many top-bags, all empty (rows of dense tensors stay)."""

    def emptied(x: Any) -> Any:
        if not isinstance(x, tf.RaggedTensor):
            return x
        return tf.RaggedTensor.from_row_lengths(x.values[:0], tf.zeros_like(x.row_lengths()))

    return keras.tree.map_structure(emptied, inputs)

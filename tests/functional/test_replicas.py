"""Training in a `tf.distribute.Strategy`, compared with training in one process."""

import json
import subprocess
import sys

import numpy as np
import pytest

# Logical devices can only be set before TensorFlow has started, hence a process of its own.
SCRIPT = """
import json
import keras
import numpy as np
import tensorflow as tf

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

import keras_mmil
from keras_mmil import Bags, ragged
from keras_mmil.layers import BagLayer, Distinct, InstanceWise, bag_inputs

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
results = {}


def on_vectors(**compiled):
    bags = keras.Input((None, None, 3), ragged=True)
    x = InstanceWise(keras.layers.Dense(4, activation="tanh"), name="encode")(bags)
    x = BagLayer(4, aggregation="mean")(BagLayer(4)(x))
    return compiled_model(bags, x, **compiled)


def on_ids(**compiled):
    inputs = bag_inputs(2)
    x, *levels = Distinct()(inputs)
    x = keras.layers.Embedding(5, 4)(x)
    for members, weights in levels:
        x = BagLayer(4, aggregation="mean")(x, members, weights)
    return compiled_model(inputs, x, **compiled)


def compiled_model(inputs, x, loss="binary_crossentropy"):
    outputs = keras.layers.Dense(1, activation="sigmoid", kernel_regularizer="l2")(x)
    model = keras_mmil.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.5), loss, metrics=["accuracy", "auc"])
    return model


def data(n):
    rng = np.random.default_rng(n)
    sizes = rng.integers(1, 4, n)
    members = rng.integers(0, 4, sizes.sum())
    values = rng.normal(size=(members.sum(), 3)).astype("float32")
    ids = ragged.from_flat(np.digitize(values[:, 0], [-1, 0, 1]).astype("int32"), (sizes, members))
    xs = {on_vectors: ragged.from_flat(values, (sizes, members)), on_ids: Bags.from_ragged(ids)}
    return xs, rng.integers(0, 2, n), rng.random(n)


def run(build, x, y, weights):
    keras.utils.set_random_seed(0)
    model = build()
    history = model.fit(
        x, y, 4, 2, 0, sample_weight=weights, shuffle=False, validation_data=(x, list(y), weights)
    ).history
    return {
        "history": [*history.values()],
        "evaluate": model.evaluate(x, y, batch_size=4, verbose=0),
        "predict": model.predict(x, batch_size=4, verbose=0).tolist(),
        "train_on_batch": [float(value) for value in model.train_on_batch(x, y, weights)],
        "weights": np.concatenate([w.ravel() for w in model.get_weights()]).tolist(),
    }


# Of a batch of 4, each replica takes 2: the last batch leaves one replica fewer, or none.
for build, n in ((on_vectors, 11), (on_ids, 9)):
    xs, y, weights = data(n)
    tf.config.run_functions_eagerly(True)  # tracing takes longer, and graphs are tested elsewhere
    alone = run(build, xs[build], y, weights)
    tf.config.run_functions_eagerly(False)
    with strategy.scope():
        results[f"{build.__name__} {n}"] = alone, run(build, xs[build], y, weights)

xs, y, _ = data(8)
with strategy.scope():
    model = on_vectors()
    x = xs[on_vectors]
    model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(4), verbose=0)
    summed = on_vectors(loss=keras.losses.BinaryCrossentropy(reduction="sum"))
    vat = keras_mmil.training.VirtualAdversarialModel(model, layer="encode")
    bags = keras.Input((None, None, 3), ragged=True)
    x_top = BagLayer(2)(BagLayer(2)(bags))
    normalised = compiled_model(bags, keras.layers.BatchNormalization()(x_top))
    for name, each in {"sum": summed, "adversarial": vat, "normalised": normalised}.items():
        try:
            each.fit(x, y, batch_size=7, verbose=0)
        except (ValueError, tf.errors.InvalidArgumentError) as error:
            results[name] = str(error)
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("case", ["on_vectors 11", "on_ids 9"])
def test_replicas_train_to_the_weights_of_one_process(results, case):
    alone, distributed = results[case]
    for name, expected in alone.items():
        assert np.shape(distributed[name]) == np.shape(expected), name
        np.testing.assert_allclose(distributed[name], expected, atol=2e-6, err_msg=name)


@pytest.mark.slow
def test_what_replicas_would_get_wrong_is_refused(results):
    assert "reduction='sum'" in results["sum"]
    assert "Expected training without a strategy" in results["adversarial"]
    assert "Expected batches with a part for every replica" in results["normalised"]

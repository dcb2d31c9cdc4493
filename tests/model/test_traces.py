"""One trace for models of equal structure: each is trained as it would be on its own."""

import gc
import weakref

import bag_forms
import keras
import numpy as np
import pytest
import tensorflow as tf
from trainable_networks import make_data, make_model

import keras_mmil
from keras_mmil.layers import BagLayer, InstanceWise
from keras_mmil.model import loop, traces
from keras_mmil.training import VirtualAdversarialModel

N = 45
LABELS = (np.arange(N) % 3 == 0).astype(float)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(traces, "_KNOWN", type(traces._KNOWN)())


def vectors(seed, rate=0.2, **arguments):
    """A network with dropout and batch normalisation, whose states are variables, too."""
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((None, 2), ragged=True)
    x = keras.layers.Dropout(rate)(BagLayer(4)(inputs))
    x = keras.layers.BatchNormalization()(x)
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    arguments = {"loss": "binary_crossentropy", "metrics": ["accuracy"]} | arguments
    model.compile(keras.optimizers.Adam(0.01 * (1 + seed)), **arguments)
    return model


def bags(seed):
    keras.utils.set_random_seed(seed)
    model = bag_forms.compressed_model()
    model.compile("adam", "mse", metrics=["mae"])
    return model


def fitted(make, x):
    """Logs and variables of three models that are fitted in turns, twice."""
    models = [make(seed) for seed in range(3)]
    logs = []
    for again in range(2):
        for seed, model in enumerate(models):
            keras.utils.set_random_seed(10 * again + seed)  # of the order
            some = x[:17] if make is vectors else {k: v[:17] for k, v in x.inputs.items()}
            history = model.fit(
                x, LABELS, 10, 2, verbose=0, validation_data=(some, LABELS[:17])
            ).history
            history["lr"] = float(model.optimizer.learning_rate)
            logs.append(history)
            if seed == 1:
                model.optimizer.learning_rate = 0.003
    return logs, [v.numpy() for model in models for v in traces._variables(model)]


@pytest.mark.parametrize("make", [vectors, pytest.param(bags, marks=pytest.mark.slow)])
def test_models_are_trained_as_on_their_own(make, monkeypatch):
    x = make_data(N)[0] if make is vectors else bag_forms.packed(n=N)
    traced, trace = [], loop._traced
    monkeypatch.setattr(loop, "_traced", lambda *args: traced.append(1) or trace(*args))
    logs, variables = fitted(make, x)
    assert len(traced) == 2 * 2  # the first model and the twin, training and validation
    monkeypatch.setattr(traces, "structure_of", lambda _: None)
    expected_logs, expected = fitted(make, x)
    assert len(traced) == 2 * 2 + 3 * 2
    for ours, theirs in zip(logs, expected_logs, strict=True):
        assert ours.keys() == theirs.keys()
        for name in theirs:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6, err_msg=name)
    for ours, theirs in zip(variables, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


def structure_of(model, x=None):
    loop.make_variables(model, (make_data(N)[0][:1] if x is None else x, LABELS[:1]))
    return traces.structure_of(model)


def test_structures():
    same = {structure_of(vectors(seed)) for seed in (0, 1)}
    assert len(same) == 1
    others = [
        vectors(0, rate=0.3),
        vectors(0, metrics=["accuracy", "AUC"]),
        vectors(0, loss="mse"),
        vectors(0, loss=keras.losses.BinaryCrossentropy(label_smoothing=0.1)),
        make_model(),
    ]
    frozen = vectors(0)
    frozen.layers[1].trainable = False
    frozen.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    found = [structure_of(model) for model in (*others, frozen)]
    assert None not in found
    assert len({*same, *found}) == 1 + len(found)


def own_loss(y, y_pred):
    return keras.losses.binary_crossentropy(y, y_pred)


class Own(keras.layers.Layer):
    def call(self, x):
        return 2 * x


def test_code_of_ones_own_is_not_shared(monkeypatch):
    model = make_model()
    (layer,) = (each for each in model.layers if isinstance(each, BagLayer))
    inputs = keras.Input((3,))
    dense = [
        keras_mmil.Model(inputs, layer(inputs))
        for layer in (
            Own(),
            keras.layers.Lambda(lambda x: x + 1),
            keras.layers.Dense(2, kernel_initializer=lambda shape, dtype: np.ones(shape, dtype)),
        )
    ]
    for each in dense:
        each.compile("adam", "mse")
    own_step = vectors(0)
    own_step.train_step = lambda data: {"loss": 0.0}
    for each in (vectors(0, loss=own_loss), VirtualAdversarialModel(model, layer.name), own_step):
        assert structure_of(each) is None
    for each in dense:
        assert structure_of(each, np.zeros((1, 3))) is None
    assert structure_of(vectors(0)) is not None
    monkeypatch.setattr(traces, "_LARGEST", 10)
    assert structure_of(vectors(0)) is None


def test_what_was_adapted_to_data_is_not_shared():
    """Of two normalizations, whose means are in no variable."""
    x = np.random.default_rng(0).normal(500, 50, size=(40, 2))
    y = (x[:, 0] > 500).astype(float)
    for shift in (0, 1000):
        keras.utils.set_random_seed(0)
        scale = keras.layers.Normalization()
        scale.adapt(x + shift)
        inputs = keras.Input((None, 2), ragged=True)
        bag = BagLayer(None, aggregation="mean")(InstanceWise(scale)(inputs))
        model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(bag))
        model.compile(keras.optimizers.SGD(0.5), "binary_crossentropy")
        assert structure_of(model) is None
        bags = tf.RaggedTensor.from_row_lengths((x + shift).astype(np.float32), [1] * 40)
        loss = model.fit(bags, y, 10, 20, verbose=0).history["loss"][-1]
        assert loss < 0.3


def test_no_model_is_kept():
    x, models = make_data(N)[0], [vectors(seed) for seed in range(3)]
    for model in models:
        model.fit(x, LABELS, verbose=0)
    known = list(map(weakref.ref, models))
    del models, model
    gc.collect()
    assert [each() is None for each in known] == [True] * 3

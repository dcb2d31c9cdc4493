"""Epochs in the graph: the weights, logs and order of Keras's own loop."""

import bag_forms
import keras
import numpy as np
import pytest
import tensorflow as tf
from trainable_networks import make_data, make_model

import keras_mmil
from keras_mmil import batches
from keras_mmil.layers import BagLayer
from keras_mmil.model import loop
from keras_mmil.records import Schema
from keras_mmil.records.network import Labels, records_model
from keras_mmil.training import VirtualAdversarialModel

N = 45  # the last of the batches of 10 has 5
LABELS = (np.arange(N) % 3 == 0).astype(np.float64)  # which Keras casts


def compiled(model, **arguments):
    arguments = {"loss": "binary_crossentropy", "metrics": ["accuracy", "AUC"]} | arguments
    model.compile(keras.optimizers.Adam(0.02), **arguments)
    return model


def of_vectors():
    return make_model(depth=2), make_data(N, depth=2)[0]


def with_dropout():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, 2), ragged=True)
    x = keras.layers.Dropout(0.5, seed=3)(BagLayer(4)(inputs))
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    return compiled(model), make_data(N)[0]


def of_bags():
    model = bag_forms.compressed_model()
    return compiled(model, loss="mse", metrics=["mae"]), bag_forms.packed(n=N)


def of_texts():
    return compiled(bag_forms.text_model(), loss="mse", metrics=["mae"]), bag_forms.texts(n=N)


def of_records():
    records = [
        {
            "city": f"c{i % 4}",
            "age": None if i % 5 == 0 else float(i),
            "orders": [{"price": j / 2, "note": "two words"} for j in range(i % 3)],
        }
        for i in range(N)
    ]
    schema = Schema.infer(records)
    return records_model(schema, Labels("classes", 2), seed=0), schema.read(records)


def adversarial():
    model = make_model()
    (layer,) = (each for each in model.layers if isinstance(each, BagLayer))
    return VirtualAdversarialModel(model, layer.name, seed=1), make_data(N)[0]


def two_outputs():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, 2), ragged=True)
    x = BagLayer(4)(inputs)
    heads = {name: keras.layers.Dense(1, name=name)(x) for name in ("a", "b")}
    return compiled(keras_mmil.Model(inputs, heads), loss="mse", metrics=None), make_data(N)[0]


def keras_fit(model, *args, **kwargs):
    """Keras's own loop; of a data set in memory it takes the checked form."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "is_possible", lambda *_: False)
        return model.fit(*args, **kwargs)


@pytest.mark.parametrize(
    "make",
    [
        of_vectors,
        of_records,
        *(
            pytest.param(make, marks=pytest.mark.slow)
            for make in (with_dropout, of_bags, of_texts, adversarial, two_outputs)
        ),
    ],
)
def test_weights_and_logs_are_those_of_keras(make):
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2, N)
    y = {"a": LABELS, "b": 1 - LABELS} if make is two_outputs else LABELS
    found = []
    for fit in (keras_fit, keras_mmil.Model.fit):
        model, x = make()
        some = tf.nest.map_structure(lambda part: part[:17], x if make is not of_bags else x.inputs)
        y_some = tf.nest.map_structure(lambda part: part[:17], y)
        keras.utils.set_random_seed(4)  # of the order
        history = fit(
            model,
            x,
            y,
            batch_size=10,
            epochs=3,
            validation_data=(some, y_some),
            sample_weight=None if make is adversarial else weights,
            verbose=0,
        )
        result = model.evaluate(some, y_some, batch_size=5, verbose=0, return_dict=True)
        found.append((history.history, result, model.get_weights(), model.optimizer.variables))
    (logs, result, expected, state), (ours, our_result, ours_w, our_state) = found
    assert ours.keys() == logs.keys()
    for name in logs:
        np.testing.assert_allclose(ours[name], logs[name], rtol=1e-6, atol=1e-7, err_msg=name)
    assert our_result.keys() == result.keys()
    np.testing.assert_allclose([*our_result.values()], [*result.values()], rtol=1e-6)
    for one, other in zip([*ours_w, *our_state], [*expected, *state], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    assert len(ours["val_loss"]) == 3


def test_class_weights_batches_in_order_and_later_epochs():
    y = LABELS
    arguments = {"class_weight": {0: 1.0, 1: 3.0}, "shuffle": False, "initial_epoch": 1}
    found = []
    for fit in (keras_fit, keras_mmil.Model.fit):
        model, x = of_vectors()
        found.append(fit(model, x, y, epochs=4, batch_size=7, verbose=0, **arguments))
    assert found[0].epoch == found[1].epoch == [1, 2, 3]
    np.testing.assert_allclose(found[0].history["loss"], found[1].history["loss"], rtol=1e-6)


@pytest.mark.parametrize("first_epoch", [None, 2])
def test_datasets_of_batches_are_cut_in_the_graph_too(first_epoch):
    found = []
    for by_hand in (True, False):
        model, x = of_vectors()
        data = batches.to_dataset(x, LABELS, 10, seed=5, first_epoch=first_epoch)
        if by_hand:
            for each in [*data, *data] if first_epoch is None else data.take(10):
                model.train_on_batch(*each)
        else:
            steps = None if first_epoch is None else 5
            model.fit(data, epochs=2, steps_per_epoch=steps, verbose=0)
        found.append(model.get_weights())
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


class Counter(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.epochs, self.batches = 0, 0

    def on_epoch_end(self, epoch, logs=None):
        self.epochs += 1
        if epoch == 1:
            self.model.stop_training = True


class Shown(keras.callbacks.Callback):
    """A progress bar, which need not be told of each batch."""

    is_progress = True

    def on_train_batch_end(self, batch, logs=None):
        self.shown = batch


class BatchCounter(Counter):
    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1


def test_callbacks_of_batches_get_them(tmp_path, capsys):
    model, x = of_vectors()
    by_epoch = keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", "loss")
    for callbacks, possible in [
        ([Counter(), by_epoch], True),
        ([BatchCounter()], False),
        (
            [
                keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None),
                Counter(),
            ],
            False,
        ),
        ([keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", save_freq=2), Counter()], False),
        (Counter(), True),
        (Shown(), True),
    ]:
        assert loop.is_possible(model, {"x": x, "callbacks": callbacks}) == possible
        first = callbacks[0] if isinstance(callbacks, list) else callbacks
        history = model.fit(x, LABELS, batch_size=10, epochs=5, verbose=0, callbacks=callbacks)
        if isinstance(first, Counter):
            assert (first.epochs, first.batches) == (
                2,
                10 if isinstance(first, BatchCounter) else 0,
            )
            assert history.epoch == [0, 1]
    assert (tmp_path / "best.keras").exists()
    model.fit(x, LABELS, batch_size=10, epochs=1, verbose=1)
    assert "5/5" in capsys.readouterr().out


def test_what_needs_kerass_loop_gets_it():
    model, x = of_vectors()
    assert loop.is_possible(model, {"x": x})
    generator = (each for each in [(x, LABELS)])
    for arguments in (
        {"x": generator},
        {"x": batches.to_dataset(x, LABELS).map(lambda *batch: batch)},
        {"x": x, "validation_split": 0.2},
        {"x": x, "validation_data": generator},
        {"x": x, "validation_freq": 2},
        {"x": x, "steps_per_epoch": 2},
        {"x": tf.sparse.eye(3)},
    ):
        assert not loop.is_possible(model, arguments)
    model.compile(loss="mse", run_eagerly=True)
    assert not loop.is_possible(model, {"x": x})
    dense = keras.Input((2,))
    assert not loop.is_possible(keras_mmil.Model(dense, dense), {"x": np.ones((3, 2))})


def test_a_model_is_traced_once_until_it_is_compiled_anew():
    model, x = of_vectors()
    traces = []
    step = model.train_step
    model.train_step = lambda data: traces.append(1) or step(data)
    for n, batch_size in [(40, 20), (40, 8), (N, 10), (30, 10), (7, 10), (1, 10)]:
        some = tf.nest.map_structure(lambda part, n=n: part[:n], x)
        model.fit(some, LABELS[:n], batch_size=batch_size, epochs=2, verbose=0)
    assert len(traces) == 1
    weights = model.get_weights()
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.fit(x, LABELS, epochs=1, verbose=0)
    assert len(traces) == 2
    for one, other in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)  # by the new optimizer, which does not move

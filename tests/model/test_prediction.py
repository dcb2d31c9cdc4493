"""`Model.predict` in a loop of its own, against Keras's."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from bag_forms import BATCH, FORMS, N, compressed_model, ids, packed, plain_model, vectors

import keras_mmil
from keras_mmil import batches, ragged
from keras_mmil.layers import BagLayer
from keras_mmil.model.run import predict_batches


def by_keras(model, x, **arguments):
    return keras.Model.predict(model, x, verbose=0, **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_outputs_are_those_of_keras(form):
    make_model, make_data = FORMS[form]
    model, x = make_model(), make_data()
    inputs = x.inputs if isinstance(x, keras_mmil.Bags) else x
    for batch_size in (BATCH, N, 1000):
        found = model.predict(x, batch_size=batch_size, verbose=0)
        np.testing.assert_array_equal(found, by_keras(model, inputs, batch_size=batch_size))
    assert found.flags.owndata


@pytest.mark.slow
@pytest.mark.parametrize("with_labels", [False, True])
def test_datasets(with_labels):
    model, x = compressed_model(), ids()
    y = np.arange(N) if with_labels else None
    dataset = batches.to_dataset(x, y, BATCH, shuffle=False)
    expected = model.predict(x, batch_size=BATCH, verbose=0)
    np.testing.assert_array_equal(model.predict(dataset, verbose=0), expected)
    np.testing.assert_array_equal(model.predict(dataset, steps=2, verbose=0), expected[: 2 * BATCH])
    np.testing.assert_array_equal(model.predict(dataset.repeat(), steps=3, verbose=0), expected)
    of_unknown_length = dataset.filter(lambda *_: True)
    np.testing.assert_array_equal(model.predict(of_unknown_length, verbose=0), expected)


@pytest.mark.slow
def test_steps():
    model, x = plain_model(), vectors()
    expected = model.predict(x, batch_size=N, verbose=0)
    for steps, batch_size, n in ((2, None, N), (3, 4, 12), (100, 4, N), (None, None, N)):
        found = model.predict(x, batch_size=batch_size, steps=steps, verbose=0)
        np.testing.assert_allclose(found, expected[:n], rtol=1e-5)


def test_what_is_refused():
    model, x = plain_model(), vectors()
    dataset = batches.to_dataset(x, batch_size=BATCH, shuffle=False)
    with pytest.raises(ValueError, match="Expected steps, for an endless Dataset"):
        model.predict(dataset.repeat())
    with pytest.raises(ValueError, match="Expected no batch_size"):
        model.predict(dataset, batch_size=3)
    with pytest.raises(ValueError, match="at least one batch"):
        model.predict(dataset.take(0), verbose=0)
    with pytest.raises(ValueError, match="finite"):
        model.predict(x.with_flat_values(tf.fill(tf.shape(x.flat_values), np.nan)))


@pytest.mark.slow
def test_generators_are_left_to_keras():
    model, x = plain_model(), vectors()
    expected = model.predict(x, batch_size=BATCH, verbose=0)
    dataset = batches.to_dataset(x, batch_size=BATCH, shuffle=False)
    found = model.predict(((batch,) for batch in dataset), steps=3, verbose=0)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("make", [list, dict])
def test_ragged_and_several_outputs(make):
    inputs = keras.Input((None, None, 2), ragged=True)
    sub_bags = BagLayer(3)(inputs)
    top_bags = BagLayer(2)(sub_bags)
    outputs = {"sub_bags": sub_bags, "top_bags": top_bags}
    model = keras_mmil.Model(inputs, outputs if make is dict else list(outputs.values()))
    x = vectors()
    found, expected = model.predict(x, batch_size=BATCH, verbose=0), model(x)
    assert type(found) is make
    found, expected = tf.nest.flatten(found), tf.nest.flatten(expected)
    np.testing.assert_allclose(found[0].flat_values, expected[0].flat_values, rtol=1e-6)
    np.testing.assert_array_equal(found[0].row_splits, expected[0].row_splits)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)


def test_outputs_of_different_shapes_are_refused():
    inputs = keras.Input((None,))
    model = keras_mmil.Model(inputs, keras.ops.abs(inputs))
    shapes = [np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32)]
    with pytest.raises(ValueError, match=r"Received: shapes \[\(3,\), \(4,\)\]"):
        predict_batches(model, shapes)


@pytest.mark.slow
def test_callbacks(capsys):
    class Stop(keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            seen.append((batch, logs["outputs"].shape[0]))
            self.model.stop_predicting = batch == 1

    seen = []
    model, x = plain_model(), vectors()
    found = model.predict(x, batch_size=BATCH, callbacks=[Stop()], verbose=0)
    assert seen == [(0, BATCH), (1, BATCH)]
    assert found.shape == (2 * BATCH, 1)
    assert capsys.readouterr().out == ""
    model.predict(x, batch_size=BATCH, verbose=1)
    assert "3/3" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.graphs
def test_a_graph_is_traced_at_most_twice_for_all_sizes():
    """Once for the sizes of the first batch, and once for any."""
    model, traced = compressed_model(), []
    step = model.predict_step
    model.predict_step = lambda data: traced.append(1) or step(data)
    for x in (ids(), ids(1), ids(2, n=5)):
        model.predict(x, batch_size=BATCH, verbose=0)
    assert len(traced) <= 2
    for x in (packed(), packed(3)):  # which have other inputs
        model.predict(x, batch_size=BATCH, verbose=0)
    assert len(traced) <= 4


@pytest.mark.slow
def test_several_steps_in_an_execution_and_eager_models():
    x = vectors()
    expected = plain_model().predict(x, batch_size=BATCH, verbose=0)
    for arguments in ({"steps_per_execution": 3}, {"run_eagerly": True}):
        model = plain_model()
        model.compile("adam", "mse", **arguments)
        np.testing.assert_allclose(
            model.predict(x, batch_size=BATCH, verbose=0), expected, rtol=1e-5, atol=1e-6
        )


@pytest.mark.slow
def test_any_functional_model():
    inputs = keras.Input((None, None, 2), ragged=True)
    model = keras.Model(inputs, keras.layers.Dense(1)(plain_model()(inputs)))
    x = vectors()
    found = predict_batches(model, batches.in_order(x, BATCH))
    np.testing.assert_allclose(found, model(x, training=False), rtol=1e-5, atol=1e-6)


def test_batches_in_order():
    x = {"bags": vectors(), "more": np.arange(N)}
    found = list(batches.in_order(x, BATCH))
    assert [ragged.n_top_bags(batch) for batch in found] == [8, 8, 6]
    joined = ragged.concat(found)
    np.testing.assert_array_equal(joined["more"], x["more"])
    assert joined["bags"].to_list() == x["bags"].to_list()

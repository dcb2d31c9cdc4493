"""Functional models cut in two, applied to other inputs, and run batch by batch as by Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from bag_forms import BATCH, FORMS, N, compressed_model, ids, packed, plain_model, vectors

import keras_mmil
from keras_mmil import batches, ragged
from keras_mmil.layers import BagLayer, Distinct, bag_inputs
from keras_mmil.model.run import Cut, predict_batches, reapply

BRANCHED = ("first", "left", "right", "sum", "beside", "outputs")


def branched_model():
    """Two branches that meet, with the input beside them; a dict of outputs."""
    inputs = {"a": keras.Input((3,), name="a"), "b": keras.Input((2,), name="b")}
    first = keras.layers.Dense(4, activation="tanh", name="first")(inputs["a"])
    left = keras.layers.Dense(5, activation="tanh", name="left")(first)
    right = keras.layers.Dense(5, name="right")(first)
    both = keras.layers.Add(name="sum")([left, right])
    beside = keras.layers.Concatenate(name="beside")([inputs["b"], both])
    outputs = keras.layers.Dense(2, name="outputs")(beside)
    return keras.Model(inputs, {"y": outputs, "left": left})


def some_inputs(n=6):
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(n, m)).astype("float32") for name, m in {"a": 3, "b": 2}.items()}


@pytest.mark.parametrize("layer", BRANCHED)
def test_both_halves_make_the_model(layer):
    model, x = branched_model(), some_inputs()
    cut = Cut(model, layer)
    h, values = cut.below(x, training=False)
    expected = keras.Model(model.inputs, model.get_layer(layer).output)(list(x.values()))
    np.testing.assert_allclose(h, expected, rtol=1e-6)
    outputs = cut.above(h, values, training=False)
    for name, y in model(x).items():
        np.testing.assert_allclose(outputs[name], y, rtol=1e-6)


def test_the_upper_half_for_another_h():
    model, x = branched_model(), some_inputs()
    cut = Cut(model, "left")
    _, values = cut.below(x, training=False)
    h = np.random.default_rng(1).normal(size=(6, 5)).astype("float32")
    outputs = cut.above(h, values, training=False)
    weights = {layer.name: layer.get_weights() for layer in model.layers}
    first = np.tanh(x["a"] @ weights["first"][0] + weights["first"][1])
    right = first @ weights["right"][0] + weights["right"][1]
    beside = np.hstack([x["b"], h + right])
    expected = beside @ weights["outputs"][0] + weights["outputs"][1]
    np.testing.assert_allclose(outputs["y"], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(outputs["left"], h)


def test_both_halves_know_whether_this_is_training():
    inputs = keras.Input((50,))
    h = keras.layers.Dropout(0.5, name="h")(inputs)
    model = keras.Model(inputs, keras.layers.Dropout(0.5)(h))
    cut, ones = Cut(model, "h"), np.ones((20, 50), "float32")
    for training, expected in ((False, {1.0}), (True, {0.0, 2.0})):
        h, values = cut.below(ones, training)
        assert set(np.unique(h)) == expected
        assert set(np.unique(cut.above(ones, values, training))) == expected


def test_layers_to_cut_at():
    inputs = keras.Input((3,))
    twice = keras.layers.Dense(3, name="twice")
    model = keras.Model(inputs, twice(twice(inputs)))
    with pytest.raises(ValueError, match="layer='twice', called 2 times"):
        Cut(model, "twice")
    with pytest.raises(ValueError, match=r"among \['twice'.*layer='thrice', called 0 times"):
        Cut(model, "thrice")
    bags = bag_inputs(1)
    rows, (members, _) = Distinct(name="distinct")(bags)
    with pytest.raises(ValueError, match=r"one output.*layer='distinct', called 1 times"):
        Cut(keras.Model(bags, [rows, members]), "distinct")


def test_reapply():
    model, x = branched_model(), some_inputs()
    raw = keras.Input((7,), name="raw")
    new_inputs = {
        name: keras.layers.Dense(m, name=f"new_{name}")(raw) for name, m in {"a": 3, "b": 2}.items()
    }
    again = keras_mmil.Model(raw, reapply(model, new_inputs))
    assert {layer.name for layer in again.layers} == {"raw", "new_a", "new_b", *BRANCHED}
    for name in BRANCHED:
        assert again.get_layer(name) is model.get_layer(name)
    x = np.random.default_rng(2).normal(size=(4, 7)).astype("float32")
    between = {name: again.get_layer(f"new_{name}")(x) for name in ("a", "b")}
    model.get_layer("left").kernel.assign_add(np.ones((4, 5)))  # shared, not copied
    for name, y in model(between).items():
        np.testing.assert_allclose(again(x)[name], y, rtol=1e-5)


# Prediction ---------------------------------------------------------------------------------------


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

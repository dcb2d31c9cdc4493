"""The functional model for nested bags."""

import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import Bags, ragged
from keras_mmil.layers import BagLayer, Distinct, InstanceWise, bag_inputs
from keras_mmil.testing import predict_in_fresh_process

LENGTHS = ([2, 1, 0, 3], [2, 1, 0, 3, 1, 2])


def vectors(features=3):
    values = np.random.default_rng(0).normal(size=(sum(LENGTHS[-1]), features))
    return ragged.from_flat(values.astype("float32"), LENGTHS)


def ids():
    return ragged.from_flat(np.arange(sum(LENGTHS[-1]), dtype="int32") % 3, LENGTHS)


def plain_model():
    bags = keras.Input((None, None, 3), ragged=True, name="bags")
    x = BagLayer(4)(InstanceWise(keras.layers.Dense(5, activation="relu"))(bags))
    x = BagLayer(4, aggregation="mean")(x)
    return keras_mmil.Model(bags, keras.layers.Dense(1, activation="sigmoid")(x))


def ids_model():
    inputs = bag_inputs(2)
    x, *levels = Distinct()(inputs)
    for (members, weights), vocabulary in zip(levels, (3, None), strict=True):
        x = BagLayer(4, vocabulary_size=vocabulary)(x, members, weights)
    return keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))


def test_saving(tmp_path):
    for model, x in ((plain_model(), vectors()), (ids_model(), ids())):
        expected = model.predict(x, verbose=0)
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        assert type(loaded) is keras_mmil.Model
        np.testing.assert_array_equal(loaded.predict(x, verbose=0), expected)
        np.testing.assert_array_equal(predict_in_fresh_process(model, x), model(x))


def test_weights_survive_a_file(tmp_path):
    model, twin = plain_model(), plain_model()
    model.save_weights(tmp_path / "x.weights.h5")
    twin.load_weights(tmp_path / "x.weights.h5")
    for a, b in zip(model.get_weights(), twin.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_optimizer_is_saved_too(tmp_path):
    model, x, y = plain_model(), vectors(), np.array([0, 1, 0, 1])
    model.compile("adam", "binary_crossentropy")
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert int(loaded.optimizer.iterations) == 1
    for each in (model, loaded):
        each.fit(x, y, verbose=0, shuffle=False)
    np.testing.assert_allclose(loaded(x), model(x), rtol=1e-6)


SERVE = """
import sys
import numpy as np, tensorflow as tf
folder = sys.argv[1]
served = tf.saved_model.load(folder + "/exported")
inputs = tf.data.Dataset.load(folder + "/inputs").get_single_element()
outputs = served.serve(inputs["plain"])
if "compressed" in inputs:
    np.testing.assert_allclose(served.serve_compressed(inputs["compressed"]), outputs, rtol=1e-6)
assert "keras_mmil" not in sys.modules
np.save(folder + "/outputs.npy", outputs.numpy())
"""


@pytest.mark.parametrize("compressed", [True, False])
def test_export_is_served_without_this_package(tmp_path, compressed):
    model, x = (ids_model(), ids()) if compressed else (plain_model(), vectors())
    inputs = {"plain": x}
    if compressed:
        inputs["compressed"] = Bags.from_ragged(x).inputs
    model.export(tmp_path / "exported", verbose=False)
    tf.data.Dataset.from_tensors(inputs).save(str(tmp_path / "inputs"))
    subprocess.run([sys.executable, "-c", SERVE, str(tmp_path)], check=True, cwd=tmp_path)
    np.testing.assert_allclose(
        np.load(tmp_path / "outputs.npy"), model.predict(x, verbose=0), rtol=1e-6
    )


def test_export_refuses_formats_without_ragged_tensors(tmp_path):
    with pytest.raises(ValueError, match="format='onnx'"):
        plain_model().export(tmp_path / "x", format="onnx")


def test_a_dense_model_is_exported_as_by_keras(tmp_path):
    x = keras.Input((3, 4))
    model = keras_mmil.Model(x, BagLayer(2)(x))
    model.export(tmp_path / "dense", verbose=False)
    batch = np.ones((2, 3, 4), "float32")
    served = tf.saved_model.load(tmp_path / "dense")
    np.testing.assert_allclose(served.serve(batch), model(batch))


def test_summary_and_what_is_plotted():
    lines = []
    for model in (plain_model(), ids_model()):
        model.summary(print_fn=lines.append)
        # What `plot_model` hands to Graphviz.
        dot = keras.utils.model_to_dot(model, show_shapes=True, expand_nested=True).to_string()
        assert all(layer.name in dot for layer in model.layers)
        assert f"{tuple(model.inputs[0].shape)}" in dot
    text = "\n".join(lines)
    assert "(None, None, None," in text
    assert "BagLayer" in text


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs the program Graphviz")
def test_plot(tmp_path):
    for model in (plain_model(), ids_model()):
        keras.utils.plot_model(model, tmp_path / "model.png", show_shapes=True, expand_nested=True)
        assert (tmp_path / "model.png").stat().st_size > 1000


def test_nested_in_another_model():
    inner, x = plain_model(), keras.Input((None, None, 3), ragged=True)
    outer = keras_mmil.Model(x, keras.layers.Dense(2)(inner(x)))
    assert outer(vectors()).shape == (4, 2)


def labels():
    return np.array([0, 1, 0, 1])


def compiled():
    model = plain_model()
    model.compile("sgd", "binary_crossentropy")
    return model


def with_value(value):
    x = vectors()
    values = x.flat_values.numpy()
    values[3, 1] = value
    return x.with_flat_values(values)


@pytest.mark.parametrize(
    ("x", "y", "match", "error"),
    [
        (lambda: vectors().values, labels, r"input.*Received: x.shape=\(6, None, 3\)", ValueError),
        (lambda: vectors().to_list(), labels, "from_nested_lists.*type list", TypeError),
        (lambda: "bags", labels, "type str", TypeError),
        (lambda: with_value(np.nan), labels, "NaN or infinite.*=nan", ValueError),
        (lambda: with_value(np.inf), labels, "NaN or infinite.*=inf", ValueError),
        (lambda: vectors()[:0], lambda: labels()[:0], "at least one top-bag", ValueError),
        (vectors, lambda: labels()[:3], "Received: 3 labels", ValueError),
        (
            lambda: tf.ragged.constant([[[["a", "b", "c"]]]] * 4, inner_shape=(3,)),
            labels,
            "Expected numbers. Received: x of dtype string",
            TypeError,
        ),
    ],
    ids=["depth", "list", "str", "nan", "inf", "no top-bags", "labels", "strings"],
)
def test_bad_data_is_named(x, y, match, error):
    model = compiled()
    for call in (model.fit, model.evaluate, model.train_on_batch, model.test_on_batch):
        with pytest.raises(error, match=match):
            call(x(), y())
    if "labels" not in match:
        for call in (model.predict, model.predict_on_batch):
            with pytest.raises(error, match=match):
                call(x())


def test_bad_validation_data_is_named():
    model = compiled()
    for bad in (vectors().values, with_value(np.nan)):
        with pytest.raises(ValueError, match="validation_data"):
            model.fit(vectors(), labels(), validation_data=(bad, labels()), verbose=0)


def test_empty_bags_are_good_data():
    model, x = compiled(), ragged.from_flat(np.zeros((0, 3), "float32"), ([1, 0], [0]))
    model.fit(x, np.array([0, 1]), verbose=0)
    assert np.isfinite(model.predict(x, verbose=0)).all()


def test_single_batches_of_bags():
    model, bags, y = ids_model(), Bags.from_ragged(ids()), labels()
    model.compile("sgd", "binary_crossentropy")
    np.testing.assert_allclose(model.predict_on_batch(bags), model(bags), rtol=1e-6)
    before = model.test_on_batch(bags, y)
    assert model.train_on_batch(bags, y) == pytest.approx(before)
    assert model.test_on_batch(bags, y) < before


def test_several_inputs_in_a_list():
    a, b = (keras.Input((None, 3), ragged=True) for _ in range(2))
    model = keras_mmil.Model([a, b], BagLayer(4)(a) + BagLayer(4)(b))
    x = [vectors().values, vectors().values]
    np.testing.assert_array_equal(model.predict(x, verbose=0), model(x))
    with pytest.raises(ValueError, match="Expected 2 inputs in a list"):
        model.predict(x[0], verbose=0)
    with pytest.raises(ValueError, match=r"Received: x\[1\].shape=\(4, None, None, 3\)"):
        model.predict([x[0], vectors()], verbose=0)


def test_unknown_inputs_are_named():
    with pytest.raises(ValueError, match=r"Expected inputs among \['bags', .*'sub_bag_keys'\]"):
        ids_model().predict({"bags": ids(), "words": ids()}, verbose=0)


def test_learns():
    """Positive iff some sub-bag has a member with a positive first feature and none with second."""
    rng = np.random.default_rng(0)
    lengths = (np.full(200, 3), np.full(600, 3))
    flat = np.sign(rng.normal(size=(1800, 2))).astype("float32")
    x = ragged.from_flat(flat, lengths)
    sub = flat.reshape(200, 3, 3, 2)
    y = ((sub[..., 0] > 0).any(2) & ~(sub[..., 1] > 0).any(2)).any(1).astype(int)
    bags = keras.Input((None, None, 2), ragged=True)
    top = BagLayer(16)(BagLayer(16)(bags))
    model = keras_mmil.Model(bags, keras.layers.Dense(1, activation="sigmoid")(top))
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    model.fit(x, y, epochs=60, verbose=0)
    assert model.evaluate(x, y, verbose=0, return_dict=True)["accuracy"] > 0.98

"""The functional model for nested bags."""

import shutil

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    with pytest.raises(ValueError, match=r"of type dict\..*made with a dict"):
        model.predict({"a": x[0], "b": x[1]}, verbose=0)
    with pytest.raises(ValueError, match=r"Received: x\[1\].shape=\(4, None, None, 3\)"):
        model.predict([x[0], vectors()], verbose=0)


def test_unknown_inputs_are_named():
    with pytest.raises(ValueError, match=r"Expected inputs among \['bags', .*'sub_bag_keys'\]"):
        ids_model().predict({"bags": ids(), "words": ids()}, verbose=0)


@pytest.mark.slow
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


def two_inputs():
    words = keras.Input((None, 3), ragged=True, name="words")
    fields = keras.Input((2,), name="fields")
    x = keras.layers.Concatenate()([BagLayer(4)(words), fields])
    model = keras_mmil.Model({"words": words, "fields": fields}, keras.layers.Dense(1)(x))
    model.compile("sgd", "mse")
    return model


def both(**changed):
    return {"words": vectors().values, "fields": np.zeros((6, 2), "float32")} | changed


@pytest.mark.parametrize(
    ("x", "match", "error"),
    [
        (
            lambda: both(fields=np.zeros((5, 2))),
            r"\['words'\] with 6, .*\['fields'\] with 5",
            ValueError,
        ),
        (lambda: both(fields="oops"), r"array or a tensor.*\['fields'\] of type str", TypeError),
        (lambda: both(fields=np.full((6, 2), np.nan)), r"\['fields'\]\[0\]\[0\]=nan", ValueError),
        (lambda: both(words=vectors()), r"\['words'\].shape=\(4, None, None, 3\)", ValueError),
        (lambda: {"words": vectors().values}, r"\['fields'\], too.*with \['words'\]", ValueError),
        (lambda: vectors().values, r"dict of the inputs \['fields', 'words'\]", ValueError),
    ],
    ids=["lengths", "str", "nan", "depth", "missing", "bare"],
)
def test_bad_parts_are_named(x, match, error):
    model, y = two_inputs(), np.zeros(6)
    with pytest.raises(error, match=match) as raised:
        model.fit(x(), y)
    assert "validation_data" not in str(raised.value)
    assert len(str(raised.value)) < 250
    with pytest.raises(error, match=match) as raised:
        model.fit(both(), y, validation_data=(x(), y))
    assert "validation_data[0]" in str(raised.value)


NAMES = ["zero", "one", "zero", "one"]


@pytest.mark.parametrize(
    ("y", "match", "error"),
    [
        (np.array(NAMES), "np.unique.*StringLookup.*Received: y.0.='zero'", TypeError),
        (np.array(NAMES, object), "np.unique.*StringLookup.*Received: y.0.='zero'", TypeError),
        (NAMES, "np.unique.*StringLookup.*Received: y.0.='zero'", TypeError),
        ([0, 1, None, 1], r"numbers.*Received: y\[2\]=None", TypeError),
        ([0, 1, 1], r"Received: 3 labels, y.shape=\(3,\)", ValueError),
        ([[0], [0, 1], [1], [0]], "Received: y of uneven lists", ValueError),
        ([0, 1, np.nan, 1], r"finite labels.*Received: y\[2\]=nan", ValueError),
        (np.array([[0], [np.inf], [1], [1]]), r"Received: y\[1\]\[0\]=inf", ValueError),
        (1, "Received: y of type int", TypeError),
        (None, "Expected labels, for the compiled loss. Received: y=None", ValueError),
    ],
    ids=["str", "objects", "strs", "None", "few", "uneven", "nan", "inf", "one", "none"],
)
def test_bad_labels_are_named(y, match, error):
    model, x = compiled(), vectors()
    for call in (model.fit, model.evaluate, model.train_on_batch, model.test_on_batch):
        with pytest.raises(error, match=match) as raised:
            call(x, y)
        assert len(str(raised.value)) < 300
    in_validation = match.replace(": y", r": validation_data\[1\]").replace(", y", ".*")
    with pytest.raises(error, match=in_validation):
        model.fit(x, labels(), validation_data=(x, y))


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ([1, 1, np.nan, 1], r"Received: sample_weight\[2\]=nan"),
        ([1, 1, 1], "one weight for each of 4 top-bags"),
        (np.array([1, 1, 1, -0.5]), r"Expected weights ≥ 0. Received: sample_weight\[3\]=-0.5"),
    ],
    ids=["nan", "few", "negative"],
)
def test_bad_weights_are_named(weights, match):
    model, x = compiled(), vectors()
    for call in (model.fit, model.evaluate, model.train_on_batch, model.test_on_batch):
        with pytest.raises(ValueError, match=match):
            call(x, labels(), sample_weight=weights)
    with pytest.raises(ValueError, match=match.replace("sample_weight", r"validation_data\[2\]")):
        model.fit(x, labels(), validation_data=(x, labels(), weights))


@pytest.mark.slow
def test_labels_in_lists_are_arrays_of_labels():
    model, x, weights = compiled(), vectors(), [1, 2, 0.5, 1]
    predicted = model.predict(x, verbose=0)[:, 0].astype("float64")
    crossentropies = -np.log(np.where(labels() == 1, predicted, 1 - predicted))
    expected = pytest.approx((crossentropies * weights).mean(), rel=1e-5)
    as_objects = labels().astype(object)
    for y in (labels().tolist(), as_objects, labels().astype(bool), tuple(labels())):
        assert model.test_on_batch(x, y, weights) == expected
    history = model.fit(
        x, list(labels()), 4, 1, 0, sample_weight=weights, validation_data=(x, [0, 1, 0, 1])
    ).history
    assert history["loss"] == [expected]


def test_labels_of_several_outputs():
    bags = keras.Input((None, None, 3), ragged=True)
    x = BagLayer(4)(BagLayer(4)(bags))
    a, b = keras.layers.Dense(1, name="a")(x), keras.layers.Dense(2, name="b")(x)
    model = keras_mmil.Model(bags, [a, b])
    model.compile("sgd", ["mse", "mse"])
    ones, twos = [1, 0, 1, 0], np.eye(4)[:, :2]
    x = vectors()
    first, second = model.predict(x, verbose=0)
    expected = np.square(first[:, 0] - ones).mean() + np.square(second - twos).mean()
    assert model.test_on_batch(x, [ones, twos], return_dict=True)["loss"] == pytest.approx(
        expected, rel=1e-5
    )
    with pytest.raises(ValueError, match=r"Received: y\[1\]\[0\]\[1\]=nan"):
        model.fit(x, [ones, [[0, np.nan]] * 4])
    with pytest.raises(ValueError, match=r"Received: 3 labels, y\['b'\].shape=\(3, 2\)"):
        model.fit(x, {"a": ones, "b": twos[:3]})


def embedded(inputs, x, levels):
    x = keras.layers.Embedding(5, 3, name="words")(x)
    for members, weights in levels:
        x = BagLayer(4)(x, members, weights)
    model = keras_mmil.Model(inputs, keras.layers.Dense(1)(x))
    model.compile("sgd", "mse")
    return model


def on_distinct():
    inputs = bag_inputs(2)
    x, *levels = Distinct()(inputs)
    return embedded(inputs, x, levels)


def on_instances(dtype="int32"):
    bags = keras.Input((None, None, 2), ragged=True, dtype=dtype)
    embed = keras.Sequential(
        [keras.layers.Embedding(5, 3, name="words"), keras.layers.Flatten()], name="encoder"
    )
    x = BagLayer(4)(BagLayer(4)(InstanceWise(embed)(bags)))
    model = keras_mmil.Model(bags, keras.layers.Dense(1)(x))
    model.compile("sgd", "mse")
    return model


def on_one_hot():
    bags = keras.Input((None, None), ragged=True, dtype="int32")
    model = keras_mmil.Model(bags, BagLayer(1)(BagLayer(4, vocabulary_size=5, name="words")(bags)))
    model.compile("sgd", "mse")
    return model


def changed_ids(value, dtype, axes=()):
    """Ids below 5, of which one is another: in top-bag 3, its sub-bag 2, there the second."""
    values = np.arange(9) % 5
    values = values.astype(dtype)
    values[8] = value
    values = np.stack([np.zeros_like(values), values], axis=1) if axes else values
    return ragged.from_flat(values, LENGTHS)


@pytest.mark.slow
@pytest.mark.parametrize("build", [on_distinct, on_instances, on_one_hot])
@pytest.mark.parametrize(
    ("value", "dtype", "match", "error"),
    [
        (-1, "int32", "Expected ids of at least 0. Received: {name}[3][2][1]{axis}=-1", ValueError),
        (
            5,
            "int32",
            "ids below 5, the number of ids of layer 'words'. Received: {name}[3][2][1]",
            ValueError,
        ),
        (
            2**32 + 1,
            "int64",
            "fit int32, .* Received: {name}[3][2][1]{axis}=4294967297",
            ValueError,
        ),
        (1.5, "float32", "Expected integers, int32. Received: {name} of float32", TypeError),
    ],
    ids=["negative", "above", "wrapped", "floats"],
)
def test_ids_that_are_none_are_named(build, value, dtype, match, error):
    model = build()
    is_pair = build is on_instances
    x = changed_ids(value, dtype, is_pair)
    axis = "[1]" if is_pair else ""
    for call in (model.fit, model.evaluate, model.train_on_batch):
        pattern = match.format(name="x", axis=axis).replace("[", r"\[")
        with pytest.raises(error, match=pattern):
            call(x, labels())
    good = changed_ids(4, "int32", is_pair)
    pattern = match.format(name="validation_data[0]", axis=axis).replace("[", r"\[")
    with pytest.raises(error, match=pattern):
        model.fit(good, labels(), validation_data=(x, labels()))
    if build is on_distinct and dtype == "int32":
        with pytest.raises(error, match=r"x\['bags'\]"):
            model.predict({"bags": x})
    assert model.predict(good, verbose=0).shape == (4, 1)


def test_ids_in_floats_are_whole_numbers():
    model = on_instances("float32")
    with pytest.raises(
        ValueError, match=r"Expected ids, integers. Received: x\[3\]\[2\]\[1\]\[1\]=1.5"
    ):
        model.predict(changed_ids(1.5, "float32", True))
    expected = model.predict(changed_ids(4, "int32", True), verbose=0)
    np.testing.assert_array_equal(
        model.predict(changed_ids(4, "float32", True), verbose=0), expected
    )


def test_integers_that_are_no_ids_may_be_negative():
    bags = keras.Input((None, 2), ragged=True, dtype="int32")
    model = keras_mmil.Model(bags, BagLayer(2)(bags))
    x = ragged.from_flat(-np.ones((3, 2), "int64"), ([1, 2],))
    np.testing.assert_array_equal(model.predict(x, verbose=0), model(x))


def test_parts_of_bags_are_of_the_sizes_of_the_bags():
    model, parts = on_distinct(), Bags.from_ragged(ids()).inputs
    for name, part in parts.items():
        if name == "bags":
            continue
        wrong = {**parts, name: part[::-1]}  # as many members in all
        with pytest.raises(ValueError, match=rf"x\['bags'\] and x\['{name}'\].*top-bag 0 a bag of"):
            model.fit(wrong, labels())


def joined(how):
    a, b = (keras.Input((None, 3), ragged=True, name=name) for name in "ab")
    return keras_mmil.Model([a, b], BagLayer(2)(how([a, b])))


@pytest.mark.parametrize(
    "how", [keras.layers.Concatenate(), keras.layers.Add(), lambda x: x[0] * x[1]]
)
def test_inputs_that_are_joined_are_of_the_same_sizes(how):
    model, x = joined(how), vectors().values
    other = ragged.from_flat(x.flat_values, ([2, 1, 1, 2, 1, 2],))
    with pytest.raises(
        ValueError, match=r"in top-bag 2 a bag of 0 members in x\[0\], of 1 in x\[1\]"
    ):
        model.predict([x, other])
    assert model.predict([x, x], verbose=0).shape == (6, 2)


@pytest.mark.parametrize("how", [keras.layers.Concatenate(axis=1), None])
def test_inputs_that_are_not_joined_may_differ_in_size(how):
    if how is None:
        a, b = (keras.Input((None, 3), ragged=True, name=name) for name in "ab")
        model = keras_mmil.Model([a, b], keras.layers.Add()([BagLayer(2)(a), BagLayer(2)(b)]))
    else:
        model = joined(how)
    x = [vectors().values, ragged.from_flat(vectors().flat_values, ([2, 1, 1, 2, 1, 2],))]
    np.testing.assert_allclose(model.predict(x, verbose=0), model(x), rtol=1e-6)


class WithCall(keras_mmil.Model):
    def __init__(self):
        super().__init__()
        self.layer = BagLayer(3)

    def call(self, inputs):
        return self.layer(inputs)


class WithStep(keras_mmil.Model):
    def train_step(self, data):
        return {"steps": super().train_step(data)["loss"] * 0 + 1}


@pytest.mark.parametrize("before", [False, True], ids=["at once", "after a functional one"])
def test_models_without_inputs_and_outputs_are_refused(before):
    if before:
        plain_model()  # Keras changes the bases of the class with the first
    for build in (WithCall, keras_mmil.Model, lambda: keras_mmil.Model(name="x")):
        with pytest.raises(TypeError, match=r"functional model.*function that builds.*inputs=None"):
            build()


@pytest.mark.slow
def test_functional_subclasses_work(tmp_path):
    bags = keras.Input((None, None, 3), ragged=True)
    model = WithStep(inputs=bags, outputs=BagLayer(1)(BagLayer(4)(bags)))
    model.compile("sgd", "mse")
    x = vectors()
    assert model.fit(x, labels(), verbose=0).history == {"steps": [1]}
    model.save(tmp_path / "model.keras")
    custom = {"WithStep": WithStep}
    loaded = keras.models.load_model(tmp_path / "model.keras", custom_objects=custom)
    assert type(loaded) is WithStep
    np.testing.assert_array_equal(loaded(x), model(x))

"""Models served by TensorFlow alone."""

import functools
import re
import subprocess
import sys
from importlib.util import find_spec

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import Bags, ragged
from keras_mmil.layers import BagLayer, Distinct, InstanceWise, TextBags, bag_inputs
from keras_mmil.records import Schema
from keras_mmil.records.network import Labels, records_model

SIZES = ([2, 1, 0, 3], [2, 1, 0, 3, 1, 2])


def vectors():
    values = np.random.default_rng(0).normal(size=(9, 3)).astype("float32")
    return ragged.from_flat(values, SIZES)


def ids():
    return ragged.from_flat(np.arange(9, dtype="int32") % 3, SIZES)


def on_ids(**others):
    inputs = bag_inputs(2)
    x, *levels = Distinct()(inputs)
    for (members, weights), vocabulary in zip(levels, (3, None), strict=True):
        x = BagLayer(4, vocabulary_size=vocabulary)(x, members, weights)
    x = keras.layers.Concatenate()([x, *others.values()]) if others else x
    return keras_mmil.Model(inputs | others, keras.layers.Dense(1, name="score")(x))


def on_ids_and_fields():
    return on_ids(fields=keras.Input((2,), name="fields"))


def on_vectors():
    bags = keras.Input((None, None, 3), ragged=True, name="bags")
    return keras_mmil.Model(bags, BagLayer(4, name="top")(BagLayer(4)(bags)))


def on_a_dict():
    bags = keras.Input((None, None, 3), ragged=True, name="bags of bags")
    words = keras.Input((None, 3), ragged=True, name="words")
    fields = keras.Input((2,), name="fields")
    sub_bags = BagLayer(4, name="sub_bags")(bags)
    x = [BagLayer(4)(sub_bags), BagLayer(4)(words), fields]
    outputs = {"score": keras.layers.Dense(1)(keras.layers.Concatenate()(x)), "parts": sub_bags}
    return keras_mmil.Model({"bags of bags": bags, "words": words, "fields": fields}, outputs)


def on_a_list():
    bags = keras.Input((None, 3), ragged=True, name="words")
    fields = keras.Input((2,), name="fields")
    scores = InstanceWise(keras.layers.Dense(1), name="scores")(bags)
    return keras_mmil.Model([bags, fields], [scores, fields * 2])


def fields():
    return np.arange(8, dtype="float32").reshape(4, 2)


def flat(name, x):
    """The arguments that stand for an input, by their documented names."""
    if not isinstance(x, tf.RaggedTensor):
        return {name: tf.convert_to_tensor(x)}
    splits = {f"{name}_row_splits_{i}": s for i, s in enumerate(x.nested_row_splits)}
    return {f"{name}_values": x.flat_values} | splits


def flat_inputs(inputs):
    return {
        k: v for name, x in inputs.items() for k, v in flat(re.sub(r"\W", "_", name), x).items()
    }


def texts():
    return np.array(["Good, not bad. A bad end!", "", "bad bad good", "?"])


def on_texts(splitter):
    text = keras.Input((), dtype="string", name="text")
    x = TextBags(["_", "?", "good", "bad"], depth=2, splitter=splitter)(text)
    x = InstanceWise(keras.layers.Embedding(4, 3))(x)
    x = InstanceWise(keras.layers.Flatten())(x)
    x = BagLayer(4, activation="tanh")(x)
    return keras_mmil.Model(text, BagLayer(1, activation="tanh")(x))


ORDERS = [{"items": [{"price": i + 0.5, "kind": "ab"[i % 2]}] * (i % 3)} for i in range(4)]
CUSTOMERS = [
    {
        "age": 20 + i,
        "since": f"2024-01-0{i + 1}",
        "tags": ["new", "old"][: i % 3],
        "orders": ORDERS[: i % 5],
    }
    for i in range(6)
]


@functools.cache
def schema():
    return Schema.infer(CUSTOMERS)


def customers():
    return schema().read(CUSTOMERS)


def on_records():
    return records_model(schema(), Labels("classes", 2), units=4)


def several():
    words = vectors().values[2:6]  # sizes that are not those of the bags
    return {"bags of bags": vectors(), "words": words, "fields": fields()}


# The model; what `serve` takes; the inputs by name; and all inputs where some are optional.
CASES = {
    "ids and fields": (
        on_ids_and_fields,
        lambda: {"bags": ids(), "fields": fields()},
        lambda: {"bags": ids(), "fields": fields()},
        lambda: Bags.from_ragged(ids()).inputs | {"fields": fields()},
    ),
    "dict": (on_a_dict, several, several, None),
}
# At night: texts with a ragged output are exported below, and records by the command line.
SELDOM = {
    "vectors": (on_vectors, vectors, lambda: {"bags": vectors()}, None),
    "text": (lambda: on_texts("core"), texts, lambda: {"text": texts()}, None),
    "records": (on_records, customers, customers, None),
    "list": (
        on_a_list,
        lambda: [vectors().values[:4], fields()],
        lambda: {"words": vectors().values[:4], "fields": fields()},
        None,
    ),
}
if find_spec("tensorflow_text"):  # there is none for Windows
    build = functools.partial(on_texts, "tensorflow-text")
    SELDOM["text by tensorflow-text"] = (build, texts, lambda: {"text": texts()}, None)

SERVE = """
import sys

for name in ("keras", "keras_mmil", "tf_keras"):
    sys.modules[name] = None  # to import them is an error
import tensorflow as tf

for folder in sys.argv[1:]:
    if "tensorflow-text" in folder:  # the last, as its operations come in a package with Keras
        del sys.modules["keras"]
        import tensorflow_text
    served = tf.saved_model.load(folder + "/served")
    calls = tf.data.Dataset.load(folder + "/calls").get_single_element()
    x = calls["serve"]
    outputs = {"serve": served.serve(list(x) if isinstance(x, tuple) else x)}
    is_ragged = "serve_flat" in served.signatures
    if is_ragged:
        outputs["serve_flat"] = served.serve_flat(**calls["flat"])
    signature = served.signatures["serve_flat" if is_ragged else "serve"]
    outputs["by signature"] = signature(**calls["flat"])
    outputs["by default"] = served.signatures["serving_default"](**calls["flat"])
    n_signatures = 2
    if "all" in calls:
        n_signatures = 3
        outputs["serve_compressed"] = served.serve_compressed(calls["all"])
        call = served.signatures["serve_compressed_flat"]
        outputs["serve_compressed_flat"] = call(**calls["all flat"])
    assert len(served.signatures) == n_signatures
    # A Dataset takes lists for tensors.
    outputs = {key: tuple(y) if isinstance(y, list) else y for key, y in outputs.items()}
    tf.data.Dataset.from_tensors(outputs).save(folder + "/outputs")
assert sys.modules["keras_mmil"] is None
"""


def export(cases, make_folder):
    """Folders with the models and what to call them with, and what the models compute, by case."""
    expected, folders = {}, {}
    for case, (build, inputs, named, everything) in cases.items():
        folders[case] = make_folder(case.replace(" ", "_"))
        model = build()
        model.export(folders[case] / "served", verbose=False)
        calls = {"serve": inputs(), "flat": flat_inputs(named())}
        if everything is not None:
            calls |= {"all": everything(), "all flat": flat_inputs(everything())}
        calls = {key: tuple(v) if isinstance(v, list) else v for key, v in calls.items()}
        tf.data.Dataset.from_tensors(calls).save(str(folders[case] / "calls"))
        expected[case] = model.predict(inputs(), verbose=0)
    return folders, expected


def serve(folders, expected):
    """What a process with nothing but TensorFlow computes, and what the models do, by case."""
    command = [sys.executable, "-c", SERVE, *map(str, folders.values())]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    return {
        case: (tf.data.Dataset.load(str(folder / "outputs")).get_single_element(), expected[case])
        for case, folder in folders.items()
    }


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return export(CASES, tmp_path_factory.mktemp)


@pytest.fixture(scope="module")
def served(exported):
    return serve(*exported)


def check_flat(found, expected):
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-6)


def check_one_output(outputs, expected, name):
    for key, found in outputs.items():
        found = found if "flat" in key or "by" in key else {name: found}
        check_flat(found, {name: expected})


@pytest.mark.slow
def test_a_model_of_one_dense_output(served):
    check_one_output(*served["ids and fields"], "score")


def check_texts(outputs, expected):
    assert len(np.unique(expected)) > 2
    assert outputs.keys() == {"serve", "by signature", "by default"}
    np.testing.assert_allclose(outputs["serve"], expected, atol=1e-6)
    for key in ("by signature", "by default"):
        check_flat(outputs[key], {"output_0": expected})  # as Keras calls it


def check_records(outputs, expected):
    assert len(np.unique(expected)) == len(CUSTOMERS)
    np.testing.assert_allclose(outputs["serve"], expected, atol=1e-6)
    for key in ("serve_flat", "by signature", "by default"):
        check_flat(outputs[key], {"target": expected})


@pytest.mark.slow
def test_a_dict_of_inputs_and_of_outputs(served):
    outputs, expected = served["dict"]
    np.testing.assert_allclose(outputs["serve"]["score"], expected["score"], atol=1e-6)
    np.testing.assert_allclose(
        outputs["serve"]["parts"].flat_values, expected["parts"].flat_values, atol=1e-6
    )
    parts = {"parts_values": expected["parts"].values, "parts_row_splits_0": [0, 2, 3, 3, 6]}
    for key in ("serve_flat", "by signature", "by default"):
        check_flat(outputs[key], {"score": expected["score"]} | parts)


def check_list(outputs, expected):
    scores, doubled = expected
    np.testing.assert_allclose(doubled, fields() * 2)
    for key in ("serve_flat", "by signature", "by default"):
        *found, last = (outputs[key][name] for name in sorted(outputs[key], key=len, reverse=True))
        assert len(found) == 2
        np.testing.assert_allclose(last, doubled)
        np.testing.assert_allclose(outputs[key]["scores_values"], scores.values, atol=1e-6)
        np.testing.assert_array_equal(outputs[key]["scores_row_splits_0"], scores.row_splits)


@pytest.mark.slow
@pytest.mark.nightly
def test_models_of_all_kinds(tmp_path_factory):
    served = serve(*export(SELDOM, tmp_path_factory.mktemp))
    check_one_output(*served["vectors"], "top")
    for case in [case for case in served if "text" in case]:
        check_texts(*served[case])
    check_records(*served["records"])
    check_list(*served["list"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"bags_row_splits_0": [1, 3, 3, 3, 6]}, "bags_row_splits_0` to start at 0"),
        ({"bags_row_splits_0": [0, 2, 1, 3, 6]}, "bags_row_splits_0` to never decrease"),
        (
            {"bags_row_splits_0": [0, 2, 3, 3, 5]},
            "0` to end at the number of bags in bags_row_splits_1",
        ),
        ({"bags_row_splits_1": [0, 2, 3, 3, 6, 7, 8]}, "1` to end at the number of bags_values"),
        ({"bags_row_splits_1": []}, "bags_row_splits_1` to have one more entry"),
        ({"fields": np.ones((3, 2))}, "Expected `bags` and `fields` of equally many top-bags"),
    ],
    ids=["start", "decrease", "end", "end at values", "none", "batches"],
)
def test_wrong_row_splits_are_named(change, match, wrong_splits_model):
    good = flat_inputs({"bags": ids(), "fields": fields()})
    _, serve_flat = wrong_splits_model
    serve_flat(**good)
    ((name, value),) = change.items()
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        serve_flat(**good | {name: tf.constant(value, good[name].dtype)})


@pytest.fixture(scope="module")
def wrong_splits_model(exported):
    folders, _ = exported
    served = tf.saved_model.load(folders["ids and fields"] / "served")
    return served, served.signatures["serve_flat"]  # the latter needs the former


def test_inputs_of_one_name_are_refused(tmp_path):
    bags = keras.Input((None, 3), ragged=True, name="a")
    fields = keras.Input((4,), name="a_values")
    model = keras_mmil.Model([bags, fields], BagLayer(4)(bags) + fields)
    with pytest.raises(ValueError, match=r"different names.*Received: \['a_values'\]"):
        model.export(tmp_path / "x", verbose=False)


def on_text(ragged_output=False):
    text = keras.Input((), dtype="string", name="text")
    x = TextBags(["_", "?", "good", "bad"], depth=1, splitter="core", name="words")(text)
    x = InstanceWise(keras.layers.Embedding(4, 3))(x)
    x = InstanceWise(keras.layers.Flatten(), name="flat")(x)
    return keras_mmil.Model(text, x if ragged_output else BagLayer(2)(x))


@pytest.mark.parametrize("format", ["litert", "onnx", "openvino", "torch"])
def test_text_is_exported_to_nothing_but_a_saved_model(tmp_path, format):
    with pytest.raises(ValueError, match=f"strings.*input 'text' has them.*format='{format}'"):
        on_text().export(tmp_path / "x.tflite", format=format, verbose=False)


@pytest.mark.slow
def test_text_with_a_ragged_output(tmp_path):
    model, x = on_text(ragged_output=True), ["good bad", "bad"]
    model.export(tmp_path / "x", verbose=False)
    served = tf.saved_model.load(tmp_path / "x")
    found = served.serve_flat(text=tf.constant(x))
    expected = model(x)
    np.testing.assert_allclose(found["flat_values"], expected.values, atol=1e-6)
    np.testing.assert_array_equal(found["flat_row_splits_0"], [0, 2, 3])

"""Models that take strings, against the same models on the ids of a corpus."""

import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from pairs import pairs

import keras_mmil
from keras_mmil.builders.corpus import Corpus
from keras_mmil.layers import TextBags
from keras_mmil.testing import predict_in_fresh_process
from keras_mmil.zoo.imdb import imdb_mil, imdb_mmil, with_text

TEXTS = [
    "Not bad. Not bad at all!",
    "Bad, I don't like it.<br /><br />I gave it 8.5/10, never more",
    "",
    "Voil\u00e0. A long, long film by Mr. Smith: it is not bad, not good, not well-spent, but long",
    "Good",
    f"Bad. {'not ' * 40}never{' long' * 40}{' film' * 40} good",  # more than 100 tokens
]
# What no corpus should hold, but people type.
BAD_TEXTS = [
    "",
    " ",
    "?!... --- ''",
    "word",
    "bad " * 10_000,
    "Bad. " * 1_000,
    "\U0001f600\U0001f600 \u2764\ufe0f",
    "日本語 bad. Это я عربي",
    b"good\xff\xfebad \xc3",
    "bad\0good \0",
    "half a surrogate \ud800 pair",
]


@pytest.fixture(scope="module")
def corpus():
    return Corpus.from_texts(TEXTS, min_count=1, splitter="core", verbose=0)


def depth_of(model):
    return len(model.input_shape) - 2


def bags_of(corpus, depth, *args):
    bags = corpus.trigrams(None, *args)
    return bags if depth == 2 else bags.merge_dims(1, 2)


def assert_same_bags(found, expected):
    assert found.to_list() == expected.to_list()
    assert (found.dtype, found.ragged_rank) == (tf.int32, expected.ragged_rank)
    assert found.shape[-1] == expected.shape[-1]


def text_model(*args, **kwargs):
    texts = keras.Input((), dtype="string")
    return keras_mmil.Model(texts, TextBags(*args, **kwargs)(texts))


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "window"), pairs([1, 2], [(3, 100), (1, None), (5, 4)]))
def test_bags_are_those_of_the_corpus(corpus, depth, window):
    size, at_most = window
    layer = TextBags(corpus.vocabulary, depth, size, at_most, splitter="core")
    expected = bags_of(corpus, depth, size, at_most)
    assert_same_bags(layer(tf.constant(TEXTS)), expected)
    assert_same_bags(tf.function(layer)(tf.constant(TEXTS)), expected)
    assert layer(tf.zeros([0], tf.string)).to_list() == []
    model = text_model(corpus.vocabulary, depth, size, at_most, splitter="core")
    assert_same_bags(model(TEXTS), expected)
    assert model.output_shape == (None, *[None] * depth, size)
    assert model.output.ragged


def test_bags_by_hand():
    layer = TextBags(["_", "?", "not", "bad"], splitter="core")
    found = layer(tf.constant(["Not bad, not bad! Bad?", "bad", "", "never heard of"]))
    expected = [
        [[[0, 1, 3], [1, 3, 2], [3, 2, 3], [2, 3, 0]], [[0, 1, 0]]],
        [[[0, 3, 0]]],
        [],
        [[[0, 1, 1], [1, 1, 1], [1, 1, 0]]],
    ]
    assert found.to_list() == expected
    flat = TextBags(["_", "?", "not", "bad"], depth=1, at_most=2, splitter="core")
    assert flat(tf.constant(["Not bad, not bad! Bad?"])).to_list() == [
        [[0, 1, 3], [2, 3, 0], [0, 1, 0]]  # of each sentence the two at its ends
    ]


@pytest.mark.slow
def test_vocabulary(corpus):
    assert TextBags(corpus.vocabulary, splitter="core").vocabulary == list(corpus.vocabulary)
    assert TextBags(["_", "?", "à"], splitter="core").vocabulary == ["_", "?", "à"]


def test_config(corpus):
    layer = TextBags(corpus.vocabulary, 1, 5, None, splitter="core", name="bags")
    config = json.loads(json.dumps(layer.get_config()))
    twin = TextBags.from_config(config)
    arguments = {"depth": 1, "window_size": 5, "at_most": None, "splitter": "core", "name": "bags"}
    for name, value in arguments.items():
        assert getattr(layer, name) == getattr(twin, name) == config[name] == value
    assert twin.get_config() == layer.get_config()


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
def test_saving(corpus, depth, tmp_path):
    model = text_model(corpus.vocabulary, depth, 5, 4, splitter="core")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1].vocabulary == list(corpus.vocabulary)
    expected = bags_of(corpus, depth, 5, 4)
    assert_same_bags(loaded(TEXTS), expected)
    assert_same_bags(predict_in_fresh_process(model, tf.constant(TEXTS)), expected)


@pytest.mark.slow
def test_saving_with_tensorflow_text():
    pytest.importorskip("tensorflow_text")
    corpus = Corpus.from_texts(TEXTS, min_count=1, verbose=0)
    model = text_model(corpus.vocabulary)
    found = predict_in_fresh_process(model, tf.constant(TEXTS))
    assert_same_bags(found, corpus.trigrams())


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"depth": 0}, "Received: depth=0"),
        ({"depth": 3}, "Received: depth=3"),
        ({"window_size": 2}, "Received: window_size=2"),
        ({"window_size": 1.0}, r"Received: window_size=1\.0"),
        ({"at_most": 0}, "Received: at_most=0"),
        ({"splitter": "nltk"}, r"\['core', 'tensorflow-text'\]\. Received: splitter='nltk'"),
        ({"vocabulary": ["_", "?", "bad", "bad"]}, r"repeated.*bad"),
    ],
)
def test_bad_arguments(arguments, match):
    arguments = {"vocabulary": ["_", "?", "bad"], "splitter": "core"} | arguments
    with pytest.raises(ValueError, match=match):
        TextBags(**arguments)


@pytest.fixture(
    params=["mmil", pytest.param("mil", marks=[pytest.mark.slow, pytest.mark.nightly])],
    scope="module",
)
def models(request, corpus):
    """A model of ids, the same for texts, and the bags of TEXTS."""
    n = len(corpus.vocabulary)
    if request.param == "mmil":
        model = imdb_mmil(vectors=n, filters=8, bag_units=(8, 8))
    else:
        model = imdb_mil(vectors=n, filters=8, bag_units=(8,))
    # A bias of 0 would give the same output for all texts without a token.
    for weight in model.trainable_weights:
        weight.assign_add(np.random.default_rng(0).normal(0, 0.3, weight.shape))
    x = bags_of(corpus, depth_of(model))
    return model, with_text(model, corpus.vocabulary, splitter="core"), x


@pytest.mark.slow
def test_predictions_are_those_for_ids(models):
    model, for_texts, x = models
    expected = model.predict(x, verbose=0)
    assert len(np.unique(expected)) == len(TEXTS)
    encoded = [one.encode() for one in TEXTS]
    for texts in (TEXTS, tuple(TEXTS), encoded, [*TEXTS[:2], *encoded[2:]]):
        np.testing.assert_array_equal(for_texts.predict(texts, verbose=0), expected)
        np.testing.assert_array_equal(for_texts(texts), model(x))
    for texts in (tf.constant(TEXTS), np.array(TEXTS), np.array(TEXTS, object)):
        np.testing.assert_array_equal(for_texts.predict(texts, verbose=0), expected)
        np.testing.assert_array_equal(for_texts(texts), model(x))
    one_by_one = for_texts.predict(TEXTS, batch_size=1, verbose=0)
    np.testing.assert_allclose(one_by_one, expected, atol=1e-6)
    batches = tf.data.Dataset.from_tensor_slices(TEXTS).batch(6)
    np.testing.assert_array_equal(for_texts.predict(batches, verbose=0), expected)


def test_names_and_layers(models, corpus):
    model, for_texts, _ = models
    assert for_texts.name == f"{model.name}_with_text"
    assert with_text(model, corpus.vocabulary, splitter="core", name="short").name == "short"
    layer = for_texts.get_layer("to_bags")
    assert (layer.depth, layer.window_size, layer.splitter) == (depth_of(model), 3, "core")
    assert [w.path for w in for_texts.weights] == [w.path for w in model.weights]
    assert all(a is b for a, b in zip(for_texts.weights, model.weights, strict=True))


@pytest.mark.eager  # predictions in graphs are tested above
@pytest.mark.slow
def test_evaluation(models):
    model, for_texts, x = models
    y = np.array([1, 0, 0, 1, 0, 1])
    p = model.predict(x, verbose=0)[:, 0].astype(float)
    loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    accuracy = np.mean((p > 0.5) == y)
    found = for_texts.evaluate(TEXTS, y, verbose=0)
    np.testing.assert_allclose(found, [loss, accuracy], rtol=1e-5)
    np.testing.assert_allclose(model.evaluate(x, y, verbose=0), [loss, accuracy], rtol=1e-5)
    with pytest.raises(ValueError, match=r"each of 6 top-bags\. Received: 5 labels"):
        for_texts.evaluate(TEXTS, y[:5], verbose=0)


@pytest.mark.slow
def test_training_trains_both(corpus):
    model = imdb_mmil(vectors=len(corpus.vocabulary), filters=8, bag_units=(8, 8))
    for_texts = with_text(model, corpus.vocabulary, splitter="core")
    before = model(corpus.trigrams())
    for_texts.fit(TEXTS, np.array([1, 0, 0, 1, 0, 1]), epochs=2, verbose=0)
    after = model(corpus.trigrams())
    assert np.abs(after - before).min() > 0
    np.testing.assert_array_equal(for_texts(TEXTS), after)


def test_models_that_are_not_compiled(corpus):
    compiled = imdb_mil(vectors=len(corpus.vocabulary), filters=8, bag_units=(8,))
    model = keras_mmil.Model(compiled.inputs[0], compiled.outputs[0])
    for_texts = with_text(model, corpus.vocabulary, splitter="core")
    assert not for_texts.compiled
    x = corpus.trigrams().merge_dims(1, 2)
    np.testing.assert_array_equal(for_texts(TEXTS), compiled(x))


@pytest.mark.eager
@pytest.mark.slow
def test_saved_models_for_texts(models, tmp_path):
    model, for_texts, x = models
    for_texts.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    expected = model.predict(x, verbose=0)
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), expected)
    fresh = predict_in_fresh_process(for_texts, tf.constant(TEXTS))
    np.testing.assert_allclose(fresh, expected, atol=1e-6)


@pytest.mark.parametrize("call", ["predict", "call"])
@pytest.mark.parametrize(
    ("texts", "received"),
    [
        ("Not bad", "'Not bad'"),
        (b"Not bad", "b'Not bad'"),
        ([3, 4], "int 3"),
        (["Not bad", None], "NoneType None"),
        ([["Not bad"]], "list ['Not bad']"),
        (np.array([3.5]), "float64 np.float64(3.5)"),
    ],
)
def test_what_is_no_list_of_texts(models, call, texts, received):
    _, for_texts, _ = models
    predict = for_texts if call == "call" else lambda x: for_texts.predict(x, verbose=0)
    with pytest.raises(TypeError, match=f"Received: .*{re.escape(received)}"):
        predict(texts)


def test_no_texts(models):
    with pytest.raises(ValueError, match=r"at least one top-bag. Received: x\.shape=\(0,\)"):
        models[1].predict([], verbose=0)
    assert models[1]([]).shape == (0, 1)


@pytest.mark.eager
@pytest.mark.slow
def test_bad_texts(models):
    model, for_texts, _ = models
    found = for_texts.predict(BAD_TEXTS, verbose=0)
    assert found.shape == (len(BAD_TEXTS), 1)
    assert np.isfinite(found).all()
    assert ((found > 0) & (found < 1)).all()
    for i, one in enumerate(BAD_TEXTS):
        np.testing.assert_allclose(for_texts([one])[0], found[i], atol=1e-5)
    # Those without a token are the empty bag.
    empty = tf.ragged.constant([[]], tf.int32, ragged_rank=depth_of(model), inner_shape=(3,))
    np.testing.assert_allclose(found[:3], np.repeat(model(empty), 3, axis=0), atol=1e-6)


def test_unknown_words_are_alike(models):
    _, for_texts, _ = models
    first, second, known = for_texts(["xyzzy plugh", "日本語 Это", "not bad"]).numpy()
    assert first == second != known

"""Fields of records as vectors: categories, numbers, booleans, texts and points in time."""

import datetime
import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import keras_mmil
from keras_mmil._support.types import MISSING_INT, MISSING_TEXT
from keras_mmil.layers import (
    BooleanEncoder,
    CategoryEncoder,
    NumberEncoder,
    TextEncoder,
    TimeEncoder,
)
from keras_mmil.layers.encoders import calendar
from keras_mmil.testing import predict_in_fresh_process, run_layer_test

# What a file with one category a line, or NumPy's texts, could not hold.
ODD = ["a\nb", "", "[UNK]", "x\r", "a\0", "日本語", " ", "toy"]


def one_hot(value, vocabulary, missing):
    known = [float(value == each) for each in vocabulary]
    return [*known, float(value == missing)]


@pytest.mark.parametrize(
    ("vocabulary", "others", "missing"),
    [
        (["toy", "book"], ["Toy", "", "car"], MISSING_TEXT),
        (ODD, ["a", "b", "\n"], MISSING_TEXT),
        ([7, -3, 0, 2**62], [1, MISSING_INT + 1], MISSING_INT),
        (["one"], ["two"], MISSING_TEXT),
    ],
)
def test_one_hot_vectors(vocabulary, others, missing):
    values = [*vocabulary, *others, missing, vocabulary[0]]
    layer = CategoryEncoder(vocabulary)
    dtype = tf.int64 if missing == MISSING_INT else tf.string
    found = layer(tf.constant(values, dtype))
    assert found.numpy().tolist() == [one_hot(value, vocabulary, missing) for value in values]
    assert found.shape[-1] == layer.width


def test_learned_vectors():
    layer = CategoryEncoder(["toy", "book"], units=3)
    values = tf.constant(["book", "car", MISSING_TEXT, "toy"])
    toy, book = layer(values)[3, :3], layer(values)[0, :3]
    assert layer.vectors.numpy().tolist() == [toy.numpy().tolist(), book.numpy().tolist()]
    assert layer(values)[:, 3].numpy().tolist() == [0, 0, 1, 0]
    assert layer(values)[1].numpy().tolist() == [0.0] * 4
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(values) ** 2 + layer(values))
    gradients = tape.gradient(loss, [layer.vectors.value, layer.unknown.value, layer.missing.value])
    gradients = [tf.convert_to_tensor(each).numpy() for each in gradients]
    np.testing.assert_allclose(gradients[0], 2 * layer.vectors.numpy() + 1, rtol=1e-6)
    assert [each.ravel().tolist() for each in gradients[1:]] == [[1.0] * 3] * 2


@pytest.mark.slow
@pytest.mark.parametrize("units", [None, 3])
def test_category_encoder_is_a_layer(units):
    arguments = {"vocabulary": [4, 2, 9], "units": units, "field": "orders.code"}
    bags = tf.ragged.constant([[2, 5], [], [MISSING_INT, 9]], dtype=tf.int64)
    run_layer_test(CategoryEncoder, arguments, {"values": bags})


def test_any_texts_are_kept_in_files():
    values = keras.Input((), dtype="string")
    model = keras_mmil.Model(values, CategoryEncoder(ODD)(values))
    x = tf.constant([*ODD, MISSING_TEXT, "?"])
    np.testing.assert_array_equal(predict_in_fresh_process(model, x), model(x))


@pytest.mark.parametrize(
    ("vocabulary", "match"),
    [
        ([], r"at least one category.*Received: \[\]"),
        (["a", 1], r"all str or all int.*Received: \['a', 1\]"),
        ([True, False], "all str or all int"),
        ([1.5, 2.5], "all str or all int"),
        (["a", "b", "a"], "Received: 'a' twice"),
        (np.array([3, 3]), "Received: 3 twice"),
    ],
)
def test_bad_vocabularies(vocabulary, match):
    with pytest.raises(ValueError, match=match):
        CategoryEncoder(vocabulary)


@pytest.mark.parametrize(
    ("vocabulary", "values", "match"),
    [
        (["a"], tf.constant([1]), r"expected texts\. Received: values\.dtype=int32"),
        ([1], tf.constant(["a"]), r"expected numbers\. Received: values\.dtype=string"),
        ([1], tf.constant([1.0]), r"expected texts or int64\. Received: values\.dtype=float32"),
    ],
)
def test_values_of_other_types(vocabulary, values, match):
    with pytest.raises(ValueError, match=match):
        CategoryEncoder(vocabulary)(values)


NAN = math.nan


def number(value, mean, variance, edges):
    """The features of a number, by the docstring."""
    if math.isnan(value):
        return [0.0] * max(len(edges), 1) + [1.0]
    x = (value - mean) / (math.sqrt(variance) or 1.0)
    steps = itertools.pairwise(edges)
    curve = [min(max((value - a) / (b - a), 0.0), 1.0) for a, b in steps]
    return [min(max(x, -8.0), 8.0), *curve, 0.0]


@pytest.mark.parametrize("edges", [(), (-1.0, 0.5), (0.0, 1.0, 1.5, 10.0)])
@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (-2.5, 9.0), (1.0, 0.0)])
def test_numbers(mean, variance, edges):
    values = [-1e30, -3.0, -0.0, 0.25, 1.0, NAN, 7.0, math.inf]
    found = NumberEncoder(mean, variance, edges)(tf.constant(values))
    expected = [number(value, mean, variance, edges) for value in values]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_number_encoder_is_a_layer():
    arguments = {"mean": 1.5, "variance": 4.0, "edges": [0.0, 2.0, 3.0], "field": "a.b"}
    bags = tf.ragged.constant([[1.0, NAN], [], [2.5]])
    expected = bags.with_flat_values([number(v, 1.5, 4.0, [0.0, 2.0, 3.0]) for v in (1, NAN, 2.5)])
    run_layer_test(NumberEncoder, arguments, {"values": bags}, expected)
    assert NumberEncoder(**arguments).width == expected.shape[-1]


@pytest.mark.slow
def test_boolean_encoder_is_a_layer():
    bags = tf.ragged.constant([[1.0, NAN], [], [0.0]])
    expected = bags.with_flat_values([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    run_layer_test(BooleanEncoder, {"field": "paid"}, {"values": bags}, expected, False)


def test_what_is_missing_is_learned():
    layer = NumberEncoder(edges=(0, 1, 2))
    values = tf.constant([1.0, NAN])
    layer(values)
    layer.missing.assign([0.5, -2.0, 3.0])
    assert layer(values)[1].numpy().tolist() == [0.5, -2.0, 3.0, 1.0]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(values))
    assert tape.gradient(loss, layer.missing.value).numpy().tolist() == [1.0] * 3


@pytest.mark.parametrize("edges", [(1.0,), (1.0, 1.0), (2.0, 1.0)])
def test_edges_increase(edges):
    with pytest.raises(ValueError, match=r"increasing edges.*Received: edges=\["):
        NumberEncoder(edges=edges)


def test_texts_are_no_numbers():
    with pytest.raises(ValueError, match=r"expected numbers\. Received: values\.dtype=string"):
        NumberEncoder()(tf.constant(["1"]))


TEXTS = {
    "Not bad, NOT bad at all!": ["not", "bad", "not", "bad", "at", "all"],
    "": [],
    MISSING_TEXT: [],
    " ... --": [],
    "Ça coûte 9.50 €": ["ça", "coûte", "9", "50"],
    "日本語 text": ["日本語", "text"],
    "don't\tpay\ntwice": ["don", "t", "pay", "twice"],
    "long " * 10_000: ["long"] * 10_000,
}


def test_words():
    found = TextEncoder.words(tf.constant(list(TEXTS)))
    assert found.to_list() == [[word.encode() for word in words] for words in TEXTS.values()]


@pytest.mark.slow
def test_means_of_words():
    layer = TextEncoder(n_buckets=64, units=5)
    found = layer(tf.constant(list(TEXTS)))
    assert found.shape == (len(TEXTS), layer.width)
    vectors = layer.vectors.numpy()
    for (text, words), x in zip(TEXTS.items(), found.numpy(), strict=True):
        buckets = [int(tf.strings.to_hash_bucket_fast(word, 64)) for word in words]
        mean = vectors[buckets].mean(axis=0) if words else np.zeros(5)
        np.testing.assert_allclose(x[:5], mean, rtol=1e-4, atol=1e-6)
        assert x[5] == pytest.approx(math.log(1 + len(words)))
        assert x[6] == (text == MISSING_TEXT)


def test_which_words_there_are():
    words = ["late", "fine"], ["x"]
    layer = TextEncoder(units=None, vocabulary=words, field=["note", "other"])
    notes = ["Late, late!", "", MISSING_TEXT, "fine or late"]
    others = ["late x", "fine", "x", MISSING_TEXT]
    found = layer([tf.constant(notes), tf.constant(others)])
    expected = [[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 1, 0], [1, 1, 0, 0, 1]]
    np.testing.assert_array_equal(found, expected)
    assert [layer.fields[i] for i in layer.field_of_each] == ["note", "note", "other"]
    assert TextEncoder.from_config(layer.get_config()).get_config() == layer.get_config()
    with pytest.raises(ValueError, match="Received: neither"):
        TextEncoder(units=None)


def test_bytes_that_are_no_text():
    found = TextEncoder(units=3)(tf.constant([b"good\xff\xfebad \xc3", b"\0\0", b"\xed\xa0\x80"]))
    assert np.isfinite(found).all()


@pytest.mark.slow
def test_text_encoder_in_files_and_in_training():
    values = keras.Input((None,), dtype="string", ragged=True)
    x = TextEncoder(n_buckets=32, units=4, field="orders.note")(values)
    x = keras_mmil.layers.BagLayer(3)(x)
    model = keras_mmil.Model(values, keras.layers.Dense(1)(x))
    bags = tf.ragged.constant([["a b", MISSING_TEXT], [], ["b"]])
    np.testing.assert_allclose(predict_in_fresh_process(model, bags), model(bags), rtol=1e-6)
    assert model(bags[:0]).shape == (0, 1)
    model.compile("sgd", "mse")
    model.fit(bags, np.ones(3), verbose=0)
    assert all(np.isfinite(weight.numpy()).all() for weight in model.weights)
    config = model.layers[1].get_config()
    assert TextEncoder.from_config(config).get_config() == config


START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
YEAR = 365.2425 * 86_400


def seconds_of(time):
    return (time - START) / datetime.timedelta(seconds=1)


@pytest.mark.slow
@given(st.lists(st.datetimes(timezones=st.just(datetime.UTC)), min_size=1))
def test_parts_are_those_of_python(times):
    found = calendar(tf.constant([seconds_of(time) for time in times], tf.float64))
    rows = [tuple(map(int, row)) for row in zip(*found, strict=True)]
    for time, row in zip(times, rows, strict=True):
        assert row == (time.year, time.month - 1, time.weekday(), time.hour)


def features(time, mean, deviation):
    if time is None:
        return [0.0] * 8 + [1.0]
    numbers = [
        (seconds_of(time) - mean) / deviation,
        ((time.year - 1970) * YEAR - mean) / deviation,
    ]
    cycles = ((time.month - 1, 12), (time.weekday(), 7), (time.hour, 24))
    angles = [2 * math.pi * found / n for found, n in cycles]
    return [*numbers, *map(math.sin, angles), *map(math.cos, angles), 0.0]


@pytest.mark.slow
def test_time_encoder_is_a_layer():
    times = [
        datetime.datetime(2026, 11, 23, 21, 59, tzinfo=datetime.UTC),
        None,
        datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC),
    ]
    values = [math.nan if time is None else seconds_of(time) for time in times]
    bags = tf.ragged.constant([values[:2], [], values[2:]], dtype=tf.float64)
    arguments = {"mean": 1.75e9, "variance": YEAR**2, "field": "orders.paid_on"}
    expected = bags.with_flat_values([features(time, 1.75e9, YEAR) for time in times])
    run_layer_test(TimeEncoder, arguments, {"values": bags}, expected)


@pytest.mark.parametrize("second", [math.inf, -math.inf, 1e300, -1e300])
def test_far_times_are_finite(second):
    found = TimeEncoder()(tf.constant([second], tf.float64))
    assert np.isfinite(found).all()


def test_times_that_hardly_differ_are_not_blown_up():
    found = TimeEncoder(mean=0.0, variance=0.0)(tf.constant([0.0, 86_400.0], tf.float64))
    assert found[:, 0].numpy().tolist() == [0.0, 1.0]


SEVERAL = {
    "numbers": (
        NumberEncoder,
        {"mean": [1.0, -2.0, 0.5], "variance": [4.0, 1.0, 0.0]},
        [[1.0, NAN, 9.0], [NAN, -3.0, 1e9], [0.5, 0.0, NAN]],
    ),
    "curves": (
        NumberEncoder,
        {"mean": [1.0, 2.0], "variance": [4.0, 1.0], "edges": [[0.0, 1.0, 2.0], [5.0, 6.0, 9.0]]},
        [[1.0, NAN, 9.0], [5.5, NAN, -1e9]],
    ),
    "booleans": (BooleanEncoder, {}, [[1.0, 0.0, NAN], [NAN, 1.0, 1.0]]),
    "one-hot": (
        CategoryEncoder,
        {"vocabulary": [["b", "a"], ["c", "a", "d"]]},
        [["a", "c", MISSING_TEXT], ["a", "b", "d"]],
    ),
    "learned": (
        CategoryEncoder,
        {"vocabulary": [[7, -3], [7, 2**62, 1]], "units": 3},
        [[7, 1, MISSING_INT], [7, -3, 2**62]],
    ),
    "texts": (
        TextEncoder,
        {"n_buckets": 8, "units": 3},
        [["a b", MISSING_TEXT, "c"], ["", "b a a", "a b"]],
    ),
    "times": (
        TimeEncoder,
        {"mean": [0.0, 1e9], "variance": [1e16, 0.0]},
        [[0.0, 1.7e9, NAN], [1e9, NAN, 1e300]],
    ),
}


@pytest.mark.parametrize(("kind", "arguments", "columns"), SEVERAL.values(), ids=SEVERAL)
def test_many_fields_are_encoded_as_each_alone(kind, arguments, columns):
    dtype = {str: "string", int: "int64"}.get(type(columns[0][0]), "float32")
    dtype = "float64" if kind is TimeEncoder else dtype
    bags = tf.ragged.constant([[0, 0], [], [0]])
    columns = [bags.with_flat_values(tf.constant(column, dtype)) for column in columns]
    n = len(columns)
    layer = kind(field=[f"f{i}" for i in range(n)], **arguments)
    found = layer(columns)
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=w.shape) for w in layer.get_weights()]
    layer.set_weights(weights)
    found = layer(columns)
    assert isinstance(found, tf.RaggedTensor)
    values, are_missing = np.split(found.flat_values.numpy(), [layer.n_features], axis=1)
    rows = [0] * len(weights)
    for i, column in enumerate(columns):
        own = {name: x[i] if isinstance(x, list) else x for name, x in arguments.items()}
        alone = kind(field=f"f{i}", **own)
        alone(column)
        mine = []
        at = np.flatnonzero(layer.field_of_each == i)
        for k, weight in enumerate(alone.get_weights()):  # its part of each weight of the other
            own_rows = np.arange(rows[k], rows[k] + len(weight))
            mine.append(weights[k][at if len(weights[k]) == layer.n_features else own_rows])
            rows[k] += len(weight)
        alone.set_weights(mine)
        expected, is_missing = np.split(alone(column).flat_values, [alone.n_features], axis=1)
        np.testing.assert_allclose(values[:, at], expected, rtol=1e-6)
        np.testing.assert_array_equal(are_missing[:, i : i + 1], is_missing)
    copied = kind.from_config(layer.get_config())
    copied(columns)
    copied.set_weights(weights)
    np.testing.assert_array_equal(copied(columns).flat_values, found.flat_values)


@pytest.mark.parametrize(
    ("make", "values", "match"),
    [
        (lambda: NumberEncoder(field=[]), None, r"a list of paths\. Received: field=\[\]"),
        (lambda: NumberEncoder([0.0], field=["a", "b"]), None, "2 fields. Received: mean of 1"),
        (
            lambda: NumberEncoder([0, 0], [1, 1], [[1, 2], [1, 2, 3]], ["a", "b"]),
            None,
            r"as many edges for each field\. Received: \[2, 3\]",
        ),
        (lambda: CategoryEncoder([["a"], [1]], field=["a", "b"]), None, "all str or all int"),
        (
            lambda: BooleanEncoder(field=["a", "b"]),
            [tf.zeros(3)],
            "a list of 2 tensors, one for each field. Received: 1",
        ),
        (
            lambda: BooleanEncoder(field=["a", "b"]),
            [tf.zeros(3), tf.zeros([3, 1])],
            "nested alike",
        ),
    ],
)
def test_many_fields_that_do_not_fit(make, values, match):
    with pytest.raises(ValueError, match=match):
        make()(values)


def test_many_fields_in_other_bags():
    a = tf.ragged.constant([[1.0], [2.0, 3.0]])
    b = tf.ragged.constant([[1.0, 2.0], [3.0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="fields in bags of the same sizes"):
        BooleanEncoder(field=["a", "b"])([a, b])

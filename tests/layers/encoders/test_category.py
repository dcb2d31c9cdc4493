"""Categories as vectors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil._support.types import MISSING_INT, MISSING_TEXT
from keras_mmil.layers import CategoryEncoder
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

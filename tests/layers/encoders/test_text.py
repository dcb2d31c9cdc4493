"""Texts as vectors."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil._support.types import MISSING_TEXT
from keras_mmil.layers import TextEncoder
from keras_mmil.testing import predict_in_fresh_process

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

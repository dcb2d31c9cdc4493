"""Digests tell data apart, and nothing else."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf

from keras_mmil._support.digests import add_to_digest


def digest(*data):
    found = hashlib.blake2b(digest_size=16)
    for part in data:
        add_to_digest(found, part)
    return found.hexdigest()


def test_the_kind_of_array_does_not_matter():
    x = np.arange(6.0).reshape(2, 3)
    assert digest(x) == digest(tf.constant(x))
    assert digest([x]) == digest((x,))
    texts = np.array([b"a", b"bc"], object)
    assert digest(texts) == digest(tf.constant(texts))


def test_all_else_does():
    x = np.arange(6)
    ragged = tf.RaggedTensor.from_row_splits(x, [0, 2, 6])
    others = [x, x.reshape(2, 3), x.astype("int32"), x + 1, ragged, ragged[:, :2], x[:5]]
    texts = [["a", "bc"], ["ab", "c"], ["abc"], ["a", "", "bc"], ["a1 b", "c"]]
    found = [digest(each) for each in [*others, *map(tf.constant, texts)]]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": np.ones(2)}, {"b": np.ones(2)}),
        ([np.ones(2), [np.ones(2)]], [[np.ones(2), np.ones(2)]]),
        ([["a", "bc"]], [["ab", "c"]]),
        (np.array(["a", "bc"], object), np.array(["ab", "c"], object)),
        (np.zeros(2, "int32"), np.zeros(2, "uint32")),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        ((np.ones(2), None), (np.ones(2),)),
        ((None, np.ones(2)), (np.ones(2), None)),
    ],
)
def test_names_structure_and_lengths_count(one, other):
    assert digest(one) != digest(other)


def test_the_order_of_a_dict_does_not_matter():
    assert digest({"a": [1], "b": "t"}) == digest({"b": "t", "a": (1,)})

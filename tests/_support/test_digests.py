"""Digests tell files, data and networks apart, and nothing else."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil._support.digests import checksum_of_file, checksum_of_json, fingerprint
from keras_mmil._support.digests import digest_of as digest
from keras_mmil.layers import BagLayer


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


def test_checksums_of_files(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert checksum_of_file(tmp_path / "abc") == expected


def test_checksums_of_json_do_not_depend_on_the_order_of_keys():
    # Of the text {"a": 1, "b": [2]}, by sha256sum.
    expected = "ae8a9a50524642753023cd4de34447191a8651989979c60bbcc5b0eeebb6e1dc"
    assert checksum_of_json({"a": 1, "b": [2]}) == expected
    assert checksum_of_json({"b": [2], "a": 1}) == expected
    assert checksum_of_json({"a": 1, "b": [3]}) != expected


def network(**arguments):
    bags = keras.Input((None, 3), ragged=True)
    settings = {"activation": "relu", "aggregation": "max", "kernel_initializer": "ones"}
    return keras.Model(bags, BagLayer(4, **{**settings, **arguments})(bags))


def test_networks_are_told_apart_by_what_they_compute():
    original = fingerprint(network())
    for changed in (
        {"activation": "tanh"},
        {"aggregation": "mean"},
        {"kernel_initializer": "zeros"},
    ):
        assert fingerprint(network(**changed)) != original
    assert fingerprint(network(name="other")) == original


def test_each_weight_matters():
    model = network()
    before = fingerprint(model)
    for i, values in enumerate(model.get_weights()):
        changed = model.get_weights()
        changed[i] = np.nextafter(values, 2, dtype=np.float32)
        one = network()
        one.set_weights(changed)
        assert fingerprint(one) != before

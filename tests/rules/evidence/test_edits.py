"""Top-bags with fewer members, or with others, against edits of lists."""

import copy

import keras
import numpy as np
import pytest
import tensorflow as tf
from digit_networks import compressed_model, plain_model, random_ids
from record_networks import churn_model, random_customers
from record_networks import read as read_customers

from keras_mmil import Bags
from keras_mmil.layers import BagLayer
from keras_mmil.rules.evidence.edits import Editor
from keras_mmil.rules.network.capture import Network


@pytest.fixture(scope="module")
def ids():
    return random_ids(20)


def test_members_of_nested_bags(ids):
    editor = Editor(Network(compressed_model()))
    found = editor.without(
        {"bags": ids}, [(0, (0, 1, 0)), (1, (2, 0)), (0, (0, 1, 1)), (0, (5, 0, 0))]
    )
    expected = ids.to_list()
    del expected[0][1][:2], expected[2][0], expected[5][0][0]
    assert found["bags"].to_list() == expected


def test_compressed_bags_are_written_out(ids):
    editor = Editor(Network(compressed_model()))
    plain = editor.plain(Bags.from_ragged(ids).inputs)
    assert list(plain) == ["bags"]
    as_sets = [sorted(map(sorted, top)) for top in ids.to_list()]
    assert [sorted(map(sorted, top)) for top in plain["bags"].to_list()] == as_sets


def test_dense_bags():
    editor = Editor(Network(plain_model()))
    x = np.random.default_rng(0).random((3, 2, 2, 4)).astype("f")
    for form in (x, tf.RaggedTensor.from_tensor(x)):
        plain = editor.plain(form)
        assert plain.ragged_rank == 2
        expected = x.tolist()
        del expected[1][0], expected[2][1][1]
        assert editor.without(plain, [(1, (1, 0)), (0, (2, 1, 1))]).to_list() == expected


@pytest.mark.slow
def test_members_of_records():
    customers, network = random_customers(12, missing=0), Network(churn_model())
    editor, x = Editor(network), read_customers(customers)
    layers = {path: i for i, path in enumerate(network.paths)}
    edited = copy.deepcopy(customers)
    at = next(
        i for i, c in enumerate(customers) if len(c["orders"]) > 1 and c["orders"][1]["items"]
    )
    by = next(i for i, c in enumerate(customers) if len(c["visits"]) > 1)
    del edited[at]["orders"][1]["items"][0], edited[at]["orders"][0], edited[by]["visits"][1]
    found = editor.without(
        editor.plain(x),
        [
            (layers["orders.items"], (at, 1, 0)),
            (layers["orders"], (at, 0)),
            (layers["visits"], (by, 1)),
        ],
    )
    expected = read_customers(edited)
    for name, part in expected.items():
        ours, theirs = (each.to_list() if hasattr(each, "to_list") else each.numpy().tolist()
                        for each in (found[name], part))  # fmt: skip
        assert ours == theirs
    donors = read_customers(customers[:6])
    one = {name: part[6:7] for name, part in x.items()}
    giver = next(i for i, c in enumerate(customers[:6]) if c["orders"])
    added = editor.with_added(one, donors, {layers["orders"]: [(giver, 0)]})
    edited = copy.deepcopy(customers[6])
    edited["orders"].append(customers[giver]["orders"][0])
    for name, part in read_customers([edited]).items():
        if isinstance(part, tf.RaggedTensor):
            assert added[name].to_list() == part.to_list()


def test_what_cannot_be_edited():
    inputs = keras.Input((3, 2))
    dense = keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(BagLayer(2)(inputs)))
    with pytest.raises(ValueError, match="of which members can be removed"):
        Editor(Network(dense)).plain(np.zeros((2, 3, 2), "f"))
    fractions = Bags.from_ragged(random_ids(3), weights=tf.ones_like(random_ids(3), "float32") / 2)
    with pytest.raises(ValueError, match="multiplicities that are integers"):
        Editor(Network(compressed_model())).plain(fractions.inputs)

"""The tree of bag-layers of a functional model."""

import keras
import pytest
from record_networks import Columns, churn_model

from keras_mmil.layers import (
    BagLayer,
    CategoryEncoder,
    DistinctBags,
    DistinctRows,
    Gather,
    NumberEncoder,
)
from keras_mmil.model.tree import bag_tree

Dense = keras.layers.Dense


def names(reads):
    return [read.node.operation.name for read in reads]


def test_records_of_a_tree():
    """Bag-layers come after those in their records; indices lead from a record to what it reads."""
    tree = bag_tree(churn_model())
    assert [node.operation.name for node in tree.nodes] == ["tags", "items", "orders", "visits"]
    assert tree.parents == (1, 2, 4, 4)
    of_tags, of_items, of_orders, of_visits, of_customers = tree.records
    assert [names(record.bags) for record in tree.records] == [
        [],
        ["tags"],
        ["items"],
        [],
        ["orders", "visits"],
    ]
    assert of_items.name == "bag-layer 'items'"
    assert of_customers.name == "the model's output"
    fields = [[read.node.operation.field for read in record.fields] for record in tree.records]
    assert [set(each) for each in fields] == [
        {"orders.items.product.tags.name"},
        {"orders.items.returned", "orders.items.product.kind"},
        {"orders.days_late", "orders.note"},
        {"visits.channel"},
        {"plan", "since"},
    ]
    assert not any(record.has_other for record in tree.records)
    # Of an item, tags and kind are those of its product; the tags of that are a bag of their own.
    n_ids = {read.node.operation.name: len(read.ids) for read in of_items.bags}
    n_ids |= {read.node.operation.field: len(read.ids) for read in of_items.fields}
    assert n_ids == {"tags": 2, "orders.items.returned": 0, "orders.items.product.kind": 1}
    assert [len(read.ids) for read in (*of_orders.bags, *of_orders.fields)] == [1, 0, 0]
    assert [len(read.ids) for read in (*of_customers.bags, *of_customers.fields)] == [1, 1, 0, 0]
    assert not any(read.ids for record in (of_tags, of_visits) for read in record.fields)


def test_a_chain_is_a_tree_without_branches():
    inputs = keras.Input((None, None, None, 2), ragged=True)
    x = inputs
    for name in ("lower", "middle", "upper"):
        x = BagLayer(2, name=name)(x)
    tree = bag_tree(keras.Model(inputs, [Dense(1)(x), Dense(2)(x)]))
    assert [node.operation.name for node in tree.nodes] == ["lower", "middle", "upper"]
    assert tree.parents == (1, 2, 3)
    assert [record.has_other for record in tree.records] == [True, False, False, False]
    assert not any(record.fields for record in tree.records)


def bag_of_prices():
    """The inputs of a network, vectors of distinct bags, and which of them each top-bag holds."""
    at = Columns(compress=True)
    price, encode = at.field("price", 1, NumberEncoder())
    value, ids = DistinctRows()([price])
    members, weights, bags = DistinctBags(field="items")(ids)
    return at.inputs, BagLayer(2, name="items")(encode(value), members, weights), bags


def turned_round(ids):
    return keras.layers.Lambda(lambda x: x[::-1], output_shape=(), dtype="int32")(ids)


def refused(inputs, outputs, match):
    with pytest.raises(ValueError, match=match):
        bag_tree(keras.Model(inputs, outputs))


def test_a_record_has_one_bag_of_each_bag_layer():
    inputs, vectors, bags = bag_of_prices()
    own, other = (Gather()([vectors, ids]) for ids in (bags, turned_round(bags)))
    x = keras.layers.Concatenate()([own, other])
    refused(inputs, Dense(1)(x), "the model's output reads 'items' by several indices")
    twice = keras.layers.Concatenate()([own, Dense(3)(own), Gather()([vectors, bags])])
    tree = bag_tree(keras.Model(inputs, Dense(1)(twice)))  # on several ways, but the same one
    assert names(tree.records[-1].bags) == ["items"]


def test_a_bag_is_in_one_kind_of_record():
    inputs, vectors, bags = bag_of_prices()
    inputs["others"] = keras.Input((None,), dtype="int32", ragged=True, name="others")
    members, weights, others = DistinctBags()(inputs["others"])
    upper = BagLayer(2, name="upper")(Gather()([vectors, bags]), members, weights)
    both = [Gather()([upper, others]), Gather()([vectors, bags])]
    match = "Received: layer='items', read by the model's output and another"
    refused(inputs, Dense(1)(keras.layers.Concatenate()(both)), match)


def test_a_field_is_read_once():
    at = Columns(compress=False)
    column, encode = at.field("kind", 0, CategoryEncoder(["a", "b"], name="kind.encoder"))
    inputs, vectors, bags = bag_of_prices()
    vectors_of_kind = encode(column)
    same, reverse = (Gather()([vectors_of_kind, ids]) for ids in (bags, turned_round(bags)))
    x = keras.layers.Concatenate()([Gather()([vectors, bags]), same, reverse])
    refused(
        {**inputs, **at.inputs}, Dense(1)(x), "the model's output reads 'kind.encoder' by several"
    )


def test_what_is_hidden_or_only_counts_members():
    inputs, vectors, bags = bag_of_prices()
    inner_inputs = keras.Input((2,))
    inner = keras.Model(inner_inputs, Dense(2)(inner_inputs), name="inner")
    tree = bag_tree(keras.Model(inputs, Dense(1)(inner(Gather()([vectors, bags])))))
    assert names(tree.records[-1].bags) == ["items"]  # a nested model without bag-layers is a layer
    ragged = keras.Input((None, 2), ragged=True, name="more")
    weights = keras.layers.Lambda(lambda x: x[:, 0], output_shape=())(vectors)
    x = BagLayer(2, name="weighed")(ragged, weights=weights)
    match = r"Received: \['items'\], which only say what is in a bag, or how much it counts"
    refused({**inputs, "more": ragged}, Dense(1)(x), match)

"""The tree of bag-layers of a functional model, and whether its rows are computed one by one."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from random_networks import Concatenated, make_model
from record_networks import Columns, churn_model, random_customers, read

from keras_mmil.layers import (
    BagLayer,
    CategoryEncoder,
    Distinct,
    DistinctBags,
    DistinctRows,
    Gather,
    InstanceWise,
    NumberEncoder,
    TextBags,
    bag_inputs,
)
from keras_mmil.model.tree import (
    bag_tree,
    boundaries,
    check_own_features,
    check_rowwise,
    instance_features,
    row_index,
)

Dense = keras.layers.Dense
CUSTOMERS = random_customers(30)
NAMES = ("x", "y")


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


# Instances with named features --------------------------------------------------------------------


def found(model, names=NAMES):
    return instance_features(model, bag_tree(model), names)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_input_of_the_innermost_bag_layer(depth):
    model = make_model(depth=depth)
    index, tensor = found(model)
    assert (index, tensor) == (0, model.inputs[0])


def test_other_inputs_may_be_above_or_beside():
    """Of two kinds of instances one has numbers; weights are not what instances are made of."""
    points = keras.Input((None, 2), ragged=True, name="points")
    weights = keras.Input((None,), ragged=True, name="weights")
    x = InstanceWise(Dense(3))(points)
    model = keras.Model([weights, points], Dense(1)(BagLayer(3)(x, weights=weights)))
    assert found(model)[1] is points
    sizes = keras.Input((None, 2), dtype="int32", ragged=True, name="sizes")
    model = keras.Model(sizes, Dense(1)(BagLayer(3)(Cast()(sizes))))
    assert found(model)[1] is sizes


class Cast(keras.layers.Layer):
    def call(self, x):
        return tf.cast(x, tf.float32)

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, ragged=True)


def ids():
    inputs = keras.Input((None,), dtype="int32", ragged=True)
    return inputs, BagLayer(3, vocabulary_size=5)(inputs)


def windows_of_ids():
    inputs = keras.Input((None, 2), dtype="int32", ragged=True)
    x = InstanceWise(keras.Sequential([keras.layers.Embedding(9, 4), keras.layers.Flatten()]))
    return inputs, BagLayer(3)(x(inputs))


def compressed_ids():
    inputs = bag_inputs(1)
    rows, bags = Distinct()(inputs)
    return inputs, BagLayer(3)(keras.layers.Embedding(9, 4)(rows), *bags)


def texts():
    inputs = keras.Input((), dtype="string")
    return inputs, BagLayer(3, vocabulary_size=5)(TextBags(["a", "b", "c"])(inputs))


def images():
    inputs = keras.Input((None, 3, 2), ragged=True)
    return inputs, BagLayer(3)(InstanceWise(keras.layers.Flatten())(inputs))


def two_parts():
    parts = [keras.Input((None, 2), ragged=True, name=name) for name in "ab"]
    return parts, BagLayer(3)(Concatenated()(parts))


@pytest.mark.parametrize("make", [ids, windows_of_ids, compressed_ids, texts, images, two_parts])
def test_what_is_no_vector_of_numbers_is_refused(make):
    inputs, x = make()
    model = keras.Model(inputs, Dense(1)(x))
    with pytest.raises(ValueError, match=r"one input of 2 numbers .* Received: bag-layer 'bag_l"):
        found(model)


def test_as_many_names_as_features():
    with pytest.raises(ValueError, match=r"3 feature_names can be of.*'bags': .*2\), 'float32'"):
        found(make_model(), ("x", "y", "z"))


def test_two_kinds_of_instances_are_refused():
    inputs = keras.Input((None, 2), ragged=True)
    x = keras.layers.Concatenate()([BagLayer(3, name=name)(inputs) for name in ("a", "b")])
    with pytest.raises(ValueError, match=r"Expected one bag-layer .* Received: \['a', 'b'\]"):
        found(keras.Model(inputs, Dense(1)(x)))


# Rows of their own content ------------------------------------------------------------------------


def check(model, x):
    tree = bag_tree(model)
    symbolic = boundaries(tree)
    assert len({id(each) for each in symbolic}) == len(symbolic)
    found = keras.Model(model.input, symbolic)(x)
    check_rowwise(model, tree, {id(a): b for a, b in zip(symbolic, found, strict=True)})


@pytest.mark.parametrize("compress", [True, False])
def test_networks_of_records_are_computed_record_by_record(compress):
    check(churn_model(compress), read(CUSTOMERS))


class Mixed(keras.layers.Layer):
    """What a row has more than the mean of all rows."""

    def call(self, rows):
        return rows - tf.reduce_mean(rows, axis=0)


def visits_model(below=(), between=(), above=()):
    """Rows of visits, their bags, and the customers that hold these, each through some layers."""
    at = Columns(compress=True)
    column, encode = at.field("visits.channel", 1, CategoryEncoder(["phone", "web"]))
    value, ids = DistinctRows()([column])
    members, weights, bags = DistinctBags(field="visits")(ids)
    x = keras.Sequential([Dense(3), *below])(encode(value))
    x = BagLayer(4, "tanh", "mean", name="visits")(x, members, weights)
    for layer in between:
        x = layer(x)
    x = Gather()([x, bags])
    for layer in above:
        x = layer(x)
    return keras.Model(at.inputs, Dense(1)(x))


@pytest.mark.parametrize("place", ["between", "above"])
def test_records_that_are_mixed_are_found(place):
    """Before they are gathered, and afterwards."""
    x = read(CUSTOMERS, ["visits.channel"])
    check(visits_model(**{place: [Dense(3), keras.layers.LayerNormalization()]}), x)
    match = r"Received: \[.*'mixed'.*\] above bag-layer 'visits', by which bags change with others"
    with pytest.raises(ValueError, match=match):
        check(visits_model(**{place: [Dense(3, "relu"), Mixed(name="mixed")]}), x)


def test_each_branch_is_checked():
    """Only one of two bag-layers is mixed: it is the one that is named."""
    inputs = keras.Input((None, 2), ragged=True)
    left, right = (BagLayer(3, "tanh", name=name)(inputs) for name in ("left", "right"))
    x = keras.layers.Concatenate()([left, Mixed(name="mixed")(right)])
    model = keras.Model(inputs, Dense(1)(x))
    sizes = np.random.default_rng(0).integers(1, 4, 20)
    values = np.random.default_rng(1).normal(size=(sizes.sum(), 2)).astype(np.float32)
    data = tf.RaggedTensor.from_row_lengths(values, sizes)
    with pytest.raises(ValueError, match=r"'mixed'.* above bag-layer 'right'"):
        check(model, data)


def test_indices_of_indices():
    rng = np.random.default_rng(0)
    one, two, three = (rng.integers(0, n, m) for n, m in ((5, 7), (7, 4), (4, 9)))
    keys = [keras.KerasTensor((None,), dtype="int32") for _ in range(3)]
    values = {id(key): tf.constant(x) for key, x in zip(keys, (one, two, three), strict=True)}
    assert row_index([], values) is None
    np.testing.assert_array_equal(row_index(keys[:1], values), one)
    expected = [one[two[i]] for i in three]
    np.testing.assert_array_equal(row_index(keys, values), expected)


class Turned(keras.layers.Layer):
    """Instances in the opposite order."""

    def call(self, x):
        return tf.reverse(x, axis=[1])


@pytest.mark.parametrize(
    ("layer", "is_own"),
    [
        (Dense(3), True),
        (keras.layers.LayerNormalization(), True),
        (Mixed(), False),
        (Turned(), False),
        (keras.layers.Conv1D(3, 2, padding="same"), False),
        (keras.layers.MaxPooling1D(2), False),
    ],
)
def test_instances_that_are_not_computed_from_their_own_features_are_found(layer, is_own):
    inputs = keras.Input((6, 2))
    x = BagLayer(3, name="of_instances")(layer(inputs))
    model = keras.Model(inputs, Dense(1)(x))
    x = np.random.default_rng(0).normal(size=(8, 6, 2)).astype(np.float32)
    (node,) = bag_tree(model).nodes
    if is_own:
        check_own_features(model, model.inputs[0], node, x)
        return
    with pytest.raises(ValueError, match=f"{layer.name}'] below bag-layer 'of_instances'"):
        check_own_features(model, model.inputs[0], node, x)

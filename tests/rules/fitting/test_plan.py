"""Which trees are grown, and what they know."""

from collections import Counter

import keras
import numpy as np
import pytest
from record_networks import (
    Columns,
    churn_model,
    flattened,
    random_customers,
    read,
    values_at,
)

from keras_mmil.layers import BagLayer, CategoryEncoder, NumberEncoder
from keras_mmil.rules.fitting.label import label
from keras_mmil.rules.fitting.options import Options
from keras_mmil.rules.fitting.plan import make_plan
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.nesting import multiplicities
from keras_mmil.rules.network.sources import top_bags
from keras_mmil.rules.network.targets import resolve_target
from keras_mmil.rules.trees.columns import MISSING

CUSTOMERS = random_customers(40)


@pytest.fixture(scope="module")
def network():
    return Network(churn_model())


def planned(model, x, **arguments):
    """The plan for a network, with the data, labelled by two centroids for each bag-layer."""
    network = model if isinstance(model, Network) else Network(model)
    centroids = [{2: np.outer([0, 1], np.ones(layer.units))} for layer in network.layers]
    seen = list(network.batches(top_bags(x, network, 16).batches()))
    train = label(seen, centroids, resolve_target(network.model, (0, 0.5)))
    return make_plan(network, Options(**arguments), train), train


@pytest.mark.slow
def test_the_plan_of_a_network_of_records(network):
    plan, train = planned(network, read(CUSTOMERS))
    assert plan.parents == (1, 2, 4, 4)
    assert [feature.value for feature in plan.features] == ["occurrence"] * 3 + ["count"]
    assert [{field.name: field.kind for field in fields} for fields in plan.fields] == [
        {"name": "category"},
        {"returned": "boolean", "product.kind": "category"},
        {"days_late": "number", "note": "text"},
        {"channel": "category"},
        {"plan": "category", "since": "time"},
    ]
    for record, weights in enumerate(multiplicities(train.nestings, plan.parents)):
        np.testing.assert_array_equal(plan.weights[record], weights)
    assert plan.records == [0, 1, 2, 3, 4]
    assert [plan.bags_of(record) for record in plan.records] == [[], [0], [1], [], [2, 3]]
    assert [plan.inside(record) for record in (0, 2, 4)] == [[0], [0, 1, 2], [0, 1, 2, 3, 4]]
    assert plan.names == ("product.tags", "items", "orders", "visits")  # in the records around them
    space = plan.space(4, (2, 2, 3, 2))
    assert [len(bag.names) for bag in space.bags] == [3, 2]
    assert space.fields == plan.fields[4]


@pytest.mark.slow
def test_categories_and_tokens_are_those_of_all_occurrences(network):
    """Rows are stored once, but count as often as they occur."""
    plan, _ = planned(network, read(CUSTOMERS))
    fields = {field.name: field for each in plan.fields for field in each}
    for name, path in (
        ("name", "orders.items.product.tags.name"),
        ("product.kind", "orders.items.product.kind"),
        ("channel", "visits.channel"),
        ("plan", "plan"),
    ):
        values = flattened(values_at(CUSTOMERS, path.split(".")))
        counts = Counter(value for value in values if value is not None)
        expected = sorted(counts, key=lambda value, counts=counts: (-counts[value], value))
        assert fields[name].values == tuple(expected)
    notes = flattened(values_at(CUSTOMERS, ["orders", "note"]))
    tokens = Counter(token for note in notes if note for token in set(note.split()))
    assert fields["note"].values == tuple(sorted(tokens, key=lambda token: (-tokens[token], token)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instances", "has_tree"),
    [
        ("auto", (True,) * 5),
        ("fields", (True,) * 5),
        ("centroids", (False, True, True, False, True)),
    ],
)
def test_which_records_have_trees(network, instances, has_tree):
    plan, _ = planned(network, read(CUSTOMERS), instances=instances)
    assert plan.has_tree == has_tree
    assert plan.records == [record for record, here in enumerate(has_tree) if here]


@pytest.mark.slow
def test_what_is_known_of_top_bags():
    """A loop over the customers, with the clusters of their orders and visits."""
    plan, train = planned(churn_model(compress=False), read(CUSTOMERS))
    ks, rng = (2, 2, 2, 2), np.random.default_rng(0)
    labels = [rng.integers(0, 2, nesting.n_rows) for nesting in train.nestings]
    found = plan.matrix(train, 4, labels, ks)
    of_orders, of_visits = iter(labels[2]), iter(labels[3])
    columns = plan.space(4, ks).columns
    for customer, row in zip(CUSTOMERS, found, strict=True):
        orders = [next(of_orders) for _ in customer["orders"]]
        visits = [next(of_visits) for _ in customer["visits"]]
        expected = [0 in orders, 1 in orders, visits.count(0), visits.count(1)]
        expected += [customer["plan"] == column.value for column in columns[4:7]]
        assert row[:7].tolist() == expected
        assert columns[7].value == "day"
        since = MISSING if customer["since"] is None else customer["since"] / 86_400
        assert row[7] == pytest.approx(since)


@pytest.mark.slow
def test_names_of_fields():
    """Plain values are called as their bag is; and what has no name gets a number."""
    at = Columns(compress=True)
    tag = at.field("tags", 1, CategoryEncoder(["new", "old"]))
    tags = at.bag("tags", [tag], keras.layers.Dense(2), BagLayer(2))
    price = at.field("price", 1, NumberEncoder())
    price[1].field = ""
    prices = at.bag("prices", [price], keras.layers.Dense(2), BagLayer(2))
    x = keras.layers.Concatenate()([encode(column) for column, encode in (tags, prices)])
    model = keras.Model(at.inputs, keras.layers.Dense(1)(x))
    customers = read(CUSTOMERS, ["visits.channel", "orders.days_late"])
    x = {"tags": customers["visits.channel"], "price": customers["orders.days_late"]}
    plan, _ = planned(model, x)
    assert [[field.name for field in each] for each in plan.fields] == [["tags"], ["field 1"], []]
    assert plan.paths == ("tags", "prices")

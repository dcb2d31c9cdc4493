"""Explanations, descriptions and representatives of records, with two branches of bags."""

import json

import keras
import numpy as np
import pytest
from random_networks import make_data, quick_explainer
from record_networks import CHANNELS, MEANINGS, Columns, flattened, read, values_at

from keras_mmil.layers import (
    BagLayer,
    CategoryEncoder,
    DistinctBags,
    DistinctRows,
    Gather,
    NumberEncoder,
)

DAY = 86_400.0
HOT = {"returned": True, "product": {"kind": "electronics", "tags": [{"name": "new"}]}}
COLD = {"returned": None, "product": {"kind": "toys", "tags": []}}
LEAVING = {
    "plan": "basic",
    "since": 365 * DAY,
    "orders": [
        {"days_late": 2, "note": None, "items": []},
        {"days_late": 5, "note": "late gift", "items": [COLD, HOT]},
    ],
    "visits": [{"channel": "web"}, {"channel": "phone"}],
}
STAYING = {
    "plan": None,
    "since": None,
    "orders": [],
    "visits": [{"channel": "phone"}, {"channel": "phone"}, {"channel": None}],
}


def test_what_shows_the_members_of_several_bags(churn_explainer):
    """Positions in two bags of a record are alike: a function for each bag; others have numbers."""
    show = {
        "": lambda position: f"customer {position[0]}",
        "visits": lambda position: "visit " + "-".join(map(str, position)),
    }
    leaving, _ = churn_explainer.explain(read([LEAVING, STAYING]), show)
    assert str(leaving).startswith("record customer 0 is ")
    assert {(c.path, c.title) for c in leaving.top_bag.children} == {
        ("visits", "visit 0-0"),
        ("visits", "visit 0-1"),
        ("orders", "0"),
        ("orders", "1"),
    }
    table = churn_explainer.cluster_table(read([LEAVING, STAYING]), n=5, show=show)
    entries = {
        title: {e for c in columns for e in c.entries} for title, columns in table.levels.items()
    }
    assert all(entry.startswith("visit ") for entry in entries["visits"])
    assert all(entry.isdigit() for entry in entries["orders"])


def test_explanations_lead_to_the_deciding_parts(churn_explainer):
    leaving, staying = churn_explainer.explain(read([LEAVING, STAYING]))
    assert (leaving.label, leaving.agrees, staying.label, staying.agrees) == (1, True, 0, True)
    by_path = {}
    for child in leaving.top_bag.children:
        by_path.setdefault(child.path, []).append(child)
    assert [child.name for child in by_path["orders"]] == ["good", "bad"]
    assert [child.role for child in by_path["orders"]] == ["does not matter", "decides"]
    assert [(child.name, child.role) for child in by_path["visits"]] == [
        ("otherwise", "checked"),
        ("by phone", "limited"),
    ]
    bad = by_path["orders"][1]
    assert bad.clause == "bad ← some items are hot, days_late > 3."
    assert bad.fields == {"days_late": "5", "note": "'late gift'"}
    (hot,) = (child for child in bad.children if child.deciding)
    assert hot.fields == {"returned": "true", "product.kind": "'electronics'"}
    assert hot.clause == "hot ← returned, product.kind = 'electronics'."
    assert (hot.path, hot.position, hot.level) == ("orders.items", (0, 1, 1), 1)
    assert [(tag.path, tag.fields) for tag in hot.children] == [
        ("orders.items.product.tags", {"name": "'new'"})
    ]
    assert leaving.top_bag.fields == {"plan": "'basic'", "since": "1971-01-01"}
    assert staying.top_bag.fields == {"plan": "missing", "since": "missing"}
    assert staying.top_bag.absent == ("bad",)
    assert [child.position for child in staying.top_bag.children] == [(1, 0), (1, 1), (1, 2)]
    assert all(child.weight == 1 for child in staying.top_bag.children)
    text = str(leaving)
    for line in (
        "record 0 is positive, because some orders are bad, at most one of the visits is by phone "
        "and plan ≠ 'gold'.  (network: positive)",
        "    plan = 'basic', since = 1971-01-01",
        "    order 1 matches (bad): some items are hot and days_late > 3",
        "        days_late = 5, note = 'late gift'",
        "        item 1 matches (hot): returned and product.kind = 'electronics'",
        "            returned = true, product.kind = 'electronics'",
        "    visit 1 matches (by phone): channel = 'phone'",
        "    does not matter: order 0 (good)",
        "    bad: one of the orders where some items are hot and days_late > 3",
    ):
        assert line in text
    text = leaving.formal()
    for line in (
        "record 0 is positive, because some orders are bad, at most one of the visits",
        "    decides: orders 1 is bad, because some items are hot, days_late > 3.",
        "        days_late = 5, note = 'late gift'",
        " is hot, because returned, product.kind = 'electronics'.",
        "            returned = true, product.kind = 'electronics'",
        "    does not matter: orders 0 (good)",
    ):
        assert line in text
    data = json.loads(json.dumps(leaving.to_dict()))
    assert data["top_bag"]["fields"]["plan"] == "'basic'"


def test_an_order_without_items_is_explained(churn_explainer):
    (explanation,) = churn_explainer.explain(read([{**LEAVING, "orders": LEAVING["orders"][:1]}]))
    assert explanation.label == 0
    (order,) = (part for part in explanation.top_bag.children if part.path == "orders")
    assert (order.name, order.children) == ("good", ())
    assert order.is_bag
    assert "because the bag is empty: no items are hot." in order.sentence


@pytest.mark.slow
def test_descriptions_have_all_bag_layers(churn_explainer, customers):
    description = churn_explainer.describe(read(customers))
    paths = ["orders.items.product.tags", "orders.items", "orders", "visits"]
    assert list(description.to_dict()) == paths
    for path in MEANINGS:
        holds, name, _ = MEANINGS[path]
        parts = flattened(values_at(customers, path.split(".")))
        (level,) = (level for level in description if level.title == path)
        assert level.sizes[level.names.index(name)] == pytest.approx(
            np.mean(list(map(holds, parts)))
        )
        assert level.needed[level.names.index(name)]
    assert [str(level).splitlines()[0] for level in description] == [
        "clusters of product.tags",
        "clusters of items",
        "clusters of orders",
        "clusters of visits",
    ]
    assert json.loads(json.dumps(description.to_dict())) == description.to_dict()
    of_training = churn_explainer.describe()
    for ours, theirs in zip(description, of_training, strict=True):  # the same customers
        np.testing.assert_allclose(ours.sizes, theirs.sizes)


def test_true_labels_of_records(customers):
    """With each record at its place; of bag-layer 0 these are the instances."""
    x = read(customers, ["visits.channel"])
    bags = x["visits.channel"]
    whether = bags.with_values(np.array([c == b"phone" for c in bags.values.numpy()], int))
    table = _visits_explainer(x).describe(x, instance_labels=whether)[0].table
    n_by_phone = whether.values.numpy().sum()
    n_others = len(whether.values) - n_by_phone
    assert sorted(map(sorted, table.tolist())) == sorted([[0, n_by_phone], [0, n_others]])


def _visits_explainer(x):
    at = Columns(compress=False)
    channel = at.field("visits.channel", 1, CategoryEncoder(CHANNELS))
    column, encode = at.bag("visits", [channel], keras.layers.Identity(), BagLayer(2, None))
    model = keras.Model(at.inputs, keras.layers.Dense(1)(encode(column)))
    model.layers[-1].set_weights([np.ones((2, 1)), np.zeros(1)])
    (bag_layer,) = (layer for layer in model.layers if isinstance(layer, BagLayer))
    bag_layer.set_weights([np.array([[1.0, 0], [0, 0], [0, 0]]), np.zeros(2), np.zeros(2)])
    return quick_explainer(n_clusters=2, target=(0, 0.5)).fit(model, x, x)


@pytest.mark.slow
def test_representatives_of_each_branch(churn_explainer, customers):
    """Their positions are those of such records in the data."""
    assert STAYING["visits"][0] == STAYING["visits"][1]  # the network computes it once
    few = [STAYING, LEAVING, {**LEAVING, "visits": [{"channel": "phone"}]}]
    x = read(few)
    table = churn_explainer.cluster_table(x, n=3)
    assert list(table.levels) == [each.path for each in churn_explainer.clusters_]
    for clusters in churn_explainer.clusters_[1:]:
        holds, name, _ = MEANINGS[clusters.path]
        places = {}
        for top_bag, customer in enumerate(few):
            _place(customer, clusters.path.split("."), (top_bag,), places)
        expected = {place for place, part in places.items() if holds(part)}
        for cluster in clusters.names:
            found = churn_explainer.representatives(x, clusters.path, cluster)
            assert {each.position for each in found} <= (
                expected if cluster == name else places.keys() - expected
            )
            assert len(found) == 1  # the others have equal representations
            assert found[0].distance == pytest.approx(0, abs=1e-5)
            assert found[0].separation == pytest.approx(1)
            (column,) = (c for c in table.levels[clusters.path] if c.name == cluster)
            assert column.entries == tuple(str(each.position) for each in found)
            assert column.needed == (cluster == name)
    text = str(table)
    assert "hot (" in text
    assert " of items): " in text
    assert "Clusters of visits:" in table.to_markdown()
    assert "<h3>Clusters of orders</h3>" in table.to_html()


def _place(part, path, position, places):
    head, *rest = path
    for i, member in enumerate(part[head]):
        if rest:
            _place(member, rest, (*position, i), places)
        else:
            places[*position, i] = member


def test_bag_layers_of_one_bag_are_both_shown():
    """Two on the same bags: in no table does one take the place of the other."""
    at = Columns(compress=True)
    price, encode = at.field("price", 1, NumberEncoder())
    value, ids = DistinctRows()([price])
    members, weights, bags = DistinctBags(field="items")(ids)
    rows = encode(value)
    parts = [
        Gather()([BagLayer(2, aggregation=name, name=name)(rows, members, weights), bags])
        for name in ("max", "sum")
    ]
    outputs = keras.layers.Dense(1)(keras.layers.Concatenate()(parts))
    model = keras.Model(at.inputs, outputs)
    x = make_data(40)
    x = {"price": x.with_flat_values(x.flat_values[:, 0])}
    target = (0, float(np.median(model(x))))
    fit = quick_explainer(n_clusters=2, target=target).fit(model, x, x)
    assert list(fit.cluster_table(x).levels) == ["items (u)", "items (v)"]
    assert list(fit.describe().to_dict()) == ["items (u)", "items (v)"]
    assert fit.clusters_[1].names == ("v1", "v2")


def test_records_of_a_kind_are_ranked(churn_explainer):
    leaving, staying = churn_explainer.explain(read([LEAVING, STAYING]))
    paths = [clusters.path for clusters in churn_explainer.clusters_]
    orders, items = (paths.index(path) for path in ("orders", "orders.items"))
    assert [part.position for part in leaving.ranking(orders)] == [(0, 1), (0, 0)]  # the bad one
    hot, cold = leaving.ranking(items)
    assert (hot.name, hot.position, cold.position) == ("hot", (0, 1, 1), (0, 1, 0))
    assert hot.contribution > cold.contribution
    assert staying.ranking(orders) == []
    good, bad = (part.contribution for part in leaving.top_bag.children if part.path == "orders")
    assert good <= 0 < bad

"""Patterns of members of bags and pairs of facts, against a Python loop over the records."""

from collections import Counter

import keras
import numpy as np
import pytest

from keras_mmil.layers import BagStatistics
from keras_mmil.records import Schema, records_model

RNG = np.random.default_rng(0)
KINDS = ["toy", "book", "board game"]


def order():
    n = RNG.integers(4)
    items = [{"kind": str(RNG.choice(KINDS)), "price": float(RNG.random())} for _ in range(n)]
    return {"late": bool(RNG.random() < 0.5), "items": items * int(RNG.integers(1, 3))}


RECORDS = [
    {"orders": [order() for _ in range(RNG.integers(5))], "age": int(RNG.integers(90)), "y": i % 2}
    for i in range(120)
]


def described(order):
    """An order in words, without prices."""
    counts = Counter(item["kind"] for item in order["items"])
    named = {kind: "'board game'" if " " in kind else kind for kind in KINDS}
    parts = sorted((named[kind], n) for kind, n in counts.items())
    items = ", ".join(f"{n} × {kind}" if n > 1 else kind for kind, n in parts) or "none"
    return f"{'late' if order['late'] else 'not late'}, items: {items}"


@pytest.mark.parametrize("compress", [True, False])
def test_members_are_counted_by_pattern(compress):
    schema = Schema.infer(RECORDS)
    x, _ = schema.read(RECORDS, target="y")
    model = records_model(schema, "y", data=x, compress=compress)
    (layer,) = [x for x in model.layers if isinstance(x, BagStatistics) and x.bag == "orders"]
    symbols, bags = layer.output[0], model.get_layer("orders.distinct_bags").output[-1]
    found, ids = keras.Model(model.input, [symbols, bags])(x)
    found = found.numpy()[ids.numpy()]

    counts = [Counter(map(described, record["orders"])) for record in RECORDS]
    distinct = {tuple(sorted(each.items())) for each in counts}
    n_bags = Counter(pattern for each in distinct for pattern, _ in each)
    shown = {text for _, text, _ in layer.patterns}
    # Equal bags count once, if they are merged.
    assert {text for text, n in n_bags.items() if n >= 5} <= shown <= {*n_bags}
    for name in (name for name in layer.names if name.startswith("number of orders (")):
        column = found[:, layer.names.index(name)]
        text = name.removeprefix("number of orders (").removesuffix(")")
        np.testing.assert_array_equal(column, [each[text] for each in counts])
    assert any("2 × 'board game'" in text for text in shown)
    inner = [x for x in model.layers if isinstance(x, BagStatistics) and x.bag == "orders.items"]
    assert inner[0].patterns == []  # one category: its values are counted


def test_members_are_counted_by_pairs_of_facts():
    """Of items: their kind, and that their price is above an octile."""
    schema = Schema.infer(RECORDS)
    x, _ = schema.read(RECORDS, target="y")
    model = records_model(schema, "y", data=x)
    layers = [x for x in model.layers if isinstance(x, BagStatistics)]
    (inner,) = (x for x in layers if x.bag == "orders.items")
    prices = [item["price"] for record in RECORDS for o in record["orders"] for item in o["items"]]
    edges = np.quantile(np.float32(prices), np.arange(1, 8) / 8, method="lower")
    (price,) = (field for field in inner.fields if field.kind == "number")
    np.testing.assert_allclose(price.edges, edges, rtol=1e-5)
    texts = {text for *_, text in inner.pairs}
    assert f"kind 'board game', price > {price.edges[1]:g}" in texts
    assert len(texts) == 3 * 7  # an item has one kind

    (outer,) = (x for x in layers if x.bag == "orders")
    symbols, bags = outer.output[0], model.get_layer("orders.distinct_bags").output[-1]
    found, ids = keras.Model(model.input, [symbols, bags])(x)
    found = found.numpy()[ids.numpy()]
    for kind in KINDS:
        shown = "'board game'" if " " in kind else kind
        for edge in price.edges:
            expected = [
                sum(
                    item["kind"] == kind and np.float32(item["price"]) > edge
                    for o in record["orders"]
                    for item in o["items"]
                )
                for record in RECORDS
            ]
            name = f"number of orders.items (kind {shown}, price > {edge:g})"
            np.testing.assert_array_equal(found[:, outer.names.index(name)], expected)
            if kind == "toy":
                name = f"number of orders.items with price > {edge:g}"
                expected = [
                    sum(np.float32(i["price"]) > edge for o in record["orders"] for i in o["items"])
                    for record in RECORDS
                ]
                np.testing.assert_array_equal(found[:, outer.names.index(name)], expected)


def test_saved_patterns(tmp_path):
    schema = Schema.infer(RECORDS)
    x, _ = schema.read(RECORDS, target="y")
    model = records_model(schema, "y", data=x)
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))

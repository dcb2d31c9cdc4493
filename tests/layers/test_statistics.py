"""Statistics of bags, against a Python loop over the records."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil.layers import BagStatistics

RNG = np.random.default_rng(0)
NAN = float("nan")


def random_orders():
    """Customers with orders of items: each item has a price, perhaps none, and a kind."""

    def item():
        price = NAN if RNG.random() < 0.2 else float(RNG.normal(100, 20))
        return {"price": price, "kind": str(RNG.choice(["toy", "book", "rare"]))}

    def order():
        items = [item() for _ in range(RNG.integers(4))]
        text = str(RNG.choice(["Late again", "late, late!", "fine", "\0"]))
        return {"paid": float(RNG.integers(2)), "note": text, "items": items}

    return [[order() for _ in range(RNG.integers(4))] for _ in range(30)]


def described(members, name):
    """The expected statistics of members with a price and a kind."""
    n = len(members)
    prices = np.array([each["price"] for each in members if not np.isnan(each["price"])])
    of = [np.mean, np.min, np.max, np.std, np.sum]
    moments = [f(prices) for f in of] if len(prices) else [NAN] * 5
    counts = [sum(each["kind"] == kind for each in members) for kind in ("book", "toy")]
    return [n, *moments, *counts, *(count / n if n else NAN for count in counts)]


def bags(lists):
    """Members of bags, as ids of rows."""
    sizes = [len(each) for each in lists]
    return tf.RaggedTensor.from_row_lengths(tf.range(sum(sizes)), sizes)


@pytest.fixture(scope="module")
def orders():
    return random_orders()


ITEMS = {
    "bag": "orders.items",
    "fields": [
        ("orders.items.price", "number", 100.0, 20.0, ()),
        ("orders.items.kind", "category", 0.0, 1.0, ("book", "toy")),
    ],
}
ORDERS = [
    ("orders.paid", "boolean"),
    ("orders.note", "text", 0.0, 1.0, ("late", "fine")),
]


def test_statistics_of_nested_bags(orders):
    flat = [order for customer in orders for order in customer]
    items = [item for order in flat for item in order["items"]]
    inner = BagStatistics(**ITEMS)
    columns = [
        tf.constant([item["price"] for item in items]),
        tf.constant([item["kind"] for item in items]),
    ]
    found, *state = inner(columns, bags([order["items"] for order in flat]))
    expected = [described(order["items"], "items") for order in flat]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    outer = BagStatistics("orders", ORDERS, inner=[inner.get_config()])
    columns = [
        tf.constant([order["paid"] for order in flat]),
        tf.constant([order["note"] for order in flat]),
    ]
    found, *_ = outer(columns, bags(orders), states=state)
    rows = []
    for customer in orders:
        n = len(customer)
        paid = sum(order["paid"] for order in customer)
        words = [
            sum(word in order["note"].lower() for order in customer) for word in ("late", "fine")
        ]
        shares = [x / n if n else NAN for x in words]
        pooled = described([item for order in customer for item in order["items"]], "items")
        rows.append([n, paid, paid / n if n else NAN, *words, *shares, *pooled])
    np.testing.assert_allclose(found, rows, rtol=1e-4, atol=1e-3)
    assert len(outer.all_names) == found.shape[1]
    assert outer.all_names[:5] == [
        "number of orders",
        "number of orders with paid",
        "share of orders with paid",
        "number of orders with note containing 'late'",
        "number of orders with note containing 'fine'",
    ]
    assert "standard deviation of orders.items.price" in outer.all_names
    assert "share of orders.items with kind = 'toy'" in outer.all_names


def test_weights_are_repetitions_and_order_is_free():
    layer = BagStatistics(**ITEMS)
    columns = [tf.constant([1.0, 5.0, NAN]), tf.constant(["toy", "book", "toy"])]
    repeated = tf.ragged.constant([[2, 0, 0, 1], [], [1]])
    weighted = tf.ragged.constant([[0, 1, 2], [2], [1]])
    weights = tf.ragged.constant([[2.0, 1.0, 1.0], [0.0], [1.0]])
    np.testing.assert_allclose(layer(columns, weighted, weights)[0], layer(columns, repeated)[0])


def test_some_statistics_in_a_saved_network(tmp_path):
    price = keras.Input((None,), ragged=True, name="price")
    names = ["maximum of p", "number of bag"]
    layer = BagStatistics("bag", [("p", "number", 3.0, 2.0, ())], names=names)

    class Rows(keras.layers.Layer):
        def call(self, x):
            return [x.flat_values, x.with_flat_values(tf.range(tf.size(x.flat_values)))]

        def compute_output_spec(self, x):
            return [
                keras.KerasTensor((None,)),
                keras.KerasTensor((None, None), dtype="int32", ragged=True),
            ]

    column, members = Rows()(price)
    model = keras.Model(price, layer([column], members)[0])
    x = tf.ragged.constant([[1.0, 9.0], [], [2.0]])
    np.testing.assert_allclose(model(x), [[9, 2], [NAN, 0], [2, 1]])
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras", custom_objects={"Rows": Rows})
    np.testing.assert_array_equal(again(x), model(x))


def pattern_of(order):
    """Booleans and categories of an order, and of its items."""
    kinds = (item["kind"] for item in order["items"])
    return order["paid"], tuple(sorted(x if x in ("book", "toy") else "other" for x in kinds))


def test_keys_tell_patterns_apart(orders):
    flat = [order for customer in orders for order in customer]
    items = [item for order in flat for item in order["items"]]
    inner = BagStatistics(**ITEMS)
    columns = [tf.constant([item[name] for item in items]) for name in ("price", "kind")]
    _, *state = inner(columns, bags([order["items"] for order in flat]))
    outer = BagStatistics("orders", ORDERS[:1], inner=[inner.get_config()])
    keys = outer.keys([tf.constant([order["paid"] for order in flat])], state).numpy().tolist()
    found = dict(zip(map(pattern_of, flat), keys, strict=True))
    assert len(set(found.values())) == len(found) > 5
    assert keys == [found[pattern_of(order)] for order in flat]


def test_merged_members_have_the_same_key():
    layer = BagStatistics("bag", [("kind", "category", 0.0, 1.0, ("book", "toy"))])
    kinds = tf.constant(["toy", "book"])
    *_, merged = layer([kinds], tf.ragged.constant([[0, 1]]), tf.ragged.constant([[2.0, 1.0]]))
    *_, keys = layer([kinds], tf.ragged.constant([[0, 1, 0], [1, 0, 0], [0, 1], []]))
    assert keys[0] == keys[1] == merged[0]
    assert len(set(keys[1:, 0].numpy().tolist())) == 3

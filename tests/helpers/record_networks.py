"""Networks for records with fields and several bags, whose weights compute known rules.

Records are plain dicts and lists, None where a value is missing.
"""

import math

import keras
import numpy as np
import tensorflow as tf

import keras_mmil
from keras_mmil import ragged
from keras_mmil._support.types import MISSING_TEXT
from keras_mmil.layers import (
    BagLayer,
    BooleanEncoder,
    CategoryEncoder,
    DistinctBags,
    DistinctRows,
    Gather,
    NumberEncoder,
    TextEncoder,
    TimeEncoder,
)
from keras_mmil.rules import Explainer

Dense = keras.layers.Dense

PLANS, KINDS, CHANNELS = ("basic", "gold"), ("books", "electronics", "toys"), ("phone", "web")

FIELDS = {
    "plan": "category",
    "since": "time",
    "orders.days_late": "number",
    "orders.note": "text",
    "orders.items.returned": "boolean",
    "orders.items.product.kind": "category",
    "orders.items.product.tags.name": "category",
    "visits.channel": "category",
}
DEPTHS = {  # of the bags around it
    "plan": 0,
    "since": 0,
    "orders.days_late": 1,
    "orders.note": 1,
    "orders.items.returned": 2,
    "orders.items.product.kind": 2,
    "orders.items.product.tags.name": 3,
    "visits.channel": 1,
}
DTYPES = {
    "number": "float32",
    "boolean": "float32",
    "time": "float64",
    "category": "string",
    "text": "string",
}


def random_customers(n, seed=0, missing=0.1):
    """Customers with orders, which have items, and with visits. Some bags are empty."""
    rng = np.random.default_rng(seed)

    def maybe(value):
        return None if rng.random() < missing else value

    def product():
        tags = [{"name": maybe(rng.choice(["new", "sale", "used"]).item())} for _ in range(3)]
        return {"kind": maybe(rng.choice(KINDS).item()), "tags": tags[: rng.integers(4)]}

    def order(products):
        items = [
            {"returned": maybe(bool(rng.integers(2))), "product": products[rng.integers(6)]}
            for _ in range(rng.integers(4))
        ]
        note = " ".join(rng.choice(["late", "gift", "fast"], rng.integers(1, 3)))
        return {"days_late": maybe(int(rng.integers(8))), "note": maybe(note), "items": items}

    products = [product() for _ in range(6)]
    return [
        {
            "plan": maybe(rng.choice(PLANS, p=[0.8, 0.2]).item()),
            "since": maybe(float(rng.integers(10**9))),
            "orders": [order(products) for _ in range(rng.integers(5))],
            "visits": [
                {"channel": maybe(rng.choice(CHANNELS, p=[0.3, 0.7]).item())}
                for _ in range(rng.integers(5))
            ],
        }
        for _ in range(n)
    ]


def is_hot(item):
    return item["product"]["kind"] == "electronics" and item["returned"] is True


def is_bad(order):
    late = order["days_late"]
    return late is not None and late > 3 and any(map(is_hot, order["items"]))


def is_by_phone(visit):
    return visit["channel"] == "phone"


def churns(customer):
    """What the network of `churn_model` computes."""
    return (
        any(map(is_bad, customer["orders"]))
        and sum(map(is_by_phone, customer["visits"])) < 2
        and customer["plan"] != "gold"
    )


# What the clusters of a bag-layer stand for: the records in question, a name for those that are
# so, and one for the others.
MEANINGS = {
    "orders.items": (is_hot, "hot", "cold"),
    "orders": (is_bad, "bad", "good"),
    "visits": (is_by_phone, "by phone", "otherwise"),
}


def fit_and_name(model, customers, **arguments):
    """An explainer of such a network, which calls clusters by what they stand for."""
    x, x_valid = read(customers), read(random_customers(100, seed=1))
    explainer = Explainer(max_clusters=(3, 2, 2, 2), n_init=1, verbose=0, **arguments)
    explainer.fit(model, x, x_valid)
    for clusters in explainer.clusters_[1:]:  # those of tags make no difference
        _, name, other = MEANINGS[clusters.path]
        cluster = int(clusters.centroids[:, 0].argmax())  # ρ is 1 where it holds, else 0
        explainer.rename(clusters.path, {cluster: name, 1 - cluster: other})
    return explainer


def values_at(record, path):
    """The values at a path, in lists as the bags around them; those that are missing are None."""
    if not path:
        return record
    if isinstance(record, list):
        return [values_at(each, path) for each in record]
    head, *rest = path
    return values_at(record[head], rest)


def read(records, names=tuple(FIELDS)):
    """The inputs of a network: a tensor for each field."""
    return {name: _tensor(values_at(records, name.split(".")), name) for name in names}


def flattened(values):
    """All values in nested lists."""
    if not isinstance(values, list):
        return [values]
    return [x for each in values for x in flattened(each)]


def as_raw(value, kind):
    """A value as tensors have it."""
    if kind in ("category", "text"):
        return MISSING_TEXT if value is None else value
    return math.nan if value is None else float(value)


def _tensor(values, name):
    kind = FIELDS[name]
    sizes = []
    for _ in range(DEPTHS[name]):
        sizes.append([len(part) for part in values])
        values = [x for part in values for x in part]
    raw = tf.constant([as_raw(x, kind) for x in values], DTYPES[kind], [len(values)])
    return ragged.from_flat(raw, sizes) if sizes else raw


class Columns:
    """The fields of a network: an input for each."""

    def __init__(self, compress):
        self.inputs, self.compress = {}, compress

    def field(self, path, depth, encoder):
        """The column of a field, and what encodes its rows."""
        kind, shape = encoder.kind, (None,) * depth
        self.inputs[path] = keras.Input(shape, dtype=DTYPES[kind], ragged=depth > 0, name=path)
        encoder.field = path
        return self.inputs[path], encoder

    def rows(self, columns, layer):
        """The vectors of the distinct rows of some columns, and the row at each place."""
        *values, ids = DistinctRows(self.compress)([column for column, _ in columns])
        encoded = [encode(x) for x, (_, encode) in zip(values, columns, strict=True)]
        x = keras.layers.Concatenate()(encoded) if len(encoded) > 1 else encoded[0]
        return layer(x), ids

    def shared(self, columns, layer):
        """The column of a record that several may share."""
        vectors, ids = self.rows(columns, layer)
        return ids, lambda ids: Gather()([vectors, ids])

    def bag(self, path, columns, dense, bag_layer):
        """The column of a bag of records."""
        rows, ids = self.rows(columns, dense)
        members, weights, bags = DistinctBags(self.compress, field=path)(ids)
        vectors = bag_layer(rows, members, weights)
        return bags, lambda bags: Gather()([vectors, bags])


def churn_model(compress=True):
    """A customer churns as `churns` says; its other fields and bags make no difference."""
    at = Columns(compress)
    returned = at.field("orders.items.returned", 2, BooleanEncoder())
    tag = at.field("orders.items.product.tags.name", 3, CategoryEncoder(["new", "sale", "used"]))
    tags = at.bag(
        "orders.items.product.tags", [tag], Dense(3, name="of_tags"), BagLayer(2, name="tags")
    )
    kind = at.field("orders.items.product.kind", 2, CategoryEncoder(KINDS))
    product = at.shared([kind, tags], Dense(1, name="of_product"))
    items = at.bag(
        "orders.items",
        [returned, product],
        Dense(1, "relu", name="of_items"),
        BagLayer(1, name="items"),
    )
    late = at.field("orders.days_late", 1, NumberEncoder(edges=[3, 4]))
    note = at.field("orders.note", 1, TextEncoder(64, 2))
    orders = at.bag(
        "orders",
        [late, note, items],
        Dense(1, "relu", name="of_orders"),
        BagLayer(1, name="orders"),
    )
    channel = at.field("visits.channel", 1, CategoryEncoder(CHANNELS))
    visits = at.bag(
        "visits", [channel], Dense(1, name="of_visits"), BagLayer(1, None, "sum", name="visits")
    )
    plan, since = (
        at.field("plan", 0, CategoryEncoder(PLANS)),
        at.field("since", 0, TimeEncoder()),
    )
    x = [encode(column) for column, encode in (plan, since, orders, visits)]
    x = keras.layers.Concatenate()(x)
    outputs = Dense(1, "sigmoid", name="y")(Dense(3, "relu", name="top")(x))
    model = keras_mmil.Model(at.inputs, outputs)
    _set_weights(model)
    return model


def _set_weights(model):
    def dense(name, entries, bias):
        layer = model.get_layer(name)
        kernel = np.zeros(layer.kernel.shape)
        for place, value in entries.items():
            kernel[place] = value
        layer.set_weights([kernel, np.array(bias, float)])

    for name in ("items", "orders", "visits"):
        model.get_layer(name).set_weights([np.ones((1, 1)), np.zeros(1), np.zeros(1)])
    dense("of_product", {(1, 0): 1}, [0])  # electronics; tags make no difference
    dense("of_items", {(0, 0): 1, (2, 0): 1}, [-1])  # returned (1 or -1), and electronics
    n_text = 2 + 2
    dense("of_orders", {(1, 0): 1, (3 + n_text, 0): 1}, [-1])  # late, and some item hot
    dense("of_visits", {(0, 0): 1}, [0])
    n_time = 9
    bad, phone = 3 + n_time, 4 + n_time
    dense("top", {(bad, 0): 1, (phone, 1): 1, (1, 2): 1}, [0, -1, 0])
    dense("y", {(0, 0): 10, (1, 0): -20, (2, 0): -20}, [-5])

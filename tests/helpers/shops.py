"""A shop: linked tables with a key of two columns, rows that others share, and bags in these."""

import datetime
import functools
import json

import numpy as np

from keras_mmil import NestedClassifier
from keras_mmil.records import link

KEYS = [
    ("orders.customer", "customers.id"),
    (("items.shop", "items.number"), ("orders.shop", "orders.number")),
    ("items.product", "products.id"),
    ("reviews.product", "products.id"),
]


def shop(n=150, seed=0):
    """Linked tables with a key of two columns, rows that others share, and bags in these."""
    rng = np.random.default_rng(seed)
    products = [
        {"id": f"p{i}", "kind": str(rng.choice(["toy", "book", "it's"])), "weight": _number(rng)}
        for i in range(30)
    ]
    reviews = [
        {"product": f"p{rng.integers(30)}", "stars": int(rng.integers(1, 6)), "paid": _maybe(rng)}
        for _ in range(60)
    ]
    customers, orders, items = [], [], []
    for i in range(n):
        since = datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=int(rng.integers(30_000)))
        toys = 0
        for _ in range(rng.integers(5)):
            order = {"shop": "ab"[rng.integers(2)], "number": len(orders), "customer": i}
            orders.append({**order, "late": _maybe(rng), "total": _number(rng)})
            for _ in range(rng.integers(4)):
                product = products[rng.integers(30)]
                toys += product["kind"] == "toy"
                item = {"shop": order["shop"], "number": order["number"], "grade": _grade(rng)}
                items.append({**item, "product": product["id"] if rng.random() < 0.9 else None})
        customers.append({"id": i, "since": since, "age": _number(rng), "left": toys >= 2})
    found = {"customers": customers, "orders": orders, "items": items, "products": products}
    return {**found, "reviews": reviews}


def _number(rng):
    return None if rng.random() < 0.2 else round(float(rng.lognormal(1)), 1)


def _maybe(rng):
    return [True, False, None][rng.choice(3, p=[0.4, 0.4, 0.2])]


def _grade(rng):
    return None if rng.random() < 0.1 else int(rng.integers(1, 4))


def as_json(records):
    """Records as a JSON file has them."""
    return json.loads(json.dumps(records, default=lambda time: time.isoformat()))


@functools.cache
def fitted():
    """A classifier of customers, the tables, the records, and these as JSON without labels."""
    rows = shop(120)
    records = link(rows, "customers", KEYS)
    classifier = NestedClassifier(random_state=0, verbose=0, epochs=4).fit(records, "left")
    left_out = [{**row, "left": None} for row in as_json(records.to_pylist())]
    return classifier, rows, records, left_out

"""A made-up shop in which a field and rows know the label."""

import datetime
import random

import pytest
from sklearn.metrics import accuracy_score

from keras_mmil import NestedClassifier, find_leaks
from keras_mmil.records import as_of, link

START = datetime.datetime(2024, 6, 1)


def customers(n, seed=0):
    """Who buys little is likelier to leave; who has left buys nothing more, and has a reason."""
    rng = random.Random(seed)
    found = []
    for i in range(n):
        rate = rng.uniform(0, 4)
        before = [{"at": START - datetime.timedelta(days=rng.uniform(1, 90))} for _ in range(4)]
        before = before[: round(rate)]
        left = rng.random() < (0.8 if rate < 2 else 0.3)
        n_after = 0 if left else rng.randint(1, 3)
        after = [
            {"at": START + datetime.timedelta(days=rng.uniform(0, 50))} for _ in range(n_after)
        ]
        orders = [order | {"price": round(rng.uniform(1, 9), 2)} for order in before + after]
        reason = rng.choice(["price", "moved"]) if left and rng.random() < 0.99 else None
        age = rng.randint(18, 80)
        found.append(
            {"id": f"c{i}", "when": START, "age": age, "orders": orders, "reason": reason}
            | {"left": left, "spent": sum(order["price"] for order in orders)}
        )
    return found


def test_leaks_of_a_class():
    rows, field = find_leaks(customers(400), "left", moment="when")
    assert rows.path == "orders"
    assert "members are after when; how many tells 100.0 % of left alone" in str(rows)
    assert field.path == "reason"
    assert str(field).startswith("reason: tells 99.")
    assert rows.score == 1.0
    assert field.of_constant == pytest.approx(0.55, abs=0.1)
    # Without a moment, rows are all of one kind.
    assert [leak.path for leak in find_leaks(customers(400), "left")] == ["reason"]


def test_records_without_leaks():
    records = as_of([{**x, "reason": None} for x in customers(200)], "when", verbose=False)
    assert find_leaks(records, "left") == []
    assert find_leaks([{"x": i % 7, "y": (i * i) % 5 > 1} for i in range(70)], "y") == []
    unknown = [{"x": i * 7 % 10, "y": i % 3 if i % 4 else None} for i in range(70)]
    with pytest.warns(UserWarning, match="18 of 70 records have no label"):
        assert find_leaks(unknown, "y") == []


def test_leaks_of_a_number():
    (leak,) = find_leaks([x | {"total": 2 * x["age"]} for x in customers(200)], "age")
    assert leak.path == "total"
    assert "age alone with R² 0.9" in leak.why


@pytest.mark.slow
@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore:All 300 records have nothing at 'reason'")
def test_what_a_leak_is_worth():
    """The accuracy with leaks is not that of records at the moment itself, without them."""
    train, test = customers(600), customers(300, seed=1)
    now = [
        {**x, "reason": None, "orders": [o for o in x["orders"] if o["at"] < START]} for x in test
    ]
    truth = [x["left"] for x in test]
    leaky = NestedClassifier(effort="low", random_state=0, verbose=0).fit(train, "left")
    assert accuracy_score(truth, leaky.predict(test)) > 0.97
    with_leaks = accuracy_score(truth, leaky.predict(now))
    train, now = (
        as_of([{**x, "reason": None} for x in part], "when", verbose=False) for part in (train, now)
    )
    honest = NestedClassifier(effort="low", random_state=0, verbose=0).fit(train, "left")
    without = accuracy_score(truth, honest.predict(now))
    assert without > with_leaks + 0.1


def test_leaks_in_linked_rows():
    """Rows that others refer to are looked at like parts of these."""
    rng = random.Random(0)
    products = [{"id": i, "kind": rng.choice("abc"), "price": rng.random()} for i in range(50)]
    items = [{"order": rng.randrange(200), "product": rng.randrange(50)} for _ in range(900)]
    kinds = {product["id"]: product["kind"] for product in products}
    big = {item["order"] for item in items if kinds[item["product"]] == "a"}
    tables = {
        "orders": [{"id": i, "n": i % 7, "big": i in big} for i in range(200)],
        "items": items,
        "products": products,
    }
    keys = [("items.order", "orders.id"), ("items.product", "products.id")]
    found = find_leaks(link(tables, "orders", keys), "big")
    assert "number of items with products.kind = 'a'" in [leak.path for leak in found]

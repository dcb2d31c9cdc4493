"""Records as they were at a moment, against a loop."""

import datetime
import random

import pytest

from keras_mmil.records import Schema, as_of, link

START = datetime.datetime(2024, 1, 1)
KEYS = [
    ("labels.customer", "customers.id"),
    ("orders.customer", "customers.id"),
    ("items.order", "orders.id"),
    ("visits.customer", "customers.id"),
]


def day(n):
    return START + datetime.timedelta(days=n)


def shop(seed=0, as_text=False):
    """Customers with labels at two moments; orders and visits before, between and after these."""
    rng = random.Random(seed)
    write = datetime.datetime.isoformat if as_text else lambda time: time
    orders = []
    for i in range(90):
        n = rng.uniform(0, 300)
        returned = rng.choice([None, n + 40])
        orders.append(
            {
                "id": i,
                "customer": rng.randrange(20),
                "changed": write(day(n + rng.uniform(0, 9))) if rng.random() < 0.7 else None,
                "placed": write(day(n)),
                "returned": None if returned is None else write(day(returned)),
            }
        )
    return {
        "labels": [
            {"customer": i % 20, "when": write(day(100 + 100 * (i // 20))), "left": i % 3 == 0}
            for i in range(40)
        ],
        "customers": [{"id": i, "since": write(day(-i))} for i in range(20)],
        "orders": orders,
        "items": [{"order": rng.randrange(90), "price": rng.random()} for _ in range(200)],
        "visits": [
            {
                "customer": rng.randrange(20),
                "at": write(day(rng.uniform(0, 300))) if rng.random() < 0.8 else None,
            }
            for _ in range(60)
        ],
    }


def by_loop(tables):
    """The same of the tables of `shop`, which hold times."""

    def age(time, when):
        days = None if time is None else (when - time).total_seconds() / 86400
        return None if days is None or days < 0 else pytest.approx(days)

    found = []
    for label in tables["labels"]:
        when = label["when"]
        (customer,) = (x for x in tables["customers"] if x["id"] == label["customer"])
        orders = [
            {
                "id": order["id"],
                "customer": order["customer"],
                "days_since_changed": age(order["changed"], when),
                "days_since_placed": age(order["placed"], when),
                "days_since_returned": age(order["returned"], when),
                "items": [item for item in tables["items"] if item["order"] == order["id"]],
            }
            for order in tables["orders"]
            if order["customer"] == customer["id"] and order["placed"] < when
        ]
        visits = [
            {"customer": visit["customer"], "days_since_at": age(visit["at"], when)}
            for visit in tables["visits"]
            if visit["customer"] == customer["id"] and visit["at"] and visit["at"] < when
        ]
        inner = {
            "id": customer["id"],
            "days_since_since": age(customer["since"], when),
            "orders": orders,
            "visits": visits,
        }
        found.append(label | {"customers": inner})
    return found


@pytest.mark.parametrize("as_text", [False, True])
def test_rows_and_values_before_the_moment(as_text, capsys):
    records = link(shop(as_text=as_text), "labels", KEYS)
    found = as_of(records, "when").to_pylist()
    expected = by_loop(shop())
    if as_text:
        for record, label in zip(expected, shop(as_text=True)["labels"], strict=True):
            record["when"] = label["when"]
    assert found == expected
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("customers.orders: those with placed before when, ")
    returned = [order["returned"] for order in shop()["orders"] if order["returned"]]
    assert len(returned) > 0
    assert said[1].startswith("customers.orders.changed: ")
    assert said[2].startswith("customers.orders.returned: ")
    assert said[2].endswith(" are after when, and become missing")
    assert said[3] == "customers.orders.items: all members, which have no time"
    n_visits = sum(x["at"] is None for x in shop()["visits"])
    assert said[4].endswith(f"(no time: {2 * n_visits})")
    assert len(said) == 5


def test_keys_stay_identifiers():
    schema = Schema.infer(as_of(link(shop(), "labels", KEYS), "when", verbose=False))
    assert schema["customers.orders.customer"].why == "key to customers.id"
    assert schema["customers.orders.days_since_placed"].kind == "number"


def test_times_that_are_chosen():
    records = link(shop(), "labels", KEYS)
    times = {"customers.orders": "changed", "customers.visits": None}
    found = as_of(records, "when", times, verbose=False).to_pylist()
    for record, before in zip(found, records.to_pylist(), strict=True):
        orders, visits = (before["customers"][name] for name in ("orders", "visits"))
        is_there = [x["changed"] is not None and x["changed"] < before["when"] for x in orders]
        kept = [x["id"] for x, here in zip(orders, is_there, strict=True) if here]
        assert [order["id"] for order in record["customers"]["orders"]] == kept
        assert len(record["customers"]["visits"]) == len(visits)


def test_one_moment_of_all_and_holes():
    records = [
        {"at": "2024-03-01", "events": [{"t": "2024-01-01"}, {"t": "2024-05-01"}, None]},
        {"at": "2024-03-01", "events": None},
        {"at": "2024-03-01", "events": [], "tags": ["a", "b"]},
    ]
    assert as_of(records, "at", verbose=False).to_pylist() == [
        {"at": "2024-03-01", "events": [{"days_since_t": 60.0}], "tags": None},
        {"at": "2024-03-01", "events": None, "tags": None},
        {"at": "2024-03-01", "events": [], "tags": ["a", "b"]},
    ]


@pytest.mark.parametrize(
    ("moment", "times", "error", "message"),
    [
        ("then", {}, KeyError, "then"),
        ("customers.since", {"orders": "placed"}, KeyError, "customers.orders, .*'orders'"),
        ("when", {"customers.orders": "id"}, KeyError, "changed, placed, returned in .*'id'"),
        ("customers.orders.placed", {}, ValueError, "in no bag"),
        ("left", {}, ValueError, "times or numbers"),
    ],
)
def test_refused(moment, times, error, message):
    with pytest.raises(error, match=message):
        as_of(link(shop(), "labels", KEYS), moment, times, verbose=False)


def test_samples_would_tell_what_comes_later():
    tables = shop()
    keys = [KEYS[0], KEYS[1]]
    del tables["items"], tables["visits"]
    with pytest.warns(UserWarning, match="Samples of at most 2"):
        records = link(tables, "labels", keys, at_most=2)
    with pytest.raises(ValueError, match=r"members of 'customers.orders'.*samples, of at_most=2"):
        as_of(records, "when", verbose=False)
    kept = as_of(records, "when", {"customers.orders": None}, verbose=False)
    assert [len(x["customers"]["orders"]) for x in kept.to_pylist()] == [
        len(x["customers"]["orders"]) for x in records.to_pylist()
    ]


def test_a_moment_for_each_record():
    times = [f"2024-03-{i:02}" for i in range(1, 12)]
    records = [{"at": at if i < 8 else None, "x": i} for i, at in enumerate(times)]
    with pytest.raises(ValueError, match=r"none at 'at' in 3 of 11 records"):
        as_of(records, "at")
    records = [{"at": "2024-04-01", "x": at, "days_since_x": 1} for at in times]
    with pytest.raises(ValueError, match="no field 'days_since_x' beside times"):
        as_of(records, "at")

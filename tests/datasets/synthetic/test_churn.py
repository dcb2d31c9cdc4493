"""Made-up customers: the labels follow from the values that are there, by a loop over them."""

import numpy as np
import pytest

from keras_mmil.datasets import synthetic


def rows(table):
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


@pytest.mark.parametrize("share_missing", [0.0, 0.1])
def test_labels(share_missing):
    tables, top, keys = synthetic.load_churn(200, seed=3, share_missing=share_missing)
    assert (top, list(tables)) == ("customers", ["customers", "orders", "items"])
    assert keys == (("orders.customer", "customers.id"), ("items.order", "orders.id"))
    for customer in rows(tables["customers"]):
        orders = [o for o in rows(tables["orders"]) if o["customer"] == customer["id"]]
        numbers = [order["id"] for order in orders]
        items = [i for i in rows(tables["items"]) if i["order"] in numbers]
        has_returned = any(
            i["category"] == "electronics" and i["returned"] is not None and i["returned"]
            for i in items
        )
        is_late = any(o["paid_late"] is not None and o["paid_late"] for o in orders)
        assert customer["churned"] == (has_returned and not is_late)
        assert 1 <= len(orders) <= 5
        assert 1 <= len(items) <= 20


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_shares(share, seed):
    tables = synthetic.load_churn(seed=seed, share_without_orders=share).tables
    churned = np.mean(tables["customers"]["churned"])
    assert 0.3 < churned < 0.7
    n = len(tables["customers"]["id"])
    assert n == 5000
    assert 1 - len(set(tables["orders"]["customer"])) / n == pytest.approx(share, abs=0.02)
    for name, table in tables.items():
        for column, values in table.items():
            missing = np.mean([value is None for value in values])
            is_whole = column in ("id", "order", "customer", "churned")
            assert missing == pytest.approx(0 if is_whole else 0.1, abs=0.015), (name, column)


def test_seeds():
    one, same, other = (synthetic.load_churn(50, seed) for seed in (1, 1, 2))
    assert one == same != other


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"n_customers": 0}, "n_customers=0"),
        ({"share_missing": 1.5}, r"share_missing=1\.5"),
        ({"share_without_orders": -0.1}, r"share_without_orders=-0\.1"),
    ],
)
def test_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        synthetic.load_churn(**arguments)

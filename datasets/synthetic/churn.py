"""Made-up customers with orders and items, three linked tables, whose rule is known."""

from typing import Any, TypeAlias

import numpy as np

from keras_mmil._support.checks import check_int, check_number
from keras_mmil._support.types import Array, Ints
from keras_mmil.datasets.trains import LinkedTables

__all__ = ["TARGET", "load_churn"]

Table: TypeAlias = dict[str, list[Any]]

TARGET = "churned"
"""The path of the field to predict."""
_CATEGORY = "electronics"  # of the rule
_CITIES = ("Athens", "Berlin", "Lisbon", "Oslo", "Paris", "Rome")
_CHANNELS = ("app", "phone", "shop", "web")
_CATEGORIES = (_CATEGORY, "books", "clothes", "food", "toys")
_SHARES = (0.3, 0.175, 0.175, 0.175, 0.175)  # of the categories
_RETURNED, _LATE = 0.55, 0.07  # shares of items and orders
_ADJECTIVES = ("blue", "large", "light", "new", "small", "usual")
_NOUNS = ("box", "gift", "label", "order", "parcel", "voucher")
_MOST_ORDERS, _MOST_ITEMS = 5, 4


def load_churn(
    n_customers: int = 5000,
    seed: int = 0,
    *,
    share_missing: float = 0.1,
    share_without_orders: float = 0.0,
) -> LinkedTables:
    """Customers, 1 to 5 orders of each, and 1 to 4 items of each order.

    A customer has churned iff an item of category "electronics" was returned and no order was paid
    late. Values are missing at random, keys and labels never. A condition on a missing value is
    false.

    Args:
        n_customers: number of customers, at least 1.
        seed: integer.
        share_missing: share of missing values, from 0 to 1.
        share_without_orders: share of customers without orders, from 0 to 1, who have not churned.

    Returns:
        `LinkedTables`: `customers` with `id`, `city`, `age`, `newsletter`, `since` (a date) and
        `churned`; `orders` with `id`, `customer`, `date`, `channel` and `paid_late`; `items` with
        `id`, `order`, `category`, `price`, `quantity`, `returned` and `note` (a text). By default,
        40 to 60 % of the customers have churned; if 30 % have no orders, over 30 %.

    Raises:
        ValueError: if an argument is out of range.

    Example:

    >>> schema = Schema.infer_tables(*load_churn())
    """
    n_customers = check_int("n_customers", n_customers, least=1)
    share_missing = check_number("share_missing", share_missing, least=0, most=1)
    share_without = check_number("share_without_orders", share_without_orders, least=0, most=1)
    rng = np.random.default_rng(seed)
    n_orders = rng.integers(1, _MOST_ORDERS, n_customers, endpoint=True)
    n_orders[rng.random(n_customers) < share_without] = 0
    customer = np.repeat(np.arange(n_customers), n_orders)
    order = np.repeat(
        np.arange(len(customer)), rng.integers(1, _MOST_ITEMS, len(customer), endpoint=True)
    )
    sample = _Sampler(rng, share_missing)
    items = _items(sample, order)
    orders = _orders(sample, customer)
    customers = _customers(sample, n_customers)
    customers[TARGET] = _labels(items, orders, n_customers, order, customer)
    return LinkedTables(
        {"customers": customers, "orders": orders, "items": items},
        top="customers",
        keys=(("orders.customer", "customers.id"), ("items.order", "orders.id")),
    )


def _labels(
    items: Table, orders: Table, n_customers: int, order: Ints, customer: Ints
) -> list[bool]:
    """Whether each customer has churned."""
    is_hit = np.array(
        [
            category == _CATEGORY and returned is True
            for category, returned in zip(items["category"], items["returned"], strict=True)
        ],
        bool,
    )
    is_late = np.array([late is True for late in orders["paid_late"]], bool)
    churned = np.zeros(n_customers, bool)
    churned[customer[order[is_hit]]] = True
    churned[customer[is_late]] = False
    return churned.tolist()


class _Sampler:
    """Columns of random values, of which some are missing."""

    def __init__(self, rng: np.random.Generator, share_missing: float) -> None:
        self.rng, self._share_missing = rng, share_missing

    def column(self, values: Array) -> list[Any]:
        """The values, None where they are missing."""
        is_missing = self.rng.random(len(values)) < self._share_missing
        return [None if m else v for v, m in zip(values.tolist(), is_missing, strict=True)]

    def dates(self, n: int, first: str, last: str) -> list[Any]:
        """Days between two, as texts in the form of ISO 8601."""
        days = np.arange(np.datetime64(first), np.datetime64(last) + np.timedelta64(1, "D"))
        return self.column(np.datetime_as_string(self.rng.choice(days, n)))


def _customers(sample: _Sampler, n: int) -> Table:
    return {
        "id": list(range(1, n + 1)),
        "city": sample.column(sample.rng.choice(_CITIES, n)),
        "age": sample.column(sample.rng.integers(18, 90, n)),
        "newsletter": sample.column(sample.rng.random(n) < 0.4),
        "since": sample.dates(n, "2018-01-01", "2023-12-31"),
    }


def _orders(sample: _Sampler, customer: Ints) -> Table:
    n = len(customer)
    return {
        "id": list(range(1, n + 1)),
        "customer": (customer + 1).tolist(),
        "date": sample.dates(n, "2024-01-01", "2025-12-31"),
        "channel": sample.column(sample.rng.choice(_CHANNELS, n)),
        "paid_late": sample.column(sample.rng.random(n) < _LATE),
    }


def _items(sample: _Sampler, order: Ints) -> Table:
    n, rng = len(order), sample.rng
    parts = rng.choice(_ADJECTIVES, n), rng.choice(_NOUNS, n), rng.integers(100, 1000, n)
    notes = [
        f"{adjective} {noun}, call {number}" for adjective, noun, number in zip(*parts, strict=True)
    ]
    return {
        "id": list(range(1, n + 1)),
        "order": (order + 1).tolist(),
        "category": sample.column(rng.choice(_CATEGORIES, n, p=_SHARES)),
        "price": sample.column(rng.lognormal(3, 1, n).round(2)),
        "quantity": sample.column(rng.integers(1, 6, n)),
        "returned": sample.column(rng.random(n) < _RETURNED),
        "note": sample.column(np.array(notes)),
    }

"""Keys that are found by names and values."""

import numpy as np
import pandas as pd
import pytest

from keras_mmil.records import Schema, find_keys, link

SHOP = {
    "customers": {"customer_id": [1, 2, 3], "city": ["Rome", "Oslo", "Bern"]},
    "Profiles": {"CustomerId": [3, 1, 2], "age": [30, 40, 50]},
    "orders": {"number": ["a", "b"], "customer": [2, 2], "employee_id": [7, 7]},
    "order_items": {
        "id": [1, 2, 3],
        "order_number": ["a", "a", "b"],
        "product_fk": [5, 6, 5],
        "quantity": [1, 2, 3],  # among the ids of several tables
    },
    "products": {"id": [5, 6], "category_id": [1, None], "weight": [1, 2]},
    "categories": {"id": [1, 2], "parent_id": [2, None]},
    "employees": {"id": [7, 8], "mail": ["x", "y"]},
    "reviews": {"author_customer_id": [1, 3], "product": [6, 9], "stars": [1, 2]},
}
EXPECTED = [
    ("Profiles.CustomerId", "customers.customer_id"),
    ("orders.customer", "customers.customer_id"),
    ("orders.employee_id", "employees.id"),
    ("order_items.order_number", "orders.number"),
    ("order_items.product_fk", "products.id"),
    ("products.category_id", "categories.id"),
    ("categories.parent_id", "categories.id"),
    ("reviews.author_customer_id", "customers.customer_id"),
]


@pytest.mark.parametrize("make", [dict, pd.DataFrame])
def test_found(make):
    tables = {name: make(columns) for name, columns in SHOP.items()}
    # Not `reviews.product`: 9 is no product.
    assert find_keys(tables) == EXPECTED


def test_tables_without_keys_to_find():
    assert find_keys({"a": {"id": [1, 1]}, "b": {"a_id": [1, 1]}}) == []  # no ids
    assert find_keys({"a": {"id": [1.0, 2.5]}, "b": {"a_id": [1.0, 2.5]}}) == []
    assert find_keys({"a": {"id": [1]}, "b": {"a_id": [None]}}) == []
    assert find_keys({"a": {"id": [1, 2]}, "b": {"a_id": ["1", "2"]}}) == []  # other types
    assert find_keys({"客户": {"编号": [1, 2]}, "订单": {"数量": [1, 2], "__": [1, 2]}}) == []
    tables = {"客户": {"id": [1, 2]}, "订单": {"客户": [1, 2], "--": [1, 2]}}
    assert find_keys(tables) == [("订单.客户", "客户.id")]


def test_links_without_keys():
    tables = {name: SHOP[name] for name in ("customers", "orders", "order_items")}
    keys = [key for key in EXPECTED if key[0] in ("orders.customer", "order_items.order_number")]
    with pytest.warns(UserWarning, match="these keys: orders.customer -> customers.customer_id, o"):
        found = link(tables, "customers")
    assert found.equals(link(tables, "customers", keys))
    with pytest.warns(UserWarning, match="these keys"):
        schema = Schema.infer_tables(tables, "customers")
    assert schema.links.keys == tuple(keys)
    lengths = schema.read(tables)["orders.order_items.quantity"].row_lengths()
    np.testing.assert_array_equal(lengths, [0, 2, 0])
    with (
        pytest.warns(UserWarning, match="none found"),
        pytest.raises(ValueError, match="none to o"),
    ):
        link({"customers": SHOP["customers"], "o": {"id": [1]}}, "customers")

"""Linked tables against merges of pandas, and loops."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from keras_mmil.records import Schema, link

KEYS = [
    ("orders.customer", "customers.id"),
    ("items.order", "orders.number"),
    ("items.product", "products.id"),
]


def shop(seed=0, n=30):
    random = np.random.default_rng(seed)
    customers = pd.DataFrame({"id": random.permutation(n) + 100, "age": random.integers(20, 60, n)})
    orders = pd.DataFrame(
        {
            "number": [f"o{i}" for i in random.permutation(2 * n)],
            "customer": random.choice(customers["id"][: n // 2], 2 * n),
            "late": random.random(2 * n) < 0.3,
        }
    )
    items = pd.DataFrame(
        {
            "order": random.choice(orders["number"], 5 * n),
            "product": random.choice([1.0, 2.0, np.nan], 5 * n),
            "price": random.integers(1, 99, 5 * n),
        }
    )
    products = pd.DataFrame({"id": [1, 2, 3], "category": ["toy", "book", "car"]})
    return {"customers": customers, "orders": orders, "items": items, "products": products}


def by_loop(tables):
    """The nested records as dicts."""
    rows = {name: table.to_dict("records") for name, table in tables.items()}
    products = {row["id"]: row for row in rows["products"]}
    items = [row | {"products": products.get(row["product"])} for row in rows["items"]]
    orders = [
        row | {"items": [item for item in items if item["order"] == row["number"]]}
        for row in rows["orders"]
    ]
    return [
        row | {"orders": [order for order in orders if order["customer"] == row["id"]]}
        for row in rows["customers"]
    ]


def without_nan(value):
    if isinstance(value, dict):
        return {name: without_nan(part) for name, part in value.items()}
    if isinstance(value, list):
        return [without_nan(part) for part in value]
    return None if value != value else value


@pytest.mark.parametrize("seed", range(3))
def test_three_tables_are_nested_as_by_a_loop(seed):
    tables = shop(seed)
    assert without_nan(link(tables, "customers", KEYS).to_pylist()) == without_nan(by_loop(tables))


def test_sums_are_those_of_a_merge():
    tables = shop()
    x = Schema.infer_tables(tables, "customers", KEYS).read(tables)
    merged = tables["items"].merge(tables["orders"], left_on="order", right_on="number")
    expected = (
        merged.groupby("customer")["price"].sum().reindex(tables["customers"]["id"]).fillna(0)
    )
    sums = [sum(sum(order) for order in orders) for orders in x["orders.items.price"].to_list()]
    np.testing.assert_array_equal(sums, expected)


def test_keys_are_identifiers():
    schema = Schema.infer(link(shop(), "customers", KEYS))
    whys = {field.path: field.why for field in schema if field.kind == "identifier"}
    assert whys == {
        "id": "key of customers",
        "orders.number": "key of orders",
        "orders.customer": "key to customers.id",
        "orders.items.order": "key to orders.number",
        "orders.items.product": "key to products.id",
        "orders.items.products.id": "key of products",
    }
    assert schema["orders.items.products"].kind == "record"
    assert schema["orders.items.products.category"].kind == "category"
    schema["orders.items.product"] = "number"  # still, if wanted


def test_schemas_remember_how_tables_are_linked(tmp_path):
    tables = shop()
    schema = Schema.infer_tables(tables, "customers", KEYS)
    assert schema._observed == Schema.infer(link(tables, "customers", KEYS))._observed
    schema.save(tmp_path / "schema.json")
    loaded = Schema.load(tmp_path / "schema.json")
    assert loaded == schema
    found, expected = loaded.read(tables), schema.read(link(tables, "customers", KEYS))
    assert list(found) == list(expected)
    assert found["orders.late"].to_list() == expected["orders.late"].to_list()
    with pytest.raises(ValueError, match="linked in the same way"):
        Schema.merge(schema, Schema.infer(link(tables, "customers", KEYS)))
    assert Schema.merge(schema, schema).n_records == 60


@pytest.mark.parametrize("form", ["arrow", "dicts", "columns", "csv", "parquet", "text keys"])
def test_forms_of_tables(form, tmp_path):
    tables = shop()
    expected = link(tables, "customers", KEYS).to_pylist()
    others = {}
    for name, table in tables.items():
        others[name] = pa.Table.from_pandas(table)
        if form == "dicts":
            others[name] = table.to_dict("records")
        elif form == "columns":
            others[name] = table.to_dict("list")
        elif form == "csv":
            others[name] = tmp_path / f"{name}.csv"
            table.to_csv(others[name], index=False)
        elif form == "parquet":
            pyarrow.parquet.write_table(others[name], tmp_path / f"{name}.parquet")
            others[name] = str(tmp_path / f"{name}.parquet")
    assert without_nan(link(others, "customers", KEYS).to_pylist()) == without_nan(expected)


def test_a_shared_row_is_a_record():
    tables = {"orders": [{"customer": 7}, {"customer": None}], "customers": [{"id": 7, "age": 30}]}
    records = link(tables, "orders", KEYS[:1]).to_pylist()
    assert [record["customers"] for record in records] == [{"id": 7, "age": 30}, None]


def test_several_keys_to_one_table():
    tables = {
        "messages": [{"from": 1, "to": 2, "n": 5}, {"from": 2, "to": 1, "n": 6}],
        "users": [{"id": 1, "age": 30}, {"id": 2, "age": 40}],
    }
    keys = [("messages.from", "users.id"), ("messages.to", "users.id")]
    records = link(tables, "messages", keys).to_pylist()
    assert [record["users_by_from"]["age"] for record in records] == [30, 40]
    assert [record["users_by_to"]["age"] for record in records] == [40, 30]
    with pytest.raises(
        ValueError, match=r"a cycle. Received: users - messages - users, by messages"
    ):
        link(tables, "users", keys)


def test_orphans():
    tables = {"customers": [{"id": 1}], "orders": [{"customer": c} for c in (1, 2, None, 3, 4)]}
    message = (
        "4 of 5 rows of 'orders' refer to no row of 'customers', by 'customer': 2, None, 3 ..."
    )
    with pytest.raises(ValueError, match=rf"or orphans='drop'\). Received: {message}"):
        link(tables, "customers", KEYS[:1])
    with pytest.warns(UserWarning, match=f"{message}; they are left out"):
        records = link(tables, "customers", KEYS[:1], orphans="drop")
    assert records.to_pylist() == [{"id": 1, "orders": [{"customer": 1}]}]
    with pytest.raises(ValueError, match="3 of 5 rows of 'orders' refer to no row of 'customers'"):
        link(tables, "orders", KEYS[:1])
    with pytest.warns(UserWarning, match="3 of 5 rows"):
        records = link(tables, "orders", KEYS[:1], orphans="drop")
    assert [record["customers"] for record in records.to_pylist()] == [{"id": 1}, *4 * [None]]
    with pytest.raises(ValueError, match=r"Expected 'raise' or 'drop'. Received: orphans='keep'"):
        link(tables, "orders", KEYS[:1], orphans="keep")


@pytest.mark.parametrize(
    ("changes", "keys", "error", "message"),
    [
        (
            {"products": [{"id": 1}, {"id": 2}, {"id": 2}]},
            KEYS,
            ValueError,
            r"products\.id.* 2 more",
        ),
        ({"shops": [{"id": 1}]}, KEYS, ValueError, "to each table. Received: none to shops"),
        ({}, KEYS[1:], ValueError, "none to orders, items, products"),
        ({}, [*KEYS, ("items.x", "y.z")], KeyError, "Received: 'items.x'"),
        ({}, ["orders.customer"], ValueError, "Expected pairs of columns"),
        ({"products": [{"id": "a"}]}, KEYS, TypeError, "one type, .*items.product -> products.id"),
        ({"products": []}, KEYS, ValueError, "with columns. Received: none in 'products'"),
        ({"customers": shop()["customers"].assign(orders=1)}, KEYS, ValueError, "as columns"),
    ],
)
def test_wrong_tables_are_refused(changes, keys, error, message):
    with pytest.raises(error, match=message):
        link(shop() | changes, "customers", keys, orphans="raise")


def test_a_table_that_refers_to_itself_is_refused():
    staff = [{"id": 1, "boss": None}, {"id": 2, "boss": 1}]
    with pytest.raises(ValueError, match=r"Received: staff - staff, by staff.boss -> staff.id"):
        link({"staff": staff}, "staff", [("staff.boss", "staff.id")])
    with pytest.raises(KeyError, match=r"one of staff. Received: 'people'"):
        link({"staff": staff}, "people", [])


def test_empty_tables():
    tables = shop()
    empty = {name: table[:0] for name, table in tables.items()}
    records = link({**empty, "customers": tables["customers"]}, "customers", KEYS).to_pylist()
    assert [record["orders"] for record in records] == [[]] * 30
    with pytest.raises(ValueError, match="at least one record"):
        Schema.infer_tables(empty, "customers", KEYS)
    schema = Schema.infer_tables(tables, "customers", KEYS)
    assert schema.read(empty)["orders.items.price"].shape.as_list() == [0, None, None]


def test_names_with_dots():
    tables = {"a.b": [{"c.d": 1}], "e": [{"f.g": 1, "x": 2}]}
    records = link(tables, "a.b", [("e.f.g", "a.b.c.d")]).to_pylist()
    assert records == [{"c.d": 1, "e": [{"f.g": 1, "x": 2}]}]


def test_a_schema_of_linked_records_takes_tables():
    tables = shop()
    records = link(tables, "customers", KEYS)
    whole = Schema.infer_tables(tables, "customers", KEYS)
    assert whole.links.top == "customers"
    assert Schema.infer(records).links is None
    some = Schema.infer(records.take(pa.array([0, 2])), links=whole.links)
    assert some.n_records == 2
    assert Schema.infer(records, links=whole.links) == whole
    found, expected = some.read(tables), some.read(records)
    assert found.keys() == expected.keys()

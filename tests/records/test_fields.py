"""Parts of records: which of them are read, and which are shared."""

import datetime

from keras_mmil.records import Schema
from keras_mmil.records.fields import walk

RECORDS = [
    {"id": 1, "a": {"b": 1.5, "c": "same"}, "d": {"e": "same"}, "f": [{}], "g": [[1]], "h": [[]]},
    {
        "id": 2,
        "a": {"b": 2.5, "c": "same"},
        "d": {"e": "same"},
        "f": [{}, {}],
        "g": [[], [2, 3]],
        "h": [[], []],
    },
]


def test_what_is_read():
    schema = Schema.infer(RECORDS)
    read = {field.path for field in schema if field.is_read}
    assert read == {"a", "a.b", "f", "g", "g[]", "g[][]", "h"}
    assert set(schema.read(RECORDS)) == {"a.b", "f", "g[][]", "h"}
    assert (schema["h[]"].kind, schema["h[]"].why) == ("empty", "no member was ever there")
    schema.drop("a.b")
    assert not schema["a"].is_read
    assert not schema["a"].is_left_out


def test_what_is_shared():
    tables = {
        "customers": [{"id": 1, "n": 1}, {"id": 2, "n": 5}],
        "orders": [{"customer": 1, "product": 7}, {"customer": 2, "product": 7}],
        "products": [{"id": 7, "price": 1.5, "maker": {"name": "Ada"}}],
    }
    keys = [("orders.customer", "customers.id"), ("orders.product", "products.id")]
    schema = Schema.infer_tables(tables, "customers", keys)
    shared = [f.path for f in schema if f.is_shared and f.kind == "record"]
    assert shared == ["orders.products"]


def test_walking():
    schema = Schema.infer(RECORDS)
    schema.drop("a")
    paths = [field.path for field in walk(schema.root)]
    assert "a" in paths
    assert "a.b" not in paths
    assert "a.b" in [field.path for field in walk(schema.root, also_left_out=True)]


def test_times_are_shown_as_such():
    days = [datetime.date(2024, 1, 2), datetime.datetime(1960, 5, 6, 7, 8, 9)]
    for day, expected in zip(days, ("2024-01-02", "1960-05-06 07:08:09"), strict=True):
        assert Schema.infer([{"day": day}, {"day": None}])["day"].examples == expected

"""The parts of records: which are read and shared, and which kinds may be chosen."""

import datetime

import pyarrow as pa
import pytest

from keras_mmil.records import Schema
from keras_mmil.records.fields import by_path, check_choices, tree, walk
from keras_mmil.records.profiling import MAX_FIELDS, profile
from keras_mmil.records.to_arrow import to_arrow

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


TABLE = [
    {"age": i, "note": "x y", "bag": [{"a": i}], "in": {"b": i}, "mixed": m, "none": None}
    for i, m in enumerate([1, "one", 2])
]
SEEN = profile(to_arrow(TABLE, ""))


def test_parts_by_path():
    found = by_path(tree(SEEN, {}))
    plain = ["age", "note", "bag", "bag.a", "in", "in.b"]
    assert list(found) == [*plain, "mixed<number>", "mixed<text>", "none"]
    assert all(field.path == path for path, field in found.items())
    assert found["bag"].kind == "bag"  # not the record in it, which has the same path
    dropped = tree(SEEN, {"in": "dropped"})
    assert "in.b" not in by_path(dropped)
    assert "in.b" in by_path(dropped, also_left_out=True)


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"age": "category", "note": "category"},
        {"in": "bag", "bag": "dropped"},
        {"bag": "dropped", "bag.a": "category"},
        {"mixed": "dropped"},
        {"mixed": "number"},
        {"mixed<text>": "text", "mixed<number>": "dropped"},
        {"none": "dropped"},
    ],
)
def test_what_may_be_chosen(choices):
    check_choices(SEEN, choices)


@pytest.mark.parametrize(
    ("choices", "match"),
    [
        ({"age": "text"}, "a kind that 'age' can be of: .*number.*dropped. Received: 'text'"),
        ({"bag": "record"}, "a kind that 'bag' can be of: bag, dropped. Received: 'record'"),
        ({"in": "number"}, "a kind that 'in' can be of: bag, record, dropped. Received: 'number'"),
        ({"none": "number"}, "a kind that 'none' can be of: dropped. Received: 'number'"),
        ({"mixed": "text"}, "text at 'mixed', as was chosen. Received: number and text values"),
        ({"mixed": "time"}, "a kind that 'mixed' can be of: number, dropped. Received: 'time'"),
        ({"gone": "number"}, "number at 'gone', as was chosen. Received: nothing there"),
    ],
)
def test_what_may_not_be_chosen(choices, match):
    with pytest.raises(ValueError, match=f"Expected {match}"):
        check_choices(SEEN, {"age": "category", **choices})


@pytest.mark.slow
def test_too_many_fields_at_the_top():
    def wide(n):
        return pa.StructArray.from_arrays([pa.array([1])] * n, names=[f"k{i}" for i in range(n)])

    check_choices(profile(wide(MAX_FIELDS)), {})
    with pytest.raises(ValueError, match=f"at most {MAX_FIELDS} fields of the records at the top"):
        check_choices(profile(wide(MAX_FIELDS + 1)), {})

"""The parts of records: which are read and shared, and which kinds may be chosen."""

import datetime

import pyarrow as pa
import pytest

from keras_mmil.records import Schema, paths
from keras_mmil.records.fields import check_choices
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


def test_times_are_shown_as_such():
    days = [datetime.date(2024, 1, 2), datetime.datetime(1960, 5, 6, 7, 8, 9)]
    for day, expected in zip(days, ("2024-01-02", "1960-05-06 07:08:09"), strict=True):
        assert Schema.infer([{"day": day}, {"day": None}])["day"].examples == expected


TABLE = [
    {"age": i, "note": "x y", "bag": [{"a": i}], "in": {"b": i}, "mixed": m, "none": None}
    for i, m in enumerate([1, "one", 2])
]
SEEN = profile(to_arrow(TABLE, ""))


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
        ({"age": "text"}, "one of these kinds for 'age': .*number.*dropped. Received: 'text'"),
        ({"bag": "record"}, "one of these kinds for 'bag': bag, dropped. Received: 'record'"),
        ({"in": "number"}, "one of these kinds for 'in': bag, record, dropped. Received: 'number'"),
        ({"none": "number"}, "one of these kinds for 'none': dropped. Received: 'number'"),
        ({"mixed": "text"}, "text at 'mixed', as chosen. Received: number and text values"),
        ({"mixed": "time"}, "one of these kinds for 'mixed': number, dropped. Received: 'time'"),
        ({"gone": "number"}, "number at 'gone', as chosen. Received: nothing there"),
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


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("price", "price"),
        ("größe", "größe"),
        ("a-b_c", "a-b_c"),
        ("a.b", '"a.b"'),
        ("", '""'),
        ("a b", '"a b"'),
        ('a"b', r'"a\"b"'),
        ("a[]", '"a[]"'),
        ("a<text>", '"a<text>"'),
        ("\n", r'"\n"'),
    ],
)
def test_names_in_paths(name, shown):
    assert paths.child("", name) == shown
    assert paths.child("orders", name) == f"orders.{shown}"
    schema = Schema.infer([{"orders": [{name: 1.5}, {name: 2}]}])
    assert schema[f"orders.{shown}"].name == name


def test_paths_of_members_and_alternatives():
    assert paths.item("orders") == "orders[]"
    assert paths.alternative("orders[]", "text") == "orders[]<text>"

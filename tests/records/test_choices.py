"""Kinds that people choose: which are allowed, and what is said of others."""

import pyarrow as pa
import pytest

from keras_mmil.records.choices import by_path, check
from keras_mmil.records.fields import tree
from keras_mmil.records.observing import observe
from keras_mmil.records.plain import to_arrow
from keras_mmil.records.statistics import MAX_FIELDS

RECORDS = [
    {"age": i, "note": "x y", "bag": [{"a": i}], "in": {"b": i}, "mixed": m, "none": None}
    for i, m in enumerate([1, "one", 2])
]
SEEN = observe(to_arrow(RECORDS, ""))


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
    check(SEEN, choices)


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
        check(SEEN, {"age": "category", **choices})


@pytest.mark.slow
def test_too_many_fields_at_the_top():
    def wide(n):
        return pa.StructArray.from_arrays([pa.array([1])] * n, names=[f"k{i}" for i in range(n)])

    check(observe(wide(MAX_FIELDS)), {})
    with pytest.raises(ValueError, match=f"at most {MAX_FIELDS} fields of the records at the top"):
        check(observe(wide(MAX_FIELDS + 1)), {})

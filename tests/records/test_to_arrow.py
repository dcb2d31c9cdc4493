"""Python's objects as Arrow arrays, and back; more in test_arrow.py."""

import datetime
import decimal
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from keras_mmil.records import Schema, arrow
from keras_mmil.records.to_arrow import column_of_map, entries, joined, records_to_arrow, to_arrow

DAY = datetime.date(2020, 1, 2)
NOON = datetime.datetime(2020, 1, 2, 12)
ROME = datetime.timezone(datetime.timedelta(hours=1))


def by_type(values):
    return {
        type_: arrow.present(x, "").values.to_pylist()
        for type_, x in arrow.alternatives(to_arrow(values), "").items()
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.5, True, False], {"number": [1.5], "boolean": [True, False]}),
        ([{"a": 0.5}, {"a": True}], None),
        ([1, decimal.Decimal("1.5"), 2.5], {"number": [1, 1.5, 2.5]}),
        ([2**60 + 1, 2.0], {"number": [2**60 + 1, 2]}),
        ([2**70, -(10**400)], {"number": [float(2**70)]}),
        ([np.float32(1.5), np.int64(2), np.bool_(True)], {"number": [1.5, 2], "boolean": [True]}),
        ([datetime.timedelta(1), 5], {"number": [86400, 5]}),
        ([np.timedelta64(2, "m"), "a"], {"number": [120], "text": ["a"]}),
        ([datetime.time(1), "a"], {"number": [3600], "text": ["a"]}),
        ([DAY, NOON], {"time": [18263 * 86400, 18263.5 * 86400]}),
        ([NOON, DAY, "a"], {"time": [18263.5 * 86400, 18263 * 86400], "text": ["a"]}),
        ([NOON.replace(tzinfo=ROME), "a"], {"time": [18263.5 * 86400 - 3600], "text": ["a"]}),
        (
            [pd.Timestamp(NOON), np.datetime64(NOON), 1],
            {"time": [18263.5 * 86400] * 2, "number": [1]},
        ),
        (["a", b"b", "\ud800"], {"text": ["a", "b", "?"]}),
        ([None, math.nan, pd.NA, pd.NaT, np.ma.masked, "a"], {"text": ["a"]}),
        ([None, math.nan], {}),
        ([[1], (2,), np.array([3]), [None]], {"bag": [[1], [2], [3], [None]]}),
        ([[[1]], np.array([[2, 3]]), "a"], {"bag": [[[1]], [[2, 3]]], "text": ["a"]}),
    ],
    ids=str,
)
def test_values_are_kept_apart_by_type(values, expected):
    if expected is None:
        schema = Schema.infer(values)
        assert [field.path for field in schema] == ["a<number>", "a<boolean>"]
    else:
        assert by_type(values) == expected


def test_sets_are_bags():
    assert sorted(by_type([{3, 4}, "a"])["bag"][0]) == [3, 4]


@pytest.mark.parametrize("records", [[{1: "a"}], [{1: 5, None: 3}], [{"\ud800": 1}]])
def test_keys_become_texts(records):
    names = [str(name).replace("\ud800", "?") for name in records[0]]
    assert [field.name for field in Schema.infer(records)] == names
    with pytest.raises(ValueError, match=r"differ as texts\. Received: .* and .* at the top"):
        Schema.infer([{1: 2, "1": 3}])


@pytest.mark.parametrize(
    ("record", "error", "message"),
    [
        ({"a": {"b": [object()]}}, TypeError, "None. Received: object at a.b, in record 7$"),
        ({"a b": 1j}, TypeError, 'None. Received: complex at "a b", in record 7$'),
        ({"a": [b"\xff", 1]}, ValueError, "Received: bytes at a, in record 7$"),
    ],
)
def test_values_that_are_no_data_are_refused(record, error, message):
    with pytest.raises(error, match=message):
        records_to_arrow([{"a": None}, {}, record], lambda i: f"record {5 + i}")


@pytest.mark.slow
def test_deep_nesting_is_refused():
    value = {"a": object}
    for _ in range(900):
        value = {"a": value}
    with pytest.raises(ValueError, match=r"levels of nesting. Received: too many in record 1"):
        records_to_arrow([{}, value])


DICTS = [{"b": 1, "a": 2}, {}, {"c": 3}, {"a": None, "b": 5}, {"c": 6, "b": 7, "a": 8}]
MAPS = pa.array([[*each.items()] for each in DICTS], pa.map_(pa.string(), pa.int64()))
STRUCTS = pa.array(DICTS)


def pairs(records):
    """The entries of each record."""
    keys, values, lengths = entries(records, "")
    assert (lengths.dtype, len(lengths)) == (np.int64, len(records))
    found = iter(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    result = [[next(found) for _ in range(n)] for n in lengths]
    assert not list(found)
    return result


@pytest.mark.parametrize("part", [slice(None), slice(1, 4), slice(2, 3), slice(0, 0)])
@pytest.mark.parametrize("records", [MAPS, STRUCTS], ids=["maps", "structs"])
def test_entries_as_in_a_loop(records, part):
    """In structs, whose fields come in any order, they are by key."""
    expected = [[(k, v) for k, v in each.items() if v is not None] for each in DICTS[part]]
    if records is STRUCTS:
        expected = [sorted(each) for each in expected]
    assert pairs(records[part]) == expected


def test_structs_without_any_field():
    assert pairs(pa.array([{}, {}])) == [[], []]


@pytest.mark.parametrize("name", ["a", "b", "x"])
@pytest.mark.parametrize("start", [0, 1, 3])
def test_a_column_of_maps(name, start):
    with_null = pa.array(
        [None, *([*each.items()] for each in DICTS), None], pa.map_(pa.string(), pa.int64())
    )
    expected = [None, *(each.get(name) for each in DICTS), None][start:]
    assert column_of_map(with_null[start:], name).to_pylist() == expected


@pytest.mark.parametrize(
    "parts",
    [
        [[1, 2], [3]],
        [[1, 2], [2.5]],
        [[1], [None, None]],
        [["x"], [1, None]],
        [[{"a": 1}], [{"b": "x"}]],
        [[[1]], [["x"], []]],
    ],
)
def test_arrays_of_any_types_are_joined(parts):
    values = [value for part in parts for value in part]
    found = joined([to_arrow(part, "") for part in parts], "at")
    assert found.equals(to_arrow(values, "")) or found.to_pylist() == values
    assert len(found) == len(values)


def test_nothing_joined():
    assert joined([], "").equals(pa.nulls(0))

"""Records whose keys are data, as entries; more in test_arrow.py."""

import numpy as np
import pyarrow as pa
import pytest

from keras_mmil.records.keyed import column_of_map, entries, joined
from keras_mmil.records.plain import to_arrow

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

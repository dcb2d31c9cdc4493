"""Arrow arrays of all types and layouts against their values as Python's objects."""

import datetime
import decimal
import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from keras_mmil.records import Schema, arrow
from keras_mmil.records.to_arrow import entries, to_arrow

DAY = datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
NUMBERS = [1, None, 0, 5]
ARRAYS = {
    "int8": ("number", pa.array(NUMBERS, pa.int8()), NUMBERS),
    "uint64": ("number", pa.array([2**64 - 1, None], pa.uint64()), [2**64 - 1, None]),
    "half": ("number", pa.array(np.array([1.5, math.nan, math.inf], "float16")), [1.5, None, None]),
    "double": ("number", pa.array([1.5, None, math.nan, 1e39]), [1.5, None, None, None]),
    "decimal": ("number", pa.array([decimal.Decimal("1.25"), None]), [1.25, None]),
    "boolean": ("boolean", pa.array([True, None, False]), [True, None, False]),
    "string": ("text", pa.array(["a", None, ""]), ["a", None, ""]),
    "large string": ("text", pa.array(["a", None], pa.large_string()), ["a", None]),
    "view": ("text", pa.array(["a", None], pa.string_view()), ["a", None]),
    "binary": ("text", pa.array([b"\xc3\xbc", None]), ["ü", None]),
    "fixed binary": ("text", pa.array([b"ab", None], pa.binary(2)), ["ab", None]),
    "dictionary": ("text", pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
    "run ends": ("number", pc.run_end_encode(pa.array([1, 1, None, 2])), [1, 1, None, 2]),
    "date": ("time", pa.array([DAY.date(), None]), [18263 * 86400, None]),
    "date64": ("time", pa.array([DAY.date(), None], pa.date64()), [18263 * 86400, None]),
    "zone": (
        "time",
        pa.array([DAY, None], pa.timestamp("ms", "Europe/Rome")),
        [DAY.timestamp(), None],
    ),
    "nanoseconds": ("time", pa.array([10**18], pa.timestamp("ns")), [1e9]),
    "time of day": ("number", pa.array([datetime.time(1, 2, 3), None]), [3723, None]),
    "time32": ("number", pa.array([datetime.time(1, 2, 3)], pa.time32("s")), [3723]),
    "duration": ("number", pa.array([datetime.timedelta(0, 1.5), None]), [1.5, None]),
    "extension": ("text", pa.array(["x", None], pa.json_()), ["x", None]),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("first", [0, 1])
def test_values_of_types(name, first):
    type_, array, expected = ARRAYS[name]
    array, expected = array[first:], expected[first:]
    ((found, alternative),) = arrow.alternatives(array, "x").items()
    assert found == type_
    part = arrow.present(alternative, "x")
    values = [None] * len(expected)
    at = range(len(expected)) if part.at is None else part.at
    for i, value in zip(at, part.values.to_pylist(), strict=True):
        values[i] = value
    assert values == expected


LISTS = [[1, 2], None, [], [3, None]]


@pytest.mark.parametrize(
    ("type_", "lists"),
    [
        (pa.list_(pa.int64()), LISTS),
        (pa.large_list(pa.int64()), LISTS),
        (pa.list_(pa.int64(), 2), [[1, 2], None, [5, 6], [3, None]]),
    ],
    ids=str,
)
@pytest.mark.parametrize("first", [0, 1, 2, 4])
def test_slices_of_lists_and_null_lists(type_, lists, first):
    schema = Schema.infer([{"a": [1, 2]}, {"a": [3, 4]}])
    array = pa.StructArray.from_arrays([pa.array([[9, 9], *lists], type_)[1:]], ["a"])[first:]
    values = schema.read(array)["a[]"].to_list()
    expected = [[math.nan if x is None else x for x in each or []] for each in lists[first:]]
    assert str(values) == str([[float(x) for x in each] for each in expected])


def test_null_lists_that_hold_values():
    offsets, values = pa.array([0, 2, 4]), pa.array([1, 2, 3, 4])
    lists = pa.ListArray.from_arrays(offsets, values, mask=pa.array([True, False]))
    records = pa.StructArray.from_arrays([lists], ["a"])
    assert Schema.infer(records)["a[]"].seen.counts == {3: 1, 4: 1}


@pytest.mark.parametrize("type_", [pa.month_day_nano_interval(), pa.list_view(pa.int64())])
def test_other_types_are_refused(type_):
    with pytest.raises(TypeError, match=r"structs, maps or lists. Received: .* at x\.y"):
        arrow.alternatives(pa.nulls(0, type_), "x.y")


def test_bytes_are_no_text():
    for value in (b"\xff", {"x": b"\xff"}):
        with pytest.raises(ValueError, match=r"Expected text in UTF-8. Received: bytes at a"):
            Schema.infer([{"a": value}])


def test_mixed_arrays():
    values = [1, "a", None, True, {"b": 2}, [3, "c"], 0.5]
    array = to_arrow(values)
    found = {type_: x.to_pylist() for type_, x in arrow.alternatives(array[1:], "").items()}
    assert found["text"] == ["a", *[None] * 5]
    assert found["boolean"] == [None, None, True, None, None, None]
    assert found["number"] == [*[None] * 5, 0.5]
    assert arrow.present_at(array, "").tolist() == [0, 1, 3, 4, 5, 6]
    assert arrow.holds_mixed(array.type)
    assert not arrow.holds_mixed(pa.array([{"number": 1, "text": "a"}]).type)


MAPS = [[("a", 1), ("b", 2)], None, [], [("b", None), ("c", 4), ("a", 5)]]


@pytest.mark.parametrize("first", [0, 1, 3])
def test_maps_are_bags_by_key(first):
    maps = pa.array([[("z", 0)], *MAPS], pa.map_(pa.string(), pa.int64()))[1:]
    records = pa.StructArray.from_arrays([maps], ["m"])
    schema = Schema.infer(records)
    assert schema["m"].kind == "bag"
    x = schema.read(records[first:])
    pairs = [[(k, v) for k, v in each or [] if v is not None] for each in MAPS[first:]]
    assert x["m.key"].to_list() == [[k.encode() for k, _ in each] for each in pairs]
    assert x["m[]"].to_list() == [[v for _, v in each] for each in pairs]


def test_maps_where_the_schema_has_records():
    schema = Schema.infer([{"m": {"a": 1, "b": 3}}, {"m": {"a": 2, "b": 4}}])
    maps = pa.array([[("z", 0)], *MAPS], pa.map_(pa.string(), pa.int64()))[1:]
    x = schema.read(pa.StructArray.from_arrays([maps], ["m"]))
    assert str(x["m.a"].numpy().tolist()) == "[1.0, nan, nan, 5.0]"


def test_keys_that_are_no_texts_are_refused():
    maps = pa.array([[({"a": 1}, 2)]], pa.map_(pa.struct([("a", pa.int64())]), pa.int64()))
    with pytest.raises(TypeError, match=r"Expected keys that are texts. Received: others at 'm'"):
        Schema.infer(pa.StructArray.from_arrays([maps], ["m"]))


def test_entries_of_structs_leave_out_what_is_missing():
    values = [{"b": 1, "a": math.nan, "c": "x"}, {"a": 2.5, "c": None}, {"c": [1]}, {}]
    keys, items, lengths = entries(to_arrow(values), "")
    assert keys.to_pylist() == ["b", "c", "a", "c"]
    assert lengths.tolist() == [2, 1, 1, 0]
    found = {type_: x.to_pylist() for type_, x in arrow.alternatives(items, "").items()}
    assert found == {
        "number": [1, None, 2.5, None],
        "text": [None, "x", None, None],
        "bag": [None, None, None, [1]],
    }


def test_values_of_keys_of_other_forms_are_joined():
    values = [{"a": {"x": 1}, "b": {"y": [1.5]}, "c": {"x": "t", "z": DAY}}]
    _, items, _ = entries(to_arrow(values), "")
    schema = Schema.infer(items)
    assert [field.path for field in schema] == ["x<number>", "x<text>", "y", "y[]", "z"]
    assert schema["z"].seen.mean == DAY.timestamp()

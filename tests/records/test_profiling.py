"""Statistics of Arrow arrays, compared with Python's loops, and merged; more in test_schema.py."""

import functools
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from keras_mmil.records import Schema, arrow, profiling
from keras_mmil.records.profiling import (
    LONGEST,
    MAX_FIELDS,
    MAX_VALUES,
    FieldProfile,
    Records,
    Values,
    profile,
)


def only(array, type_):
    seen = profile(array)
    assert list(seen.by_type) == [type_]
    return seen.by_type[type_]


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()], ids=str
)
def test_numbers_as_in_a_loop(type_):
    values = np.random.default_rng(0).integers(0, 30, 200).tolist()
    array = pa.array([None, *values, None, 99], type_)[1:-1]  # a slice
    seen = only(array, "number")
    assert (profile(array).count, seen.count, seen.n_integers) == (201, 200, 200)
    assert seen.counts == Counter(values)
    assert all(type(value) is int for value in seen.counts)
    assert (seen.smallest, seen.largest) == (tuple(sorted(set(values))[:3]), max(values))
    assert seen.mean == pytest.approx(math.fsum(values) / 200)
    assert seen.squares == pytest.approx(math.fsum((x - seen.mean) ** 2 for x in values))


def test_integers_are_counted_alike_in_a_row_and_far_apart():
    """In two ways: by place, and by hashing."""
    near, far = [3, 5, 3, -2, 5, 3], [3, 5, 3, -2, 5, 3, 10**12]
    counts = only(pa.array(far), "number").counts
    assert counts.pop(10**12) == 1
    assert counts == only(pa.array(near), "number").counts == Counter(near)


def test_numbers_that_are_none():
    array = pa.array([0.0, -0.0, 2.5, math.nan, math.inf, -math.inf, 1e39, None, 2.0**60])
    seen = only(array, "number")
    assert profile(array).share_missing == pytest.approx(5 / 9)
    assert seen.counts == {0: 2, 2.5: 1, 2.0**60: 1}
    assert seen.n_integers == 3


@pytest.mark.parametrize("n", [MAX_VALUES, MAX_VALUES + 1, 20 * MAX_VALUES])
def test_many_different_numbers(n):
    seen = only(pa.array(np.arange(n) * 3.5), "number")
    assert (seen.count, seen.n_distinct) == (n, n if n <= MAX_VALUES else None)
    assert (seen.smallest, seen.largest) == ((0, 3.5, 7), 3.5 * (n - 1))


TEXTS = ["two words", "", "2020-02-03", "two words", " one ", "2020-02-03T04:05:06Z", "2020-13-01"]


@pytest.mark.parametrize("more", [[], ["x" * (LONGEST + 1)]], ids=["counted", "too long"])
@pytest.mark.parametrize(
    "type_", [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int8(), pa.string())]
)
def test_texts_are_seen_alike_counted_or_not(more, type_):
    seen = only(pa.array([*TEXTS, *more, None]).cast(type_), "text")
    assert seen.counts == (None if more else Counter(TEXTS))
    assert seen.count == 7 + len(more)
    assert seen.n_words == 2 + 1 + 2 + 1 + 1 + 1 + len(more)
    assert seen.as_forms["time"].values.count == 2
    assert seen.smallest == ("", " one ", "2020-02-03")
    assert seen.largest == (more[0][:LONGEST] if more else "two words")


def test_records_bags_and_keys():
    array = pa.array([{"a": [1, 2]}, None, {"a": None}, {"a": []}])
    key = pa.field("id", pa.int64(), metadata={arrow.KEY: b"to customers.id"})
    seen = profile(array)
    records = seen.by_type["record"]
    assert (seen.count, records.count, records.fields["a"].count) == (4, 3, 3)
    bags = records.fields["a"].by_type["bag"]
    assert (bags.count, bags.members.count, bags.largest) == (2, 2, 2)
    linked = pa.StructArray.from_arrays([pa.array([7, 8])], fields=[key])
    assert only(linked, "record").fields["id"].key == "to customers.id"
    assert profile(pa.nulls(3)) == FieldProfile(3)


def orders(*numbers, customer=None):
    return [
        {"no": n, "of": customer, "items": [{"order": n, "line": i, "n": n} for i in range(n % 3)]}
        for n in numbers
    ]


def test_copies_of_what_identifies_the_record_around():
    customers = [
        {"id": f"c{i}", "orders": orders(*range(20 * i, 20 * i + i % 4), customer=f"c{i}")}
        for i in range(20)
    ]
    customers[3]["orders"][0]["items"] = [{"order": None, "line": 7, "n": None}]
    customers[5]["orders"] = None

    def copied(*parts):
        seen = functools.reduce(FieldProfile.merged, (profile(pa.array(part)) for part in parts))
        of_orders = seen.by_type["record"].fields["orders"].by_type["bag"]
        fields = of_orders.members.by_type["record"].fields
        inner = fields["items"].by_type["bag"].members.by_type["record"].fields
        return {name: x.copied for name, x in {**fields, **inner}.items() if x.copied}

    expected = {"of": "id", "order": "orders.no", "n": "orders.no"}
    assert copied(customers) == expected
    assert copied(*(customers[i : i + 4] for i in range(0, 20, 4))) == expected
    twice = [*customers, {"id": "c3", "orders": orders(7, customer="c3")}]
    assert "of" not in copied(twice)  # what comes twice identifies nothing
    other = [{"id": "d", "orders": [{"no": 999, "of": "d", "items": [{"order": 998, "n": 999}]}]}]
    for parts in ([[*customers, *other]], [customers, other], [other, customers]):
        assert copied(*parts) == {"of": "id", "n": "orders.no"}
    schema = Schema.infer(customers)
    assert schema["orders.of"].why == "always that of id"
    assert schema["orders.items.order"].kind == "identifier"
    assert schema["orders.items.line"].kind == "number"


def test_what_is_refused_has_its_path():
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(ValueError, match=r"different names. Received: \['a', 'a'\] at 'orders'"):
        profile(twice, "orders")
    keys = pa.array([[({"a": 1}, 2)]], pa.map_(pa.struct([("a", pa.int64())]), pa.int64()))
    with pytest.raises(TypeError, match=r"keys that are texts. Received: others at 'orders'"):
        profile(keys, "orders")
    with pytest.raises(TypeError, match=r"Received: .*month_day_nano.* at orders\.paid"):
        profile(pa.array([{"paid": pa.MonthDayNano([1, 2, 3])}]), "orders")


def numbers(*x):
    mean = math.fsum(x) / len(x)
    counts = {value: x.count(value) for value in x}
    squares = math.fsum((value - mean) ** 2 for value in x)
    in_order = sorted(counts)
    return Values(len(x), counts, tuple(in_order[:3]), in_order[-1], mean, squares)


def test_nothing_merged_is_nothing():
    one = numbers(1.0, 2.0)
    assert one.merged(Values()) == Values().merged(one) == one
    assert FieldProfile().merged(FieldProfile()) == FieldProfile()
    assert FieldProfile().share_missing == 0


@pytest.mark.slow
def test_too_many_values_are_not_counted():
    half = MAX_VALUES // 2
    one, two = numbers(*range(half)), numbers(*range(half, 2 * half))
    assert one.merged(two).n_distinct == MAX_VALUES
    assert one.merged(two).merged(numbers(-1)).n_distinct is None
    assert one.merged(two).merged(numbers(-1)).smallest == (-1, 0, 1)


@pytest.mark.slow
def test_too_many_keys_are_not_told_apart():
    def records(*names):
        return Records(1, {name: FieldProfile(1, {"number": numbers(1.0)}) for name in names})

    names = [f"k{i}" for i in range(MAX_FIELDS)]
    assert records(*names).by_key is None
    merged = records(*names).merged(records("k0", "x" * (LONGEST + 1)))
    assert (merged.count, merged.fields) == (2, {})
    assert merged.by_key.keys.count == merged.by_key.each.count == MAX_FIELDS + 2
    assert merged.by_key.keys.counts is None
    assert merged.by_key.each.by_type["number"].counts == {1.0: MAX_FIELDS + 2}
    assert records(*names, "new").entries().keys.count == MAX_FIELDS + 1


def test_of_very_many_fields_fewer_values_are_counted(monkeypatch):
    monkeypatch.setattr(profiling, "MAX_COUNTED", 12)

    def records(n_fields):
        some = {"a": numbers(*range(4)), "b": numbers(*range(3))}
        fields = {name: FieldProfile(4, {"number": x}) for name, x in some.items()}
        return Records(4, fields | {f"x{i}": FieldProfile(4) for i in range(n_fields - 2)})

    monkeypatch.setattr(profiling, "MAX_VALUES", 4)
    for n, counted in [(3, [4, 3]), (4, [None, 3]), (5, [None, None])]:
        for seen in (records(n), records(2).merged(records(n))):
            fields = [seen.fields[name].by_type["number"] for name in "ab"]
            assert [x.n_distinct for x in fields] == counted
            assert [x.smallest for x in fields] == [(0, 1, 2)] * 2

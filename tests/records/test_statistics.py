"""Statistics of parts of the data, merged; more in test_schema.py."""

import math

import pytest

from keras_mmil.records import statistics
from keras_mmil.records.statistics import (
    LONGEST,
    MAX_FIELDS,
    MAX_VALUES,
    Bags,
    Observed,
    Records,
    Values,
)


def numbers(*x):
    mean = math.fsum(x) / len(x)
    counts = {value: x.count(value) for value in x}
    squares = math.fsum((value - mean) ** 2 for value in x)
    in_order = sorted(counts)
    return Values(len(x), counts, tuple(in_order[:3]), in_order[-1], mean, squares)


def test_moments_are_merged():
    merged = numbers(1.0, 2.0, 7.0).merged(numbers(4.0, 2.0))
    expected = numbers(1.0, 2.0, 7.0, 4.0, 2.0)
    assert merged.counts == expected.counts
    assert (merged.smallest, merged.largest) == ((1, 2, 4), 7)
    assert merged.mean == pytest.approx(expected.mean)
    assert merged.squares == pytest.approx(expected.squares)


def test_nothing_merged_is_nothing():
    one = numbers(1.0, 2.0)
    assert one.merged(Values()) == Values().merged(one) == one
    assert Observed().merged(Observed()) == Observed()
    assert Observed().share_missing == 0


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
        return Records(1, {name: Observed(1, {"number": numbers(1.0)}) for name in names})

    names = [f"k{i}" for i in range(MAX_FIELDS)]
    assert records(*names).by_key is None
    merged = records(*names).merged(records("k0", "x" * (LONGEST + 1)))
    assert (merged.count, merged.fields) == (2, {})
    assert merged.by_key.keys.count == merged.by_key.each.count == MAX_FIELDS + 2
    assert merged.by_key.keys.counts is None
    assert merged.by_key.each.by_type["number"].counts == {1.0: MAX_FIELDS + 2}
    assert records(*names, "new").entries().keys.count == MAX_FIELDS + 1


def test_of_very_many_fields_fewer_values_are_counted(monkeypatch):
    monkeypatch.setattr(statistics, "MAX_COUNTED", 12)

    def records(n_fields):
        some = {"a": numbers(*range(4)), "b": numbers(*range(3))}
        fields = {name: Observed(4, {"number": x}) for name, x in some.items()}
        return Records(4, fields | {f"x{i}": Observed(4) for i in range(n_fields - 2)})

    monkeypatch.setattr(statistics, "MAX_VALUES", 4)
    for n, counted in [(3, [4, 3]), (4, [None, 3]), (5, [None, None])]:
        for seen in (records(n), records(2).merged(records(n))):
            fields = [seen.fields[name].by_type["number"] for name in "ab"]
            assert [x.n_distinct for x in fields] == counted
            assert [x.smallest for x in fields] == [(0, 1, 2)] * 2


def test_absent_fields_are_missing():
    one = Records(3, {"a": Observed(3, {"number": numbers(1.0, 2.0)})})
    merged = one.merged(Records(2, {"b": Observed(2, {"number": numbers(5.0)})}))
    assert {name: (x.count, x.n_present) for name, x in merged.fields.items()} == {
        "a": (5, 2),
        "b": (5, 1),
    }
    assert merged.fields["b"].share_missing == 0.8


def test_types_are_merged_apart():
    bags = Observed(1, {"bag": Bags(numbers(4), Observed(4, {"number": numbers(1.0)}))})
    merged = bags.merged(Observed(2, {"text": Values(1, {"a": 1}, ("a",), "a")})).merged(bags)
    assert list(merged.by_type) == ["text", "bag"]
    assert merged.by_type["bag"].members.count == 8
    assert (merged.count, merged.n_present) == (4, 3)

"""What is seen in Arrow arrays, compared with Python's loops; more in test_schema.py."""

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from keras_mmil.records import arrow
from keras_mmil.records.observing import observe
from keras_mmil.records.statistics import LONGEST, MAX_VALUES, Observed


def only(array, type_):
    seen = observe(array)
    assert list(seen.by_type) == [type_]
    return seen.by_type[type_]


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()], ids=str
)
def test_numbers_as_in_a_loop(type_):
    values = np.random.default_rng(0).integers(0, 30, 200).tolist()
    array = pa.array([None, *values, None, 99], type_)[1:-1]  # a slice
    seen = only(array, "number")
    assert (observe(array).count, seen.count, seen.n_integers) == (201, 200, 200)
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
    assert observe(array).share_missing == pytest.approx(5 / 9)
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
    seen = observe(array)
    records = seen.by_type["record"]
    assert (seen.count, records.count, records.fields["a"].count) == (4, 3, 3)
    bags = records.fields["a"].by_type["bag"]
    assert (bags.count, bags.members.count, bags.largest) == (2, 2, 2)
    linked = pa.StructArray.from_arrays([pa.array([7, 8])], fields=[key])
    assert only(linked, "record").fields["id"].key == "to customers.id"
    assert observe(pa.nulls(3)) == Observed(3)


def test_what_is_refused_has_its_path():
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(ValueError, match=r"different names. Received: \['a', 'a'\] at 'orders'"):
        observe(twice, "orders")
    keys = pa.array([[({"a": 1}, 2)]], pa.map_(pa.struct([("a", pa.int64())]), pa.int64()))
    with pytest.raises(TypeError, match=r"keys that are texts. Received: others at 'orders'"):
        observe(keys, "orders")
    with pytest.raises(TypeError, match=r"Received: .*month_day_nano.* at orders\.paid"):
        observe(pa.array([{"paid": pa.MonthDayNano([1, 2, 3])}]), "orders")

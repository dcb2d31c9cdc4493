"""Conditions in words, and in the syntax of the paper."""

import datetime
import math
import re

import numpy as np
import pytest

from keras_mmil._support.formatting import time_text
from keras_mmil.rules.trees.columns import ABSENT, ALL, MISSING, Column

INF = math.inf
HALFWAY = MISSING / 2  # where a tree splits what is missing from small numbers


@pytest.mark.parametrize(
    ("feature", "low", "high", "text"),
    [
        ("occurrence", 0.5, INF, "some items are u3"),
        ("occurrence", -INF, 0.5, "no items are u3"),
        ("frequency", 0.0, INF, "some items are u3"),
        ("frequency", 0.0, 1.0, "some items are u3"),
        ("frequency", -INF, 0.0, "no items are u3"),
        ("frequency", 0.3, INF, "more than 30 % of items are u3"),
        ("frequency", 0.3, 1.0, "more than 30 % of items are u3"),
        ("frequency", -INF, 0.125, "at most 12.5 % of items are u3"),
        ("frequency", 0.0, 0.5, "some but at most 50 % of items are u3"),
        ("frequency", 0.25, 0.75, "more than 25 % and at most 75 % of items are u3"),
        ("frequency", 0.00004, INF, "more than 0.004 % of items are u3"),
        ("frequency", 0.9, INF, "more than 90 % of items are u3"),
        ("frequency", 0.99996, INF, "more than 99.996 % of items are u3"),
        ("frequency", -INF, 0.9999, "at most 99.99 % of items are u3"),
        ("frequency", ALL, INF, "all items are u3"),
        ("frequency", -INF, ALL, "not all items are u3"),
        ("count", -INF, 0.5, "no items are u3"),
        ("count", 0.5, INF, "some items are u3"),
        ("count", 0.5, 1.5, "exactly one of the items is u3"),
        ("count", -INF, 1.5, "at most one of the items is u3"),
        ("count", 1.5, INF, "at least 2 items are u3"),
        ("count", -INF, 2.5, "at most 2 items are u3"),
        ("count", 1.5, 2.5, "exactly 2 items are u3"),
        ("count", 20.5, 21.5, "exactly 21 items are u3"),
        ("count", 0.5, 2.5, "1 or 2 items are u3"),
        ("count", 1.5, 4.5, "2 to 4 items are u3"),
        ("weight", 0.75, INF, "total weight of items that are u3 > 0.75"),
        ("weight", -INF, 0.75, "total weight of items that are u3 ≤ 0.75"),
        ("weight", 0.5, 1.5, "total weight of items that are u3 ∈ (0.5, 1.5]"),
    ],
)
def test_conditions_on_bags_with_a_name(feature, low, high, text):
    column = Column(feature, "u3", "items")
    assert column.is_of_cluster
    assert column.text(*map(float, np.float32([low, high]))) == text


def test_shares_are_never_said_to_be_0_or_100():
    column = Column("frequency", "u3", "items")
    for exponent in range(1, 7):
        tiny = 10.0**-exponent
        for low, high in ((tiny, INF), (1 - tiny, INF), (-INF, tiny), (-INF, 1 - tiny)):
            (share,) = re.findall(r"([\d.e-]+) %", column.text(low, high))
            bound = low if high == INF else high
            assert 0 < float(share) < 100
            assert float(share) / 100 == pytest.approx(bound, rel=0.01)
            assert 1 - float(share) / 100 == pytest.approx(1 - bound, rel=0.5)


@pytest.mark.parametrize(
    ("column", "low", "high", "text"),
    [
        (Column("statistic", "number of orders"), 2.5, INF, "at least 3 orders"),
        (Column("statistic", "number of orders"), -INF, 2.5, "at most 2 orders"),
        (Column("statistic", "number of orders"), 1.5, 4.0, "2 to 4 orders"),
        (Column("statistic", "number of orders"), 1.0, 2.5, "exactly 2 orders"),
        (Column("statistic", "number of tags = 'a'"), -INF, 0.0, "no tags are 'a'"),
        (Column("statistic", "number of tags = 'a'"), -INF, 0.5, "no tags are 'a'"),
        (Column("statistic", "number of tags = 'a'"), 0.0, INF, "some tags are 'a'"),
        (Column("statistic", "share of tags = 'a'"), -INF, 0.0, "no tags are 'a'"),
        (Column("statistic", "share of tags = 'a'"), 0.0, INF, "some tags are 'a'"),
        (Column("statistic", "share of tags = 'a'"), 0.25, INF, "more than 25 % of tags are 'a'"),
        (
            Column("statistic", "share of tags = 'a'"),
            -INF,
            0.25,
            "at most 25 % of tags are 'a' or there are none",
        ),
        (
            Column("statistic", "share of atoms with element = 'N'"),
            0.25,
            0.5,
            "more than 25 % and at most 50 % of atoms have element = 'N'",
        ),
        (
            Column("statistic", "share of atoms with element = 'N'"),
            HALFWAY,
            0.5,
            "at most 50 % of atoms have element = 'N'",
        ),
        (Column("statistic", "share of atoms with charged"), ALL, INF, "all atoms have charged"),
        (Column("statistic", "share of atoms with charged"), HALFWAY, INF, "some atoms"),
        (Column("statistic", "share of atoms with charged"), -INF, HALFWAY, "no atoms"),
        (
            Column("statistic", "number of orders with paid"),
            -INF,
            1.5,
            "at most one of the orders has paid",
        ),
        (
            Column("statistic", "number of atoms (element N, bonds: single C)"),
            0.5,
            1.5,
            "exactly one of the atoms is (element N, bonds: single C)",
        ),
        (
            Column("statistic", "number of notes (by agent, text with 'a')"),
            -INF,
            1.0,
            "at most one of the notes is (by agent, text with 'a')",
        ),
        (Column("statistic", "mean of price"), -INF, 2.5, "mean of price ≤ 2.5 or missing"),
        (Column("number", "price"), 12.5, INF, "price > 12.5"),
        (Column("number", "price"), -INF, 12.5, "price ≤ 12.5 or missing"),
        (Column("number", "price"), HALFWAY, 12.5, "price ≤ 12.5"),
        (Column("number", "price"), 1.25, 12.5, "price ∈ (1.25, 12.5]"),
        (Column("number", "price"), -8.0, INF, "price > -8"),
        (Column("number", "price"), HALFWAY, INF, "price is present"),
        (Column("number", "price"), -INF, HALFWAY, "price is missing"),
        (Column("boolean", "returned"), 0.5, INF, "returned"),
        (Column("boolean", "returned"), -INF, 0.5, "not returned"),
        (Column("boolean", "returned"), HALFWAY, 0.5, "returned is false"),
        (Column("boolean", "returned"), HALFWAY, INF, "returned is present"),
        (Column("boolean", "returned"), -INF, HALFWAY, "returned is missing"),
        (Column("category", "kind", value="toys"), 0.5, INF, "kind = 'toys'"),
        (Column("category", "kind", value="toys"), -INF, 0.5, "kind ≠ 'toys'"),
        (Column("category", "kind", value="o'neill"), 0.5, INF, 'kind = "o\'neill"'),
        (Column("category", "size", value=7), 0.5, INF, "size = 7"),
        (Column("category", "kind"), 0.5, INF, "kind is missing"),
        (Column("category", "kind"), -INF, 0.5, "kind is present"),
        (Column("token", "note", value="refund"), 0.5, INF, "note contains 'refund'"),
        (Column("token", "note", value="refund"), -INF, 0.5, "note does not contain 'refund'"),
        (Column("token", "note"), 0.5, INF, "note is missing"),
        (Column("token", "note"), -INF, 0.5, "note is present"),
        (Column("time", "paid", value="day"), 18262.0, INF, "paid > 2020-01-01"),
        (Column("time", "paid", value="day"), -INF, 18262.0, "paid ≤ 2020-01-01 or missing"),
        (Column("time", "paid", value="day"), HALFWAY, 18262.5, "paid ≤ 2020-01-01T12:00"),
        (Column("time", "paid", value="day"), 0.0, 1.0, "paid ∈ (1970-01-01, 1970-01-02]"),
        (Column("time", "paid", value="day"), -INF, HALFWAY, "paid is missing"),
        (Column("time", "paid", value="day"), HALFWAY, INF, "paid is present"),
        (Column("time", "paid", value="weekday"), 5.5, INF, "weekday of paid > 5"),
        (Column("time", "paid", value="weekday"), HALFWAY, 5.5, "weekday of paid ≤ 5"),
        (Column("time", "paid", value="month"), 2.5, 5.5, "month of paid ∈ (2, 5]"),
        (Column("time", "paid", value="hour"), -INF, 17.5, "hour of paid ≤ 17 or missing"),
    ],
)
def test_conditions_on_fields(column, low, high, text):
    assert not column.is_of_cluster
    assert column.text(low, high) == text


def test_what_was_never_missing_is_not_said_to_be():
    for feature, value, text in (("number", None, "x ≤ 2"), ("time", "month", "month of x ≤ 2")):
        for is_optional, more in ((True, " or missing"), (False, "")):
            column = Column(feature, "x", value=value, is_optional=is_optional)
            assert column.text(-INF, 2.0) == text + more


def test_times_as_text():
    epoch = datetime.datetime(1970, 1, 1)
    for minutes in np.random.default_rng(0).integers(-(10**9), 10**9, 200).tolist():
        time = epoch + datetime.timedelta(minutes=minutes)
        expected = time.isoformat(timespec="minutes").removesuffix("T00:00")
        assert time_text(minutes * 60) == expected
        assert time_text(minutes * 60 + 7) == time.isoformat(timespec="minutes") + ":07"
        assert time_text(minutes * 60 + 7.25) == time.isoformat(timespec="minutes") + ":07.25"
    assert time_text(86_400e12) == "1000000000000 days after 1970-01-01"


def test_what_is_missing_is_below_all_that_trees_split():
    """CART splits halfway between two values, in float32."""
    for there in (-7e37, -1e30, -1.0, 0.0, 1e30):
        halfway = np.float32(MISSING) / 2 + np.float32(there) / 2
        assert MISSING < halfway < ABSENT < there

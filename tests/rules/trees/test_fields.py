"""Fields as numbers, each compared with a loop over its values."""

import datetime
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mmil._support.types import MISSING_INT, MISSING_TEXT
from keras_mmil.rules.trees.columns import ABSENT, MISSING
from keras_mmil.rules.trees.fields import KINDS, Field, field_of

DAY = 86_400


def known(field, raw):
    """What is known of each value, by what the columns are about."""
    matrix = field.matrix(np.array(raw, object if isinstance(raw[0], bytes) else None))
    assert matrix.dtype == np.float32
    assert matrix.shape == (len(raw), len(field.columns))
    keys = [column.value for column in field.columns]
    return [dict(zip(keys, row, strict=True)) for row in matrix.tolist()]


@pytest.mark.parametrize("kind", ["number", "boolean"])
def test_numbers(kind):
    raw = np.array([1.0, np.nan, 0.0, -2.5], np.float32)
    assert known(Field("x", kind), raw) == [
        {None: pytest.approx(MISSING if math.isnan(x) else x)} for x in raw
    ]


def test_numbers_too_large_for_float32_are_there():
    """They are neither missing, nor infinite, which no tree takes."""
    raw = np.array([np.inf, -np.inf, 1e300, -1e300])
    (column,) = Field("x", "number").matrix(raw).T
    assert np.isfinite(column).all()
    assert (column > ABSENT).all()
    assert (column == [column.max(), column.min()] * 2).all()


@given(
    st.lists(st.sampled_from([b"a", b"b", b"new", b"", b"\xff", MISSING_TEXT.encode()]), min_size=1)
)
def test_categories(raw):
    field = Field("x", "category", ("b", "a", ""))
    for value, found in zip(raw, known(field, raw), strict=True):
        assert found == {
            None: value == b"\0",
            "a": value == b"a",
            "b": value == b"b",
            "": value == b"",
        }


def test_categories_that_are_ints():
    field = Field("x", "category", (7, -1))
    raw = np.array([7, MISSING_INT, 8, -1], np.int64)
    assert known(field, raw) == [
        {None: 0, 7: 1, -1: 0},
        {None: 1, 7: 0, -1: 0},
        {None: 0, 7: 0, -1: 0},
        {None: 0, 7: 0, -1: 1},
    ]


def test_texts():
    texts = ["Refund, please: a REFUND!", "snake_case2", "", MISSING_TEXT, "Füße", "refunds"]
    field = Field("x", "text", ("refund", "case2", "füße"))
    for text, found in zip(texts, known(field, [t.encode() for t in texts]), strict=True):
        words = set(re.split(r"[\W_]+", text.lower()))
        assert found == {
            None: text == MISSING_TEXT,
            **{word: word in words for word in ("refund", "case2", "füße")},
        }


def test_times():
    rng = np.random.default_rng(0)
    seconds = [*rng.integers(-(10**10), 10**10, 300).tolist(), 0, -1, DAY, 1e9 + 0.5]
    epoch = datetime.datetime(1970, 1, 1)
    field = Field("x", "time")
    for found, value in zip(known(field, np.array(seconds, float)), seconds, strict=True):
        time = epoch + datetime.timedelta(seconds=value)
        assert found == {
            "day": pytest.approx(value / DAY, rel=1e-6),
            "year": time.year,
            "month": time.month,
            "weekday": time.isoweekday(),
            "hour": time.hour,
        }
    (missing,) = known(field, np.array([np.nan]))
    assert list(missing.values()) == [pytest.approx(MISSING)] * 5


def test_times_beyond_the_calendar_are_there():
    matrix = Field("x", "time").matrix(np.array([1e300, -1e300, np.inf, -np.inf, 4e11]))
    assert np.isfinite(matrix).all()
    assert (matrix > ABSENT).all()
    day = matrix[:, 0]
    assert (day[[0, 2, 4]] == day[0]).all()
    assert (day[[1, 3]] == -day[0]).all()


def test_the_most_frequent_categories():
    raw = np.array([b"rare", b"often", b"\0", b"some", b"often", b"never"], object)
    field = field_of("x", "category", raw, np.array([1.0, 2, 99, 3, 2, 0]))
    assert field.values == ("often", "some", "rare")
    many = np.arange(300)
    weights = np.where(many % 3 == 0, 2.0, 1.0)
    field = field_of("x", "category", many, weights)
    assert len(field.values) == 100
    assert all(value % 3 == 0 for value in field.values)


def test_the_most_frequent_tokens():
    """A token is one of the field if it is in at least two texts."""
    raw = np.array([b"to be or not to be", b"be it", b"once", b"\0", b"twice"], object)
    field = field_of("x", "text", raw, np.array([1.0, 1, 1, 5, 2]))
    assert field.values == ("be", "twice")


@pytest.mark.parametrize(
    ("kind", "there", "missing"),
    [
        ("number", 1.5, np.nan),
        ("boolean", 0.0, np.nan),
        ("time", 1e9, np.nan),
        ("category", b"a", b"\0"),
        ("category", 3, MISSING_INT),
        ("text", b"a b", b"\0"),
    ],
)
def test_fields_that_are_sometimes_missing(kind, there, missing):
    """Rules say of no other that a condition holds for missing values, too."""
    raw = np.array([there, there, missing], object if isinstance(there, bytes) else None)
    for weights, expected in ((np.ones(3), True), (np.array([1.0, 1, 0]), False)):
        field = field_of("x", kind, raw, weights)
        assert field.is_optional is expected
        assert {column.is_optional for column in field.columns} == {expected}


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("number", np.float32(2.5), "2.5"),
        ("number", np.nan, "missing"),
        ("boolean", np.float32(1), "true"),
        ("boolean", np.float32(0), "false"),
        ("boolean", np.nan, "missing"),
        ("category", b"toys", "'toys'"),
        ("category", np.int64(3), "3"),
        ("category", np.int64(MISSING_INT), "missing"),
        ("text", b"\0", "missing"),
        ("text", b"x" * 100, "'" + "x" * 58 + "…"),
        ("time", 1.5 * DAY, "1970-01-02T12:00"),
        ("time", np.nan, "missing"),
    ],
)
def test_shown(kind, value, text):
    assert Field("x", kind).shown(value) == text


def test_every_kind_has_columns_and_numbers():
    raw = {"category": np.array([b"a"], object), "text": np.array([b"a b"], object)}
    for kind in KINDS:
        field = Field("x", kind)
        assert field.matrix(raw.get(kind, np.ones(1))).shape == (1, len(field.columns))
        assert {column.name for column in field.columns} == {"x"}
        assert not any(column.is_of_cluster for column in field.columns)


def test_no_values_at_all():
    for kind in KINDS:
        dtype = object if kind in ("category", "text") else float
        field = field_of("x", kind, np.empty(0, dtype), np.empty(0))
        assert field.matrix(np.empty(0, dtype)).shape == (0, len(field.columns))

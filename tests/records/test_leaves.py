"""Values as tensors, with values that stand for missing; more in test_reading.py."""

import datetime
import math

import numpy as np
import pyarrow as pa
import pytest

from keras_mmil._support.types import MISSING_INT, MISSING_TEXT
from keras_mmil.records.arrow import Part
from keras_mmil.records.fields import Field
from keras_mmil.records.leaves import DTYPES, UNKNOWN_INT, of_texts, read


def part(values, at=None, type_=None):
    return Part(pa.array(values, type_), None if at is None else np.array(at))


def values_of(kind, type_, found, n):
    x = read(Field("x", "x", kind, "", type_, 0.0, None), found, n)
    assert x.shape == (n,)
    assert kind == "category" or x.dtype == DTYPES[kind]
    return x.numpy().tolist()


@pytest.mark.parametrize(
    ("kind", "type_", "found", "expected"),
    [
        ("number", "number", {"number": part([1, 2])}, [1, 2]),
        (
            "number",
            "number",
            {"number": part([2.5], [3]), "boolean": part([True, False], [0, 2])},
            [1, None, 0, 2.5],
        ),
        (
            "boolean",
            "boolean",
            {"boolean": part([True], [1]), "number": part([0, 7, 1], [0, 2, 3])},
            [0, 1, None, 1],
        ),
        (
            "time",
            "time",
            {"time": part([5.5], [2]), "text": part(["1970-01-02", "soon"], [0, 1])},
            [86_400, None, 5.5],
        ),
        ("time", "text", {"text": part(["x", "1970-01-01T00:01"])}, [None, 60]),
        ("number", "number", {}, [None, None]),
        ("time", "time", {}, [None]),
    ],
)
def test_numbers_where_they_are(kind, type_, found, expected):
    values = values_of(kind, type_, found, len(expected))
    assert [None if math.isnan(x) else x for x in values] == expected


def test_categories_of_integers():
    found = {"number": part([3.0, 2.5, 1e30, -7.0], [1, 2, 3, 5])}
    unknown, missing = UNKNOWN_INT, MISSING_INT
    expected = [missing, 3, unknown, unknown, missing, -7]
    assert values_of("category", "number", found, 6) == expected
    assert values_of("category", "number", {"number": part([2**62 - 1, 2**62])}, 2) == [
        2**62 - 1,
        unknown,
    ]
    assert len({unknown, missing}) == 2


@pytest.mark.parametrize("kind", ["category", "text"])
@pytest.mark.parametrize("type_", [pa.string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_texts_where_they_are(kind, type_):
    missing = MISSING_TEXT if isinstance(MISSING_TEXT, bytes) else MISSING_TEXT.encode()
    long = pa.array([*"abcdefgh", "ä", "", "ä"]).cast(type_)
    found = {"text": Part(long[8:], np.array([4, 0, 2]))}  # few of many
    expected = [b"", missing, "ä".encode(), missing, "ä".encode()]
    assert values_of(kind, "text", found, 5) == expected
    assert values_of(kind, "text", {}, 2) == [missing] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01.5", 1.5),
        ("1970-01-01T01:00+01:00", 0),
        ("1969-12-31T23:59:59Z", -1),
        ("2024-02-29", datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC).timestamp()),
    ],
)
def test_times(text, expected):
    assert of_texts(pa.array([text]), "time").tolist() == [expected]


@pytest.mark.parametrize("text", ["", "soon", "2023-02-29", "1970-01-01T25:00", "12:30"])
def test_other_texts_are_no_times(text):
    assert math.isnan(of_texts(pa.array([text]), "time")[0])

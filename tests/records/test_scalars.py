"""Texts parsed as Python's own readers do; scalars as tensors, more in test_reading.py."""

import datetime
import math
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

from keras_mmil._support.types import MISSING_INT, MISSING_TEXT
from keras_mmil.records.arrow import Present
from keras_mmil.records.fields import Field
from keras_mmil.records.profiling import profile
from keras_mmil.records.scalars import DTYPES, FORMS, UNKNOWN_INT, is_code, parse, read
from keras_mmil.records.to_arrow import to_arrow

UTC = datetime.UTC
NUMBERS = ["0", "12.50", "-3", "+4", " 7 ", ".5", "5.", "1e3", "-1.5E-3", "9007199254740991"]
NO_NUMBERS = ["", "PL", "\\N", "007", "-01", "4,762", "1_000", "0x10", "nan", "inf", "1e39", "1 2"]
NO_NUMBERS += ["9007199254740992", "9007199254740993", "12.5.1", "1" * 65, "٣"]


def one(text, form):
    (value,) = parse(pa.array([text], pa.large_string()), form)
    return value


def test_numbers_are_those_of_python():
    found = parse(pa.array([*NUMBERS, *NO_NUMBERS], pa.large_string()), "number")
    assert found[: len(NUMBERS)].tolist() == [float(text) for text in NUMBERS]
    assert np.isnan(found[len(NUMBERS) :]).all()


def test_thousands_have_three_digits_each():
    values = [0, 5, 512, 4_762, 1_024_000, -12_345.25]
    texts = [f"{value:,}" for value in values]
    assert parse(pa.array(texts, pa.large_string()), "thousands").tolist() == values
    for text in ("4762", "4,76", "47,62", "0,250", "1,2345", ",123", "01,234", "1,234,5"):
        assert math.isnan(one(text, "thousands")), text


def test_booleans_in_any_case():
    of_words = dict.fromkeys(["true", "yes", "y", "t", "1"], 1)
    of_words |= dict.fromkeys(["false", "no", "n", "f", "0"], 0)
    for word, value in of_words.items():
        found = {one(text, "boolean") for text in (word, word.upper(), word.title(), f" {word} ")}
        assert found == {value}
    for text in ("", "on", "truth", "2", "null"):
        assert math.isnan(one(text, "boolean")), text


def test_times_of_iso_8601():
    for text in ("2020-07-31", "2020-07-31T05:06", "2020-07-31 05:06:07.5", "1969-12-31T23:00Z"):
        expected = datetime.datetime.fromisoformat(text)
        assert one(text, "time") == expected.replace(tzinfo=UTC).timestamp()
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    expected = datetime.datetime(2020, 7, 31, 5, tzinfo=zone).timestamp()
    assert one("2020-07-31T05:00+05:30", "time") == expected
    assert one("2020-07", "time") == datetime.datetime(2020, 7, 1, tzinfo=UTC).timestamp()
    odd = "", "2020-02-30", "2023-02-29", "20:15", "1970-01-01T25:00", "soon", "20200101"
    for text in ("2020", "2020-13", "2019-20", *odd):
        assert math.isnan(one(text, "time")), text


@pytest.mark.parametrize(
    ("form", "text", "written"),
    [
        ("month first", "12/31/2020", "%m/%d/%Y"),
        ("month first", "1/2/2020 13:05", "%m/%d/%Y %H:%M"),
        ("month first", "01/02/2020 12:05:09 AM", "%m/%d/%Y %I:%M:%S %p"),
        ("month first", "01/02/2020 11:59 pm", "%m/%d/%Y %I:%M %p"),
        ("day first", "31/12/2020", "%d/%m/%Y"),
        ("day first", "31.12.2020 7:08", "%d.%m.%Y %H:%M"),
    ],
)
def test_other_dates(form, text, written):
    expected = datetime.datetime.strptime(text, written).replace(tzinfo=UTC)
    assert one(text, form) == expected.timestamp()
    other = {"month first": "day first", "day first": "month first"}[form]
    for text in ("2/30/2020", "30/2/2020", "1/2/20", "1/2/2020 13:05 PM"):
        assert math.isnan(one(text, form)), text
    if "31" in text:
        assert math.isnan(one(text, other))


def test_codes_are_whole_numbers_that_nobody_counts_with():
    assert all(map(is_code, ["007", "01234", " 00 ", "9007199254740993", "1" * 40]))
    assert not any(map(is_code, ["0", "7", "0.5", "PL", "", "-", "4,762"]))


def test_nothing_is_read_of_no_texts():
    for form in FORMS:
        assert parse(pa.array([], pa.large_string()), form).tolist() == []


@pytest.fixture(params=["Asia/Kolkata", "America/New_York"])
def _zone(request, monkeypatch):
    """A zone of the machine's, and then the one that it was in."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.skipif(sys.platform == "win32", reason="a process keeps its zone there")
@pytest.mark.usefixtures("_zone")
def test_times_without_a_zone_are_utc_wherever_they_are_read():
    def read(form, *texts):
        return parse(pa.array(texts, pa.large_string()), form).tolist()

    def as_profile(value):
        return profile(to_arrow([value])).by_type["time"].largest

    july = datetime.datetime(2020, 7, 1, tzinfo=UTC).timestamp()
    minutes, days = 60, 86_400
    day = july, july + 306 * minutes, july, july + 300 * minutes
    texts = "2020-07-01", "2020-07-01T05:06", "2020-07", "2020-07-01T05:00Z"
    assert read("time", *texts) == [*day]
    assert read("month first", "7/1/2020 5:06", "7/31/2020") == [day[1], july + 30 * days]
    assert read("day first", "31/7/2020") == [july + 30 * days]
    assert as_profile(datetime.datetime(2020, 7, 1, 5, 6)) == day[1]
    assert as_profile(datetime.date(2020, 7, 1)) == july


def part(values, at=None, type_=None):
    return Present(pa.array(values, type_), None if at is None else np.array(at))


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
    found = {"text": Present(long[8:], np.array([4, 0, 2]))}  # few of many
    expected = [b"", missing, "ä".encode(), missing, "ä".encode()]
    assert values_of(kind, "text", found, 5) == expected
    assert values_of(kind, "text", {}, 2) == [missing] * 2

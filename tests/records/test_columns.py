"""Fields of records as they are, against the dicts that they are of."""

import datetime

import numpy as np
import pytest

from keras_mmil.records import Schema
from keras_mmil.records.columns import numbers_at, values_at
from keras_mmil.records.sources import whole

RECORDS = [
    {
        "id": f"x{i}",
        "same": 1,
        "at": {"city": "ab"[i % 2], "when": f"2024-01-{i + 1:02d}"} if i % 4 else None,
        "mixed": i if i % 2 else "text",
        "bags": [{"n": i}],
        "a.b": i / 2 if i % 3 else None,
        "big": 2**53 - i,
        "wide": 2**64 - 1 - i % 3,
        "late": ["yes", "No", "?"][i % 3],
        "price": "PL" if i == 5 else f"{i}.25",
        "paid": "NA" if i == 7 else i,
    }
    for i in range(12)
]
ARRAY = whole(RECORDS)
SCHEMA = Schema.infer(ARRAY)


def found(path):
    """The values by the numbers of their records."""
    part = values_at(SCHEMA, ARRAY, path)
    at = range(len(RECORDS)) if part.at is None else part.at.tolist()
    return dict(zip(at, part.values.to_pylist(), strict=True))


def expected(function):
    values = {i: function(record) for i, record in enumerate(RECORDS)}
    return {i: value for i, value in values.items() if value is not None}


def test_values():
    assert found("id") == expected(lambda r: r["id"])  # which is not read
    assert found("same") == expected(lambda r: 1)
    assert found("at.city") == expected(lambda r: r["at"] and r["at"]["city"])
    assert found("mixed<number>") == expected(
        lambda r: r["mixed"] if r["mixed"] != "text" else None
    )
    assert found('"a.b"') == expected(lambda r: r["a.b"])
    assert found("big") == expected(lambda r: r["big"])  # which no float32 holds


def test_values_are_as_they_are_read():
    assert SCHEMA["paid"].kind == "number"
    assert found("paid") == {i: i for i in range(12) if i != 7}
    assert found("late") == {i: i % 3 == 0 for i in range(12) if i % 3 < 2}
    assert found("wide") == {i: str(2**64 - 1 - i % 3) for i in range(12)}
    SCHEMA["price"] = "number"
    assert found("price") == {i: i + 0.25 for i in range(12) if i != 5}
    assert np.isnan(numbers_at(SCHEMA, ARRAY, "price")).tolist() == [i == 5 for i in range(12)]


def test_numbers_and_times():
    days = numbers_at(SCHEMA, ARRAY, "at.when")
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC).timestamp()
    for i, day in enumerate(days):
        assert day == start + 86400 * i if i % 4 else np.isnan(day)
    assert numbers_at(SCHEMA, ARRAY, "big").tolist() == [2.0**53 - i for i in range(12)]
    halves = numbers_at(SCHEMA, ARRAY, '"a.b"')
    np.testing.assert_array_equal(halves, [i / 2 if i % 3 else np.nan for i in range(12)])


def test_records_that_are_taken_apart():
    some = ARRAY.take([1, 2])
    assert values_at(SCHEMA, some, "id").values.to_pylist() == ["x1", "x2"]
    assert len(values_at(SCHEMA, whole([{"other": 1}] * 3), "id").values) == 0


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("no", KeyError, "Received: 'no'"),
        ("bags", ValueError, "a field with values. Received: 'bags', which is bag"),
        ("bags.n", ValueError, "in no bag. Received: 'bags.n'"),
        ("at", ValueError, "'at', which is record"),
    ],
)
def test_what_is_no_field(path, error, message):
    with pytest.raises(error, match=message):
        values_at(SCHEMA, ARRAY, path)


def test_what_is_no_number():
    with pytest.raises(ValueError, match=r"times, or numbers\. Received: 'at\.city', which is cat"):
        numbers_at(SCHEMA, ARRAY, "at.city")

"""What values are taken for."""

import datetime
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from keras_mmil.records import Schema
from keras_mmil.records.kinds import SCALARS

WORDS = ["red", "green", "blue"]
DAYS = [f"2020-01-{i:02}" for i in range(1, 31)]
R = range(99)


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("x", [1.5, 2, 3], "number"),
        ("x", [1, 2, 3], "number"),
        ("x", [0, 1, 1], "boolean"),
        ("x", [0.0, 1.0], "boolean"),
        ("x", [True, False], "boolean"),
        ("x", [True, True], "constant"),
        ("x", [5, 5, 5], "constant"),
        ("x", [5, None, 5], "number"),
        ("x", ["a", "a"], "constant"),
        ("x", ["a", None], "category"),
        ("x", [None, None], "empty"),
        ("x", [[], []], "empty"),
        ("x", [[], [1]], "bag"),
        ("x", WORDS * 3, "category"),
        ("x", ["a b c", "d e f", "g h i"], "text"),
        ("x", [f"name{i}" for i in range(200)], "identifier"),
        ("x", [f"name{i}" for i in range(50)], "text"),
        ("x", [f"name{i}" for i in range(200)] + [None], "text"),
        ("id", [1, 2, 3], "identifier"),
        ("customer_id", [1, 2, 3], "identifier"),
        ("customerId", ["a", "b", "c"], "identifier"),
        ("paid", [3, 4, 5], "number"),
        ("id", [1, 2, 2], "number"),
        ("id", [1.5, 2.5], "number"),
        ("atom_type", [3, 7, 22], "category"),
        ("zip", [2**60, 5, 7], "category"),
        ("zip", [1.5, 5, 7], "number"),
        ("zipCode", [3, 7, 22], "category"),
        ("ZIP_CODE", [3, 7, 22], "category"),
        ("atom type", [3, 7, 22], "category"),
        ("class", [3, 7, 22], "category"),
        ("decode", [3, 7, 22], "number"),
        ("prototype", [3, 7, 22], "number"),
        ("sizeof_code", [3, 7, 22], "number"),
        ("SizeOfCode", [3, 7, 22], "number"),
        ("n_class", [3, 7, 22], "number"),
        ("customer_id", [i // 2 for i in range(676)], "identifier"),
        ("customer_id", [i // 2 or None for i in range(676)], "identifier"),
        ("customerId", [f"c{i // 2}" for i in range(676)], "identifier"),
        ("uuid", [i // 2 for i in range(30)], "identifier"),
        ("customer_id", [i % 60 for i in range(600)], "number"),  # each of them often
        ("shop_id", [f"s{i % 40}" for i in range(400)], "category"),
        ("bid", [i // 2 for i in range(676)], "number"),
        ("age", [i // 2 for i in range(676)], "number"),
        ("price_id", [i / 2 for i in range(676)], "number"),
        ("t", DAYS, "time"),
        ("t", ["2020-01-01T10:00", "2020-01-01 10:00:00.5Z", "2020-01-01T10:00:00+02:00"], "time"),
        ("t", [*DAYS, "soon"], "text"),
        ("t", ["20:15", "21:15", "22:30"], "text"),
        ("t", [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)], "time"),
        ("x", ["x" * 300, "y" * 300] * 5, "text"),
        ("x", [f"{a} {b} c d" for a in range(20) for b in range(20)] * 2, "text"),
    ],
)
def test_kinds(name, values, kind):
    (field, *_) = Schema.infer([{name: value} for value in values])
    assert (field.kind, field.name) == (kind, name)
    assert field.why
    others = [value for value in values if value is not None]
    assert field.share_missing == pytest.approx(1 - len(others) / len(values))


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ([1, 2], ["number", "category", "dropped"]),
        ([0, 1], ["number", "category", "boolean", "dropped"]),
        ([0.5, 1], ["number", "dropped"]),
        ([True, False], ["boolean", "dropped"]),
        (["a", "b"], ["text", "category", "dropped"]),
        (DAYS, ["text", "category", "time", "dropped"]),
        (["x" * 300, "b"], ["text", "dropped"]),
        ([[1], [2]], ["number", "category", "bag", "dropped"]),
        ([{"a": 1}, {}], ["record", "bag", "dropped"]),
    ],
)
def test_kinds_that_may_be_chosen(values, kinds):
    allowed = []
    for kind in (*SCALARS, "record", "bag", "dropped", "constant"):
        schema = Schema.infer([{"x": value} for value in values])
        try:
            schema["x"] = kind
        except ValueError:
            continue
        allowed.append(kind)
        schema.read([{"x": value} for value in values])
    assert sorted(allowed) == sorted(kinds)


@pytest.mark.parametrize(
    ("records", "kind"),
    [
        ([{f"k{i}": i for i in range(12)}] * 2, "record"),  # numbered, and all there
        ([{f"k{i}": 1} for i in range(9)], "bag"),
        ([{f"k{i}": 1} for i in range(8)], "record"),  # few
        ([dict.fromkeys("abcdefghij"[i % 2 :: 2], 1) for i in range(100)], "record"),  # a half
        ([dict.fromkeys("abcdefghij"[i % 2 :: 2], 1) for i in range(100)] + [{}], "bag"),
        ([{"id": 1, f"k{i % 20}": 1, f"n{i % 5}": 2} for i in range(100)], "record"),
        ([{"name": 1} | {f"k{i % 20}": 1} for i in range(100)], "record"),
        ([{"name" if i % 20 else "x": 1} | {f"k{i % 20}": 1} for i in range(100)], "record"),
        ([{f"k{i % 20}": 1, "id" if i % 3 == 0 else "x": 1} for i in R], "bag"),
        ([{f"k{j}": [j, "x"][(i // 10) % 2] for j in range(i % 5, 20, 5)} for i in R], "bag"),
        ([{f"k{j}": [j, "x"][j % 2] for j in range(i % 11, 88, 11)} for i in R], "bag"),
        ([{f"k{j}": [j, "x"][j % 2] for j in range(i % 9, 90, 9)} for i in R], "record"),
        ([{f"k{j}": [j, "x", 1 > 0][j % 3] for j in range(i % 11, 88, 11)} for i in R], "record"),
        (
            [{f"k{j}": [j, "x"][j % 2] for j in range(i % 20, 80, 20)} | {"type": "x"} for i in R],
            "record",
        ),
        ([{name: 1} for name in "abcdefghijkl"], "bag"),  # alike, and each seldom there
        ([{name: [1, "x"][i % 2]} for i, name in enumerate("abcdefghijkl")], "bag"),  # once each
    ],
)
def test_objects_whose_keys_are_data(records, kind):
    schema = Schema.infer([{"x": record} for record in records])
    assert schema["x"].kind == kind


WIDE = [2**64 - 1 - i for i in range(40)]  # all equal as floats


def stored(values, source, tmp_path):
    """Values of `x` as a source of records."""
    if source == "objects":
        return [{"x": value} for value in values]
    if source == "arrow":
        return pa.table({"x": pa.array(values, pa.uint64())})
    if source == "decimals":
        return pa.table({"x": pa.array(map(Decimal, values), pa.decimal128(38, 2))})
    path = tmp_path / f"x.{source}"
    lines = map(str, values) if source == "csv" else (json.dumps({"x": x}) for x in values)
    path.write_text("\n".join(["x"] * (source == "csv") + [*lines]) + "\n")
    return str(path)


@pytest.mark.parametrize("source", ["objects", "arrow", "decimals", "csv", "jsonl"])
def test_integers_that_floats_do_not_tell_apart_are_no_numbers(source, tmp_path):
    (part,) = Schema.infer(stored(WIDE, source, tmp_path))
    assert (part.kind, part.n_distinct) == ("identifier", 40)
    again = [WIDE[i] for i in (0, 1, 2, 0, 1, 2, 0)]
    schema = Schema.infer(stored(again, source, tmp_path))
    assert (schema["x"].kind, schema["x"].n_distinct) == ("category", 3)
    assert "above 2^53" in schema["x"].why
    new = stored([*again, WIDE[9], 5], source, tmp_path)
    x = schema.read(new)["x"].numpy().tolist()
    assert x == [str(value).encode() for value in [*again, WIDE[9], 5]]
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema
    assert schema.classes("x") == tuple(sorted(map(str, set(again))))
    _, y = schema.read(stored(again, source, tmp_path), target="x")
    assert y.tolist() == [2, 1, 0, 2, 1, 0, 2]
    below = [2**60 + i % 3 for i in range(9)]
    schema = Schema.infer(stored(below, source, tmp_path))
    assert schema["x"].kind == "category"
    assert schema.read(stored(below, source, tmp_path))["x"].numpy().tolist() == below


def test_digits_that_are_lost_are_told():
    few = [*range(50), 2**53 + 1]
    (part,) = Schema.infer([{"x": value} for value in few])
    assert (part.kind, part.why) == ("number", "integers; 1 of 51 have more digits than floats")
    long = [Decimal(f"1234567890123456789.{i:02}") for i in range(20)]
    schema = Schema.infer([{"x": value} for value in long])
    assert schema["x"].kind == "number"
    assert schema["x"].why == "numbers; 20 of 20 have more digits than floats"
    short = [Decimal(f"{i}.25") for i in range(20)]
    (part,) = Schema.infer(pa.table({"x": pa.array(short, pa.decimal128(38, 18))}))
    assert (part.kind, part.why) == ("number", "numbers")
    schema = Schema.infer([{"x": value} for value in (10**45, 1.5, -(10**45))])
    assert np.isnan(schema.read([{"x": 10**45}])["x"]).all()  # infinite as float32

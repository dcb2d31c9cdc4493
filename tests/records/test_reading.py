"""Records as tensors and as columns, against loops over the records."""

import datetime
import math
import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st
from nested_records import draw_records, draw_values, is_missing, type_of

from keras_mmil.records import Schema, scalars
from keras_mmil.records.reading import Reader, numbers_at, values_at
from keras_mmil.records.sources import Batch, read_all
from keras_mmil.records.to_arrow import to_arrow

MISSING = {"number": math.nan, "boolean": math.nan, "time": math.nan, "text": scalars.MISSING_TEXT}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.sampled_from([0.5, -0.0, math.nan, math.inf, 10**400])
    | st.sampled_from(["", "a", "b c", "2020-01-31", "ü", "\0x"])
)
KEYS = st.sampled_from(["a", "b", "key", "", 'a."b', *(f"n{i}" for i in range(10))])
VALUES = draw_values(SCALARS, KEYS)
RECORDS = draw_records(VALUES, KEYS)


def read_by_loop(fields, record):
    """Values by path of a record, nested as its bags are."""
    found = {}
    for field in fields:
        if not field.is_left_out:
            value = record.get(field.name) if isinstance(record, dict) else None
            others = {each.type for each in fields if each.name == field.name} - {field.type}
            found |= value_by_loop(field, value, others)
    return found


def value_by_loop(field, value, others):
    if field.kind == "record":
        return read_by_loop(field.parts, value if type_of(value) == "record" else None)
    if field.kind == "bag":
        members = []
        if field.is_map and type_of(value) == "record":
            members = [(k, x) for k, x in sorted(value.items()) if not is_missing(x)]
        elif not field.is_map and value is not None and type_of(value) == "bag":
            members = [(None, x) for x in value]
        return members_by_loop(field, members)
    accepted = {field.type} | (scalars.ACCEPTED.get(field.kind, set()) - others)
    if is_missing(value) or type_of(value) not in accepted:
        value = None
    return {field.path: leaf_by_loop(field, value)}


def members_by_loop(field, members):
    parts = [part for part in field.parts if not part.is_left_out]
    found = {path: [] for part in parts for path in paths_in(part)}
    if not found:  # only its size
        return {field.path: [1.0] * len(members)}
    others = {part.type for part in field.parts if not part.name}
    for key, member in members:
        for part in parts:
            value = key if part.name else member
            read = value_by_loop(part, value, set() if part.name else others - {part.type})
            for path, each in read.items():
                found[path].append(each)
    return found


def paths_in(field):
    if field.is_left_out:
        return []
    if field.kind not in ("record", "bag"):
        return [field.path]
    paths = [path for part in field.parts for path in paths_in(part)]
    return [field.path] if field.kind == "bag" and not paths else paths


def leaf_by_loop(field, value):
    if field.kind == "category" and field.type == "number":
        if value is None:
            return scalars.MISSING_INT
        return int(value) if value == int(value) else scalars.UNKNOWN_INT
    if field.kind == "category" or field.kind == "text":
        return (scalars.MISSING_TEXT if value is None else value).encode()
    if field.kind == "time" and isinstance(value, str):
        try:
            time = datetime.datetime.fromisoformat(value)
        except ValueError:
            return math.nan
        return time.replace(tzinfo=time.tzinfo or datetime.UTC).timestamp()
    if isinstance(value, str) or (field.kind == "boolean" and value not in (0, 1)):
        return math.nan  # none of the texts here is a number, or a boolean
    return math.nan if value is None else float(np.float32(value))


def as_list(x):
    return x.to_list() if isinstance(x, tf.RaggedTensor) else x.numpy().tolist()


def assert_equal(found, expected):
    assert list(found) == list(expected)
    for path in expected:
        assert same(as_list(found[path]), expected[path]), path


def same(one, two):
    if isinstance(one, list):
        return len(one) == len(two) and all(map(same, one, two))
    return one == two or (one != one and two != two)


def expected_of(schema, records):
    rows = [read_by_loop(schema.root.parts, record) for record in records]
    return {path: [row[path] for row in rows] for path in rows[0]}


@pytest.mark.slow
@given(RECORDS, st.data())
def test_records_are_read_as_by_a_loop(records, data):
    schema = Schema.infer(records)
    some = data.draw(st.lists(st.sampled_from(records), min_size=1, max_size=4))
    assert_equal(schema.read(records), expected_of(schema, records))
    assert_equal(schema.read(some), expected_of(schema, some))


@pytest.mark.slow
@given(RECORDS, RECORDS)
@example([{"key": False}, {"key": []}], [{"key": 0.5}])  # one of two types is left
def test_other_records_are_read_or_refused_with_their_place(records, others):
    schema = Schema.infer(records)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_equal(schema.read(others), expected_of(schema, others))
        try:
            found = schema.read(others, unseen="error")
        except ValueError as error:
            message = str(error)
            assert any(repr(path) in message for f in schema for path in (f.path, f.chosen_at)) or (
                any(repr(f.path.rpartition("<")[0]) in message for f in schema)
            )
            number = int(message.rsplit("in record ", 1)[1])
            with pytest.raises(ValueError, match="in record 0"):
                schema.read([others[number]], unseen="error")
            return
    assert_equal(found, expected_of(schema, others))


@pytest.mark.slow
@given(RECORDS, st.dictionaries(st.sampled_from(["new", "n_ew"]), VALUES, min_size=1))
def test_unknown_fields_change_nothing(records, new):
    schema = Schema.infer(records)
    found, expected = schema.read([record | new for record in records]), schema.read(records)
    assert_equal(found, {path: as_list(x) for path, x in expected.items()})


@pytest.mark.slow
@given(RECORDS, RECORDS)
def test_batches_do_not_matter(one, two):
    records = one + two
    schema = Schema.infer(records)
    reader = Reader(schema.root)
    reader.add(Batch(range(len(one)), to_arrow(one)))
    reader.add(Batch(range(len(one), len(records)), to_arrow(two)))
    expected = schema.read(records)
    assert_equal(reader.result(), {path: as_list(x) for path, x in expected.items()})


TYPED = {
    "number": [1.5, 2, None],
    "boolean": [True, False, None],
    "category": ["a", "b", "a", "b", None],
    "code": [3, 4, 3, None],
    "text": ["a b c d", "e f g h"],
    "time": ["2020-01-01", "2021-06-01T12:30:00+02:00", None],
}


@pytest.mark.parametrize("name", TYPED)
def test_dtypes_of_kinds(name):
    schema = Schema.infer([{name: value} for value in TYPED[name]])
    kind = "category" if name == "code" else name
    assert schema[name].kind == kind
    x = schema.read([{name: value} for value in [*TYPED[name], None]])[name]
    dtype = {"category": "string", "code": "int64"}.get(name) or scalars.DTYPES[kind]
    assert x.dtype == dtype
    missing = {"category": b"\0", "code": scalars.MISSING_INT, "text": b"\0"}.get(name, math.nan)
    assert same(x.numpy()[-1], missing)


def test_times_are_seconds():
    schema = Schema.infer([{"t": text} for text in TYPED["time"]])
    with pytest.warns(
        UserWarning, match="'t' is time in the schema; 1 of 3 values there are texts "
    ):
        x = schema.read([{"t": text} for text in [*TYPED["time"], "2020-02-30"]])
    seconds = x["t"].numpy()
    with_zone = datetime.datetime(2021, 6, 1, 10, 30, tzinfo=datetime.UTC)
    assert seconds[:2].tolist() == [18262 * 86400, with_zone.timestamp()]
    assert np.isnan(seconds[2:]).all()


def test_integers_of_categories():
    schema = Schema.infer([{"code": i % 3} for i in range(9)])
    values = [1, 2.0, 0.5, None, 2**60, -(2**63), 1e300]
    x = schema.read([{"code": value} for value in values])["code"].numpy()
    unknown, missing = scalars.UNKNOWN_INT, scalars.MISSING_INT
    # 10³⁰⁰ is infinite as float32, and so missing.
    assert x.tolist() == [1, 2, unknown, missing, 2**60, unknown, missing]


def test_values_of_other_types_are_missing_with_a_warning():
    records = [{"orders": [{"price": 1.5}, {"price": 2.5}]}]
    schema = Schema.infer(records)
    with pytest.warns(UserWarning, match=r"^'orders.price' is number in the schema; 3 of 4 val"):
        schema.read(
            [
                {"orders": [{"price": "a"}, {"price": 3}, {"price": "b"}]},
                {"orders": [{"price": "c"}, {"price": None}]},
            ]
        )


@pytest.mark.parametrize(
    ("kind", "good", "odd", "message"),
    [
        ("boolean", [True, False], [7, 0.5, -1, 2], r"'x' is boolean .*; 4 of 6 .* numbers other"),
        (
            "time",
            ["2024-01-01", "2024-01-02T03:04"],
            ["later", "soon"],
            "'x' is time .*; 2 of 4 values there are texts that are no times",
        ),
    ],
)
def test_values_that_a_kind_does_not_take_are_missing_with_a_warning(kind, good, odd, message):
    schema = Schema.infer([{"x": value} for value in good])
    assert schema["x"].kind == kind
    records = [{"x": value} for value in [None, *good, None]]
    assert np.isnan(schema.read(records)["x"]).tolist() == [True, False, False, True]
    with pytest.warns(UserWarning, match=message):
        x = schema.read([*records, *({"x": value} for value in odd)])["x"].numpy()
    assert np.isnan(x).tolist() == [True, False, False, True] + [True] * len(odd)
    if kind == "boolean":
        assert schema.read([{"x": 1}, {"x": 0.0}])["x"].numpy().tolist() == [1, 0]


NESTED = [{"a": [{"b": [{"c": 1.5}]}, {"b": []}]}, {"a": []}, {"a": [{"b": [{"c": 2}]}]}]


@pytest.mark.parametrize(
    ("record", "read_as", "expected", "found"),
    [
        ({"a": 5}, {}, "bag at 'a'", "number"),
        ({"a": {"b": 5}}, {}, "bag at 'a'", "record"),
        ({"a": [5]}, {"a": [None]}, "record at 'a[]'", "number"),
        ({"a": [{}, {"b": "x"}]}, {"a": [{}, {}]}, "bag at 'a.b'", "text"),
        (
            {"a": [{"b": [{"c": 1}, {"c": [1]}]}]},
            {"a": [{"b": [{"c": 1}, {}]}]},
            "number at 'a.b.c'",
            "bag",
        ),
        (
            {"a": [{"b": [{"c": 1}, {"c": True}]}]},  # which is no 1
            {"a": [{"b": [{"c": 1}, {}]}]},
            "number at 'a.b.c'",
            "boolean",
        ),
    ],
)
@pytest.mark.parametrize("n_before", [0, 3, 10_002])
def test_a_structure_that_was_not_seen_is_missing_or_an_error(
    record, read_as, expected, found, n_before
):
    schema = Schema.infer(NESTED)
    before = (NESTED * 4000)[:n_before]
    records = [*before, record, *NESTED]
    kind, place = expected.split(" at ")
    place = re.escape(place)
    message = f"^{place} is {kind} in the schema; 1 of [0-9,]+ values there are {found}s, and are"
    with pytest.warns(UserWarning, match=message) as seen:
        x = schema.read(records)
    assert len(seen) == 1
    read = schema.read([*before, read_as, *NESTED])
    for one, two in zip(x["a.b.c"].nested_row_splits, read["a.b.c"].nested_row_splits, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(x["a.b.c"].flat_values, read["a.b.c"].flat_values)
    message = f"Expected {expected}. Received: a {found} there, in record {n_before}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        schema.read(records, unseen="error")


def test_unseen_is_one_of_two():
    schema = Schema.infer(NESTED)
    for call in (schema.read, lambda *a, **k: schema.dataset(*a, 2, **k)):
        with pytest.raises(ValueError, match=r"'missing' or 'error'\. Received: unseen='drop'"):
            call(NESTED, unseen="drop")


SHOP = [
    {"age": i, "in": {"city": "ab"[i % 2], "note": "x" if i % 4 else None}, "x": [{"p": i / 2}]}
    for i in range(400)
]


def test_parts_that_are_nowhere_are_named(tmp_path):
    schema = Schema.infer([*SHOP, {}])
    some = SHOP[:60]
    renamed = [{**r, "in": {"town": r["in"]["city"], "note": "x"}} for r in some]
    message = r"^All 60 records have nothing at 'in.city' \(expected in 99.* %\)\. [^']*$"
    with pytest.warns(UserWarning, match=message) as seen:
        schema.read(renamed)
    assert len(seen) == 1
    message = r"^All 60 records have nothing at 'in' \([^,]*\), 'x' [^']*$"
    with pytest.warns(UserWarning, match=message):  # the outermost parts alone
        schema.read([{"age": 3}] * 60)
    with pytest.warns(UserWarning, match="^The record has nothing at 'age'"):  # never missing
        schema.read([{"in": {"city": "a"}, "x": [{"p": 1}]}])
    empty_inside = [{"age": 3, "in": {}, "x": [{}, None]}]
    with pytest.warns(UserWarning, match=r"nothing at 'in\.city' \(.*\), 'x\.p' \([^,]*\)\. "):
        schema.read(empty_inside)
    # Nothing is said of what may well be so by chance, is in some records, or is not to be read.
    schema.read([{"age": 3, "in": {"city": "a"}, "x": []}])
    schema.read([*renamed, SHOP[1]])
    schema.read(renamed, without="in.city")

    def in_batches():
        assert len(list(schema.dataset(renamed, 7))) == 9
        assert len(list(schema.read_in_turn([renamed[:30], renamed[30:]]))) == 2

    with pytest.warns(UserWarning, match="^All 60 records") as seen:
        in_batches()
    shown = [str(each.message)[:40] for each in seen if "records" in str(each.message)]
    assert shown == ["All 60 records have nothing at 'in.city'"] * 2
    list(schema.dataset([*renamed, SHOP[1]], 7))
    path = tmp_path / "renamed.parquet"
    pq.write_table(pa.Table.from_pylist([{**r, "in": {"town": "a"}} for r in renamed]), path)
    with pytest.warns(UserWarning, match="^All 60 records have nothing at 'in.city'"):
        schema.read(path)


def test_counts_are_of_all_batches(tmp_path):
    """Also of columns of Parquet with other fields than the schema's in them."""
    records = [{"t": ["a"] if i % 10 == 9 else "b", "o": [{"p": 1.5}]} for i in range(100)]
    schema = Schema.infer([{"t": "ab"[i % 2], "o": [{"p": i / 2}]} for i in range(100)])
    message = "'t' is category in the schema; 10 of 100 values there are bags, and are"
    with pytest.warns(UserWarning, match=message) as seen:
        batches = list(schema.dataset(records, 8, shuffle=20, seed=1))
    assert sum("are read as missing" in str(each.message) for each in seen) == 1
    found = np.concatenate([batch["t"].numpy() for batch in batches])
    assert sorted(found.tolist()) == [b"\0"] * 10 + [b"b"] * 90
    with pytest.raises(tf.errors.InvalidArgumentError, match="a bag there, in record 9"):
        list(schema.dataset(records, 8, unseen="error"))
    with pytest.warns(UserWarning, match="'o' is bag in the schema; 1 of 1 values there are texts"):
        schema.read(pa.table({"t": ["a"], "o": [b"\xff"]}))  # no text, but not to be read either
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"t": [{"q": 1}] * 3, "o": [{"q": 1}, None, {"q": 2}]}), path)
    with pytest.warns(UserWarning, match="'[to]' is (category|bag) in the schema") as seen:
        x = schema.read(path)
    assert [str(each.message).partition(" values")[0] for each in seen] == [
        "'t' is category in the schema; 3 of 3",
        "'o' is bag in the schema; 2 of 2",
    ]
    assert (x["t"].numpy().tolist(), x["o.p"].to_list()) == ([b"\0"] * 3, [[], [], []])


def test_bags_share_their_row_splits():
    x = Schema.infer([{"a": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}]).read([{"a": [{}]}])
    assert x["a.x"].row_splits is x["a.y"].row_splits


def test_bags_of_which_no_part_is_read_have_their_size():
    records = [{"a": [{}, {}], "b": [[1], []]}, {"a": None, "b": [[1, 1]]}, {"a": [{"x": 1}]}]
    schema = Schema.infer(records)
    schema.drop("a.x")
    x = schema.read(records)
    assert {path: each.to_list() for path, each in x.items()} == {
        "a": [[1.0, 1.0], [], [1.0]],
        "b[]": [[[1.0], []], [[1.0, 1.0]], []],
    }
    assert {path: each.dtype for path, each in x.items()} == {"a": tf.float32, "b[]": tf.float32}
    (batch,) = schema.dataset(records, batch_size=3)
    assert batch["a"].to_list() == x["a"].to_list()
    schema.drop("a")
    assert "a" not in schema.read(records)


def test_what_is_not_to_be_read():
    records = [{"a": 1.5, "b": [{"c": True}, {"c": False}], "d": "x y"}, {"a": 2, "d": "y z"}]
    schema = Schema.infer(records)
    assert list(schema.read(records, without="a")) == ["b.c", "d"]
    assert list(schema.read(records, without=("b", "d"))) == ["a"]
    assert list(schema.read(records)) == ["a", "b.c", "d"]
    (batch,) = schema.dataset(records, 2, without=["a", "b.c"])
    assert list(batch) == ["b", "d"]
    with pytest.raises(KeyError, match="Received: 'e'"):
        schema.read(records, without="e")


def test_no_records():
    schema = Schema.infer([{"a": [{"x": 1.5}, {"x": 2}], "b": "u v w"}, {"b": "x y z"}])
    x = schema.read([])
    assert {path: (t.shape.as_list(), t.dtype.name) for path, t in x.items()} == {
        "a.x": ([0, None], "float32"),
        "b": ([0], "string"),
    }


ROWS = [
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
ARRAY = read_all(ROWS)
SCHEMA = Schema.infer(ARRAY)


def values_by_row(path):
    """The values by the numbers of their records."""
    part = values_at(SCHEMA, ARRAY, path)
    at = range(len(ROWS)) if part.at is None else part.at.tolist()
    return dict(zip(at, part.values.to_pylist(), strict=True))


def by_loop(function):
    values = {i: function(record) for i, record in enumerate(ROWS)}
    return {i: value for i, value in values.items() if value is not None}


def test_values():
    assert values_by_row("id") == by_loop(lambda r: r["id"])  # which is not read
    assert values_by_row("same") == by_loop(lambda r: 1)
    assert values_by_row("at.city") == by_loop(lambda r: r["at"] and r["at"]["city"])
    assert values_by_row("mixed<number>") == by_loop(
        lambda r: r["mixed"] if r["mixed"] != "text" else None
    )
    assert values_by_row('"a.b"') == by_loop(lambda r: r["a.b"])
    assert values_by_row("big") == by_loop(lambda r: r["big"])  # which no float32 holds


def test_values_are_as_they_are_read():
    assert SCHEMA["paid"].kind == "number"
    assert values_by_row("paid") == {i: i for i in range(12) if i != 7}
    assert values_by_row("late") == {i: i % 3 == 0 for i in range(12) if i % 3 < 2}
    assert values_by_row("wide") == {i: str(2**64 - 1 - i % 3) for i in range(12)}
    SCHEMA["price"] = "number"
    assert values_by_row("price") == {i: i + 0.25 for i in range(12) if i != 5}
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
    assert len(values_at(SCHEMA, read_all([{"other": 1}] * 3), "id").values) == 0


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
    with pytest.raises(ValueError, match=r"times or numbers\. Received: 'at\.city', which is cat"):
        numbers_at(SCHEMA, ARRAY, "at.city")

"""Records from data frames, arrays and objects, against the same records as dicts."""

import collections
import dataclasses
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from keras_mmil.records import Schema, sources

RECORDS = [
    {"n": i, "t": "ab"[i % 2], "tags": ["p", "q"][: i % 3], "in": {"u": f"k{i}", "v": [f"{i}"]}}
    for i in range(6)
]


def whole(source):
    return [record for batch in sources.batches(source) for record in batch.records.to_pylist()]


def check(source, expected=RECORDS):
    """Read alike, and all that schemas do with it."""
    assert whole(source) == expected
    schema, read = Schema.infer(source), Schema.infer(expected)
    assert [(f.path, f.kind, f.examples) for f in schema] == [
        (f.path, f.kind, f.examples) for f in read
    ]
    x, y = schema.read(source), read.read(expected)
    assert {name: str(part) for name, part in x.items()} == {
        name: str(part) for name, part in y.items()
    }


class Stream:
    """What has only Arrow's interface, and its newest layouts, as Polars does."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_layouts_that_few_functions_know():
    view, lists = pa.string_view(), pa.large_list(pa.string_view())
    types = {
        "n": pa.int64(),
        "t": view,
        "tags": lists,
        "in": pa.struct([("u", view), ("v", lists)]),
    }
    plain = pa.Table.from_pylist(RECORDS)
    columns = {name: plain[name].combine_chunks().cast(type_) for name, type_ in types.items()}
    texts = plain["t"].combine_chunks().dictionary_encode()
    columns["t"] = texts.cast(pa.dictionary(pa.uint32(), view))
    table = pa.table(columns)
    check(Stream(table))
    check(table)
    check(table.to_batches()[0])
    check(table.to_struct_array().combine_chunks())


def test_polars():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(RECORDS)
    check(frame)
    check(frame.lazy())
    check(frame.to_struct("s"))
    few = frame.with_columns(
        pl.col("t").cast(pl.Enum(["a", "b"])), pl.col("n").cast(pl.Decimal(10, 2))
    )
    assert Schema.infer(few)["t"].seen.counts == {"a": 3, "b": 3}
    categorical = frame.with_columns(
        pl.col("t").cast(pl.Categorical), pl.struct(pl.col("t").cast(pl.Categorical)).alias("c")
    )
    assert Schema.infer(categorical)["c.t"].seen.counts == {"a": 3, "b": 3}
    for type_ in (pl.Categorical, pl.Enum(["a", "b"])):  # inside lists and structs
        inside = pl.DataFrame(
            {"tags": [["a", "b"], None, ["b"]], "in": [{"o": [{"t": "a"}]}, {"o": []}, None]},
            schema={
                "tags": pl.List(type_),
                "in": pl.Struct({"o": pl.List(pl.Struct({"t": type_}))}),
            },
        )
        expected = [
            {"tags": ["a", "b"], "in": {"o": [{"t": "a"}]}},
            {"tags": None, "in": {"o": []}},
            {"tags": ["b"], "in": None},
        ]
        check(inside, expected)
    with pytest.raises(TypeError, match=r"Expected records\. Received: a Series of others"):
        whole(frame["n"])


@dataclasses.dataclass
class Inner:
    u: str
    v: list


@dataclasses.dataclass
class Record:
    n: int
    t: str
    tags: list
    inner: Inner


Named = collections.namedtuple("Named", ["n", "t", "tags", "inner"])


def test_objects():
    renamed = [{"inner" if k == "in" else k: v for k, v in x.items()} for x in RECORDS]
    check([Record(**{**x, "inner": Inner(**x["inner"])}) for x in renamed], renamed)
    check([Named(**{**x, "inner": Inner(**x["inner"])}) for x in renamed], renamed)
    check(list(pd.DataFrame(renamed).itertuples(index=False)), renamed)
    pairs = [{"x": i, "at": {"x": 1, "y": i}} for i in range(3)]
    point = collections.namedtuple("Point", ["x", "y"])
    check([{"x": i, "at": point(1, i)} for i in range(3)], pairs)
    check([point(1, i) for i in range(3)], [each["at"] for each in pairs])
    check(pd.Series(RECORDS))
    check(np.array(RECORDS, object))


def test_columns():
    columns = {name: [record[name] for record in RECORDS] for name in RECORDS[0]}
    check(columns)
    check(
        {"n": np.arange(6), "t": pd.Series(columns["t"]), "tags": tuple(columns["tags"])}
        | {"in": pa.array(columns["in"])}
    )
    check({"x": np.arange(4.0).reshape(2, 2)}, [{"x": [0.0, 1.0]}, {"x": [2.0, 3.0]}])


def test_structured_arrays():
    kind = np.dtype([("n", "i8"), ("x", "f4", (2,)), ("t", "U3"), ("in", [("u", "i2")])])
    array = np.array([(1, (0.5, 1), "a", (7,)), (2, (2, 3), "b", (8,))], kind)
    expected = [
        {"n": 1, "x": [0.5, 1.0], "t": "a", "in": {"u": 7}},
        {"n": 2, "x": [2.0, 3.0], "t": "b", "in": {"u": 8}},
    ]
    check(array, expected)
    check(array.view(np.recarray), expected)
    check(list(array), expected)


@pytest.mark.parametrize("n", [1, 40])
def test_uuids_are_texts(n):
    ids = [uuid.UUID(int=2**127 + i) for i in range(n)]
    expected = [{"id": str(each), "in": {"id": str(each)}} for each in ids]
    as_objects = [{"id": each, "in": {"id": each}} for each in ids]
    as_bytes = [{"id": each.bytes, "in": {"id": each.bytes}} for each in ids]
    extension = pa.array([each.bytes for each in ids], pa.uuid())
    fixed = pa.array([each.bytes for each in ids], pa.binary(16))
    forms = [as_objects, as_bytes]
    for array in (extension, fixed, fixed.cast(pa.binary())):
        forms.append(pa.table({"id": array, "in": pa.StructArray.from_arrays([array], ["id"])}))
    for form in forms:
        schema = Schema.infer(form)
        assert [(f.path, f.kind, f.type, f.examples) for f in schema] == [
            (f.path, f.kind, f.type, f.examples) for f in Schema.infer(expected)
        ]
    for form in ([{"a": {"b": b"\xff" * 15}}], pa.table({"a": [{"b": b"\xff" * 17}]})):
        with pytest.raises(ValueError, match=r"text in UTF-8\. Received: bytes at a\.b"):
            Schema.infer(form)

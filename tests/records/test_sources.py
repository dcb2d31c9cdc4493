"""Records from all that people keep them in, against the same records as dicts."""

import datetime
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from keras_mmil.records import Files, Schema, csv_files, json_files, parquet, sources, to_arrow

RECORDS = [{"n": i, "t": "ab"[i % 2], "o": [{"x": i / 2}] * (i % 3)} for i in range(12)]


def whole(source, columns=None):
    return [
        record for batch in sources.batches(source, columns) for record in batch.records.to_pylist()
    ]


def forms(folder):
    table = pa.Table.from_pylist(RECORDS)
    pyarrow.parquet.write_table(table, folder / "one.parquet", row_group_size=5)
    parts = folder / "parts"
    (parts / "inner").mkdir(parents=True)
    pyarrow.parquet.write_table(table[:5], parts / "a.parquet")
    pyarrow.parquet.write_table(table[5:], parts / "inner" / "b.parquet")
    return {
        "list": RECORDS,
        "tuple": tuple(RECORDS),
        "generator": (record for record in RECORDS),
        "table": table,
        "record batch": table.to_batches()[0],
        "chunked array": table.to_struct_array(),
        "array": pa.array(RECORDS),
        "slice": pa.array([{"n": 99, "t": "a", "o": None}, *RECORDS])[1:],
        "reader": table.to_reader(3),
        "data frame": pd.DataFrame(RECORDS),
        "Parquet": folder / "one.parquet",
        "text": str(folder / "one.parquet"),
        "folder": parts,
    }


@pytest.mark.parametrize("form", list(forms.__code__.co_consts[-1]))
def test_all_forms_hold_the_same(form, tmp_path):
    source = forms(tmp_path)[form]
    assert whole(source) == RECORDS


def test_batches_are_numbered(monkeypatch):
    monkeypatch.setattr(to_arrow, "_ROWS", 5)
    numbers = [list(batch.numbers) for batch in sources.batches(RECORDS)]
    assert numbers == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    first, *_ = sources.batches(RECORDS)
    assert list(first.part(slice(1, 3)).numbers) == [1, 2]
    part = first.part(np.array([3, 0])).part(np.array([1]))
    assert (list(part.numbers), part.records.to_pylist()) == ([0], RECORDS[:1])


def test_only_some_columns_of_parquet_are_read(tmp_path):
    source = forms(tmp_path)["Parquet"]
    assert whole(source, {"t": True, "no": {}}) == [{"t": record["t"]} for record in RECORDS]
    assert whole(source, {}) == [{}] * 12


NESTED = [
    {
        "a": i,
        "b.c": {"d": i, "e": [{"f": i, "g": "x"}] * i},
        "h": [[i], []],
        "k": [{"l": {"m": i, "n": "y"}, "o": [1.5]}],
    }
    for i in range(3)
]


def test_only_wanted_leaves_of_parquet_are_read(tmp_path):
    path = tmp_path / "nested.parquet"
    maps = pa.array([[("p", 1)]] * 3, pa.map_(pa.string(), pa.int64()))
    pyarrow.parquet.write_table(pa.Table.from_pylist(NESTED).append_column("q", maps), path)
    wanted = {"b.c": {"e": {"g": True}}, "k": {"l": {"m": True}}, "q": {"p": True}, "h": {"r": 1}}
    assert whole(path, wanted) == [
        {"b.c": {"e": [{"g": "x"}] * i}, "h": [[i], []], "k": [{"l": {"m": i}}], "q": [("p", 1)]}
        for i in range(3)
    ]
    schema = Schema.infer(path)
    schema.drop("k.l")
    schema.drop('"b.c".d')
    x = schema.read(path)
    assert list(x) == ["a", '"b.c".e.f', "h[][]", "k.o", "q"]
    assert x["h[][]"].to_list() == [[[i], []] for i in range(3)]
    expected = schema.read(pyarrow.parquet.read_table(path))
    assert {p: str(t) for p, t in x.items()} == {p: str(t) for p, t in expected.items()}
    schema.drop('"b.c".e.f')
    assert schema.read(path)['"b.c".e'].to_list() == [[1.0] * i for i in range(3)]


def test_data_frames_of_mixed_objects():
    frame = pd.DataFrame(
        {
            5: [1, "a", None],
            "c": pd.Categorical(["u", "v", None]),
            "t": pd.to_datetime(["2020-01-01", None, "2020-01-02"]),
            "n": [1.5, math.nan, 2],
            "i": pd.array([1, None, 3], "Int64"),
        }
    )
    schema = Schema.infer(frame)
    assert {field.path: field.share_missing for field in schema} == pytest.approx(
        {"5<number>": 2 / 3, "5<text>": 2 / 3, "c": 1 / 3, "t": 1 / 3, "n": 1 / 3, "i": 1 / 3}
    )
    x = schema.read(frame)
    assert x["t"].numpy()[0] == datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC).timestamp()
    assert schema["c"].seen.counts == {"u": 1, "v": 1}
    with pytest.raises(ValueError, match=r"names differ as texts\. Received: 'a' and 'a'"):
        Schema.infer(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (5, "a list of dicts, a path or several, .* an Arrow table. Received: int"),
        ({"a": 1}, "Received: a dict with a int for 'a'"),
        ({"a": [1], "b": [1, 2]}, "a dict, whose columns are 'a' of 1, 'b' of 2"),
        ({"a": [{"x": 1}], "b": [{"x": 1}]}, "`Schema.infer_tables` takes tables"),
        (pd.Series([1, 2]), "Received: number as record 0"),
        (np.float32(3), "an Arrow table. Received: float32"),
        ([{"a": 1}, [1]], "Expected records, such as dicts. Received: bag as record 1"),
        ([{"a": 1}, None], "Received: null as record 1"),
        ([1, 2], "Received: number as record 0"),
        (pa.array([{"a": 1}, None]), "Received: null as record 1"),
        ([{"a": 1}] * 10_001 + ["b"], "Received: text as record 10001"),
        ([{"a": 1}, {"a": [{"b": object()}]}], "Received: object at a.b, in record 1"),
        (datetime.date(2020, 1, 1), "an Arrow table. Received: date"),
        (b"bytes", "an Arrow table. Received: bytes"),
        ([datetime.date(2020, 1, 1)], "Received: time as record 0"),
        (np.arange(3), "Received: number as record 0"),
        (np.zeros((2, 2)), "Received: bag as record 0"),
        (pa.table({"a": [1]})["a"], "Received: number as record 0"),
        (Files, "an Arrow table. Received: type"),
        ([Files], "Received: type at the top, in record 0"),
        ({"a": "text"}, "a dict with a str for 'a'; \\[record\\] is a list of one record"),
        ({}, "a dict, whose columns are none"),
    ],
)
def test_what_holds_no_records_is_refused(source, message):
    with pytest.raises(TypeError, match=message):
        whole(source)


def test_damaged_parquet_is_refused(tmp_path):
    path = tmp_path / "records.parquet"
    table = pa.table({"x": np.random.default_rng(0).random(20_000)})
    pyarrow.parquet.write_table(table, path, row_group_size=5000, use_dictionary=False)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(
        ValueError, match=r"(?s)a complete Parquet file. Received: .*in record 0 or later"
    ):
        whole(path)
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes(60_000) + content[middle + 60_000 :])
    with pytest.raises(
        ValueError, match=r"(?s)a complete Parquet file. Received: .*in record \d+ or later"
    ):
        whole(path)


def test_too_many_levels_are_refused():
    value = 1
    for _ in range(100):
        value = {"a": [value]}
    with pytest.raises(ValueError, match=r"levels of bags|levels of nesting. .* in record 0"):
        Schema.infer([value])


@pytest.mark.parametrize("error", [MemoryError, pa.ArrowMemoryError])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.parquet"])
def test_records_that_do_not_fit_in_memory(error, name, tmp_path, monkeypatch):
    path = tmp_path / name
    content = {"a.json": '[{"x": 1}]', "a.jsonl": '{"x": 1}\n'}.get(name, "x\n1\n")
    path.write_text(content)
    if name == "a.parquet":
        pyarrow.parquet.write_table(pa.table({"x": [1]}), path)

    def fails(*_, **__):
        raise error("malloc of size 1099511627776 failed")

    monkeypatch.setattr(json_files, "_read_block", fails)
    monkeypatch.setattr(json_files, "records_to_arrow", fails)
    monkeypatch.setattr(csv_files, "_read", fails)
    monkeypatch.setattr(parquet, "_texts", fails)
    with pytest.raises(ValueError, match=rf"that fit in memory. Received: .*{name}$"):
        whole(path)


def test_names_that_are_no_texts_become_texts_or_are_refused():
    for source in (pd.DataFrame({0: [1, 2], "b": [3, 4]}), [{0: 1, "b": 3}, {0: 2, "b": 4}]):
        (found,) = sources.batches(source)
        assert found.records.to_pylist() == [{"0": 1, "b": 3}, {"0": 2, "b": 4}]
    for source in (pd.DataFrame({0: [1], "0": [2]}), [{0: 1, "0": 2}]):
        with pytest.raises(ValueError, match=r"differ as texts\. Received: 0 and '0'"):
            list(sources.batches(source))
    (found,) = sources.batches([{b"x": 1, 2: "a"}])
    assert found.records.to_pylist() == [{"x": 1, "2": "a"}]
    schema = Schema.infer(
        pa.table({"m": pa.array([[(1, 2)], []], pa.map_(pa.int64(), pa.int64()))})
    )
    assert schema["m.key"].seen.counts == {"1": 1}

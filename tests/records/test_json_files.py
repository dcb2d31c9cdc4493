"""Files of JSON against Python's json module."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_mmil.records import Schema, json_files

KEYS = st.sampled_from(["a", "b", "c d", "", "\0"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -5, 2**53 - 1, 2**63, 2**70, 0.5, -0.0, 1e300, float("nan")])
    | st.sampled_from(["", "x", "2020-01-31", "2020-01-31 10:00:00", "{", "}}", "ü\n", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
RECORDS = st.lists(st.dictionaries(KEYS, VALUES, max_size=3), min_size=1, max_size=8)


def lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def assert_equal(one, two):
    """Schemas of the same statistics, moments to rounding."""
    figures = [
        [(f.path, f.kind, f.share_missing, f.seen.count if f.seen else 0, f.examples) for f in each]
        for each in (one, two)
    ]
    assert sorted(figures[0]) == sorted(figures[1])


@pytest.mark.parametrize("ending", ["jsonl", "json", "ndjson.gz", "json.gz"])
def test_files_hold_what_python_reads_in_them(ending, tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "_BLOCK", 40)
    monkeypatch.setattr(json_files, "_CHUNK", 7)
    path = tmp_path / f"records.{ending}"

    @settings(max_examples=60, deadline=None)
    @given(RECORDS)
    def check(records):
        text = json.dumps(records, indent=1) if ending.startswith("json.") else lines(records)
        text = json.dumps(records) if ending == "json" else text
        with (gzip.open if ending.endswith("gz") else open)(path, "wb") as file:
            file.write(text.encode())
        assert_equal(Schema.infer(path), Schema.infer(json.loads(json.dumps(records))))

    check()


def test_a_form_that_changes_between_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "_BLOCK", 60)
    records = [{"o": [{"t": "2020-01-01", "x": 1}]}] * 3 + [{"o": [{"t": "a", "x": 0.5}]}] * 3
    records += [{"o": None, "new": "2021-01-01"}, {"o": [{"x": "text"}]}, {}, {"o": []}] * 2
    path = tmp_path / "records.jsonl"
    path.write_text(lines(records))
    assert_equal(Schema.infer(path), Schema.infer(records))


@pytest.mark.parametrize(
    ("content", "n"),
    [
        ('{"a": 1}\r\n{"a": 2}\r\n', 2),
        ('{"a": 1}\n\n  \n{"a": 2}', 2),
        ('\ufeff{"a": 1}\n{"a": 2}\n', 2),
        ("{}\n{}\n{}", 3),
        ('{"a": null}', 1),
        (' {"a": 1} \n', 1),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_odd_files_of_lines(content, n, ending, tmp_path):
    path = tmp_path / f"records.{ending}"
    path.write_text(content, encoding="utf-8", newline="")
    assert Schema.infer(path).n_records == n


@pytest.mark.parametrize(
    ("content", "n"),
    [("[]", 0), (' [ {"a": 1} , {"a": 2}]\n', 2), ('\ufeff[{"a": 1}]', 1), ('{\n "a": 1\n}\n', 1)],
)
def test_odd_documents(content, n, tmp_path):
    path = tmp_path / "records.json"
    path.write_text(content, encoding="utf-8")
    schema = Schema.infer([{"a": 5}, {"a": 6}])
    schema.update(path)
    assert schema.n_records == 2 + n


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1}\n{"a": 2', "in record 1 of .*jsonl"),
        ('{"a": 1}\n{"a": 1, "a": 2}\n', "the key 'a' twice in one object, in record 1 of"),
        ('{"a": 1} {"a": 2}\n', "Extra data.*in record 0 of"),
        ('{"a": 1} null\n', "Extra data.*in record 0 of"),
        ('{"a": 1}\nnull\n', "Expected records, such as dicts. Received: null as record 1"),
        ("null\n", "Received: null as record 0"),
        ('{"a": 1}\n[{"a": 1}]\n', "Received: bag as record 1"),
        ("5\n", "Received: number as record 0"),
        ('{"a": "\xff"}\n', "codec can't decode.*in record 0 of"),
        ('{"a":' + "[" * 30_000 + "]" * 30_000 + "}\n", "recursion.*in record 0 of"),
        ('{"a":' + "[" * 300 + "]" * 300 + "}\n", "at most 64 levels of bags"),
    ],
)
def test_damaged_lines_are_refused(content, message, tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises((ValueError, TypeError), match=message):
        Schema.infer(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"a": 1}, {"a": 2', "in record 1 of .*json"),
        ('[{"a": 1}, {"a": 2}', "no comma between elements, in record 2 of"),
        ('[{"a": 1} {"a": 2}]', "no comma between elements, in record 1 of"),
        ('[{"a": 1}, ]', "Expecting value.*in record 1 of"),
        ('[{"a": 1}] {}', "the end of the file behind the last record"),
        ('[{"a": 1}, 5]', "Received: number as record 1"),
        ('[{"a": 1}, {"b": {"c": 1, "c": 1}}]', "the key 'c' twice in one object, in record 1 of"),
        ('[{"a": "\xff"}]', "in record 0 or later"),
        ("", "at least one record"),
        ("[" * 50_000, "recursion.*in record 0 of"),
    ],
)
def test_damaged_documents_are_refused(content, message, tmp_path):
    path = tmp_path / "records.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises((ValueError, TypeError), match=message):
        Schema.infer(path)


@pytest.mark.parametrize("ending", ["jsonl.gz", "json.gz"])
def test_cut_archives_are_refused(ending, tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "_BLOCK", 1000)
    path = tmp_path / f"records.{ending}"
    records = [{"a": hash((i, "x"))} for i in range(2000)]
    content = gzip.compress((lines(records) if "l" in ending else json.dumps(records)).encode())
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"a whole file .*Compressed file ended.*in record \d+ or"):
        Schema.infer(path)
    path.write_bytes(b"no gzip")
    with pytest.raises(ValueError, match=r"Not a gzipped file.*in record 0 or later"):
        Schema.infer(path)


def test_fields_are_in_the_order_of_the_file(tmp_path):
    """Also where Arrow would take some of the texts for times."""
    path = tmp_path / "records.jsonl"
    path.write_text(lines([{"a": i, "day": f"2024-01-0{i}", "b": "x", "in": {}} for i in (1, 2)]))
    assert [part.path for part in Schema.infer(path)] == ["a", "day", "b", "in"]

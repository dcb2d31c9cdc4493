"""Files of JSON against Python's json module."""

import gzip
import json
import warnings

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from keras_mmil.records import Files, Schema, json_files, to_arrow

KEYS = st.sampled_from(["a", "b", "c d", "", "\0"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -5, 2**53 - 1, 2**63, 2**70, 0.5, -0.0, 1e300, float("nan")])
    | st.sampled_from(["", "x", "2020-01-31", "2020-01-31 10:00:00", "{", "}}", "ü\n", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
WIDE, FLOATS = (str(2**63), str(2**70)), ("0.5", "-0.0", "1e+300", "NaN")
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

    @given(RECORDS)
    def check(records):
        text = json.dumps(records, indent=1) if ending.startswith("json.") else lines(records)
        text = json.dumps(records) if ending == "json" else text
        # Integers beyond int64 become floats beside floats, and stay exact in batches without.
        is_wide, is_float = (any(x in text for x in some) for some in (WIDE, FLOATS))
        assume(not (is_wide and is_float))
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
        ('{"a": 1}\n{"a": 2', "in column 8 of line 2 of .*jsonl"),
        ('{"a": 1}\n{"a": 1, "a": 2}\n', "the key 'a' twice in one object, in line 2 of"),
        ('{"a": 1} {"a": 2}\n', "Extra data, in column 10 of line 1 of"),
        ('{"a": 1} null\n', "Extra data, in column 10 of line 1 of"),
        (
            '{"a": 1}\nnull\n',
            "Expected records, such as dicts. Received: null as line 2 of .*jsonl",
        ),
        ("null\n", "Received: null as line 1 of"),
        ('{"a": 1}\n[{"a": 1}]\n', "Received: bag as line 2"),
        ("5\n", "Received: number as line 1"),
        ('{"a": "\xff"}\n', "codec can't decode.*in line 1 of"),
        ('{"a":' + "[" * 30_000 + "]" * 30_000 + "}\n", "recursion.*in line 1 of"),
        ('{"a":' + "[" * 300 + "]" * 300 + "}\n", "at most 64 levels of bags.*records.jsonl"),
        ('{"a":' + '{"a":' * 900 + "1" + "}" * 901, "levels of .*records.jsonl"),
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
        ('[{"a": 1}] {}', "the end of the file after the last record"),
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
    with pytest.raises(
        ValueError, match=r"a complete JSON file .*Compressed file ended.*in (line|record) \d+ or"
    ):
        Schema.infer(path)
    path.write_bytes(b"no gzip")
    with pytest.raises(ValueError, match=r"Not a gzipped file.*in (line 1|record 0) or later"):
        Schema.infer(path)


def test_fields_are_in_the_order_of_the_file(tmp_path):
    """Also where Arrow would take some of the texts for times."""
    path = tmp_path / "records.jsonl"
    path.write_text(lines([{"a": i, "day": f"2024-01-0{i}", "b": "x", "in": {}} for i in (1, 2)]))
    assert [part.path for part in Schema.infer(path)] == ["a", "day", "b", "in"]


FORMS = [None, [], {}, "2020-01-01", 5, True, "text", [1], {"x": 1}, [{"x": 1}], {"a": {"b": []}}]


@pytest.mark.parametrize("first", [*FORMS[:5], {"a": None}, [None]])
def test_a_form_that_changes_behind_the_first_megabyte(first, tmp_path):
    """Where Arrow's parser has made up its mind."""
    path = tmp_path / "records.jsonl"
    start = [{"filler": "x" * 200, "f": first}] * 5500
    for then in FORMS[1::2]:
        records = [*start, {"f": then}, {"filler": "y", "f": first}]
        path.write_text(lines(records))
        assert path.stat().st_size > 2**20
        assert_equal(Schema.infer(path), Schema.infer(records))


@pytest.mark.parametrize("first", [None, []])
@pytest.mark.parametrize("then", [{"x": 1}, [{"x": [{"y": "a"}]}]], ids=["record", "bag"])
def test_nothing_in_the_first_megabyte_and_records_behind_it(first, then, tmp_path):
    """Which Arrow's parser has no code for: a cast of nulls to a struct."""
    start = [{"filler": "x" * 9000, "f": first, "in": {"g": [{"h": first}]}}] * 130
    records = [*start, {"filler": "y", "f": then, "in": {"g": [{"h": then}, {"h": first}]}}]
    path = tmp_path / "records.jsonl"
    path.write_text(lines(records))
    assert path.stat().st_size > 2**20
    schema = Schema.infer(path)
    assert_equal(schema, Schema.infer(records))
    found, expected = schema.read(path), schema.read(records)
    assert {k: str(v) for k, v in found.items()} == {k: str(v) for k, v in expected.items()}


def test_lines_are_named_by_their_own_numbers(tmp_path, monkeypatch):
    path = tmp_path / "records.jsonl"
    good = [{"a": [i], "filler": "x" * 50} for i in range(2000)]
    schema = Schema.infer(good)
    monkeypatch.setattr(json_files, "_BLOCK", 5000)
    for bad, message in [
        ('{"a": [1], ', "Expected JSON. Received: .* in column 12 of line 1501 of"),
        ('{"a": [1], "a": 1}', "the key 'a' twice in one object, in line 1501 of"),
        ("3", "Expected records, such as dicts. Received: number as line 1501 of"),
        ('{"a": "text"}', "Expected bag at 'a'. Received: a text there, in line 1501 of"),
        ('{"a":' + "[" * 300 + "]" * 300 + "}", "at most 64 levels of bags"),
    ]:
        # An empty line, which Arrow does not read, is a line, too.
        path.write_text(f"\n{lines(good[:1499])}{bad}\n{lines(good[1500:])}")
        with pytest.raises((TypeError, ValueError), match=message):
            schema.read(path, unseen="error")


def test_empty_lines_are_counted(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('\n{"a": 1}\n\n  \n{"a": 2}\n\n\n')  # those at the end stand for nothing
    with pytest.warns(UserWarning, match=r"3 empty lines in .*records\.jsonl are skipped"):
        assert Schema.infer(path).n_records == 2


@pytest.mark.parametrize("ending", ["jsonl", "json"])
@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "zstd"])
def test_codings(ending, coding, tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "_BLOCK", 77)
    records = [{"a": i, "b": ["ü", "𝄞"]} for i in range(50)]
    text = lines(records) if ending == "jsonl" else json.dumps(records, ensure_ascii=False)
    path = tmp_path / f"records.{ending}"
    if coding == "zstd":
        path = path.with_name(f"{path.name}.zst")
        with pa.output_stream(str(path), compression="zstd") as file:
            file.write(text.encode())
    else:
        mark = "\ufeff" if coding[-2:] in ("le", "be") else ""
        path.write_bytes((mark + text).encode(coding))
    schema = Schema.infer(path)
    assert_equal(schema, Schema.infer(records))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2 | 1])
    with pytest.raises(ValueError, match=r"records\.json"):
        schema.read(path)


ROWS = [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}, {"x": 3, "y": None}]


@pytest.mark.parametrize(
    "content",
    [
        {"data": ROWS},
        {"records": ROWS},
        pd.DataFrame(ROWS).to_dict("index"),  # keys become texts
        pd.DataFrame(ROWS).to_dict(),
        {"meta": {"rows": [1, {}]}, "items": ROWS, "next": [ROWS]},
        {"k1": ROWS[0], "k2": ROWS[1], "k3": ROWS[2]},
    ],
)
def test_records_inside_an_object(content, tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "_CHUNK", 7)
    path = tmp_path / "records.json"
    path.write_text(json.dumps(content, indent=2))
    at = "items" if "items" in content else "*"
    if "data" in content or "records" in content or "x" in content:
        with pytest.warns(UserWarning, match=r"records\.json is read as .* 3 records"):
            assert_equal(Schema.infer(path), Schema.infer(ROWS))
    elif at == "*":
        with pytest.raises(ValueError, match=r"or records='\*'.*records\.json, an object of 3"):
            Schema.infer(path)
    else:
        with pytest.warns(UserWarning, match="one record. To read the records in its 'items'"):
            assert Schema.infer(path).n_records == 1
    if at == "*" and "x" in content:
        return
    at = next(iter(content)) if len(content) == 1 else at
    assert_equal(Schema.infer(Files(path, records=at)), Schema.infer(ROWS))
    with pytest.raises(ValueError, match=r"or object of records in 'no'. Received: .* with '"):
        Schema.infer(Files(path, records="no"))
    by_key = {f"k{i}": row for i, row in enumerate(ROWS)}
    path.write_text(json.dumps({"page": {"no": 1}, "items": by_key, "next": []}))
    assert_equal(Schema.infer(Files(path, records="items")), Schema.infer(ROWS))


def test_one_record_stays_one(tmp_path):
    path = tmp_path / "record.json"
    for record in ({"a": 1}, {"a": {"b": 1}, "c": {"d": 1}}, {"a": {"0": 1}}, {"a": [1, 2]}):
        path.write_text(json.dumps(record))
        if "0" in str(record):
            record = {"a": 1}  # a table with one row
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_equal(Schema.infer(path), Schema.infer([record]))


def test_records_with_many_different_keys_take_little_memory(tmp_path, monkeypatch):
    """As bags by key, which they are."""
    monkeypatch.setattr(json_files, "_CELLS", 2000)
    monkeypatch.setattr(to_arrow, "_CELLS", 4000)
    records = [{"n": i, "of": {f"{i}-{j}": {"x": i} for j in range(i % 3)}} for i in range(600)]
    records.append({"n": 1, "of": {f"all-{j}": {"x": j} for j in range(1100)}})
    expected = Schema.infer(records)
    for ending in ("jsonl", "json"):
        path = tmp_path / f"records.{ending}"
        path.write_text(lines(records) if ending == "jsonl" else json.dumps(records))
        found = Schema.infer(path)
        assert_equal(found, expected)
        x, y = expected.read(path), expected.read(records)
        assert {name: str(t) for name, t in x.items()} == {name: str(t) for name, t in y.items()}
    path.write_text(json.dumps([{"a": [{f"k{i % 100}": 1} for i in range(100)]}]))
    with pytest.raises(ValueError, match=r"keys at a, in record 0 of .*records\.json"):
        Schema.infer(path)


@pytest.mark.parametrize("indent", [None, 1])
def test_numbers_of_keys(indent):
    for records in (
        [{"a": i, "long key, indeed": {f"k{i % 7}": '"x":1'}} for i in range(300)],
        [{f"a common part {i % 50} of all": 1, f"{i % 9} and a common end": 2} for i in range(300)],
        [{"": 1, 'quoted " key': [{"b": 1}], " ": ' "'}],
    ):
        block = json.dumps(records, indent=indent, separators=(",", " : ") if indent else None)
        expected = set()
        json.loads(block, object_hook=lambda x: expected.update(x))  # noqa: B023
        found = json_files._n_keys(block.encode())
        assert len(expected) <= found <= 1.5 * len(expected) + 1


def test_the_bound_of_records_can_be_set(tmp_path, monkeypatch):
    path = tmp_path / "records.jsonl"
    records = [{"a": "x" * 2**21}, {"a": list(range(2**17))}]
    path.write_text(lines(records))
    assert Schema.infer(path).n_records == 2
    monkeypatch.setenv("KERAS_MMIL_RECORD_MB", "1")
    for content in (lines(records[:1]), lines([{}, *records[1:]]), json.dumps(records[1:])):
        path.write_text(content)
        at = path if content[0] == "{" else path.rename(path.with_suffix(".json"))
        with pytest.raises(ValueError, match=r"at most 1 MiB and 65,536 values, .*, which has"):
            Schema.infer(at)
    path.write_text(lines([{"a": "," * 2**19}] * 9))  # commas in texts are no values
    assert Schema.infer(path).n_records == 9
    monkeypatch.setenv("KERAS_MMIL_RECORD_MB", "much")
    with pytest.raises(
        ValueError, match=r"a number of MiB in KERAS_MMIL_RECORD_MB\. Received: 'mu"
    ):
        Schema.infer(path)

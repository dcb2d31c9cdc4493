"""Schemas in files: written whole, and believed only if all of it fits together."""

import copy
import json

import pytest

from keras_mmil.records import Schema

RECORDS = [
    {
        "n": i / 2,
        "flag": i % 2 == 0,
        "word": f"w{i % 3}",
        "mixed": [i, "a"][i % 2],
        "orders": [{"price": i}] * (i % 3),
        "at": [i, i / 2],
        "by": {f"id{j}": j for j in range(i % 12, 12, 5)},
    }
    for i in range(10)
]


@pytest.fixture
def saved(tmp_path):
    schema = Schema.infer(RECORDS)
    schema["word"] = "text"
    path = tmp_path / "schema.json"
    schema.save(path)
    return path


def test_the_file_is_for_people_too(saved):
    content = json.loads(saved.read_text())
    assert list(content) == ["format", "choices", "records"]
    assert content["choices"] == {"word": "text"}
    fields = content["records"]["record"]["fields"]
    assert fields["word"]["text"]["values"] == [["w0", 4], ["w1", 3], ["w2", 3]]
    assert fields["orders"]["bag"]["lengths"]["values"] == [[0, 4], [1, 3], [2, 3]]


def fields(content):
    return content["records"]["record"]["fields"]


def changed(content, *path, to):
    content = copy.deepcopy(content)
    place = content
    for key in path[:-1]:
        place = place[key]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return content


FIELDS = ("records", "record", "fields")
WORD = (*FIELDS, "word", "text")
NUMBER = (*FIELDS, "n", "number")


@pytest.mark.parametrize(
    ("path", "to", "place"),
    [
        (("format",), 1, "format=1, of an older version"),
        (("format",), 2, "format=2, of an older version"),
        (("choices",), {"word": 5}, "choices="),
        (("choices",), {"no": "text"}, "Expected text at 'no', as chosen. Received: nothing"),
        (("choices",), {"word": "number"}, "for 'word': text, category, dropped"),
        (("records",), None, "records=None"),
        (("records", "record"), [], r"records.record=\[\]"),
        (("records", "count"), 5, "records.count=5"),
        ((*FIELDS, "word", "count"), 5, "records.record.fields.word.count=5"),
        ((*FIELDS, "word", "count"), True, "records.record.fields.word.count=True"),
        ((*WORD, "count"), 9, "records.record.fields.word.text.count=9"),
        ((*WORD, "values"), [["w0", 10], ["w0", 0]], r"word.text.values=\['w0', 0\]"),
        ((*WORD, "values"), [["w0", 4], ["w0", 6]], "word.text.values='repeated ones'"),
        ((*WORD, "values"), [[5, 10]], r"word.text.values=\[5, 10\]"),
        ((*WORD, "values"), None, "word.text.smallest=None"),
        ((*WORD, "n_words"), -1, "word.text.n_words=-1"),
        ((*NUMBER, "mean"), float("nan"), "n.number.mean=nan"),
        ((*NUMBER, "values"), [[True, 10]], r"n.number.values=\[True, 10\]"),
        ((*NUMBER, "values"), [[float("inf"), 10]], r"n.number.values=\[inf, 10\]"),
        ((*FIELDS, "flag", "boolean", "values"), [[1, 10]], "flag.boolean.values="),
        ((*FIELDS, "flag", "words"), {}, "records.record.fields.flag.words={}"),
        ((*FIELDS, "orders", "bag", "members"), 5, "orders.bag.members=5"),
        ((*FIELDS, "orders", "bag", "lengths", "count"), 9, "orders.bag.lengths.count=9"),
        ((*FIELDS, "orders", "bag", "lengths", "values"), [[-1, 10]], "orders.bag.lengths="),
        ((*FIELDS, "at", "bag", "positions"), [{"count": 10}], "at.bag.positions=1"),
        ((*FIELDS, "at", "bag", "positions", 1, "count"), 11, r"positions\[1\].count=11"),
        ((*FIELDS, "at", "bag", "is_fixed"), 1, "at.bag.is_fixed=1"),
        ((*FIELDS, "by", "key"), 5, "fields.by.key=5"),
        (("tables",), {"top": "a"}, "tables={'top': 'a'}"),
        (("tables",), {"top": "a", "keys": [["b"]], "orphans": "drop"}, r"keys=\[\['b'\]\]"),
        (("tables",), {"top": "a", "keys": [], "orphans": "keep"}, "orphans='keep'"),
    ],
)
def test_changed_files_are_refused_with_the_place(saved, path, to, place):
    content = changed(json.loads(saved.read_text()), *path, to=to)
    saved.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"(?s)Expected a schema in .*schema\.json\. .*{place}"):
        Schema.load(saved)


def test_every_place_is_looked_at(saved):
    """No part of the file can be of another type without an error that is one of ours."""
    content = json.loads(saved.read_text())

    def places(value, path):
        yield path
        parts = value.items() if isinstance(value, dict) else []
        for key, part in enumerate(value) if isinstance(value, list) else parts:
            yield from places(part, (*path, key))

    for path in places(content, ()):
        if path:
            saved.write_text(json.dumps(changed(content, *path, to={"x": [None]})))
            with pytest.raises(ValueError, match="Expected a schema in"):
                Schema.load(saved)


@pytest.mark.parametrize("n", [0, 1, 100, -2])
def test_cut_files_are_refused(saved, n):
    saved.write_bytes(saved.read_bytes()[:n])
    with pytest.raises(ValueError, match="Expected a schema in"):
        Schema.load(saved)


@pytest.mark.parametrize("content", [b"\xff", b"[" * 100_000, b"[]", b"5"])
def test_other_files_are_refused(saved, content):
    saved.write_bytes(content)
    with pytest.raises(ValueError, match="Expected a schema in"):
        Schema.load(saved)
    with pytest.raises(FileNotFoundError):
        Schema.load(saved.with_name("no.json"))

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
    fields = content["records"]["by_type"]["record"]["fields"]
    assert fields["word"]["by_type"]["text"]["counts"] == {"w0": 4, "w1": 3, "w2": 3}
    lengths = fields["orders"]["by_type"]["bag"]["lengths"]
    assert lengths["counts"] == {"pairs": [[0, 4], [1, 3], [2, 3]]}


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


FIELDS = ("records", "by_type", "record", "fields")
WORD = (*FIELDS, "word", "by_type", "text")
NUMBER = (*FIELDS, "n", "by_type", "number")
ORDERS = (*FIELDS, "orders", "by_type", "bag")
AT = (*FIELDS, "at", "by_type", "bag")


@pytest.mark.parametrize(
    ("path", "to", "place"),
    [
        (("format",), 1, "format=1, not 5: infer the schema again"),
        (("choices",), {"word": 5}, "choices.word=5"),
        (("choices",), {"no": "text"}, "Expected text at 'no', as chosen. Received: nothing"),
        (("choices",), {"word": "number"}, "for 'word': text, category, dropped"),
        (("records",), None, "records is missing"),
        (FIELDS[:3], [], r"records.by_type.record=\[\]"),
        (("records", "count"), 5, "records.count=5"),
        ((*FIELDS, "word", "count"), 5, "records.by_type.record.fields.word.count=5"),
        ((*FIELDS, "word", "count"), True, "fields.word.count=True"),
        ((*WORD, "count"), 9, "fields.word.by_type.text.count=9"),
        ((*WORD, "counts"), {"w0": 10, "w1": 0}, r"text.counts=\['w1', 0\]"),
        ((*WORD, "counts"), {"pairs": [["w0", 4], ["w0", 6]]}, "text.counts='repeated keys'"),
        ((*WORD, "counts"), {"pairs": [[5, 10]]}, r"text.counts=\[5, 10\]"),
        ((*WORD, "smallest"), ["w1", "w2"], "text.smallest="),
        ((*WORD, "largest"), "w9", "text.smallest="),
        ((*WORD, "n_words"), -1, "text.n_words=-1"),
        ((*NUMBER, "mean"), float("nan"), "n.by_type.number.mean=nan"),
        ((*NUMBER, "counts"), {"pairs": [[True, 10]]}, r"number.counts=\[True, 10\]"),
        ((*NUMBER, "counts"), {"pairs": [[float("inf"), 10]]}, r"number.counts=\[inf, 10\]"),
        (
            (*FIELDS, "flag", "by_type", "boolean", "counts"),
            {"pairs": [[1, 10]]},
            "boolean.counts=",
        ),
        ((*FIELDS, "flag", "by_type", "words"), {"count": 1}, "by_type.words="),
        ((*ORDERS, "members"), 5, "orders.by_type.bag.members=5"),
        ((*ORDERS, "lengths", "count"), 9, "orders.by_type.bag.lengths.count=9"),
        ((*ORDERS, "lengths", "smallest"), [-1], "bag.lengths.smallest="),
        ((*AT, "positions"), [{"count": 10}], "at.by_type.bag.positions=1"),
        ((*AT, "positions", 1, "count"), 11, r"positions\[1\].count=11"),
        ((*AT, "is_fixed"), 1, "at.by_type.bag.is_fixed=1"),
        ((*FIELDS, "by", "key"), 5, "fields.by.key=5"),
        (("tables",), {"top": "a"}, "tables={'top': 'a'}"),
        (("tables",), {"top": "a", "keys": [["b"]], "orphans": "drop"}, r"keys\[0\]=\['b'\]"),
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

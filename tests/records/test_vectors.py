"""Lists that are read by position, against loops; and rules on them against those on names."""

import json
import math
import random

import numpy as np
import pyarrow as pa
import pytest

import keras_mmil
from keras_mmil.records import Schema, profiling
from keras_mmil.records.reading import numbers_at

N = 30
TIMES = [[f"2024-01-{i + 1:02d}", f"2024-02-{i % 28 + 1:02d}"] for i in range(28)]


def inferred(lists):
    return Schema.infer([{"x": each} for each in lists])


def decision(lists):
    field = inferred(lists)["x"]
    return field.kind, field.why


@pytest.mark.parametrize(
    ("lists", "kind", "why"),
    [
        ([[i, i / 2] for i in range(N)], "vector", "always 2 numbers"),
        ([[i, None] for i in range(N)] + [None, []], "vector", "always 2 numbers"),
        ([[True, False, i > 3] for i in range(N)], "vector", "always 3 booleans"),
        (TIMES, "vector", "always 2 times"),
        ([["a", i, 2] for i in range(N)], "vector", "always 3 values: text, number, number"),
        ([[1, 2]] * 10, "vector", "always 2 numbers"),
        ([[1, 2]] * 9, "bag", "always 2 numbers, but in only 9 lists"),
        ([[1, 2]], "bag", "always 2 numbers, but in only 1 list"),
        ([[1]] * N, "bag", "up to 1 members"),
        ([["a", "b"]] * N, "bag", "up to 2 members"),
        ([[{"a": 1}, {"a": 2}]] * N, "bag", "up to 2 members"),
        ([["a", i] for i in range(N)] + [[1, "a"]], "bag", "up to 2 members"),
        ([[1, 2]] * 98 + [[1, 2, 3]] * 2, "bag", "2 numbers in 98 % of the lists, up to 3"),
        ([[1, 2]] * 90 + [[1]] * 10, "bag", "2 numbers in 90 % of the lists"),
        ([[1, 2]] * 89 + [[1]] * 11, "bag", "up to 2 members"),
        ([[1.0] * 1000] * 10, "vector", "always 1000 numbers"),
        ([[1.0] * 1001] * 10, "bag", "always 1001 numbers, over 1000: too many positions"),
    ],
)
def test_which_lists_are_vectors(lists, kind, why):
    assert decision(lists) == (kind, why)
    halves = [inferred(lists[: len(lists) // 2] or lists), inferred(lists[len(lists) // 2 :])]
    if len(lists) > 1:
        field = Schema.merge(*halves)["x"]
        assert (field.kind, field.why) == (kind, why)


RECORDS = [
    {
        "pos": None if i % 7 == 0 else [i, i % 5 / 2],
        "event": [["start", "stop"][i % 2], i, True],
        "line": [[i, j] for j in range(i % 4)],
        "tags": ["red", "blue" if i % 2 else "green"],
    }
    for i in range(N)
]


def test_positions_are_read_as_fields(tmp_path):
    schema = Schema.infer(RECORDS)
    schema["tags"] = "vector"
    paths = ["pos[0]", "pos[1]", "event[0]", "event[1]", "line[][0]", "line[][1]", "tags[1]"]
    x = schema.read(RECORDS)
    assert list(x) == paths
    assert (schema["line"].kind, schema["line[]"].kind) == ("bag", "vector")
    assert (schema["event[0]"].kind, schema["event[2]"].kind) == ("category", "constant")
    for i, path in enumerate(paths[:2]):
        expected = [math.nan if r["pos"] is None else r["pos"][i] for r in RECORDS]
        np.testing.assert_array_equal(x[path].numpy(), np.float32(expected))
    assert x["event[0]"].numpy().tolist() == [r["event"][0].encode() for r in RECORDS]
    assert x["line[][1]"].to_list() == [[p[1] for p in r["line"]] for r in RECORDS]
    assert x["tags[1]"].numpy().tolist() == [r["tags"][1].encode() for r in RECORDS]
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema
    content = json.loads((tmp_path / "schema.json").read_text())
    pos = content["records"]["by_type"]["record"]["fields"]["pos"]["by_type"]["bag"]
    for key, to in [("positions", pos["positions"][:1]), ("lengths", {"count": 3}), ("x", 1)]:
        changed = json.loads(json.dumps(content))
        fields = changed["records"]["by_type"]["record"]["fields"]
        fields["pos"]["by_type"]["bag"][key] = to
        (tmp_path / "changed.json").write_text(json.dumps(changed))
        with pytest.raises(ValueError, match=f"pos.by_type.bag.{key}"):
            Schema.load(tmp_path / "changed.json")
    pos = [{"pos": each["pos"]} for each in RECORDS]
    at = numbers_at(Schema.infer(pos), pa.array(pos), "pos[1]")
    np.testing.assert_array_equal(at, [math.nan if r["pos"] is None else r["pos"][1] for r in pos])


def test_kinds_are_chosen_both_ways():
    schema = Schema.infer(RECORDS)
    schema["pos"] = "bag"
    assert schema.read(RECORDS[:2])["pos[]"].to_list() == [[], RECORDS[1]["pos"]]
    del schema["pos"]
    assert schema["pos"].kind == "vector"
    schema["pos[0]"] = "category"
    with pytest.raises(ValueError, match=r"category at 'pos\[0\]', as chosen"):
        schema.update([{"pos": [1, 2, 3]}])
    with pytest.raises(ValueError, match=r"for 'line': bag, dropped\. Received: 'vec"):
        schema["line"] = "vector"
    thin = inferred([[1, 2]] * 5)
    thin["x"] = "category"  # of its members: it stays a bag however many come
    thin.update([{"x": [1, 3]}] * 20)
    assert (thin["x"].kind, thin["x[]"].kind) == ("bag", "category")


def test_lists_of_other_lengths_are_missing_with_a_warning():
    schema = Schema.infer(RECORDS)
    odd = [{"pos": [1, 2, 3]}, {"pos": [4]}, {"pos": []}, {"pos": [5, 6]}]
    with pytest.warns(UserWarning, match="'pos' is vector .*; 2 of 4 .* lists of other lengths"):
        x = schema.read(odd, without=("event", "line", "tags"))
    np.testing.assert_array_equal(x["pos[1]"].numpy(), [math.nan] * 3 + [6])
    with pytest.raises(ValueError, match=r"Expected vector at 'pos'\. Received: a number"):
        schema.read([{"pos": 5}], unseen="error")


@pytest.mark.parametrize("values", [pa.float32(), pa.string()], ids=str)
def test_lists_of_a_fixed_size_are_vectors_by_their_type(values):
    lists = pa.array([[1, 2, 3], None, [4, 5, 6]], pa.list_(pa.int64(), 3))
    table = pa.table({"x": lists.cast(pa.list_(values, 3))})
    schema = Schema.infer(table)
    assert schema["x"].why == "3 numbers, by the type of the lists"
    assert schema["x[0]"].kind == "number"
    assert list(schema.read(table.slice(1))) == ["x[0]", "x[1]", "x[2]"]


def test_statistics_of_positions_do_not_depend_on_batches():
    one, two = inferred([[i, "a"] for i in range(5)]), inferred([[], None, [7, "b"]])
    at_once = inferred([[i, "a"] for i in range(5)] + [[], None, [7, "b"]])
    merged = Schema.merge(one, two)
    first, second = merged._profile.by_type["record"].fields["x"].by_type["bag"].positions
    expected = at_once._profile.by_type["record"].fields["x"].by_type["bag"].positions
    assert first.by_type["number"].counts == expected[0].by_type["number"].counts
    assert second == expected[1]
    assert profiling.MAX_POSITIONS == 1000


@pytest.mark.slow
def test_rules_on_positions_are_as_good_as_on_names():
    """Also of vectors in a bag."""
    random.seed(0)
    lines = [[(random.random(), random.random()) for _ in range(1 + i % 3)] for i in range(150)]
    y = [max(x for x, _ in line) > 0.6 for line in lines]
    scores, shown = {}, {}
    for name in ("lists", "names"):
        make = list if name == "lists" else lambda point: dict(zip("xy", point, strict=True))
        records = [{"pos": make(line[0]), "line": [*map(make, line)]} for line in lines]
        classifier = keras_mmil.NestedClassifier(
            effort="low",
            learning_rate=0.05,
            batch_size=20,
            epochs=10,
            random_state=0,
            explainer={"n_clusters": 2, "verbose": 0},
        ).fit(records[:100], y[:100])
        shown[name] = classifier.rules_.text()
        scores[name] = classifier.explainer_.score(
            classifier.schema_.read(records[100:]), np.array(y[100:])
        )
    assert scores["lists"] == scores["names"] > 0.85, scores
    assert "[0] > 0." in shown["lists"]
    text = shown["lists"]
    for i, name in enumerate("xy"):
        text = text.replace(f"pos[{i}]", f"pos.{name}").replace(f"line[][{i}]", f"line.{name}")
        text = text.replace(f"[{i}]", name)
    assert text.split() == shown["names"].split()  # columns are as wide as names

"""Texts that are numbers, booleans or times, but for a few: what they are taken for, and read."""

import json
import math
import random
import warnings

import numpy as np
import pytest

from keras_mmil.records import Files, Schema, network, profiling

N = 3000
NUMBERS = [random.Random(i).randrange(40_000) / 4 for i in range(N)]
TEXTS = [f"{x:.2f}" for x in NUMBERS]
DAYS = [f"2020-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(N)]
US_DAYS = [f"{1 + i % 12}/{1 + i % 28}/2020" for i in range(N)]
WORDS = [["true", "False", "FALSE", "yes"][i % 4] for i in range(N)]


def of(values, name="x"):
    return [{name: value} for value in values]


LOST = {
    "number": "texts that are no numbers",
    "boolean": "texts that are neither true nor false",
    "time": "texts that are no times",
}


def lost(kind, n, path="x"):
    """What is said of texts that are not read."""
    return (
        f"{path!r} is {kind} in the schema; {n} values there are {LOST[kind]}, "
        "and are read as missing."
    )


def read(schema, records):
    """What is read of the records, and the warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        x = schema.read(records)
    return x["x"].numpy(), [str(each.message) for each in seen]


@pytest.mark.parametrize("odd", ["\\N", "PL", "4,762"])
@pytest.mark.parametrize("source", ["texts", "numbers", "csv", "jsonl"])
def test_one_stranger_among_many_numbers(odd, source, tmp_path):
    values = NUMBERS if source in ("numbers", "jsonl") else TEXTS
    records = of([*values[:70], odd, *values[71:]])
    clean = Schema.infer(of(NUMBERS[:70] + NUMBERS[71:]))
    if source == "csv":
        path = tmp_path / "x.csv"
        path.write_text("x\n" + "\n".join(f'"{each["x"]}"' for each in records) + "\n")
        records = str(path)
    elif source == "jsonl":
        path = tmp_path / "x.jsonl"
        path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
        records = str(path)
    schema = Schema.infer(records)
    assert [part.path for part in schema] == ["x"]
    part = schema["x"]
    assert (part.kind, part.share_missing) == ("number", pytest.approx(1 / N))
    assert f"1 of 3,000 is no number: '{odd}'" in part.why
    moments = network.moments(part)
    assert moments == pytest.approx(network.moments(clean["x"]))
    x, warned = read(schema, records)
    expected = np.array(NUMBERS, np.float32)
    expected[70] = math.nan
    np.testing.assert_array_equal(x, expected)
    assert warned == (
        [] if odd == "\\N" else [lost("number", "1 of 3,000")]
    )  # which stands for nothing
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema


@pytest.mark.parametrize(
    ("values", "kind", "why"),
    [
        (TEXTS, "number", "texts of numbers"),
        (["4,762", "512", "1,024,000"], "number", "commas between thousands"),
        (["0", "1", "1"], "boolean", "texts"),
        (WORDS, "boolean", "texts such as"),
        ([*WORDS[1:], "maybe"], "boolean", "1 of 3,000 is no boolean: 'maybe'"),
        (["f", "m"] * 9, "category", "2 different texts"),
        (["no", None] * 9, "category", "different texts"),
        (DAYS, "time", "ISO 8601"),
        ([*DAYS[1:], "unknown"], "time", "1 of 3,000 is no time: 'unknown'"),
        (US_DAYS, "time", "month first"),
        (["1/2/2020", "3/4/2020", "1/2/2020", "3/4/2020"], "category", "the day or the month"),
        (["31/12/2020", "1/2/2020"], "time", "day first"),
        (["2020-07", "2021-12"], "time", "ISO 8601"),
        (["007", "008", "12"], "text", "different texts"),
        ([*TEXTS[1:], "007"], "text", "1 of 3,000 is no number: '007'"),
        ([*TEXTS[1:], str(2**53 + 1)], "text", f"1 of 3,000 is no number: '{2**53 + 1}'"),
        ([str(5_550_000_000 + 7 * i) for i in range(200)], "identifier", "none comes twice"),
        ([*map(str, range(97)), "a", "b", "c"], "text", "3 of 100 are no number: 'a', 'b', 'c'"),
        ([*map(str, range(80)), *["NA"] * 20], "number", "20 of 100 are no number: 'NA'"),
        ([*map(str, range(2500)), *(f"x{i}" for i in range(25))], "text", "25 of 2,525 are no"),
        ([*NUMBERS[1:], "12.5"], "number", "numbers"),
        ([True] * 150 + [False] * 150 + ["?"], "boolean", "1 of 301 is no boolean: '?'"),
    ],
)
def test_kinds_of_texts(values, kind, why):
    (part,) = Schema.infer(of(values))
    assert (part.path, part.kind) == ("x", kind)
    assert why in part.why


@pytest.mark.parametrize(
    ("name", "kind"),
    [("id", "identifier"), ("zip", "text"), ("atom_type", "text"), ("price", "number")],
)
def test_names_of_codes_keep_texts_of_digits(name, kind):
    (part,) = Schema.infer(of(["21234", "12345", "34567"], name))
    assert part.kind == kind


def test_values_of_several_types_stay_apart_where_there_are_many():
    schema = Schema.infer(of([1, 2, "a", "b", "7"]))
    assert [part.path for part in schema] == ["x<number>", "x<text>"]
    schema["x"] = "number"
    assert [(part.path, part.kind) for part in schema] == [("x", "number")]
    x, warned = read(schema, of([1, "7", "a", "2.5"]))
    np.testing.assert_array_equal(x, [1, 7, math.nan, 2.5])
    assert warned == [lost("number", "1 of 4")]
    del schema["x"]
    assert [part.path for part in schema] == ["x<number>", "x<text>"]
    apart = Schema.infer(of([*NUMBERS[1:], "PL"]), choices={"x<text>": "category"})
    assert [part.path for part in apart] == ["x<number>", "x<text>"]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("number", ["1.5", "a", "b", "7"], [1.5, math.nan, math.nan, 7]),
        ("boolean", ["yes", "a", "b", "F"], [1, math.nan, math.nan, 0]),
        ("time", ["1970-01-02", "a", "b", "1970-02"], [86_400, math.nan, math.nan, 31 * 86_400]),
    ],
)
def test_a_kind_may_be_chosen_where_some_texts_can_be_read_so(kind, values, expected, tmp_path):
    schema = Schema.infer(of(values))
    assert schema["x"].kind == "text"
    schema["x"] = kind
    assert schema["x"].share_missing == 0.5
    x, warned = read(schema, of(values))
    np.testing.assert_array_equal(x, expected)
    assert warned == [lost(kind, "2 of 4")]
    (batch,) = schema.dataset(of(values[:1]), batch_size=1)
    assert batch["x"].dtype == ("float64" if kind == "time" else "float32")
    with pytest.raises(ValueError, match="one of these kinds for 'x': text, category, dropped"):
        Schema.infer(of(["a", "b"]))["x"] = kind


def test_numbers_in_texts_are_read_where_numbers_were():
    schema = Schema.infer(of([1.5, 2.5]))
    x, warned = read(schema, of(["12.5", 3, "a", None, "007", True]))
    np.testing.assert_array_equal(x, [12.5, 3, *[math.nan] * 4])
    others = lost("number", "1 of 5").replace("texts that are no numbers", "booleans")
    assert sorted(warned) == [others, lost("number", "2 of 5")]
    with pytest.raises(ValueError, match=r"number at 'x'. Received: a text there, in record 0"):
        schema.read(of(["12.5"]), unseen="error")


def test_statistics_do_not_depend_on_batches(monkeypatch, tmp_path):
    """Whether values are counted in one part or not, strangers and moments are the same."""
    monkeypatch.setattr(profiling, "MAX_VALUES", 100)
    values = [*TEXTS[:300], "a", "b", *TEXTS[300:350], *["c"] * 60, "1/2/2020", *TEXTS[350:380]]
    whole = Schema.infer(of(values))
    for size in (40, 130, 400):
        parts = [Schema.infer(of(values[i : i + size])) for i in range(0, len(values), size)]
        for order in (parts, parts[::-1]):
            merged = order[0]
            for each in order[1:]:
                merged = Schema.merge(merged, each)
            one, two = (
                each._profile.by_type["record"].fields["x"].by_type["text"]
                for each in (whole, merged)
            )
            assert one.counts is two.counts is None
            assert one.as_forms.keys() == two.as_forms.keys()
            for form, reading in one.as_forms.items():
                other = two.as_forms[form]
                assert (reading.others, reading.example) == (other.others, other.example)
                assert reading.values.count == other.values.count
                assert reading.values.counts == other.values.counts
                assert reading.values.mean == pytest.approx(other.values.mean)
                assert reading.values.squares == pytest.approx(other.values.squares)
    assert one.as_forms.keys() == {"number", "thousands", "month first", "day first"}
    numbers = one.as_forms["number"]
    assert numbers.others == {"a": 1, "b": 1, "c": 60, "1/2/2020": 1}
    assert numbers.values.mean == pytest.approx(np.mean(NUMBERS[:380]))
    whole.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == whole
    content = json.loads((tmp_path / "schema.json").read_text())
    fields = content["records"]["by_type"]["record"]["fields"]
    reading = fields["x"]["by_type"]["text"]["readings"]["number"]
    for name, wrong in [("others", {"a": 5}), ("example", "z"), ("values", {"count": 10**6})]:
        kept, reading[name] = reading[name], wrong
        (tmp_path / "wrong.json").write_text(json.dumps(content))
        with pytest.raises(
            ValueError, match=rf"fields\.x\.by_type\.text\.readings\.number\.{name}"
        ):
            Schema.load(tmp_path / "wrong.json")
        reading[name] = kept


@pytest.mark.parametrize("per_second", [1, 1000])
def test_integers_since_1970(per_second, tmp_path):
    values = [per_second * (1_577_836_800 + 86_400 * (i % 40)) + i % 2 for i in range(100)]
    for name in ("created_at", "createdAt", "timestamp", "order date"):
        (part,) = Schema.infer(of(values, name))
        assert (part.kind, part.why[:12]) == ("time", "by its name:")
    schema = Schema.infer(of(values))
    assert schema["x"].kind == "number"
    schema["x"] = "time"
    seconds = np.array(values) / per_second
    x, warned = read(schema, [*of(values), *of([None, "2020-01-01", "soon"])])
    np.testing.assert_array_equal(x, [*seconds, math.nan, 1_577_836_800, math.nan])
    assert warned == [lost("time", "1 of 102")]
    assert schema["x"].examples.startswith("2020-01")
    assert network.moments(schema["x"]) == pytest.approx((seconds.mean(), seconds.var()))
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema
    (part,) = Schema.infer(of([*values, 0], "created_at"))
    assert part.kind == "number"  # 1970 would be no time of our days
    (part,) = Schema.infer(of([1.5e9 + i for i in range(9)], "run_time"))
    assert part.kind == "number"


def test_commas_that_separate_thousands_in_csv(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('x\n"4,762"\n512\n"1,024"\n')
    with pytest.raises(ValueError, match="separate thousands"):
        Schema.infer(str(path))
    files = Files(str(path), decimal=".")
    schema = Schema.infer(files)
    assert (schema["x"].kind, read(schema, files)[0].tolist()) == ("number", [4762, 512, 1024])

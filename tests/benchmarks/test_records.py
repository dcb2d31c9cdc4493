"""Benchmarks on records: flat tables equal loops over the records, and small runs go through."""

import json
from collections import Counter

import numpy as np
import pytest

from keras_mmil import zoo
from keras_mmil.datasets import synthetic
from keras_mmil.records import Schema

RECORDS = [
    {"city": "Rome", "age": 30, "orders": [{"price": 2.5, "items": ["a", "b", "b"]}]},
    {"city": None, "age": None, "orders": [{"price": 1, "items": []}, {"price": None}]},
    {"city": "Oslo", "age": 50, "orders": []},
    {"city": "Rome", "age": 41, "orders": [{"price": 4, "items": ["b", "a"]}, {"price": -1}]},
] * 3


def values_of(record, path):
    found = [record]
    for name in path.split("."):
        deeper = [each.get(name.removesuffix("[]")) for each in found]
        if name == "orders" or name.endswith("[]"):
            deeper = [member for bag in deeper for member in bag or []]
        found = deeper
    return [value for value in found if value is not None]


def test_flat_records(load_benchmark):
    schema = Schema.infer(RECORDS)
    schema["orders.items[]"] = "category"
    schema["city"] = "category"
    x = schema.read(RECORDS)
    flat = load_benchmark("baselines.flat_records").Flat(x)
    table = flat.table(x)
    assert table.shape == (len(RECORDS), len(flat.names))
    columns = dict(zip(flat.names, table.T, strict=True))
    for path in ("age", "orders.price"):
        for i, record in enumerate(RECORDS):
            values = values_of(record, path)
            assert columns[f"{path} count"][i] == len(values)
            for name, compute in {"mean": np.mean, "min": min, "max": max}.items():
                expected = compute(values) if values else np.nan
                np.testing.assert_allclose(columns[f"{path} {name}"][i], expected)
    for path in ("city", "orders.items[]"):
        codes = {}
        for i, record in enumerate(RECORDS):
            values = values_of(record, path)
            assert columns[f"{path} count"][i] == len(values)
            code = columns[f"{path} mode"][i]
            if not values:
                assert np.isnan(code)
                continue
            most = min(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))[0]
            assert codes.setdefault(most, code) == code
        assert len(set(codes.values())) == len(codes) == 2
    assert [name for name, is_mode in zip(flat.names, flat.is_categorical, strict=True) if is_mode]


def test_values_that_training_records_lack_are_nan(load_benchmark):
    schema = Schema.infer(RECORDS)
    schema["city"] = "category"
    flat = load_benchmark("baselines.flat_records").Flat(schema.read(RECORDS))
    table = flat.table(schema.read([{"city": "Bern", "age": 3}]))
    assert np.isnan(table[0, flat.names.index("city mode")])
    assert table[0, flat.names.index("city count")] == 1


@pytest.mark.slow
def test_boosting_learns_what_aggregates_tell(load_benchmark):
    boosting = load_benchmark("baselines.flat_records").boosting
    rng = np.random.default_rng(0)
    records = [
        {
            "values": rng.normal(0, 1, rng.integers(4, 7)).tolist(),
            "kind": str(rng.choice(["a", "b"])),
        }
        for _ in range(300)
    ]
    for record in records:
        record["label"] = bool(max(record["values"]) > 1.2) != (record["kind"] == "a")
    schema = Schema.infer(records)
    train, test = (schema.read(part, target="label") for part in (records[:200], records[200:]))
    assert boosting(train, test, seed=0) > 0.9


@pytest.mark.slow
def test_baselines_take_the_parts_of_the_experiments(load_benchmark, monkeypatch, capsys):
    experiment = zoo.registry["churn-with-orders"]
    records = load_benchmark("records_baselines").measure(experiment, seeds=2, limit=60)
    assert [record["metric"] for record in records] == ["test_accuracy", "test_accuracy_majority"]
    assert [record["runs"] for record in records] == [2, 2]
    assert 0 < records[0]["mean"] <= 1
    assert 0.5 <= records[1]["mean"] < 1
    assert "churn-with-orders" in capsys.readouterr().out


def test_files_of_made_up_records_are_alike(load_benchmark, tmp_path):
    files = load_benchmark("record_files")
    files.write_parquet(tmp_path / "a.parquet", 3000)
    files.write_jsonl(tmp_path / "a.jsonl", 3000)
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    first, second = (Schema.infer(tmp_path / name) for name in ("a.parquet", "a.jsonl"))
    assert first.n_records == second.n_records == len(lines) == 333
    assert [(f.path, f.kind) for f in first] == [(f.path, f.kind) for f in second]
    n_items = sum(len(order["items"]) for line in lines for order in json.loads(line)["orders"])
    assert n_items == pytest.approx(3000, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", pytest.param("jsonl", marks=pytest.mark.nightly)])
def test_reading_is_timed_and_measured(load_benchmark, form, tmp_path):
    reading = load_benchmark("records_reading")
    path = tmp_path / f"a.{form}"
    reading.WRITERS[form](path, 2000)
    whole, without_texts = reading.compare(form, path, rounds=1)
    assert (whole["variant"], without_texts["variant"]) == ("", "without texts")
    assert whole["seconds"] >= whole["infer_seconds"]
    assert whole["mean"] > 0
    assert 0 <= reading.memory(form, path, 1)["mean"] < 4


@pytest.mark.slow
@pytest.mark.nightly
def test_steps_are_timed(load_benchmark, monkeypatch):
    step = load_benchmark("records_step")
    options = step.parse(["--data", "churn", "--rounds", "1", "--limit", "64", "--dry"])
    monkeypatch.setattr(synthetic, "load_churn", None)  # the data are made in other processes
    record = step.compare("churn", options)
    assert record["mean"] > 0
    assert record["reference"] == "plain"

"""Benchmarks on records: small runs go through."""

import json

import numpy as np
import pytest

from keras_mmil.datasets import synthetic
from keras_mmil.records import Schema


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


def some_records(n):
    """Records with a label that the sum over two levels of bags tells."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(n):
        orders = [
            {"paid": bool(rng.integers(2)), "items": rng.integers(9, size=rng.integers(4)).tolist()}
            for _ in range(rng.integers(1, 4))
        ]
        total = sum(x for order in orders for x in order["items"])
        found.append({"city": "AB"[rng.integers(2)], "orders": orders, "big": total > 12})
    return found


def test_flat_learners_in_the_same_folds(load_benchmark, tmp_path, monkeypatch, capsys):
    bench = load_benchmark("by_default")
    monkeypatch.setattr(bench, "DATA", {"some": lambda: (some_records(80), "big")})
    monkeypatch.setattr(bench, "NUMBERS", {"number": lambda: (some_records(60), "big")})
    learners = ["majority", "tree", "ridge"]
    folds = tmp_path / "folds.jsonl"
    arguments = ["--repeats", "1", "--dry", "--folds", str(folds), "--learners", *learners]
    bench.main(arguments)
    rows = [json.loads(line) for line in folds.read_text().splitlines()]
    assert len(rows) == 5 * 3
    summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {(r["experiment"], r["model"], r["metric"]): r["mean"] for r in summary}
    assert found["some", "tree", "test_accuracy"] > 0.9  # it reads the sum
    majority = found["some", "majority", "test_accuracy"]
    assert majority == found["some", "tree", "test_accuracy_majority"] < 0.8
    assert found["number", "ridge", "test_r2"] > 0.3
    bench.main(arguments)  # nothing is left to run
    assert len(folds.read_text().splitlines()) == len(rows)


def test_records_as_linked_tables(load_benchmark):
    relational = load_benchmark("competitors.relational")
    records = some_records(7)
    found = relational.tables(records, "big")
    assert set(found) == {"", "orders", "orders.items"}
    assert found[""].columns.tolist() == ["key0", "city"]
    orders, items = found["orders"], found["orders.items"]
    assert len(orders) == sum(len(record["orders"]) for record in records)
    for _, row in items.iterrows():
        order = records[row["key0"]]["orders"][row["key1"]]
        assert order["items"][row["key2"]] == row["orders.items.value"]
    assert len(items) == sum(len(order["items"]) for r in records for order in r["orders"])

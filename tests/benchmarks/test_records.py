"""Benchmarks on records: small runs go through."""

import json

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

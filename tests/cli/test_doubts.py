"""Networks that have learned nothing are said to have learned nothing."""

import json
import shlex

import numpy as np
import own_records
import pytest
from sklearn.metrics import roc_auc_score

from keras_mmil.cli.doubts import doubt_of_classes, doubt_of_numbers, hardly_repeated
from keras_mmil.records import Schema
from keras_mmil_cli.main import main

NAMES = ["no", "yes"]


def noise(seed, n=200, share=0.5):
    """Labels, and probabilities that know nothing of them."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < share).astype(int)
    yes = rng.random(n)
    return truth, np.stack([1 - yes, yes], axis=1)


def test_noise_is_seldom_taken_for_learned():
    found = [doubt_of_classes(*noise(seed), NAMES, "left") for seed in range(200)]
    lost = [each for each in found if each is not None and each.is_lost]
    assert len(lost) > 170
    assert (
        "NOT learned to tell left: on the 200 records for test it is right about " in lost[0].text
    )
    truth, probabilities = noise(0)
    right = np.mean(probabilities.argmax(axis=1) == truth)
    assert f"right about {100 * right:.1f} % of them" in lost[0].text
    most = max(truth.mean(), 1 - truth.mean())
    assert f"would be about {100 * most:.1f} %" in lost[0].text


def test_what_was_learned_is_not_doubted():
    truth, _ = noise(0)
    better = np.where(np.arange(200) < 150, truth, 1 - truth)
    assert doubt_of_classes(truth, np.eye(2)[better], NAMES, "left") is None
    few = np.array([0, 1] * 6)
    assert doubt_of_classes(few, np.eye(2)[few], NAMES, "left") is None


def test_rare_classes_that_are_ranked():
    """Always "no" is as often right, but the probabilities tell."""
    rng = np.random.default_rng(0)
    truth = (np.arange(300) < 15).astype(int)
    yes = np.clip(0.1 + 0.2 * truth + rng.normal(0, 0.05, 300), 0, 0.45)
    found = doubt_of_classes(truth, np.stack([1 - yes, yes], axis=1), NAMES, "left")
    assert found is not None
    assert not found.is_lost
    area = roc_auc_score(truth, yes)
    assert f"is {area:.2f}" in found.text
    assert "imbalanced.md" in found.text


@pytest.mark.parametrize(("r2", "constant", "lost"), [(0.3, -0.01, 0), (-0.2, -0.01, 1), (0, 0, 1)])
def test_numbers(r2, constant, lost):
    found = doubt_of_numbers(r2, constant, "spent")
    assert (found is not None and found.is_lost) == bool(lost)


def test_fields_that_are_learnt_by_heart():
    rng = np.random.default_rng(0)
    records = [
        {
            "city": f"city {i % 7}",
            "customer": {"id": f"c{rng.integers(150)}", "age": i / 3},
            "ticket_id": int(rng.integers(120)),
            "price": float(rng.random()),
            "orders": [{"day": f"2024-01-{1 + k % 28:02}T{i % 24:02}:00", "kind": "x"}] * 2,
            "left": bool(i % 2),
        }
        for i, k in enumerate(rng.integers(0, 99, 300))
    ]
    schema = Schema.infer(records, {"customer.id": "category", "ticket_id": "number"})
    assert set(hardly_repeated(schema, "left")) == {"customer.id", "ticket_id", "orders.day"}
    assert set(hardly_repeated(schema, "customer.id")) == {"ticket_id", "orders.day"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
def test_training_on_noise(tmp_path, capsys, monkeypatch):
    """It says so, why that may be, and the next command, which runs."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    records = [
        {
            "who": f"person {i // 2}",
            "calls": [{"x": float(x)} for x in rng.random(2)],
            "left": bool(rng.integers(2)),
        }
        for i in range(160)
    ]
    data = own_records.write_lines(tmp_path / "noise.jsonl", records)
    quick = ["--epochs", "2", "--verbose", "0", "--max-clusters", "2"]
    assert main(["train", str(data), "--target", "left", "--out", "run", *quick]) == 0
    printed = capsys.readouterr().out
    assert "The network has NOT learned to tell left: on the 32 records for test" in printed
    assert "Fields that hardly repeat are learnt by heart: who." in printed
    assert "128 records for training may be too few" in printed
    assert "The rules are no finding, see the end." in printed
    page = (tmp_path / "run" / "report.html").read_text()
    assert "The network has NOT learned to tell left" in page
    (command,) = [line for line in printed.splitlines() if line.startswith("  keras-mmil train")]
    assert json.loads((tmp_path / "run" / "without.json").read_text())["choices"] == {
        "who": "dropped"
    }
    assert main([*shlex.split(command)[1:], *quick]) == 0
    again = capsys.readouterr().out
    assert "who" not in again.partition("Schema:")[2].replace("whole", "")
    assert (tmp_path / "run-without" / "report.html").exists()

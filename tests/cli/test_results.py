"""Records of measured figures: when they are made, by which command, and of which commit."""

import argparse
import json
import shutil
import subprocess

import pytest

from keras_mmil import zoo
from keras_mmil.cli import results
from keras_mmil_cli.main import main

QUICK = ["--source", "synthetic", "--epochs", "1", "--verbose", "0"]
PAPERS = ["run", "cora", "--split", "random", "--no-rules", *QUICK]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder that passes for the checkout."""
    folder = tmp_path / "checkout"
    (folder / "benchmarks" / "results").mkdir(parents=True)
    (folder / "setup.cfg").write_text("[metadata]\nname = keras-mmil\n")
    monkeypatch.setattr(results, "_CHECKOUT", folder)
    monkeypatch.chdir(folder)
    return folder


def test_nothing_is_recorded_unless_it_is_asked_for(checkout, tmp_path):
    before = sorted(checkout.rglob("*"))
    assert main([*PAPERS, "--out", str(tmp_path / "run")]) == 0
    assert sorted(checkout.rglob("*")) == before
    assert (tmp_path / "run" / "metrics.json").exists()


def test_record(checkout, tmp_path):
    assert main([*PAPERS, "--seed", "3", "--record", "--out", str(tmp_path / "run")]) == 0
    path = checkout / "benchmarks" / "results" / "cora.json"
    (accuracy,) = (r for r in json.loads(path.read_text()) if r["metric"] == "test_accuracy")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert accuracy["values"] == {"3": round(metrics["test_accuracy"], 6)}


@pytest.mark.parametrize("missing", ["setup.cfg", "benchmarks"])
def test_recording_needs_a_checkout(checkout, missing, capsys):
    """Which is said before anything else is done."""
    path = checkout / missing
    path.unlink() if path.is_file() else shutil.rmtree(path)
    assert main([*PAPERS, "--record", "--out", "run"]) == 2
    printed = capsys.readouterr()
    assert f"for --record. Received: {checkout}" in printed.err
    assert not printed.out
    assert not (checkout / "run").exists()


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        ("cora-mil-mean-transductive", {"source": "synthetic"}),
        ("imdb", {"adversarial": True}),
        ("imdb-binary", {"folds": 10, "rounds": 2}),
        ("imdb-binary", {"folds": 5, "rounds": 2}),
        ("imdb-binary", {"folds": 0}),
    ],
)
def test_commands_of_records_are_those_of_their_runs(key, settings, tmp_path, monkeypatch):
    """Given to the program, they ask for what was recorded."""
    experiment = zoo.registry[key]
    about = {"source": experiment.sources[0], "epochs": 7, "adversarial": False, "folds": 0}
    settings = {**about, **settings}
    results.record(tmp_path, experiment, settings, {"test_accuracy": {4: 0.5}})
    (entry,) = json.loads((tmp_path / f"{experiment.name}.json").read_text())
    asked = []
    monkeypatch.setattr("keras_mmil.cli.run.run_seeds", lambda *call: asked.append(call))
    assert main(entry["command"].replace(" S", " 4").split()[1:]) == 0
    ((chosen, options),) = asked
    assert chosen is experiment
    assert isinstance(options, argparse.Namespace)
    assert (options.epochs, options.seed, options.record) == (7, 4, True)
    assert options.vat == settings["adversarial"]
    assert (options.source or experiment.sources[0]) == settings["source"]
    folds = experiment.folds if options.folds is None else options.folds
    assert folds == settings["folds"]
    assert options.rounds == settings.get("rounds")


def git(folder, *arguments):
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    command = ["git", *author, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "_CHECKOUT", tmp_path)
    measured = tmp_path / "benchmarks" / "results" / "plants.json"
    drawn = tmp_path / "benchmarks" / "plots" / "species.png"
    program = tmp_path / "program.py"
    for path in (measured, drawn, program):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "all")
    clean = git(tmp_path, "rev-parse", "--short", "HEAD").strip()
    for path in (measured, drawn):
        path.write_text("2")
        assert results.commit() == clean
    program.write_text("2")
    assert results.commit() == clean + "+"


def test_no_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "_CHECKOUT", tmp_path)
    assert results.commit() is None

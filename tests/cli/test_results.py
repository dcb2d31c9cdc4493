"""Records of measured figures: when they are made, by which command, and of which commit."""

import dataclasses
import json
import shutil
import subprocess

import numpy as np
import pytest

from keras_mmil import training, zoo
from keras_mmil.cli import results
from keras_mmil.cli.options import RunOptions, Settings
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


@pytest.mark.slow
def test_nothing_is_recorded_unless_it_is_asked_for(checkout, tmp_path):
    before = sorted(checkout.rglob("*"))
    assert main([*PAPERS, "--out", str(tmp_path / "run")]) == 0
    assert sorted(checkout.rglob("*")) == before
    assert (tmp_path / "run" / "metrics.json").exists()


@pytest.mark.slow
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


def settings_of(experiment, **settings):
    """Those of a run of the paper's data, without a cross-validation unless it is asked for."""
    return dataclasses.replace(Settings.of(experiment, RunOptions(folds=0)), **settings)


def test_records(tmp_path):
    experiment = zoo.registry["mnist"]
    settings = settings_of(experiment, epochs=3)
    for seed, accuracy in ((0, 0.9), (1, 0.8), (0, 1.0)):
        results.record(tmp_path, experiment, settings, {"test_accuracy": {seed: accuracy}})
    (entry,) = json.loads((tmp_path / "mnist.json").read_text())
    assert entry["values"] == {"0": 1.0, "1": 0.8}
    assert entry["runs"] == 2
    np.testing.assert_allclose(
        [entry["mean"], entry["std"]], [0.9, np.std([1, 0.8], ddof=1)], atol=1e-6
    )
    assert entry["paper"] == 0.9842
    settings = dataclasses.replace(settings, source="digits")
    results.record(tmp_path, experiment, settings, {"test_accuracy": {1: 0.5}})
    assert len(json.loads((tmp_path / "mnist.json").read_text())) == 2


def test_records_name_split_and_command(tmp_path):
    experiment = zoo.registry["cora-mil-mean-transductive"]
    settings = settings_of(experiment, epochs=100)
    of_a_baseline = {"experiment": "cora", "model": "gcn", "variant": "", "metric": "test_accuracy"}
    (tmp_path / "cora.json").write_text(json.dumps([of_a_baseline]))
    results.record(tmp_path, experiment, settings, {"test_accuracy": {0: 0.7, 1: 0.9}})
    baseline, entry = json.loads((tmp_path / "cora.json").read_text())
    assert (entry["model"], entry["variant"]) == ("mil-mean", "transductive")
    assert (entry["mean"], entry["paper"], entry["runs"]) == (0.8, 0.785, 2)
    assert entry["chosen_on"] == "4 random splits without Planetoid's test papers"
    options = "--model mil --aggregation mean --split transductive --epochs 100 --seed S"
    assert entry["command"] == f"keras-mmil run cora {options} --record"
    assert baseline == of_a_baseline
    results.record(tmp_path, experiment, settings, {"test_accuracy": {0: 0.7}}, rounds=3)
    _, entry = json.loads((tmp_path / "cora.json").read_text())
    assert entry["command"].endswith("--epochs 100 --rounds 3 --seed S --no-rules --record")


def test_figures_of_folds():
    accuracy = np.array([[0.5, 0.75], [1.0, 0.5]])
    result = training.CrossValidation({"accuracy": accuracy}, np.full((2, 2), 90.0), 0.5)
    figures, variant = results.figures_of_folds(result)
    share = {"test_accuracy_majority": {0: 0.5}}
    assert figures == {"test_accuracy": {0: 0.625, 1: 0.75}, "train_minutes": {0: 6.0}, **share}
    assert variant == "2x2 folds"
    one = training.CrossValidation({"accuracy": accuracy[:1]}, np.full((1, 2), 90.0), 0.5)
    figures, variant = results.figures_of_folds(one)
    assert figures == {"test_accuracy": {0: 0.5, 1: 0.75}, "train_minutes": {0: 3.0}, **share}
    assert variant == "1x2 folds"


@pytest.mark.parametrize(
    ("key", "settings", "rounds"),
    [
        ("cora-mil-mean-transductive", {"source": "synthetic"}, None),
        ("imdb", {"adversarial": True}, None),
        ("imdb-binary", {"folds": 10}, 2),
        ("imdb-binary", {"folds": 5}, 2),
        ("imdb-binary", {"folds": 0}, None),
    ],
)
def test_commands_of_records_are_those_of_their_runs(key, settings, rounds, tmp_path, monkeypatch):
    """Given to the program, they ask for what was recorded."""
    experiment = zoo.registry[key]
    settings = settings_of(experiment, epochs=7, **settings)
    results.record(tmp_path, experiment, settings, {"test_accuracy": {4: 0.5}}, rounds=rounds)
    (entry,) = json.loads((tmp_path / f"{experiment.name}.json").read_text())
    asked = []
    monkeypatch.setattr("keras_mmil.cli.run.run_seeds", lambda *call: asked.append(call))
    assert main(entry["command"].replace(" S", " 4").split()[1:]) == 0
    ((chosen, options),) = asked
    assert chosen is experiment
    assert isinstance(options, RunOptions)
    assert (options.epochs, options.seed, options.record) == (7, 4, True)
    assert options.vat == settings.adversarial
    assert (options.source or experiment.sources[0]) == settings.source
    folds = experiment.folds if options.folds is None else options.folds
    assert folds == settings.folds
    assert options.rounds == rounds


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
    shutil.rmtree(tmp_path / ".git")
    assert results.commit() is None

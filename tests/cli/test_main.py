"""The command line."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import Explainer, Model, training, zoo
from keras_mmil.cli import results
from keras_mmil.cli.output import print_figures, print_run
from keras_mmil.cli.run_folder import RunFolder
from keras_mmil.layers import BagLayer
from keras_mmil_cli.main import main

# Short runs end with networks, and so rules, of a single class.
pytestmark = pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
PROGRAM = [sys.executable, "-m", "keras_mmil.cli"]
ONLY_TRAIN = ["--limit", "12", "--epochs", "2", "--verbose", "0"]
SHORT = [*ONLY_TRAIN, "--max-clusters", "2"]


def test_run_writes_all_it_says(tmp_path, capsys):
    out = tmp_path / "run"
    command = ["--debug", "run", "mnist", "--source", "digits", "--out", str(out), *SHORT]
    assert main(command) == 0
    printed = capsys.readouterr().out
    metrics = json.loads((out / "metrics.json").read_text())
    assert {"test_accuracy", "rule_accuracy", "fidelity", "train_minutes"} <= metrics.keys()
    assert "(paper:" not in printed  # which did not speak of these digits
    for name in ("fidelity.png", "clusters.png", "rules.txt", "history.csv", "settings.json"):
        assert (out / name).stat().st_size > 0
    model = keras.models.load_model(out / "model.keras")
    explainer = Explainer.load(out / "rules", model)
    x, y, _ = zoo.registry["mnist"].load(seed=0, limit=12, source="digits").test
    np.testing.assert_allclose(explainer.score(x, y), metrics["rule_accuracy"])
    assert str(explainer.rules_) in printed
    assert (out / "rules.txt").read_text().startswith(explainer.rules_.text(all=True))

    by_network = (model.predict(x, verbose=0)[:, 0] > 0.5).tolist()
    for metric, classes in {
        "test_accuracy": y.tolist(),
        "rule_accuracy": y.tolist(),
        "fidelity": by_network,
    }.items():
        share = max(map(classes.count, classes)) / len(classes)
        np.testing.assert_allclose(metrics[f"{metric}_majority"], share)
        beside = f"(most frequent class: {100 * share:.2f} %)"
        assert f"{metric:16} {100 * metrics[metric]:7.2f} %   {beside}\n" in printed
    assert "_majority" not in printed
    constant = len({rule.conclusion for rule in explainer.levels_[-1].rules}) == 1
    assert ("The rules are CONSTANT" in printed) == constant

    assert main(command[1:]) == 2  # nothing is overwritten
    assert "--resume" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    assert json.loads((out / "metrics.json").read_text())["fidelity"] == metrics["fidelity"]


def test_figures_are_printed_beside_the_share_of_the_most_frequent_class(capsys):
    metrics = {"test_accuracy": 0.9, "test_accuracy_majority": 0.75, "train_minutes": 1.25}
    print_figures(metrics, {"test_accuracy": 0.875}, dict.fromkeys(metrics, 0.01))
    assert capsys.readouterr().out.splitlines() == [
        "test_accuracy      90.00 % ± 1.00 %   (most frequent class: 75.00 %)   (paper: 87.50 %)",
        "train_minutes          1.2 ± 0.0",
    ]


def test_constant_rules_are_called_so(tmp_path, capsys):
    """An untrained network says the same of every top-bag."""
    inputs = keras.Input((None, None, 2), ragged=True)
    x = BagLayer(2)(BagLayer(2)(inputs))
    output = keras.layers.Dense(1, "sigmoid", kernel_initializer="zeros", bias_initializer="ones")
    model = Model(inputs, output(x))
    points = np.random.default_rng(0).random((20, 2, 3, 2), np.float32)
    bags = tf.RaggedTensor.from_tensor(points, ragged_rank=2)
    explainer = Explainer(n_clusters=2, verbose=0).fit(model, bags, bags)
    folder = RunFolder(tmp_path / "run", {}, resume=False)
    print_run(explainer, explainer.evaluate(bags), {}, folder)
    printed = capsys.readouterr().out
    assert "# CONSTANT: the rules put every top-bag into one class, 'positive'." in printed
    assert "The rules are CONSTANT: every top-bag is 'positive'." in printed
    assert "fidelity          100.00 %   (most frequent class: 100.00 %)" in printed


def test_demo(tmp_path, capsys):
    arguments = ["demo", "--out", str(tmp_path / "demo"), *SHORT]
    for _ in range(2):  # a second demo replaces the first
        assert main(arguments) == 0
        printed = capsys.readouterr().out
        assert "Why the first positive top-bag" in printed
        assert "fidelity" in printed
    assert (tmp_path / "demo" / "rules").is_dir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "mnits"], "experiment='mnits'"),
        (["run", "mnist", "--source", "cifar"], "--source cifar"),
        (["run", "mnist", "--epochs", "0"], "--epochs 0"),
        (["run", "mnist", "--limit", "1"], "--limit 1"),
        (["run", "mnist", "--model", "mil"], "--model among mmil for mnist. Received: --model mil"),
        (["run", "imdb", "--split", "random"], "--split among none for imdb"),
        (["run", "cora", "--aggregation", "sum"], "--aggregation among mean, max for cora"),
        (["run", "cora", "--split", "spatial"], "random, transductive, temporal for cora"),
        (["run", "cora", "--folds", "3"], "--folds 3 for cora"),
        (["run", "mnist", "--seeds", "0"], "--seeds 0"),
        (["run", "collab", "--source", "synthetic", "--rounds", "0"], "--rounds 0"),
        (["run", "collab", "--source", "synthetic", "--folds", "200"], "folds=200"),
    ],
)
def test_errors_name_the_value(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_run_without_data_leaves_no_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KERAS_MMIL_DATA", str(tmp_path / "empty"))
    assert main(["run", "plants", "--out", str(tmp_path / "run"), *SHORT]) == 2
    assert "afliber_species.npz" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_resume_needs_the_same_settings(tmp_path, capsys):
    out = ["--out", str(tmp_path / "run"), "--source", "digits"]
    assert main(["run", "mnist", *out, *SHORT]) == 0
    assert main(["run", "mnist", *out, *SHORT, "--resume", "--seed", "1"]) == 2
    assert "'seed': 1" in capsys.readouterr().err


def start_and_kill(command, out):
    """`kill -9` in mid-training, after an epoch or some."""
    process = subprocess.Popen(
        [*PROGRAM, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not list(out.glob("epoch-*.keras")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert list(out.glob("epoch-*.keras"))
    assert not (out / "metrics.json").exists()


def test_a_killed_run_is_resumed(tmp_path):
    """`kill -9` in mid-training, then --resume: as many epochs, and all results."""
    out = tmp_path / "run"
    command = ["run", "mnist", "--source", "digits", "--out", str(out)]
    command += ["--limit", "40", "--epochs", "6", "--max-clusters", "2"]
    start_and_kill(command, out)
    subprocess.run([*PROGRAM, *command, "--resume"], check=True, stdout=subprocess.DEVNULL)
    assert len((out / "history.csv").read_text().splitlines()) == 1 + 6
    assert (out / "metrics.json").exists()


def test_a_killed_adversarial_run_ends_as_if_it_had_not_been(tmp_path):
    def command(name):
        arguments = ["run", "imdb", "--source", "opinions", "--limit", "40", "--vat"]
        return [*arguments, "--epochs", "6", "--max-clusters", "2", "--out", str(tmp_path / name)]

    def outcome(name):
        with open(tmp_path / name / "history.csv", newline="") as file:
            history = list(csv.DictReader(file))
        assert len(history) == 6
        assert all(float(epoch["adversarial_loss"]) > 0 for epoch in history)
        metrics = json.loads((tmp_path / name / "metrics.json").read_text())
        return metrics["test_accuracy"], [float(epoch["val_loss"]) for epoch in history]

    start_and_kill(command("killed"), tmp_path / "killed")
    assert main([*command("killed"), "--resume"]) == 0
    assert main(command("whole")) == 0
    (accuracy, losses), (expected_accuracy, expected_losses) = map(outcome, ("killed", "whole"))
    np.testing.assert_allclose(accuracy, expected_accuracy, atol=0.003)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-3)


@pytest.fixture(scope="module")
def review_runs(tmp_path_factory):
    """Folders of a run on texts as bags of sentences, and of one as bags of trigrams."""
    folders = []
    for variant in ("mmil", "mil"):
        folders.append(str(tmp_path_factory.mktemp("runs") / variant))
        command = ["run", "imdb", "--source", "opinions", "--model", variant, "--limit", "20"]
        command += ["--epochs", "1", "--max-clusters", "2", "--verbose", "0", "--out", folders[-1]]
        assert main(command) == 0
    return folders


TEXT = "The plot was <great>. And the cast is not good!"


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_explain(review_runs, form, capsys):
    capsys.readouterr()
    other = "I saw it. It was awful."
    command = ["explain", review_runs[0], "--format", form, "--text", TEXT, "--text", other]
    assert main(command) == 0
    printed = capsys.readouterr().out.rstrip("\n")
    model = keras.models.load_model(f"{review_runs[0]}/text_model.keras")
    explainer = Explainer.load(f"{review_runs[0]}/rules", model)
    for explanation, label in zip(
        explainer.explain([TEXT, other]), explainer.predict([TEXT, other]), strict=True
    ):
        method = {"terminal": "to_text", "markdown": "to_markdown", "html": "to_html"}[form]
        assert explanation.label == label
        assert getattr(explanation, method)() in printed
    assert ("<table" in printed) == (form == "html")
    assert ("\\<" in printed) == (form == "markdown")
    assert printed.index("plot") < printed.index("awful")


@pytest.mark.parametrize(
    ("form", "titles"),
    [
        ("terminal", ["--- imdb", "--- imdb-mil"]),
        ("markdown", ["### imdb", "### imdb-mil"]),
        ("html", ["<th>imdb</th>", "<th>imdb-mil</th>"]),
    ],
)
def test_explain_by_two_runs(review_runs, form, titles, capsys):
    capsys.readouterr()
    assert main(["explain", *review_runs, "--format", form, "--text", TEXT]) == 0
    printed = capsys.readouterr().out
    assert [printed.count(title + ("" if form == "html" else "\n")) for title in titles] == [1, 1]
    assert printed.index(titles[0]) < printed.index(titles[1])
    for run, depth in zip(review_runs, (2, 1), strict=True):
        rules = Explainer.load(f"{run}/rules", keras.models.load_model(f"{run}/text_model.keras"))
        (explanation,) = rules.explain([TEXT])
        shown = {"terminal": "to_text", "markdown": "to_markdown", "html": "to_html"}[form]
        assert explanation.top_bag.level == depth
        assert getattr(explanation, shown)() in printed


def test_runs_on_texts_tell_what_stands_for_their_clusters(review_runs):
    for run, words in zip(review_runs, (("instance", "sub-bag"), ("instance",)), strict=True):
        with open(f"{run}/clusters.md", encoding="utf-8") as file:
            table = file.read()
        assert table.count("Clusters of ") == len(words)
        assert all(f"Clusters of {word}s" in table for word in words)
        assert "plot" in table


def test_explain_needs_a_finished_run(tmp_path, capsys):
    assert main(["explain", str(tmp_path), "--text", "Good."]) == 2
    error = capsys.readouterr().err
    assert "Expected the folder of a finished run on texts" in error
    assert str(tmp_path) in error


PAPERS = ["run", "cora", "--source", "synthetic", "--split", "transductive", *ONLY_TRAIN]


def test_several_seeds(tmp_path, capsys):
    """Each has its folder; what is printed last are means."""
    out = ["--out", str(tmp_path / "runs"), "--aggregation", "mean"]
    assert main([*PAPERS, *out, "--seed", "3", "--seeds", "2", "--no-rules"]) == 0
    printed = capsys.readouterr().out
    accuracies = []
    for seed in (3, 4):
        folder = tmp_path / "runs" / f"seed{seed}"
        assert json.loads((folder / "settings.json").read_text())["seed"] == seed
        accuracies.append(json.loads((folder / "metrics.json").read_text())["test_accuracy"])
        assert not (folder / "rules").exists()
    mean, std = np.mean(accuracies), np.std(accuracies, ddof=1)
    summary = printed.partition("Means of 2 seeds\n")[2]
    assert f"test_accuracy    {100 * mean:7.2f} % ± {100 * std:.2f} %   (most freq" in summary
    assert "rule_accuracy" not in printed


def test_the_default_is_the_first_split_and_aggregation(tmp_path):
    command = ["run", "citeseer", "--source", "synthetic", "--model", "mil", *SHORT]
    assert main([*command, "--out", str(tmp_path)]) == 0
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert settings["experiment"] == "citeseer-mil-mean-random"


@pytest.mark.parametrize(
    ("options", "metric", "files"),
    [
        (["modelnet"], "test_accuracy", {"clouds.png", "sub_bags.txt", "clusters.png"}),
        (
            ["modelnet", "--model", "mil", "--split", "P100-rotations"],
            "test_accuracy",
            {"clouds.png"},
        ),
        (["plants"], "map", {"instance_clusters.png", "sub_bag_clusters.png"}),
        (["plants", "--model", "mil", "--split", "P30"], "map", {"instance_clusters.png"}),
    ],
)
@pytest.mark.filterwarnings("ignore:The rules put every")  # two epochs are few
def test_clouds_and_floras(options, metric, files, tmp_path, capsys):
    """The last network is kept, without a look at validation data."""
    short = [*SHORT[2:], "--limit", "40"]
    assert main(["run", *options, "--source", "synthetic", "--out", str(tmp_path), *short]) == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert {metric, "rule_accuracy", "fidelity"} < metrics.keys()
    files = files | {"clusters.md", "explanations.txt", "rules.txt", "model.keras", "fidelity.png"}
    assert files <= {path.name for path in tmp_path.iterdir()}
    assert "val_loss" not in (tmp_path / "history.csv").read_text()
    assert f"{metric:16}" in capsys.readouterr().out


def test_cross_validation(tmp_path, capsys):
    """First folds, then the rules of one more network; and more rounds later."""
    out = ["--out", str(tmp_path / "run"), "--folds", "3"]
    command = ["run", "imdb-binary", "--source", "synthetic", *ONLY_TRAIN, *out]
    assert main([*command, "--rounds", "2", "--max-clusters", "2"]) == 0
    printed = capsys.readouterr().out
    scores = json.loads((tmp_path / "run" / "cross_validation.json").read_text())["folds"]
    assert [(s["round"], s["fold"]) for s in scores] == [(r, f) for r in (0, 1) for f in range(3)]
    mean = np.mean([score["accuracy"] for score in scores])
    assert "36 top-bags, 2 x 3 folds" in printed
    assert f"test_accuracy    {100 * mean:7.2f} %   (most frequent class: " in printed
    assert "(paper:" not in printed
    assert (tmp_path / "run" / "rules").is_dir()
    assert main([*command, "--rounds", "3", "--resume", "--no-rules"]) == 0
    again = json.loads((tmp_path / "run" / "cross_validation.json").read_text())["folds"]
    assert again[:6] == scores
    assert len(again) == 9
    capsys.readouterr()
    assert main([*command, "--resume", "--folds", "4"]) == 2
    assert "'folds': 4" in capsys.readouterr().err


def test_the_network_after_a_cross_validation_does_not_depend_on_it(tmp_path):
    """Whether its folds were trained here, in other processes, or before an interruption."""
    command = ["run", "imdb-binary", "--source", "synthetic", "--limit", "24", "--epochs", "2"]
    command += ["--folds", "2", "--rounds", "1", "--max-clusters", "3", "--verbose", "0"]
    whole, resumed, side_by_side = (tmp_path / name for name in ("a", "b", "c"))
    assert main([*command, "--out", str(whole)]) == 0
    resumed.mkdir()
    for name in ("settings.json", "cross_validation.json"):
        shutil.copy(whole / name, resumed)
    assert main([*command, "--out", str(resumed), "--resume"]) == 0
    assert main([*command, "--out", str(side_by_side), "--jobs", "2"]) == 0
    for other in (resumed, side_by_side):
        for name in ("rules/manifest.json", "rules.txt"):
            assert (other / name).read_bytes() == (whole / name).read_bytes()


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


def test_records_name_split_and_command(tmp_path):
    experiment = zoo.registry["cora-mil-mean-transductive"]
    settings = {"source": "planetoid", "epochs": 100, "adversarial": False}
    of_a_baseline = {"experiment": "cora", "model": "gcn", "variant": "", "metric": "test_accuracy"}
    (tmp_path / "cora.json").write_text(json.dumps([of_a_baseline]))
    results.record(tmp_path, experiment, settings, {"test_accuracy": {0: 0.7, 1: 0.9}})
    baseline, entry = json.loads((tmp_path / "cora.json").read_text())
    assert (entry["model"], entry["variant"]) == ("mil-mean", "transductive")
    assert (entry["mean"], entry["paper"], entry["runs"]) == (0.8, 0.785, 2)
    options = "--model mil --aggregation mean --split transductive --epochs 100 --seed S"
    assert entry["command"] == f"keras-mmil run cora {options} --record"
    assert baseline == of_a_baseline
    results.record(tmp_path, experiment, {**settings, "rounds": 3}, {"test_accuracy": {0: 0.7}}, "")
    _, entry = json.loads((tmp_path / "cora.json").read_text())
    assert entry["command"].endswith("--epochs 100 --rounds 3 --seed S --no-rules --record")


def test_records(tmp_path):
    experiment = zoo.registry["mnist"]
    for seed, accuracy in ((0, 0.9), (1, 0.8), (0, 1.0)):
        settings = {"source": "mnist", "epochs": 3, "adversarial": False}
        results.record(tmp_path, experiment, settings, {"test_accuracy": {seed: accuracy}})
    (entry,) = json.loads((tmp_path / "mnist.json").read_text())
    assert entry["values"] == {"0": 1.0, "1": 0.8}
    assert entry["runs"] == 2
    np.testing.assert_allclose(
        [entry["mean"], entry["std"]], [0.9, np.std([1, 0.8], ddof=1)], atol=1e-6
    )
    assert entry["paper"] == 0.9842
    settings["source"] = "digits"
    results.record(tmp_path, experiment, settings, {"test_accuracy": {1: 0.5}})
    assert len(json.loads((tmp_path / "mnist.json").read_text())) == 2


@pytest.mark.parametrize("content", ["{}", "no JSON", '{"editor.fontSize": 12}'])
def test_what_is_not_a_run_is_left_alone(tmp_path, capsys, content):
    (tmp_path / "settings.json").write_text(content)
    (tmp_path / "precious.txt").write_text("kept")
    for command in (["demo"], ["run", "mnist", "--source", "digits", "--resume"]):
        assert main([*command, "--out", str(tmp_path), *SHORT]) == 2
        assert "Expected the settings of a run" in capsys.readouterr().err
    assert (tmp_path / "settings.json").read_text() == content
    assert (tmp_path / "precious.txt").exists()

"""Experiments, from the data to the rules."""

import dataclasses
import json
import re
import shutil

import keras
import numpy as np
import pytest

from keras_mmil import Explainer, zoo
from keras_mmil.training import fit_resumable
from keras_mmil_cli.main import main

# Short runs end with networks, and so rules, of a single class.
pytestmark = pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
ONLY_TRAIN = ["--limit", "12", "--epochs", "2", "--verbose", "0"]
SHORT = [*ONLY_TRAIN, "--max-clusters", "2"]


@pytest.mark.slow
def test_run_writes_all_it_says(tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"

    def fit(*arguments, callbacks, **options):
        class FirstIsBest(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs):
                logs["val_loss"] = 1.0 + epoch

        return fit_resumable(*arguments, callbacks=[*callbacks, FirstIsBest()], **options)

    monkeypatch.setattr("keras_mmil.cli.run.fit_resumable", fit)
    mnist, reported = zoo.registry["mnist"], []

    def load(**arguments):
        """The command line itself knows nothing of the data."""
        return dataclasses.replace(mnist.load(**arguments), report=reported.append)

    monkeypatch.setitem(zoo.registry, "mnist", dataclasses.replace(mnist, load=load))
    command = ["--debug", "run", "mnist", "--source", "digits", "--out", str(out), *SHORT]
    assert main(command) == 0
    printed = capsys.readouterr().out
    metrics = json.loads((out / "metrics.json").read_text())
    assert {"test_accuracy", "rule_accuracy", "fidelity", "train_minutes"} <= metrics.keys()
    assert "(paper:" not in printed  # which did not speak of these digits
    for name in ("fidelity.png", "clusters.png", "rules.txt", "history.csv", "settings.json"):
        assert (out / name).stat().st_size > 0
    model, best, last = (
        keras.models.load_model(each)
        for each in (out / "model.keras", out / "best.keras", *out.glob("epoch-*.keras"))
    )
    is_kept = [
        np.array_equal(other.get_weights()[0], model.get_weights()[0]) for other in (best, last)
    ]
    assert is_kept == [True, False]  # this experiment keeps the best epoch
    explainer = Explainer.load(out / "rules", model)
    x, y, _ = zoo.registry["mnist"].load(seed=0, limit=12, source="digits").test
    np.testing.assert_allclose(explainer.score(x, y), metrics["rule_accuracy"])
    assert str(explainer.rules_) in printed
    written = (out / "rules.txt").read_text()
    assert written.startswith(str(explainer.rules_))
    assert explainer.rules_.text(all=True) in written

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

    data = mnist.load(seed=0, limit=12, source="digits")
    (report,) = reported
    assert report.folder == out
    assert report.explainer.rules_.to_dict() == explainer.rules_.to_dict()
    np.testing.assert_array_equal(report.x.flat_values, data.train.x.flat_values)
    np.testing.assert_array_equal(report.model.predict(x, verbose=0)[:, 0] > 0.5, by_network)
    fidelity = np.mean(np.equal(report.explainer.predict(x) == "positive", by_network))
    np.testing.assert_allclose(fidelity, metrics["fidelity"])

    assert main(command[1:]) == 2  # nothing is overwritten
    assert "--resume" in capsys.readouterr().err
    assert main([*command[1:], "--resume", "--seed", "1"]) == 2
    assert "'seed': 1" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    assert json.loads((out / "metrics.json").read_text())["fidelity"] == metrics["fidelity"]

    seen = [explainer.hashes(part.x) for part in (data.train, data.valid)]
    np.testing.assert_array_equal(
        np.load(out / "trained_on.npy", allow_pickle=False), np.concatenate(seen)
    )
    page = (out / "report.html").read_text()
    assert "They have seen none of these top-bags." in page
    assert main(["report", str(out), "--out", str(tmp_path / "page.html")]) == 0
    assert str(tmp_path / "page.html") in capsys.readouterr().out
    made = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"
    again = (tmp_path / "page.html").read_text()
    assert re.sub(made, "", again) == re.sub(made, "", page)
    assert main(["report", str(out), "--without-data", "--out", str(tmp_path / "page.html")]) == 0
    assert len((tmp_path / "page.html").read_text()) < len(page)
    (out / "trained_on.npy").unlink()
    assert main(["report", str(out)]) == 2
    assert "Expected the folder of a finished run with rules" in capsys.readouterr().err


def test_a_run_without_data_leaves_no_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KERAS_MMIL_DATA", str(tmp_path / "empty"))
    assert main(["run", "plants", "--out", str(tmp_path / "run"), *SHORT]) == 2
    assert "afliber_species.npz" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


PAPERS = ["run", "cora", "--source", "synthetic", "--split", "transductive"]
PAPERS += ["--limit", "12", "--epochs", "1", "--verbose", "0"]


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_teacher_labels_the_papers_without_labels(tmp_path, capsys, monkeypatch):
    """It is trained first, in a folder of its own; an interrupted run continues with it."""
    fitted = []

    def fit(build, x, y, **arguments):
        fitted.append((len(x), np.asarray(y)))
        return fit_resumable(build, x, y, **arguments)

    monkeypatch.setattr("keras_mmil.cli.run.fit_resumable", fit)
    out = tmp_path / "run"
    command = [*PAPERS, "--aggregation", "max", "--no-rules", "--out", str(out)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "Teacher: cora-mil-mean-transductive" in printed
    (n, y), (n_taught, labels) = fitted
    assert (n, n_taught) == (12, 36)
    teacher = keras.models.load_model(out / "teacher" / "model.keras")
    x, own, _ = (
        zoo.registry["cora-mil-mean-transductive"]
        .load(limit=12, source="synthetic", unlabelled=True)
        .train
    )
    np.testing.assert_array_equal(own, [*y, *[-1] * 24])
    np.testing.assert_array_equal(labels, [*y, *teacher.predict(x, verbose=0)[12:].argmax(1)])
    assert "12 top-bags for training, 24 without labels" in printed.partition("Student")[2]
    metrics = json.loads((out / "metrics.json").read_text())
    for name in ("model.keras", "metrics.json"):
        (out / name).unlink()
    (out / "teacher" / "model.keras").unlink()
    assert main([*command, "--resume"]) == 0
    assert json.loads((out / "metrics.json").read_text()) == metrics


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "metric", "files"),
    [
        pytest.param(
            *(["modelnet"], "test_accuracy", {"clouds.png", "sub_bags.txt", "clusters.png"}),
            marks=pytest.mark.nightly,  # the tests of the zoo train each, and plot the clouds
        ),
        pytest.param(
            ["modelnet", "--model", "mil", "--split", "P100-rotations"],
            "test_accuracy",
            {"clouds.png"},
            marks=pytest.mark.nightly,
        ),
        (["plants"], "map", {"instance_clusters.png", "sub_bag_clusters.png"}),
        pytest.param(
            *(["plants", "--model", "mil", "--split", "P30"], "map", {"instance_clusters.png"}),
            marks=pytest.mark.nightly,
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:The rules put every")  # two epochs are few
def test_clouds_and_floras(options, metric, files, tmp_path, capsys):
    """The last network is kept, without a look at validation data."""
    short = [*SHORT[2:], "--limit", "20"]
    assert main(["run", *options, "--source", "synthetic", "--out", str(tmp_path), *short]) == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert {metric, "rule_accuracy", "fidelity"} < metrics.keys()
    files = files | {"clusters.md", "explanations.txt", "rules.txt", "model.keras", "fidelity.png"}
    assert files <= {path.name for path in tmp_path.iterdir()}
    assert "val_loss" not in (tmp_path / "history.csv").read_text()
    assert f"{metric:16}" in capsys.readouterr().out


@pytest.mark.slow
def test_cross_validation(tmp_path, capsys):
    """First folds, then the rules of one more network; and more rounds later."""
    out = ["--out", str(tmp_path / "run"), "--folds", "2"]
    command = ["run", "imdb-binary", "--source", "synthetic", *ONLY_TRAIN, *out]
    assert main([*command, "--rounds", "1", "--max-clusters", "2"]) == 0
    printed = capsys.readouterr().out
    scores = json.loads((tmp_path / "run" / "cross_validation.json").read_text())["folds"]
    mean = np.mean([score["accuracy"] for score in scores])
    assert "36 top-bags, 1 x 2 folds" in printed
    assert f"test_accuracy    {100 * mean:7.2f} %   (most frequent class: " in printed
    assert "(paper:" not in printed
    assert (tmp_path / "run" / "rules").is_dir()
    # The network after it does not depend on whether its folds were trained by the same process.
    resumed = tmp_path / "resumed"
    resumed.mkdir()
    for name in ("settings.json", "cross_validation.json"):
        shutil.copy(tmp_path / "run" / name, resumed)
    command[-3] = str(resumed)
    assert main([*command, "--rounds", "1", "--max-clusters", "2", "--resume"]) == 0
    for name in ("rules/manifest.json", "rules.txt"):
        assert (resumed / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
    assert main([*command, "--rounds", "2", "--resume", "--no-rules"]) == 0
    again = json.loads((resumed / "cross_validation.json").read_text())["folds"]
    assert again[:2] == scores
    assert [(s["round"], s["fold"]) for s in again] == [(r, f) for r in (0, 1) for f in range(2)]
    capsys.readouterr()
    assert main([*command, "--resume", "--folds", "4"]) == 2
    assert "'folds': 4" in capsys.readouterr().err

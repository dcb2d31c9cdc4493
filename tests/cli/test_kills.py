"""Runs that are resumed from what they had on disk at random moments end as if never stopped."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import own_records
import pytest

PROGRAM = [sys.executable, str(Path(__file__).with_name("kills.py"))]
# Sums then have the same order in all runs; and there are several runs side by side.
THREADS = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"
ONE_THREAD = dict.fromkeys(THREADS, "1")
TIMES = {"seconds", "train_minutes", "extract_seconds"}  # no two runs have the same


def weights(path):
    """All arrays of a saved model, with those of its optimizer."""
    arrays = {}

    def keep(name, entry):
        if isinstance(entry, h5py.Dataset):
            arrays[name] = entry[()]

    with zipfile.ZipFile(path) as archive:
        content = io.BytesIO(archive.read("model.weights.h5"))
    with h5py.File(content) as file:
        file.visititems(keep)
    return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in arrays.items()}


def without_times(found):
    """JSON, or rows of a table, without the times that something took."""
    if isinstance(found, dict):
        return {key: without_times(value) for key, value in found.items() if key not in TIMES}
    return list(map(without_times, found)) if isinstance(found, list) else found


def content(path):
    """What a file of a run says, without what differs from run to run."""
    if path.suffix == ".keras":
        return weights(path)
    if path.name == "estimator.json":  # the files that it names are compared themselves
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: x for name, x in found.items() if name not in ("folder", "files", "sha256")}
    if path.suffix == ".json":
        return without_times(json.loads(path.read_text(encoding="utf-8")))
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return without_times(list(csv.DictReader(file)))
    if path.suffix == ".html":  # the report says when it was written
        return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", path.read_text(encoding="utf-8"))
    return path.read_bytes()


def outcome(folder):
    """All files of a run, by their names, but those that a killed process was writing.

    The files of an estimator are those in the folder that it names; another such folder is of a
    save that was killed.
    """
    folder = Path(folder)
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    if "estimator.json" in files:
        own = json.loads(files["estimator.json"].read_text())["folder"]
        files = {re.sub(f"^{own}/", "files/", name): path for name, path in files.items()}
    return {
        name: content(path)
        for name, path in files.items()
        if path.is_file() and not re.search(r"(^|/)part-|^files-|^\.lock$", name)
    }


# One kill of one run is also tested by test_train.py, in every run of the tests.
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("n_moments", [5, 10, 100])
@pytest.mark.skipif(sys.platform != "linux", reason="needs a fork that is safe")
@pytest.mark.parametrize(
    ("command", "phases"),
    [
        (
            "imdb-binary --source synthetic --limit 16 --folds 2 --rounds 1",
            {"start", "cross-validation", "training", "reading", "saving"},
        ),
        ("mnist --source digits --limit 12", {"start", "training", "reading", "saving"}),
        (
            "imdb --source opinions --limit 20 --vat",
            {"start", "training", "reading", "saving"},
        ),
        ("own data", {"start", "training", "reading", "saving"}),
    ],
    ids=lambda value: value.partition(" ")[0] if isinstance(value, str) else "",
)
def test_killed_runs_end_as_if_they_had_not_been(command, phases, n_moments, tmp_path):
    seed = 20 + n_moments  # other moments
    arguments = ["run", *command.split()]
    if command == "own data":
        data = own_records.write_lines(tmp_path / "shop.jsonl", own_records.customers()[:60])
        arguments = ["train", str(data), "--target", "left", "--learning-rate", "0.01"]
    arguments += ["--epochs", "3", "--max-clusters", "2"]
    done = subprocess.run(
        [*PROGRAM, str(tmp_path), str(seed), str(n_moments), *arguments],
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    whole, *runs = map(json.loads, done.stdout.splitlines())
    assert whole["code"] == 0, Path(f"{whole['out']}.log").read_text()
    expected = outcome(whole["out"])
    assert {"settings.json", "metrics.json", "report.html"} < expected.keys()
    assert {"model.keras", "files/model.keras"} & expected.keys()
    assert {"rules/manifest.json", "files/rules/0/manifest.json"} & expected.keys()
    assert sum(len(run["moments"]) for run in runs) == n_moments
    for run in runs:
        moment = f"seed {seed}: {run}"
        assert run["code"] == 0, moment + Path(f"{run['out']}.log").read_text()[-3000:]
        found = outcome(run["out"])
        assert found.keys() == expected.keys(), moment
        different = [name for name in expected if found[name] != expected[name]]
        assert not different, moment
        # What is saved before its rules are read is not trained anew.
        assert run["trained_no_more"] or run["phase"] not in ("reading", "saving"), moment
    assert {run["phase"] for run in runs} == phases


def test_what_differs_is_seen(tmp_path):
    """The comparison above leaves out times only."""
    for folder, loss, seconds in (("a", 0.5, 1.0), ("b", 0.5, 2.0), ("c", 0.25, 1.0)):
        (tmp_path / folder).mkdir()
        for name in ("metrics.json", "cross_validation.json"):
            text = json.dumps({"folds": [{"loss": loss, "seconds": seconds}]})
            (tmp_path / folder / name).write_text(text)
        (tmp_path / folder / "history.csv").write_text(f"epoch,seconds,loss\n0,{seconds},{loss}\n")
        with zipfile.ZipFile(tmp_path / folder / "model.keras", "w") as archive:
            buffer = io.BytesIO()
            with h5py.File(buffer, "w") as file:
                file["layers/dense/vars/0"] = np.array([loss])
            archive.writestr("model.weights.h5", buffer.getvalue())
    a, b, c = (outcome(tmp_path / folder) for folder in "abc")
    assert a == b
    assert [name for name in a if a[name] == c[name]] == []

"""The demos."""

import re
import shlex

import numpy as np
import pytest

from keras_mmil.cli.demo import digits_of_clusters
from keras_mmil.cli.run_folder import RunFolder
from keras_mmil.rules.explain.clusters import LevelDescription
from keras_mmil_cli.main import main

# Short runs end with networks, and so rules, of a single class.
pytestmark = pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
ONLY_TRAIN = ["--limit", "12", "--epochs", "2", "--verbose", "0"]
SHORT = [*ONLY_TRAIN, "--max-clusters", "2"]


@pytest.mark.slow
def test_demo_of_digits(tmp_path, capsys):
    out = tmp_path / "demo"
    with RunFolder(out, {"experiment": "mnist", "seed": 1}, resume=False).held():
        (out / "epoch-0009.keras").write_text("of an earlier demo")
    assert main(["demo", "digits", "--out", str(out), *SHORT]) == 0
    printed = capsys.readouterr().out
    assert "Why the first positive top-bag" in printed
    assert "fidelity" in printed
    assert re.search(r"^  u\d: holds a \d( or \d)* \([\d.]+ % of its images\)$", printed, re.M)
    assert not re.search(r"\bu\d\b", printed.partition("With these names, the rules are:")[2])
    assert (out / "rules").is_dir()
    assert not (out / "epoch-0009.keras").exists()


@pytest.mark.slow
def test_demo_of_records(tmp_path, capsys, monkeypatch):
    """The tables that it writes are what `train` would read, with the command that it prints."""
    monkeypatch.setattr("keras_mmil.cli.demo._CUSTOMERS", 150)
    out = tmp_path / "demo"
    short = ["--limit", "24", "--epochs", "1", "--verbose", "0", "--max-clusters", "2"]
    assert main(["demo", "--out", str(out), *short]) == 0
    printed = capsys.readouterr().out
    assert (
        "Why the first customer of the test that has churned has done so, by the rules:" in printed
    )
    of_files = printed.splitlines()[-2]
    assert "--key orders.customer=customers.id" in of_files
    (predict,) = re.findall(r"^  (keras-mmil predict .* --explain)   #", printed, re.MULTILINE)
    assert main(shlex.split(predict)[1:]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 150
    (command,) = re.findall(r"^\$ (keras-mmil train .*)$", printed, re.MULTILINE)
    _, *arguments = shlex.split(command)
    arguments[arguments.index("--out") + 1] = str(tmp_path / "own")
    assert main([*arguments, *short]) == 0
    again = capsys.readouterr().out
    rules = (out / "rules.txt").read_text()
    assert (tmp_path / "own" / "rules.txt").read_text() == rules
    assert "Records: 150 rows of customers in shop" in again


def test_clusters_by_true_digits():
    """The digits whose images are mostly in a cluster, and their share of it."""
    table = np.zeros((3, 10))
    table[0] = [9, 8, 7, 1, 9, 9, 9, 2, 9, 9]
    table[1, 7], table[1, 1], table[2, 3] = 18, 2, 9
    described = LevelDescription(
        level=0,
        word="instance",
        words="instances",
        title="instance",
        names=("u1", "u2", "u3"),
        sizes=np.ones(3) / 3,
        needed=(True,) * 3,
        table=table,
        label_names=tuple("0123456789"),
    )
    others, seven, three = digits_of_clusters(described)
    assert others == (tuple("01245689"), pytest.approx(69 / 72))
    assert seven == (("7",), pytest.approx(18 / 20))
    assert three == (("3",), 1.0)

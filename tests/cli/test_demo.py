"""The demos."""

import re
import shlex

import pytest

from keras_mmil.cli.run_folder import RunFolder
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
    assert re.search(r"^clusters of images$", printed, re.M)
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

"""The demos."""

import re
import shlex

import pytest

from keras_mmil_cli.main import main

# Short runs end with networks, and so rules, of a single class.
pytestmark = pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
ONLY_TRAIN = ["--limit", "12", "--epochs", "2", "--verbose", "0"]
SHORT = [*ONLY_TRAIN, "--max-clusters", "2"]


@pytest.mark.slow
def test_demo(tmp_path, capsys):
    arguments = ["demo", "--out", str(tmp_path / "demo"), *SHORT]
    for _ in range(2):  # a second demo replaces the first
        assert main(arguments) == 0
        printed = capsys.readouterr().out
        assert "Why the first positive top-bag" in printed
        assert "fidelity" in printed
    assert (tmp_path / "demo" / "rules").is_dir()


@pytest.mark.slow
def test_demo_of_records(tmp_path, capsys):
    """The tables that it writes are what `train` would read, with the command that it prints."""
    out = tmp_path / "demo"
    short = ["--limit", "60", "--epochs", "2", "--verbose", "0", "--max-clusters", "3"]
    assert main(["demo", "--records", "--out", str(out), *short]) == 0
    printed = capsys.readouterr().out
    assert "Why the first customer of the test that has churned has done so." in printed
    (command,) = re.findall(r"^\$ (keras-mmil train .*)$", printed, re.MULTILINE)
    _, *arguments = shlex.split(command)
    arguments[arguments.index("--out") + 1] = str(tmp_path / "own")
    assert main([*arguments, *short]) == 0
    again = capsys.readouterr().out
    rules = (out / "rules.txt").read_text()
    assert (tmp_path / "own" / "rules.txt").read_text() == rules
    assert "Records: 2,000 rows of customers in shop" in again
    assert main(["demo", "--records", "--out", str(out), *short]) == 0  # it replaces the first

"""The table of experiments."""

import re

import pytest

from keras_mmil import zoo
from keras_mmil_cli.main import main


def test_list_agrees_with_the_registry(capsys):
    """Name, sources, options, epochs and figures of every experiment, each in a line of its own."""
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert all(line.count("paper:") == ("paper:" in line) for line in lines)
    heading = next(line for line in lines if "epochs" in line).split()
    assert heading == ["epochs", "accuracy", "rules", "fidelity"]
    rest = iter(lines[lines.index("") :])
    name = None
    for experiment in zoo.registry.values():
        if experiment.name != name:
            name = experiment.name
            assert next(line for line in rest if line.startswith(f"{name}: "))
            sources = next(line for line in rest if line.startswith("  --source "))
            named = re.match(r"  --source ([^;]*)", sources)[1].split(" | ")
            assert named == [f"{experiment.sources[0]} (default)", *experiment.sources[1:]]
            assert ("--vat" in sources) == (experiment.adversarial is not None)
            folds = f"{experiment.rounds} x {experiment.folds} folds"
            assert (folds in sources) == bool(experiment.folds)
        command, *columns = re.split(r" {2,}", next(rest).strip())
        options = dict(re.findall(r"--(\w+) (\S+)", command))
        given = {
            option: getattr(experiment, option) for option in ("model", "aggregation", "split")
        }
        assert options == {option: value for option, value in given.items() if value}
        epochs, *figures = [column for column in columns if column != "paper:"]
        assert int(epochs) == experiment.epochs
        assert [float(figure) for figure in figures] == [
            pytest.approx(100 * figure) for figure in experiment.paper.values()
        ]
    assert not list(rest)

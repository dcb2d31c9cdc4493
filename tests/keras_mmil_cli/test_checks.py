"""Options that are refused before anything is loaded or written."""

import pytest

from keras_mmil_cli.main import main


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
        (["run", "cora", "--split", "spatial"], "random, transductive, scarce, temporal for cora"),
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "mnist", "--jobs", "2"], "--jobs 2 for mnist"),
        (["run", "mnist", "--jobs", "1"], "--jobs 1 for mnist"),
        (["run", "collab", "--jobs", "0"], "--jobs 0"),
        (["run", "mnist", "--rounds", "3"], "--rounds 3 for mnist"),
        (["run", "collab", "--folds", "0", "--rounds", "3"], "--rounds 3 for --folds 0 for collab"),
        (["run", "collab", "--folds", "0", "--jobs", "2"], "--jobs 2 for --folds 0 for collab"),
        (["run", "collab", "--folds", "1"], "at least 2 folds, or 0 for none. Received: --folds 1"),
        (["run", "collab", "--folds", "-3"], "--folds -3"),
        (["run", "mnist", "--vat"], "--vat for mnist"),
        (["run", "mnist", "--no-rules", "--max-clusters", "3"], "--max-clusters 3 with --no-rules"),
        (["run", "mnist", "--max-clusters", "1"], "at least 2. Received: --max-clusters 1"),
        (["demo", "--max-clusters", "0"], "--max-clusters 0"),
        (["demo", "--epochs", "0"], "--epochs 0"),
        (["demo", "--limit", "1"], "--limit 1"),
        (["run", "mnist", "--seed", "-1"], "--seed -1"),
        (["run", "mnist", "--seed", str(2**32 - 2), "--seeds", "3"], f"--seed {2**32 - 2}"),
        (["run", "mnist", "--record", "--limit", "20"], "--limit 20 with --record"),
        (["run", "mnist", "--record", "--max-clusters", "3"], "--max-clusters 3 with --record"),
    ],
)
def test_options_that_would_be_ignored_or_fail_later_are_refused(
    arguments, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("keras-mmil: Expected")
    assert message in printed.err
    assert not printed.out
    assert not list(tmp_path.iterdir())


def test_the_default_is_the_first_split_and_aggregation(monkeypatch):
    asked = []
    monkeypatch.setattr("keras_mmil.cli.run.run_seeds", lambda *call: asked.append(call))
    assert main(["run", "citeseer", "--source", "synthetic", "--model", "mil"]) == 0
    ((experiment, _),) = asked
    assert experiment.key == "citeseer-mil-mean-random"

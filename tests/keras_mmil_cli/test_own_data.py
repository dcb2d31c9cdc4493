"""The commands for own data: options that are refused before TensorFlow is there, and warnings."""

import subprocess
import sys
import warnings
from argparse import Namespace

import pytest

from keras_mmil_cli.main import main
from keras_mmil_cli.quiet import plain_warnings


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "run").mkdir()


TRAIN = ["train", "shop.jsonl", "--target", "a"]
EXPORT = ["export", "run", "--to"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "none.jsonl", "--target", "a"], "a file or a folder with data. Received: no no"),
        ([*TRAIN, "--schema", "no.json"], "a file of a schema. Received: no no.json"),
        ([*TRAIN, "--epochs", "0"], "at least 1. Received: --epochs 0"),
        ([*TRAIN, "--batch-size", "0"], "--batch-size 0"),
        ([*TRAIN, "--patience", "0"], "--patience 0"),
        ([*TRAIN, "--limit", "1"], "--limit 1"),
        ([*TRAIN, "--max-clusters", "1"], "--max-clusters 1"),
        ([*TRAIN, "--learning-rate", "0"], "a number above 0. Received: --learning-rate 0"),
        ([*TRAIN, "--learning-rate", "nan"], "--learning-rate nan"),
        ([*TRAIN, "--seed", str(2**32)], f"--seed {2**32}"),
        (["predict", "none", "shop.jsonl"], "the folder of a run. Received: no none"),
        (["predict", "run", "none.csv"], "Received: no none.csv"),
        (["export", "none", "--to", "sql"], "the folder of a run. Received: no none"),
        ([*EXPORT, "savedmodel"], "--out, a new folder, for --to savedmodel"),
        ([*EXPORT, "savedmodel", "--out", "x", "--data", "shop.jsonl"], "--to savedmodel"),
        ([*EXPORT, "sql", "--labels", "x"], "--data, for --labels. Received: --labels x"),
        ([*EXPORT, "sql", "--data", "shop.jsonl"], "--data shop.jsonl with --to sql"),
        ([*EXPORT, "prolog", "--data", "none.jsonl"], "Received: no none.jsonl"),
    ],
)
def test_errors_name_the_value(arguments, message, files, capsys):
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("keras-mmil: Expected")
    assert message in printed.err
    assert not printed.out


@pytest.mark.parametrize(
    "key", ["orders", "orders=customers", "a.b=c", "=", "a.=b.c", "a.b=c.d=e.f"]
)
def test_keys_that_are_none(key, files, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*TRAIN, "--key", key])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "expected a pair such as orders.customer=customers.id, or of several" in said
    assert f"received {key!r}" in said


@pytest.mark.parametrize(
    "arguments", [["train", "shop.jsonl"], [*TRAIN, "--time", "b", "--split-by", "c"]]
)
def test_options_that_do_not_go_together(arguments, files):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_such_errors_need_no_tensorflow(tmp_path):
    code = "import sys; from keras_mmil_cli.main import main; main(); print(*sys.modules)"
    command = [sys.executable, "-c", code, "train", str(tmp_path / "none"), "--target", "a"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert "keras_mmil_cli.own_data" in result.stdout.split()
    assert not {"tensorflow", "keras", "keras_mmil", "numpy"} & set(result.stdout.split())


def test_warnings_are_lines_of_the_program():
    before = warnings.formatwarning
    about = UserWarning("'a' is odd."), UserWarning, "file.py", 3
    with plain_warnings(Namespace(debug=False)):
        assert warnings.formatwarning(*about) == "keras-mmil: warning: 'a' is odd.\n"
    with plain_warnings(Namespace(debug=True)):
        assert warnings.formatwarning(*about) == before(*about)
    assert warnings.formatwarning is before

"""Options that are refused before anything is loaded or written."""

import re
import subprocess
import sys
from dataclasses import MISSING, fields

import pytest

from keras_mmil.cli.options import RunOptions, TrainOptions
from keras_mmil_cli import checks
from keras_mmil_cli.commands import make_parser
from keras_mmil_cli.main import main

TRAIN = ["train", "shop.jsonl", "--target", "a"]
EXPORT = ["export", "run", "--to"]
MNIST, COLLAB = ["run", "mnist"], ["run", "collab"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "run").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "mnits"], "experiment='mnits'"),
        ([*MNIST, "--source", "cifar"], "--source cifar"),
        ([*MNIST, "--epochs", "0"], "--epochs 0"),
        ([*MNIST, "--limit", "1"], "--limit 1"),
        ([*MNIST, "--model", "mil"], "--model among mmil for mnist. Received: --model mil"),
        (["run", "imdb", "--split", "random"], "--split among none for imdb"),
        (["run", "cora", "--aggregation", "sum"], "--aggregation among mean, max for cora"),
        (["run", "cora", "--split", "spatial"], "random, transductive, scarce, temporal for cora"),
        (["run", "cora", "--folds", "3"], "--folds 3 for cora"),
        ([*MNIST, "--seeds", "0"], "--seeds 0"),
        ([*COLLAB, "--source", "synthetic", "--rounds", "0"], "--rounds 0"),
        ([*MNIST, "--jobs", "2"], "--jobs 2 for mnist"),
        ([*MNIST, "--jobs", "1"], "--jobs 1 for mnist"),
        ([*COLLAB, "--jobs", "0"], "--jobs 0"),
        ([*MNIST, "--rounds", "3"], "--rounds 3 for mnist"),
        ([*COLLAB, "--folds", "0", "--rounds", "3"], "--rounds 3 for --folds 0 for collab"),
        ([*COLLAB, "--folds", "0", "--jobs", "2"], "--jobs 2 for --folds 0 for collab"),
        ([*COLLAB, "--folds", "1"], "at least 2 folds, or 0 for none. Received: --folds 1"),
        ([*COLLAB, "--folds", "-3"], "--folds -3"),
        ([*MNIST, "--vat"], "--vat for mnist"),
        ([*MNIST, "--no-rules", "--max-clusters", "3"], "--max-clusters 3 with --no-rules"),
        ([*MNIST, "--max-clusters", "1"], "at least 2. Received: --max-clusters 1"),
        (["demo", "--max-clusters", "0"], "--max-clusters 0"),
        (["demo", "--epochs", "0"], "--epochs 0"),
        (["demo", "--limit", "1"], "--limit 1"),
        ([*MNIST, "--seed", "-1"], "--seed -1"),
        ([*MNIST, "--seed", str(2**32 - 2), "--seeds", "3"], f"--seed {2**32 - 2}"),
        ([*MNIST, "--record", "--limit", "20"], "--limit 20 with --record"),
        ([*MNIST, "--record", "--max-clusters", "3"], "--max-clusters 3 with --record"),
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
def test_options_that_would_be_ignored_or_fail_later_are_refused(arguments, message, files, capsys):
    before = sorted(files.iterdir())
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("keras-mmil: Expected")
    assert message in printed.err
    assert not printed.out
    assert sorted(files.iterdir()) == before


def test_more_folds_than_top_bags(files, capsys):
    assert main([*COLLAB, "--source", "synthetic", "--folds", "200"]) == 2
    assert "folds=200" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(
            ([*TRAIN, "--key", key], f"or of several .* received {re.escape(repr(key))}")
            for key in ("orders", "orders=customers", "a.b=c", "=", "a.=b.c", "a.b=c.d=e.f")
        ),
        (["train", "shop.jsonl"], "required: --target"),
        ([*TRAIN, "--time", "b", "--split-by", "c"], "not allowed with"),
    ],
)
def test_what_argparse_refuses(arguments, message, files, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("kind", "arguments"), [(RunOptions, MNIST), (TrainOptions, TRAIN), (RunOptions, ["demo"])]
)
def test_defaults_are_the_same_in_python(kind, arguments):
    options = kind.of(make_parser().parse_args(arguments))
    given = {"data": "shop.jsonl", "target": "a"} if kind is TrainOptions else {}
    assert options == kind(**given)
    optional = {each.name for each in fields(kind) if each.default is not MISSING}
    assert {"seed", "out", "resume"} < optional


def test_the_default_is_the_first_split_and_aggregation(monkeypatch):
    asked = []
    monkeypatch.setattr("keras_mmil.cli.run.run_seeds", lambda *call: asked.append(call))
    assert main(["run", "citeseer", "--source", "synthetic", "--model", "mil"]) == 0
    ((experiment, _),) = asked
    assert experiment.key == "citeseer-mil-mean-random"


ORDERS = b'{"late": true, "items": [{"price": 3}]}\n{"late": false, "note": "a \\"lat\\" b"}\n'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "none", "--target", "a"], "a file or a folder with data"),
        (["train", "orders.jsonl", "--target", "lat"], "Received: lat (did you mean 'late'?)"),
        (["train", "orders.jsonl", "--target", "size"], "there are late, items, note"),
        (["train", "orders.csv", "--target", "items.late"], "there are late, note"),
        (["train", "orders.jsonl", "--target", "late", "--out", "run"], "--resume to continue"),
        (["run", "mnist", "--out", "run"], "--resume to continue"),
        (["predict", "run", "orders.jsonl"], "a finished `keras-mmil train`"),
        (["report", "none"], "the folder of a run. Received: no none"),
    ],
)
def test_such_errors_need_no_tensorflow(arguments, message, tmp_path):
    (tmp_path / "orders.jsonl").write_bytes(ORDERS)
    (tmp_path / "orders.csv").write_text("late,note\n1,x\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_text('{"target": "late"}')
    code = "import sys; from keras_mmil_cli.main import main; main(); print(*sys.modules)"
    command = [sys.executable, "-c", code, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert message in result.stderr
    assert "keras_mmil_cli.commands" in result.stdout.split()
    assert not {"tensorflow", "keras", "keras_mmil", "numpy"} & set(result.stdout.split())


@pytest.mark.parametrize(
    ("name", "content", "target"),
    [
        ("a.jsonl", ORDERS, "note"),
        ("a.jsonl", ORDERS, "items[].price"),
        ("a.jsonl", b'{"l\\u0061te": 1}', "late"),
        ("a.jsonl", b"no json", "late"),
        ("a.csv", b"a;b\n1;2\n", "b"),
        ("a.json", b"[]", "late"),
        ("a.jsonl", b'{"a": 1}\n' * 200 + b'{"late": 1}', "late"),
    ],
)
def test_targets_that_may_be_there_are_left_to_the_library(name, content, target, tmp_path):
    (tmp_path / name).write_bytes(content)
    options = make_parser().parse_args(["train", str(tmp_path / name), "--target", target])
    checks.target(options)

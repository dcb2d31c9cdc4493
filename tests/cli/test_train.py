"""Own data in one command: figures against scikit-learn's, of what `predict` prints."""

import csv
import errno
import io
import json
import re
import sqlite3
from collections import Counter
from contextlib import closing, redirect_stdout

import numpy as np
import own_records
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf
from killed_runs import start_and_kill
from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score

from keras_mmil import NestedClassifier, NestedRegressor
from keras_mmil.records import Schema
from keras_mmil.rules import Explainer
from keras_mmil_cli.main import main

# Short runs end with networks, and so rules, of a single class.
pytestmark = pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
SHORT = ["--epochs", "2", "--learning-rate", "0.02", "--max-clusters", "2", "--verbose", "0"]
CUSTOMERS = own_records.customers()
RECORDS = [{k: v for k, v in r.items() if k not in ("spent", "segment")} for r in CUSTOMERS]
# For what is the same of every network: trained in a second.
BAGS = [{"bag": [i % 3] * (i % 4), "left": i % 4 > 1} for i in range(40)]


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def parts_of(run):
    """The numbers of the records by part."""
    found = {}
    for row in rows_of(run / "split.csv"):
        found.setdefault(row["part"], []).append(int(row["record"]))
    return found


def predictions(run, data, tmp_path, *options):
    out = tmp_path / "predictions.jsonl"
    assert main(["predict", str(run), str(data), "--out", str(out), *options]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return own_records.write_lines(tmp_path_factory.mktemp("data") / "shop.jsonl", RECORDS)


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """A classification of JSON lines, and what was printed."""
    out, printed = tmp_path_factory.mktemp("runs") / "left", io.StringIO()
    with redirect_stdout(printed):
        assert main(["train", str(data), "--target", "left", "--out", str(out), *SHORT]) == 0
    return out, printed.getvalue()


@pytest.fixture(scope="module")
def run(trained):
    return trained[0]


def test_figures_are_those_of_what_is_predicted(run, data, tmp_path):
    found = predictions(run, data, tmp_path, "--explain", "--keep", "id")
    assert [row["record"] for row in found] == list(range(90))
    assert [row["id"] for row in found] == [record["id"] for record in RECORDS]
    parts = parts_of(run)
    assert {name: len(numbers) for name, numbers in parts.items()} == {
        "training": 70,
        "test": 17,
        "": 3,
    }
    assert parts[""] == [5, 17, 40]  # those without a target
    test = parts["test"]
    truth = [RECORDS[i]["left"] for i in test]
    network = [found[i]["prediction"] for i in test]
    rules = [found[i]["rules"] == "True" for i in test]
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["test_accuracy"] == pytest.approx(accuracy_score(truth, network))
    assert metrics["rule_accuracy"] == pytest.approx(accuracy_score(truth, rules))
    assert metrics["fidelity"] == pytest.approx(accuracy_score(network, rules))
    for metric, labels in {
        "test_accuracy": truth,
        "rule_accuracy": truth,
        "fidelity": network,
    }.items():
        share = max(Counter(labels).values()) / len(labels)
        assert metrics[f"{metric}_majority"] == pytest.approx(share)
    for row in found:
        assert row["prediction"] == (row["probability"]["True"] > 0.5)
        assert sum(row["probability"].values()) == pytest.approx(1)
        assert row["agrees"] == (str(row["prediction"]) == row["rules"])
        assert row["explanation"].startswith(f"record {row['id']} is {row['rules']}, because")
        assert row["because"]
    by_rules = predictions(run, data, tmp_path, "--by", "rules")
    assert [str(row["prediction"]) for row in by_rules] == [row["rules"] for row in found]
    assert set(by_rules[0]) == {"record", "id", "prediction"}


def test_the_folder_is_that_of_an_estimator(run, data, tmp_path):
    estimator = NestedClassifier.load(run)
    found = predictions(run, data, tmp_path)
    np.testing.assert_array_equal(
        estimator.predict_proba(RECORDS).astype(np.float32),
        np.array([list(row["probability"].values()) for row in found], np.float32),
    )
    written = (run / "rules.txt").read_text()
    assert written.startswith(str(estimator.rules_))
    assert estimator.rules_.text(all=True) in written
    # The schema knows nothing of the records for test.
    train = [RECORDS[i] for i in parts_of(run)["training"]]
    assert Schema.load(run / "schema.json") == Schema.infer(train)
    assert estimator.schema_.n_records == 70
    assert estimator.target_ == "left"


def test_what_is_printed(trained):
    out, printed = trained
    metrics = json.loads((out / "metrics.json").read_text())
    estimator = NestedClassifier.load(out)
    assert str(Schema.load(out / "schema.json")) in printed
    assert "Records: 90 in shop.jsonl; left out are 3 without left\n" in printed
    assert "70 for training, 17 for test; random, stratified by class" in printed
    assert str(estimator.rules_) in printed
    for name in ("test_accuracy", "rule_accuracy", "fidelity"):
        share = f"(most frequent class: {100 * metrics[f'{name}_majority']:.2f} %)"
        assert f"{name:16} {100 * metrics[name]:7.2f} %   {share}\n" in printed
    assert f"Everything is in {out}" in printed


def test_a_second_run_and_other_settings_are_refused(run, data, capsys):
    command = ["train", str(data), "--target", "left", "--out", str(run), *SHORT]
    assert main(command) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*command, "--resume", "--batch-size", "7"]) == 2
    assert "'batch_size': 7" in capsys.readouterr().err
    before = (run / "metrics.json").read_bytes()
    assert main([*command, "--resume"]) == 0
    again, first = (json.loads(x) for x in ((run / "metrics.json").read_bytes(), before))
    assert again["test_accuracy"] == first["test_accuracy"]
    assert again["fidelity"] == first["fidelity"]


def without_date(page):
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", page.read_text(encoding="utf-8"))


def test_the_report_can_be_written_anew(run, data, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["report", str(run), "--out", str(page)]) == 0
    assert str(page) in capsys.readouterr().out
    assert without_date(page) == without_date(run / "report.html")
    html = page.read_text(encoding="utf-8")
    assert "Rules for left, learned from shop.jsonl" in html
    assert "They have seen none of these records." in html
    assert "left out are 3 without left." in html
    assert main(["report", str(run), "--without-data", "--out", str(page)]) == 0
    assert len(page.read_text(encoding="utf-8")) < len(html)
    content = data.read_text()
    try:
        data.write_text(content + content.splitlines()[0] + "\n")
        assert main(["report", str(run), "--out", str(page)]) == 2
        assert "of which shop.jsonl has changed" in capsys.readouterr().err
    finally:
        data.write_text(content)


def test_rules_run_in_sqlite(run, data, tmp_path, capsys):
    query, labels = tmp_path / "rules.sql", tmp_path / "labels.parquet"
    command = ["export", str(run), "--to", "sql", "--out", str(query)]
    assert main([*command, "--data", str(data), "--labels", str(labels)]) == 0
    assert capsys.readouterr().out.split() == [str(query), str(labels)]
    table = pyarrow.parquet.read_table(labels)
    with closing(sqlite3.connect(":memory:")) as connection:
        columns = ", ".join(f'"{name}"' for name in table.column_names)
        connection.execute(f"CREATE TABLE labels ({columns})")
        marks = ", ".join("?" for _ in table.column_names)
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        connection.executemany(f"INSERT INTO labels VALUES ({marks})", rows)
        classes = dict(connection.execute(query.read_text()).fetchall())
    found = predictions(run, data, tmp_path, "--explain")
    assert classes == {row["record"]: row["rules"] for row in found}


@pytest.mark.slow
def test_other_exports(run, data, capsys):
    rules = NestedClassifier.load(run).rules_
    for form, expected in {
        "json": rules.to_json(),
        "python": rules.to_python(),
        "javascript": rules.to_javascript(),
        "prolog": rules.to_prolog(),
    }.items():
        capsys.readouterr()
        assert main(["export", str(run), "--to", form]) == 0
        assert capsys.readouterr().out.rstrip("\n") == expected.rstrip("\n")
    assert main(["export", str(run), "--to", "prolog", "--data", str(data)]) == 0
    assert len(capsys.readouterr().out) > 2 * len(rules.to_prolog())


@pytest.mark.slow
def test_numbers_of_a_parquet_file(tmp_path, capsys):
    path, out = tmp_path / "shop.parquet", tmp_path / "run"
    rows = [{k: r[k] for k in ("orders", "spent")} for r in CUSTOMERS]
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    assert main(["train", str(path), "--target", "spent", "--out", str(out), *SHORT]) == 0
    printed = capsys.readouterr().out
    parts, found = parts_of(out), predictions(out, path, tmp_path, "--explain")
    y, known = ([rows[i]["spent"] for i in parts[name]] for name in ("test", "training"))
    network = [found[i]["prediction"] for i in parts["test"]]
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["test_r2"] == pytest.approx(r2_score(y, network))
    assert metrics["test_mae"] == pytest.approx(mean_absolute_error(y, network))
    constant = r2_score(y, [np.mean(known)] * len(y))
    assert metrics["test_r2_constant"] == pytest.approx(constant)
    middle = mean_absolute_error(y, [np.median(known)] * len(y))
    assert metrics["test_mae_constant"] == pytest.approx(middle)
    assert f"{metrics['test_r2']:9.3f}   (constant: {constant:.3f})\n" in printed
    estimator = NestedRegressor.load(out)
    rules = [found[i]["rules"] for i in parts["test"]]
    for metric, numbers in {"rule_accuracy": y, "fidelity": network}.items():
        bins = [estimator.explainer_.classes_[b] for b in np.digitize(numbers, estimator.edges_)]
        assert metrics[metric] == pytest.approx(accuracy_score(bins, rules))
        share = max(Counter(bins).values()) / len(bins)
        assert metrics[f"{metric}_majority"] == pytest.approx(share)
    assert "R² is" in (out / "report.html").read_text(encoding="utf-8")
    assert main(["report", str(out)]) == 0


@pytest.mark.slow
def test_times_that_some_have_written_as_words(tmp_path, capsys):
    """Values of several types, some missing, far from 0 for how little they differ."""
    path, out = tmp_path / "x.jsonl", tmp_path / "run"
    seconds = [1_700_000_000 + 60 * len(r["orders"]) for r in CUSTOMERS]
    odd = {3: "yesterday", 4: "soon", 5: None}
    prices = [[x["price"] for order in r["orders"] for x in order["items"]] for r in CUSTOMERS]
    rows = [{"prices": x, "at": odd.get(i, seconds[i])} for i, x in enumerate(prices)]
    own_records.write_lines(path, rows)
    command = ["train", str(path), "--target", "at<number>", "--task", "regression"]
    assert main([*command, "--out", str(out), *SHORT]) == 0
    assert "left out are 3 without at<number>" in capsys.readouterr().out
    estimator = NestedRegressor.load(out)
    assert estimator.target_ == "at"
    parts, found = parts_of(out), predictions(out, path, tmp_path, "--explain")
    numbers = np.array([row["prediction"] for row in found])
    assert len(set(numbers.tolist())) > 10  # which float32 knows in steps of 128
    assert np.abs(numbers - np.mean(seconds)).max() < 3600
    y = [seconds[i] for i in parts["test"]]
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["test_r2"] == pytest.approx(r2_score(y, numbers[parts["test"]]), rel=1e-4)
    assert {row["rules"] for row in found} <= set(estimator.explainer_.classes_)
    assert len(set(estimator.explainer_.classes_)) == len(estimator.edges_) + 1
    served = ["export", str(out), "--to", "savedmodel", "--out", str(tmp_path / "served")]
    with pytest.warns(UserWarning, match=f"numbers minus {re.escape(repr(estimator.offset_))}"):
        assert main(served) == 0


def test_tables_of_csv(tmp_path, capsys):
    """Classes of a column of one of three tables; and new customers, whose class is not known."""
    once = ["--epochs", "1", "--max-clusters", "2", "--verbose", "0"]
    folder, out = own_records.write_tables(tmp_path / "shop", CUSTOMERS), tmp_path / "run"
    (folder / "notes.csv").write_text("a,b\n1,2\n")
    keys = [part for key in own_records.KEYS for part in ("--key", key)]
    command = ["train", str(folder), "--target", "segment", *keys, "--out", str(out), *once]
    assert main([*command, "--split-by", "city"]) == 0
    printed = capsys.readouterr().out
    assert "Records: 90 rows of customers in shop; not read are the tables notes" in printed
    assert "different values of city, which is not read" in printed
    cities = {
        name: {RECORDS[i]["city"] for i in numbers} for name, numbers in parts_of(out).items()
    }
    assert cities.keys() == {"training", "validation", "test"}
    assert len(set().union(*cities.values())) == sum(map(len, cities.values()))
    estimator = NestedClassifier.load(out)
    assert "city" not in estimator.model_.input
    assert estimator.schema_["orders.items.order"].why == "key to orders.number"
    new = own_records.customers(20, seed=1)
    for record in new:
        del record["segment"]
    others = own_records.write_tables(tmp_path / "new", new)
    found = predictions(out, others, tmp_path, "--keep", "id")
    nested = [
        {
            **record,
            "orders": [{**order, "number": "", "customer": ""} for order in record["orders"]],
        }
        for record in new
    ]
    assert [row["prediction"] for row in found] == estimator.predict(nested).tolist()
    assert [row["id"] for row in found] == [record["id"] for record in new]
    assert main(["report", str(out), "--out", str(tmp_path / "page.html")]) == 0
    assert without_date(tmp_path / "page.html") == without_date(out / "report.html")
    # The schema says how tables are linked.
    choices = json.loads((out / "schema.json").read_text())
    choices["choices"]["orders.day"] = "dropped"
    (tmp_path / "edited.json").write_text(json.dumps(choices))
    again = ["train", str(folder), "--target", "segment", "--out", str(tmp_path / "other"), *once]
    assert main([*again, "--limit", "12", "--schema", str(tmp_path / "edited.json")]) == 0
    inputs = NestedClassifier.load(tmp_path / "other").model_.input
    assert "orders.day" not in inputs
    assert "city" not in inputs  # as it was dropped in the first run
    assert "orders.items.kind" in inputs


@pytest.mark.slow
def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path):
    data = own_records.write_lines(tmp_path / "bags.jsonl", BAGS)

    def command(name):
        arguments = ["train", str(data), "--target", "left", "--epochs", "16", "--patience", "16"]
        return [*arguments, "--max-clusters", "2", "--verbose", "0", "--out", str(tmp_path / name)]

    start_and_kill(command("killed"), tmp_path / "killed", eager=True)
    assert main([*command("killed"), "--resume"]) == 0
    assert main(command("whole")) == 0
    histories = [rows_of(tmp_path / name / "history.csv") for name in ("killed", "whole")]
    losses = [[float(row["val_loss"]) for row in history] for history in histories]
    assert len(losses[0]) == 16
    np.testing.assert_allclose(*losses, rtol=1e-3)
    killed, whole = (NestedClassifier.load(tmp_path / name) for name in ("killed", "whole"))
    np.testing.assert_allclose(killed.predict_proba(BAGS), whole.predict_proba(BAGS), atol=0.02)
    a, b = (
        json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("killed", "whole")
    )
    assert a["test_accuracy"] == b["test_accuracy"]
    assert parts_of(tmp_path / "killed") == parts_of(tmp_path / "whole")


def test_a_run_without_data_leaves_no_folder(tmp_path, capsys):
    path = own_records.write_lines(tmp_path / "shop.jsonl", RECORDS[:6])
    out = tmp_path / "run"
    assert main(["train", str(path), "--target", "left", "--out", str(out)]) == 2
    assert "Expected at least 10 records" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.slow
def test_a_network_outlives_rules_that_fail(tmp_path, capsys, monkeypatch):
    """It predicts, and is exported."""
    data, out = own_records.write_lines(tmp_path / "bags.jsonl", BAGS), tmp_path / "run"
    command = ["train", str(data), "--target", "left", "--out", str(out), *SHORT]

    def fails(*_, **__):
        raise MemoryError("Unable to allocate 9 GiB")

    def is_wrong(*_, **__):
        raise AttributeError("no attribute 'typo'")

    with monkeypatch.context() as patched:
        patched.setattr(Explainer, "fit", is_wrong)
        assert main(command) == 1
    error = capsys.readouterr().err
    assert "internal error: AttributeError: no attribute 'typo'" in error
    assert "cannot be read" not in error
    with monkeypatch.context() as patched:
        patched.setattr(Explainer, "fit", fails)
        assert main([*command, "--resume"]) == 1
    error = capsys.readouterr().err
    assert "rules cannot be read: MemoryError: Unable to allocate 9 GiB" in error
    assert str(out) in error
    assert "--resume" in error
    assert "bug in keras-mmil" not in error
    metrics = json.loads((out / "metrics.json").read_text())
    assert len(predictions(out, data, tmp_path)) == 40
    saved = ["export", str(out), "--to", "savedmodel", "--out", str(tmp_path / "new" / "served")]
    assert main(saved) == 0
    estimator = NestedClassifier.load(out)
    x = estimator.schema_.read(BAGS, without="left")
    served = tf.saved_model.load(saved[-1])  # kept, as its functions need its variables
    np.testing.assert_allclose(
        np.asarray(served.serve(x))[:, 0], estimator.predict_proba(BAGS)[:, 1], rtol=1e-5
    )
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["served"]
    capsys.readouterr()
    assert main(saved) == 2
    assert "a new folder for a SavedModel" in capsys.readouterr().err
    for refused in (
        ["predict", str(out), str(data), "--explain"],
        ["export", str(out), "--to", "prolog"],
        ["report", str(out)],
    ):
        assert main(refused) == 2
        assert f"Received: {out}, with a network but no rules" in capsys.readouterr().err
    epochs = rows_of(out / "history.csv")
    assert main([*command, "--resume"]) == 0
    assert rows_of(out / "history.csv") == epochs
    assert metrics.items() <= json.loads((out / "metrics.json").read_text()).items()
    assert len(predictions(out, data, tmp_path, "--explain")) == 40


def test_a_full_disk_and_a_full_memory_are_told_in_one_line(tmp_path, capsys, monkeypatch):
    command = ["train", str(tmp_path / "x.jsonl"), "--target", "left", "--out", str(tmp_path / "r")]
    (tmp_path / "x.jsonl").write_text('{"left": true}\n')
    errors = [OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "f")), MemoryError()]

    def fails(_):
        raise errors[0]

    monkeypatch.setattr("keras_mmil.cli.train.train", fails)
    assert main(command) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert f"no space is left on the disk of {tmp_path / 'f'}" in told[0]
    assert told[0].endswith(" --resume")
    errors.pop(0)
    assert main(command) == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert told[0].startswith("keras-mmil: the memory of this machine does not suffice; use fewer")

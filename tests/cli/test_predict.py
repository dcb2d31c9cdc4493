"""Predictions of new records on the command line, beside those of the estimator itself."""

import csv
import json
import sqlite3

import numpy as np
import own_records
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keras_mmil import NestedClassifier, NestedRegressor
from keras_mmil.cli import own_files
from keras_mmil.records import Schema
from keras_mmil_cli.main import main

pytestmark = pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
RECORDS = [record for record in own_records.customers(60) if "left" in record]
QUICK = {"effort": "low", "units": 4, "epochs": 2, "random_state": 0, "learning_rate": 0.05}
QUICK |= {"explainer": {"n_clusters": 2, "verbose": 0}}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """An estimator that Python has saved, with its rules; and its records."""
    folder = tmp_path_factory.mktemp("saved")
    estimator = NestedClassifier(**QUICK).fit(RECORDS, "segment")
    estimator.rules_  # noqa: B018
    estimator.save(folder / "run")
    return folder / "run", own_records.write_lines(folder / "shop.jsonl", RECORDS), estimator


def test_lines_of_json(saved, capsys, monkeypatch):
    run, data, estimator = saved
    monkeypatch.setattr(own_files, "_ROWS", 25)  # several pieces
    capsys.readouterr()
    assert main(["predict", str(run), str(data), "--keep", "id", "--keep", "city"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["prediction"] for row in found] == estimator.predict(RECORDS).tolist()
    np.testing.assert_allclose(  # other batches, other sums
        [list(row["probability"].values()) for row in found],
        estimator.predict_proba(RECORDS),
        atol=1e-6,
    )
    for i, (row, record) in enumerate(zip(found, RECORDS, strict=True)):
        assert list(row) == ["record", "id", "city", "prediction", "probability"]
        assert (row["record"], row["id"], row["city"]) == (i, record["id"], record["city"])
        assert list(row["probability"]) == ["gone", "large", "small"]


def test_records_are_called_by_their_key(tmp_path, capsys, monkeypatch):
    """In lines, and in explanations, also where only some records have it."""
    named = [
        {"ticket_id": f"T{i}", **{k: v for k, v in r.items() if k != "id"}}
        for i, r in enumerate(RECORDS)
    ]
    estimator = NestedClassifier(**QUICK).fit(named, "segment").fit_rules()
    estimator.save(tmp_path / "run")
    del named[1]["ticket_id"]
    monkeypatch.setattr(own_files, "_ROWS", 1)
    data = own_records.write_lines(tmp_path / "new.jsonl", named[:3])
    assert main(["predict", str(tmp_path / "run"), str(data), "--explain"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["ticket_id"] for row in found] == ["T0", None, "T2"]
    texts = [str(each) for each in estimator.explain(named[:3])]
    assert [row["explanation"] for row in found] == texts
    for text, name in zip(texts, ("T0", "1", "T2"), strict=True):
        assert text.startswith(f"record {name} is ")


def test_a_table(saved, tmp_path, capsys):
    run, data, estimator = saved
    out = tmp_path / "found.csv"
    assert main(["predict", str(run), str(data), "--explain", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{len(RECORDS)} predictions in {out}\n"
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["prediction"] for row in rows] == estimator.predict(RECORDS).tolist()
    probabilities = [[row[f"probability.{name}"] for name in estimator.classes_] for row in rows]
    np.testing.assert_array_equal(
        np.array(probabilities, np.float32), estimator.predict_proba(RECORDS)
    )
    explanations = estimator.explain(RECORDS)
    assert [row["rules"] for row in rows] == [each.top_bag.name for each in explanations]
    assert [row["explanation"] for row in rows] == [
        " / ".join(line.strip() for line in str(each).splitlines()) for each in explanations
    ]
    assert len(out.read_text().splitlines()) == 1 + len(RECORDS)  # one line a record


@pytest.mark.slow
def test_why_in_words(saved, tmp_path):
    """The rule that fired, and what the clusters are that it names."""
    run, data, estimator = saved
    out = tmp_path / "found.jsonl"
    assert main(["predict", str(run), str(data), "--explain", "--out", str(out)]) == 0
    sentences = estimator.rules_.in_words()
    for line, explanation in zip(
        out.read_text().splitlines(), estimator.explain(RECORDS), strict=True
    ):
        because = json.loads(line)["because"]
        number = list(estimator.explainer_.levels_[-1].rules).index(explanation.top_bag.rule)
        rule, *defined = because.split("; ")
        assert sentences[number] in (f"{explanation.top_bag.name} if {rule}", rule)
        assert set(defined) <= set(sentences)
        for name in ("u1", "u2", "v1", "v2"):
            if name in because.replace(f"{name}:", ""):
                known = any(sentence.startswith(f"{name}:") for sentence in sentences)
                assert any(each.startswith(f"{name}:") for each in defined) == known


@pytest.mark.slow
def test_why_in_formal_syntax(saved, capsys):
    run, data, estimator = saved
    assert main(["predict", str(run), str(data), "--formal"]) != 0
    assert "Expected --explain, for --formal" in capsys.readouterr().err
    assert main(["predict", str(run), str(data), "--explain", "--formal"]) == 0
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    for row, explanation in zip(rows, estimator.explain(RECORDS), strict=True):
        assert row["because"] == explanation.top_bag.clause
        assert row["explanation"] == explanation.formal()


@pytest.mark.slow
def test_several_labels_and_numbers(tmp_path, capsys):
    records = [
        {
            "prices": [item["price"] for order in record["orders"] for item in order["items"]],
            "large": record["spent"] > 99,
            "left": record["left"],
            "spent": record["spent"],
        }
        for record in RECORDS
    ]
    data = own_records.write_lines(tmp_path / "shop.jsonl", records)
    NestedClassifier(**QUICK).fit(records, ("left", "large")).save(tmp_path / "labels")
    assert main(["predict", str(tmp_path / "labels"), str(data)]) == 0
    for line in capsys.readouterr().out.splitlines():
        row = json.loads(line)
        assert row["prediction"] == [k for k, p in row["probability"].items() if p > 0.5]
    assert main(["predict", str(tmp_path / "labels"), str(data), "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("probability.left,probability.large")
    numbers = NestedRegressor(**QUICK).fit(records, "spent")
    numbers.save(tmp_path / "numbers")
    assert main(["predict", str(tmp_path / "numbers"), str(data)]) == 0
    found = [json.loads(line)["prediction"] for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_array_equal(np.array(found, np.float32), numbers.predict(records))
    for name in ("labels", "numbers"):  # of which nobody has asked the rules
        assert main(["predict", str(tmp_path / name), str(data), "--explain"]) == 2
        assert capsys.readouterr().err.startswith("keras-mmil: Expected")


@pytest.mark.slow
def test_fields_that_are_not_there(saved, tmp_path, capsys):
    run, data, _ = saved
    assert main(["predict", str(run), str(data), "--keep", "idd"]) == 2
    assert "as --keep. Received: idd (did you mean 'id'?)" in capsys.readouterr().err
    assert main(["predict", str(run), str(data), "--keep", "record"]) == 2
    assert "Received: --keep record" in capsys.readouterr().err
    other = own_records.write_lines(tmp_path / "other.jsonl", [{"a": 1}, {"a": 2}])
    out = tmp_path / "found.jsonl"
    assert main(["predict", str(run), str(other), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert "records with the fields city, since, orders, spent, left. Received: " in said
    assert not out.exists()
    part = own_records.write_lines(tmp_path / "part.jsonl", [{"city": "city 1"}, {"spent": 3}])
    with pytest.warns(
        UserWarning, match=r"All 2 records have nothing at 'since' .*'orders' .*'left' "
    ):
        assert main(["predict", str(run), str(part)]) == 0
    wrong = own_records.write_lines(tmp_path / "wrong.jsonl", [*RECORDS, {"orders": "none"}])
    with pytest.warns(UserWarning, match=r"'orders' is bag in the schema; 1 of .* are texts"):
        assert main(["predict", str(run), str(wrong)]) == 0


@pytest.mark.slow
def test_no_records(saved, tmp_path, capsys):
    run, *_ = saved
    (tmp_path / "empty.jsonl").write_text("")
    assert main(["predict", str(run), str(tmp_path / "empty.jsonl")]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_folders_that_hold_no_run(saved, tmp_path, capsys):
    run, data, _ = saved
    for command in (
        ["predict", str(tmp_path), str(data)],
        ["export", str(tmp_path), "--to", "sql"],
    ):
        assert main(command) == 2
        assert "Expected the folder of a finished `keras-mmil train`" in capsys.readouterr().err
    own_records.write_tables(tmp_path / "tables", own_records.customers(10))
    assert main(["predict", str(run), str(tmp_path / "tables")]) == 2
    assert "one file of records, as those that the run" in capsys.readouterr().err
    (tmp_path / "estimator.json").write_text('{"class": "Other"}')
    assert main(["predict", str(tmp_path), str(data)]) == 2
    assert "Expected a NestedClassifier or NestedRegressor in" in capsys.readouterr().err


@pytest.mark.slow
def test_the_data_are_not_replaced(saved, tmp_path, capsys):
    run, _, _ = saved
    data = own_records.write_lines(tmp_path / "shop.jsonl", RECORDS[:5])
    before = data.read_bytes()
    (tmp_path / "again.jsonl").symlink_to(data)
    (tmp_path / "hard.jsonl").hardlink_to(data)
    for name in ("shop.jsonl", "again.jsonl", "hard.jsonl", "../" + tmp_path.name + "/shop.jsonl"):
        out = str(tmp_path / name)
        for command in (
            ["predict", str(run), str(data), "--out", out],
            ["export", str(run), "--to", "sql", "--data", str(data), "--labels", out],
        ):
            assert main(command) == 2
            assert "another file to write to than the data. Received: --" in capsys.readouterr().err
            assert data.read_bytes() == before


@pytest.mark.slow
def test_what_json_and_spreadsheets_cannot_hold(saved, tmp_path):
    run, *_ = saved
    kept = [float("nan"), float("inf"), 2.5, None, -1.0]
    texts = ["=1+1", "-2.5", "@sum", "+a\nb", "plain"]
    records = [
        {**record, "id": text, "n": n, "raw": b"caf\xc3\xa9 \xff"}
        for record, text, n in zip(RECORDS, texts, kept, strict=False)
    ]
    data = tmp_path / "new.parquet"
    pq.write_table(pa.Table.from_pylist(records), data)
    keep = [part for name in ("id", "n", "raw") for part in ("--keep", name)]
    lines, table = tmp_path / "found.jsonl", tmp_path / "found.csv"
    assert main(["predict", str(run), str(data), *keep, "--out", str(lines)]) == 0

    def refuse(constant):
        raise AssertionError(constant)

    rows = [json.loads(x, parse_constant=refuse) for x in lines.read_text().splitlines()]
    assert [row["n"] for row in rows] == [None, None, 2.5, None, -1.0]
    assert [row["id"] for row in rows] == texts
    assert {row["raw"] for row in rows} == {"café \\xff"}
    assert main(["predict", str(run), str(data), *keep, "--out", str(table)]) == 0
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["'=1+1", "-2.5", "'@sum", "'+a / b", "plain"]
    assert [row["n"] for row in rows] == ["", "", "2.5", "", "-1.0"]


@pytest.mark.slow
def test_tables_of_a_database(tmp_path, capsys):
    """Predictions go to a new table, with the ids of the records."""
    folder = own_records.write_tables(tmp_path / "shop", own_records.customers(60))
    keys = [tuple(key.split("=")) for key in own_records.KEYS]
    tables = {
        name: pd.read_csv(folder / f"{name}.csv") for name in ("customers", "orders", "items")
    }
    schema = Schema.infer_tables(tables, "customers", keys)
    estimator = NestedClassifier(**QUICK, schema=schema).fit(tables, "segment")
    estimator.rules_  # noqa: B018
    estimator.save(tmp_path / "run")
    connection = sqlite3.connect(tmp_path / "shop.db")
    for name, table in tables.items():
        table.to_sql(name, connection, index=False)
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    command = ["predict", str(tmp_path / "run"), url, "--explain", "--table", "found"]
    capsys.readouterr()
    assert main(command) == 0
    assert "60 predictions in the table found" in capsys.readouterr().out
    found = pd.read_sql("select * from found", connection)
    connection.close()
    assert found["id"].tolist() == tables["customers"]["id"].tolist()
    assert found["prediction"].tolist() == estimator.predict(tables).tolist()
    assert found["rules"].tolist() == estimator.predict(tables, by="rules").tolist()
    of_classes = found[[f"probability.{name}" for name in estimator.classes_]]
    np.testing.assert_allclose(of_classes, estimator.predict_proba(tables), atol=1e-5)
    assert main(command) != 0  # there is such a table
    assert "name of a new table. Received: 'found'" in capsys.readouterr().err
    assert main([*command[:2], str(folder), "--table", "found"]) != 0
    assert "URL of a database, for --table" in capsys.readouterr().err

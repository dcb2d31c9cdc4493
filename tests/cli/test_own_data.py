"""Own data that are read, or refused with the name of what is wrong; nothing is trained here."""

import argparse
import dataclasses
import gzip
import hashlib
import json
import sqlite3
from collections import Counter
from pathlib import Path

import numpy as np
import own_records
import pandas
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mmil._support.files import write_json
from keras_mmil.cli import own_files
from keras_mmil.cli.options import TrainOptions, add_options
from keras_mmil.cli.own_data import OwnData, at_random, by_group, by_time
from keras_mmil.cli.own_files import did_you_mean, new_records, users_errors
from keras_mmil.cli.run_folder import how_read, train_settings
from keras_mmil.cli.train import settings_of
from keras_mmil.records import Schema, as_of, link
from keras_mmil_cli.main import main

CUSTOMERS = own_records.customers()
KEYS = [tuple(key.split("=")) for key in own_records.KEYS]


def own(data, target, **options):
    return OwnData.of(settings_of(TrainOptions(data=str(data), target=target, **options)))


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    return own_records.write_lines(tmp_path_factory.mktemp("data") / "shop.jsonl", CUSTOMERS)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return own_records.write_tables(tmp_path_factory.mktemp("data") / "shop", CUSTOMERS)


def test_all_forms_of_records_are_read(lines, tmp_path):
    expected = own(lines, "segment")
    packed, array = tmp_path / "a.ndjson.gz", tmp_path / "b.json"
    packed.write_bytes(gzip.compress(lines.read_bytes()))
    array.write_text(json.dumps(CUSTOMERS))
    table = pa.Table.from_pylist(CUSTOMERS)
    pyarrow.parquet.write_table(table, tmp_path / "c.parquet", row_group_size=20)
    for name, part in {"one": table[:50], "two": table[50:]}.items():
        (tmp_path / "parts").mkdir(exist_ok=True)
        pyarrow.parquet.write_table(part, tmp_path / "parts" / f"{name}.parquet")
    for path in (packed, array, tmp_path / "c.parquet", tmp_path / "parts"):
        found = own(path, "segment")
        assert found.records.to_pylist() == expected.records.to_pylist()
        assert [part.tolist() for part in found.split] == [x.tolist() for x in expected.split]
        assert not found.is_number


def test_a_table_alone(tmp_path):
    rows = [{"x": i, "note": "" if i % 3 else 'some, "text"', "y": i / 2} for i in range(20)]
    own_records.write_csv(tmp_path / "rows.csv", rows)
    for path in (tmp_path / "rows.csv", tmp_path):
        found = own(path, "y")
        assert found.is_number
        notes = [row["note"] or None for row in rows]
        assert [record["note"] for record in found.records.to_pylist()] == notes


def test_names_need_no_quotation_marks(tmp_path):
    """A field whose path has them in schemas, as its target, or to divide the records by."""
    rows = [{"my target": i % 2 == 0, "x.y": i, "a b": i // 2, "z": i % 5} for i in range(40)]
    data = own_records.write_lines(tmp_path / "rows.jsonl", rows)
    plain = own(data, "my target", time="x.y")
    quoted = own(data, '"my target"', time='"x.y"')
    assert plain.target == quoted.target == '"my target"'
    assert plain.about == quoted.about
    assert [part.tolist() for part in plain.split] == [part.tolist() for part in quoted.split]
    assert own(data, "z", task="classification", split_by="a b").target == "z"
    with pytest.raises(ValueError, match="did you mean"):
        own(data, "my targe")


def test_tables_are_the_same_records(lines, tables):
    """The table at the top is the one that has the target."""
    found, expected = own(tables, "segment", keys=KEYS), own(lines, "segment")
    assert found.schema.links.top == "customers"
    assert [part.tolist() for part in found.split] == [part.tolist() for part in expected.split]

    def kinds(record):
        orders = record["orders"]
        return [[item["kind"] for item in order["items"]] for order in orders]

    assert [kinds(record) for record in found.records.to_pylist()] == list(map(kinds, CUSTOMERS))
    items = own(tables, "kind", keys=KEYS)
    assert items.schema.links.top == "items"
    assert "orders.customers.city" in items.schema


def test_records_without_what_is_needed_are_left_out(lines, tmp_path):
    found = own(lines, "left")
    assert "left out are 3 without left" in found.about[0]
    assert not {5, 17, 40} & set(np.concatenate(found.split).tolist())
    records = [{**record, "since": None} if i < 7 else record for i, record in enumerate(CUSTOMERS)]
    path = own_records.write_lines(tmp_path / "x.jsonl", records)
    found = own(path, "left", time="since")
    assert "left out are 3 without left, 7 without since" in found.about[0]
    assert min(np.concatenate(found.split)) == 7
    assert list(found.parts()).count("") == 9  # one lacks both


def test_the_latest_records_are_for_test(lines):
    found = own(lines, "left", time="since", limit=40)
    train, valid, test = ([CUSTOMERS[i]["since"] for i in part] for part in found.split)
    assert max(train) < min(valid) <= max(valid) < min(test)
    assert len(train) == 40
    assert f"by since, validation from {min(valid)} on" in found.about[2]
    assert f"test from {min(test)} on; at most 40 of each part" in found.about[2]


def test_the_schema_is_that_of_the_training(lines):
    found = own(lines, "left", split_by="city")
    schema = found.schema_of_training()
    assert schema.n_records == len(found.split.train)
    assert schema.choices == {"city": "dropped"}
    cities = [{CUSTOMERS[i]["city"] for i in part} for part in found.split]
    assert len(set.union(*cities)) == sum(map(len, cities))


def test_types_that_are_not_in_the_training_part_are_missing(tmp_path):
    """Lists and records that are in some records alone stop no training, however it is split."""
    records = [
        {"y": i % 2 == 0, "day": i, "url": f"a{i % 5}", "size": i / 2, "in": [{"t": "ab"[i % 2]}]}
        for i in range(60)
    ]
    for i in range(40, 60):
        records[i] |= {"url": [f"a{i}"], "in": {"t": "a"}, "size": "large"}
    data = own_records.write_lines(tmp_path / "odd.jsonl", records)
    path = tmp_path / "schema.json"
    chosen = Schema.infer(records)
    chosen.drop("size<number>")
    chosen.save(path)
    found = own(data, "y", time="day", schema=str(path))
    assert found.split.train.max() < 40
    schema = found.schema_of_training()
    assert (schema["url"].kind, schema["size"].kind) == ("category", "dropped")
    train, *others = found.split
    assert schema.read_labelled(found.take(train), "y")[0]["url"].shape == [len(train)]
    for part in others:
        n_odd = int((part >= 40).sum())
        with pytest.warns(UserWarning, match="are read as missing") as seen:
            x, *_ = schema.read_labelled(found.take(part), "y")
        n = len(part)
        assert [str(each.message).partition(", and are read")[0] for each in seen] == [
            f"'url' is category in the schema; {n_odd} of {n} values there are bags",
            f"'in' is bag in the schema; {n_odd} of {n} values there are records",
        ]
        url = [records[i]["url"].encode() if i < 40 else b"\0" for i in part]
        assert x["url"].numpy().tolist() == url
        sizes = x["in.t"].row_lengths().numpy().tolist()
        assert sizes == [int(i < 40) for i in part]


def test_numbers_that_may_be_classes(tmp_path):
    records = [{"x": i, "stars": i % 3 + 1} for i in range(30)]
    path = own_records.write_lines(tmp_path / "x.jsonl", records)
    found = own(path, "stars")
    assert found.is_number
    assert found.about[1].endswith(
        "1 to 3, 2 on average. If it stands for classes: --task classification"
    )
    found = own(path, "stars", task="classification")
    assert not found.is_number
    assert found.schema["stars"].kind == "category"
    assert found.about[1] == "Target: stars, 3 classes: 1 33.3 %, 2 33.3 %, 3 33.3 %"
    with pytest.raises(ValueError, match="always 1"):
        own(own_records.write_lines(path, [{"x": i, "y": 1} for i in range(30)]), "y")


def test_one_of_several_types_of_values(tmp_path):
    """Some have rated with a word: each type is a target of its own, without the others."""
    records = [{"x": i, "rating": "good" if i % 4 == 0 else i % 3} for i in range(40)]
    path = own_records.write_lines(tmp_path / "x.jsonl", records)
    with pytest.raises(ValueError, match="rating<number>"):
        own(path, "rating")
    numbers = [i for i in range(40) if i % 4]
    for task in (None, "regression", "classification"):
        found = own(path, "rating<number>", task=task)
        assert found.is_number == (task != "classification")
        assert sorted(np.concatenate(found.split).tolist()) == numbers
        assert "left out are 10 without rating<number>" in found.about[0]
        schema = found.schema_of_training()
        train = found.take(found.split.train)
        _, y, _ = schema.read_labelled(train, found.target)
        true = [records[i]["rating"] for i in found.split.train]
        names = schema.classes(found.target) if task == "classification" else None
        assert [names[i] if names else i for i in y.tolist()] == true
        assert not any("text" in part.path for part in schema)
    with pytest.raises(ValueError, match=r"text.*for --task regression"):
        own(path, "rating<text>", task="regression")


def test_booleans_are_numbers_where_they_are_to_be(tmp_path):
    records = [{"x": i, "paid": i % 3 == 0} for i in range(30)]
    path = own_records.write_lines(tmp_path / "x.jsonl", records)
    found = own(path, "paid", task="regression")
    assert found.is_number
    assert "0 to 1, 0.333333 on average" in found.about[1]


def test_classes_have_the_names_of_the_data(tmp_path):
    """Also where they could be read as booleans; as fields they are."""
    records = [
        {"left": "yes" if i % 3 else "no", "paid": "no" if i % 2 else "yes"} for i in range(30)
    ]
    path = own_records.write_lines(tmp_path / "x.jsonl", records)
    found = own(path, "left")
    assert (found.schema["left"].kind, found.schema["paid"].kind) == ("category", "boolean")
    assert "2 classes: yes 66.7 %, no 33.3 %" in found.about[1]
    assert found.schema_of_training().classes("left") == ("no", "yes")


def test_rare_classes_are_for_training(tmp_path):
    records = [{"x": i, "y": "ab"[i % 2] if i else "rare"} for i in range(40)]
    found = own(own_records.write_lines(tmp_path / "x.jsonl", records), "y")
    assert 0 in found.split.train


def test_classes_that_are_in_other_groups_only(tmp_path):
    records = [{"x": i, "g": f"g{i // 10}", "y": f"c{i // 10}"} for i in range(50)]
    path = own_records.write_lines(tmp_path / "x.jsonl", records)
    with pytest.raises(ValueError, match=r"each class for training\. Received: none of 'c\d'"):
        own(path, "y", split_by="g")


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("lefd", {}, r"as --target\. Received: lefd \(did you mean 'left'\?\)"),
        ("kind", {}, r"Received: kind \(did you mean 'orders\.items\.kind'\?\)"),
        ("zzz", {}, r"Received: zzz \(there are id, city, since, orders"),
        ("orders", {}, "'orders', which is bag, as --target"),
        ("orders.day", {}, "in no bag. Received: 'orders.day', as --target"),
        ("id", {}, "--target id, which is identifier"),
        ("since", {}, "--target since, which is time"),
        ("since", {"task": "regression"}, "for 'since': .* for --task regression"),
        ("left", {"split_by": "left"}, "another field than the target. Received: --split-by left"),
        ("left", {"split_by": "orders.day"}, "in no bag. Received: 'orders.day', as --split-by"),
        ("left", {"split_by": "town"}, "--split-by. Received: town"),
        ("left", {"time": "city"}, r"times or numbers\. Received: 'city'.*, for --time city"),
        ("left", {"tables": ["a"]}, "a folder of tables, for --tables, --key and --top"),
        ("left", {"data": "none.jsonl"}, "a file or a folder with data. Received: .*none.jsonl"),
    ],
)
def test_what_is_refused(target, options, message, lines):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        own(options.pop("data", lines), target, **options)


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("segmant", {"keys": KEYS}, r"--target\. Received: segmant \(did you mean 'segment'"),
        ("customers.segment", {"keys": KEYS}, r"\(did you mean 'segment'\?\)"),
        ("spent", {"keys": KEYS, "top": "items"}, "did you mean 'orders.customers.spent'"),
        ("segment", {"keys": KEYS, "top": "item"}, r"Received: item \(did you mean 'items'\?\)"),
        ("segment", {"keys": KEYS, "tables": ["order"]}, "Received: order"),
        ("segment", {"keys": [("order.customer", "customers.id")]}, "Received: order.customer, of"),
        ("segment", {"keys": [("orders.customers", "customers.id")]}, "'orders.customers'"),
        ("segment", {"keys": KEYS[1:]}, "--target. Received: segment"),
    ],
)
def test_tables_that_are_refused(target, options, message, tables):
    with pytest.raises(ValueError, match=message):
        own(tables, target, **options)


def test_tables_without_keys(tables, tmp_path):
    found, expected = own(tables, "segment"), own(tables, "segment", keys=KEYS)
    assert found.records.equals(expected.records)
    assert str(found.schema) == str(expected.schema)
    (about,) = set(found.about) - set(expected.about)
    assert about == "Keys: items.order = orders.number; orders.customer = customers.id"
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        for name in ("customers", "orders", "items"):
            frame = pandas.read_csv(tables / f"{name}.csv")
            frame.to_sql(name, connection, index=False)
        pandas.DataFrame({"line": ["x"]}).to_sql("logs", connection, index=False)
    connection.close()
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    stored = own(url, "segment")
    assert stored.records.equals(expected.records.cast(stored.records.type))
    assert stored.name == "shop.db"
    assert stored.about[:2] == (
        f"Records: {len(CUSTOMERS)} rows of customers in shop.db; not read are the tables logs",
        about,
    )
    pieces = new_records(stored.schema, url)
    assert pa.concat_arrays([*pieces]).equals(stored.records)
    settings = settings_of(TrainOptions(data=url, target="segment"))
    assert stored.files.keys() == {"customers", "orders", "items", "logs"}
    changed = dict.fromkeys(stored.files, "0") | {"items": stored.files["items"]}
    with pytest.raises(ValueError, match="of which customers, logs, orders has changed"):
        OwnData.of(dataclasses.replace(settings, files=changed))
    assert OwnData.of(dataclasses.replace(settings, files=stored.files)).files == stored.files
    assert settings.default_out == "runs/shop-segment-seed0"
    with pytest.raises(ValueError, match="without a password"):
        own("postgresql://me:secret@host/shop", "segment")
    with pytest.raises(ValueError, match=r"a file or a folder.*Received: sqlite:.*, a database"):
        next(new_records(Schema.infer(CUSTOMERS), url))
    with pytest.raises(ValueError, match="Expected records in files, for --records"):
        own(url, "segment", records="x")


def test_a_dump(tables, tmp_path):
    text = ""
    for name in ("customers", "items", "orders"):
        frame = pandas.read_csv(tables / f"{name}.csv").astype(object)
        columns = ", ".join(f"`{column}` text" for column in frame)
        rows = [
            ", ".join("NULL" if pandas.isna(x) else f"'{x}'" for x in row)
            for row in frame.itertuples(index=False)
        ]
        text += f"CREATE TABLE `{name}` ({columns});\n"
        text += f"INSERT INTO `{name}` VALUES ({'),('.join(rows)});\n"
    path = tmp_path / "shop.sql"
    path.write_text(text)
    found, expected = own(path, "segment"), own(tables, "segment")
    assert found.about[0] == f"Records: {len(CUSTOMERS)} rows of customers in shop.sql"
    assert (found.about[1:], found.name) == (expected.about[1:], "shop.sql")
    assert found.records.cast(expected.records.type).equals(expected.records)
    assert pa.concat_arrays([*new_records(found.schema, path)]).equals(found.records)
    settings = settings_of(TrainOptions(data=str(path), target="segment", tables=["customers"]))
    assert found.files == {"shop.sql": hashlib.sha256(text.encode()).hexdigest()}
    assert Path(settings.data).is_absolute()
    assert settings.default_out == "runs/shop-segment-seed0"
    with pytest.raises(ValueError, match="Expected records in files, for --records"):
        own(path, "segment", records="x")
    with pytest.raises(ValueError, match=r"a file or a folder.*Received: .*shop.sql, a database"):
        next(new_records(Schema.infer(CUSTOMERS), path))


def test_rows_that_refer_to_nothing(tmp_path):
    folder = own_records.write_tables(tmp_path / "shop", CUSTOMERS)
    path = folder / "orders.csv"
    path.write_text(path.read_text().replace(",c1,", ",c1000,"))
    with pytest.raises(ValueError, match=r"--orphans 'drop'.*no row of 'customers'.*c1000"):
        own(folder, "segment", keys=KEYS)
    with pytest.warns(UserWarning, match="'c1000'.*; they are left out"):
        found = own(folder, "segment", keys=KEYS, orphans="drop")
    assert found.records[1]["orders"].as_py() == []


def test_samples_of_rows(tables):
    files = {path.stem: path for path in tables.iterdir()}
    with pytest.warns(UserWarning, match="Samples of at most 2"):
        expected = link(files, "customers", KEYS, at_most=2, seed=3)
    with pytest.warns(UserWarning, match="Samples of at most 2"):
        found = own(tables, "segment", keys=KEYS, at_most=2, seed=3)
    with pytest.warns(UserWarning, match="Samples of at most 2"):
        (piece,) = new_records(found.schema, tables)
    assert found.records.equals(expected)
    assert piece.equals(expected)
    assert max(len(record["orders"]) for record in expected.to_pylist()) == 2
    with pytest.raises(ValueError, match=r"an int ≥ 1 or None\. Received: --at-most 0"):
        own(tables, "segment", keys=KEYS, at_most=0)


def test_two_tables_with_the_target(tmp_path):
    folder = tmp_path / "shop"
    folder.mkdir()
    for name in ("a", "b", "c"):
        own_records.write_csv(folder / f"{name}.csv", [{"id": i, "y": i % 2} for i in range(20)])
    keys = [("c.id", "a.id"), ("c.y", "b.id")]
    with pytest.raises(ValueError, match="--top, one of the tables with a column y: a, b"):
        own(folder, "y", keys=keys)
    (folder / "a.parquet").touch()
    with pytest.raises(ValueError, match=r"one file for each table. Received: a\.csv and a\.parq"):
        own(folder, "y", keys=keys)


def test_files_of_parquet_with_other_columns_are_no_parts(tmp_path):
    for name in ("a", "b"):
        table = pa.table({"id": [1, 2], name: [1, 2]})
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match=r"Expected --key.* with a, b"):
        own(tmp_path, "a")
    with pytest.raises(FileNotFoundError, match=r"files that end in \.parquet, \.csv"):
        own(Path(__file__).parent / "..", "a")


def test_folders_of_records_in_many_files(lines, tmp_path):
    """Parts of the same records, rather than tables, which have other fields."""
    expected = own(lines, "segment").records.to_pylist()
    one_each, hive, tables = tmp_path / "json", tmp_path / "hive", tmp_path / "csv"
    for i, record in enumerate(CUSTOMERS):
        part = hive / f"city={record['city']}"
        for folder in (one_each, part, tables):
            folder.mkdir(parents=True, exist_ok=True)
        (one_each / f"{i:04}.json").write_text(json.dumps(record))
        rest = {name: value for name, value in record.items() if name != "city"}
        pyarrow.parquet.write_table(pa.Table.from_pylist([rest]), part / f"{i:04}.parquet")
        own_records.write_csv(tables / f"{i:04}.csv", [{"id": i, "y": i % 2}])
    assert own(one_each, "segment").records.to_pylist() == expected
    found = {record["id"]: record for record in own(hive, "segment").records.to_pylist()}
    assert found == {record["id"]: record for record in expected}
    assert len(own(tables, "y").records) == len(CUSTOMERS)
    for i in range(99):
        own_records.write_csv(tables / f"{i:04}.csv", [{f"x{i}": i}])
    with pytest.raises(ValueError, match=r"^Expected --key, .* with 0000, 0001, .* in all\)$"):
        own(tables, "x0")


def test_records_as_of_a_moment(tmp_path, monkeypatch):
    """Events after the moment are left out, of records to predict by the same times."""
    records = [
        {
            "when": f"2024-0{1 + i % 6}-15",
            "left": i % 3 == 0,
            "events": [
                {"seen": f"2024-0{month}-01", "sent": f"2024-0{month}-02"}
                for month in range(1, 2 + i % 6)
            ],
        }
        for i in range(30)
    ]
    for record in records[:20]:
        record["events"].append({"seen": None, "sent": "2023-12-24"})
    data = own_records.write_lines(tmp_path / "x.jsonl", records)
    found = own(data, "left", as_of="when")
    assert found.records.equals(as_of(records, "when", verbose=False))
    assert found.times == {"events": "sent"}  # which is never missing
    assert found.about[-1].startswith("events: those with sent before when, ")
    settings = settings_of(TrainOptions(data=str(data), target="left", as_of="when"))
    write_json(
        tmp_path / "settings.json",
        dataclasses.asdict(dataclasses.replace(settings, times=found.times)),
    )
    for record in records:  # where nothing is missing, `seen` would be the first
        record["events"] = [event for event in record["events"] if event["seen"]]
    own_records.write_lines(data, records)
    monkeypatch.setattr(own_files, "_ROWS", 7)
    (piece, *more) = new_records(found.schema, data, **how_read(tmp_path))
    expected = as_of(records, "when", {"events": "sent"}, verbose=False)
    assert pa.concat_arrays([piece, *more]).to_pylist() == expected.to_pylist()
    with pytest.raises(ValueError, match="times or numbers"):
        own(data, "left", as_of="left")


def test_records_inside_an_object(lines, tmp_path):
    records = [json.loads(line) for line in lines.read_text().splitlines()]
    contents = {
        "list": {"n": len(records), "customers": records},
        "each": {record["id"]: record for record in records},
    }
    for (name, content), key in zip(contents.items(), ("customers", "*"), strict=True):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(content))
        options = TrainOptions(data=str(path), target="left", records=key)
        assert own(path, "left", records=key).records.equals(own(lines, "left").records)
        settings = settings_of(options)
        (tmp_path / "settings.json").write_text(json.dumps(dataclasses.asdict(settings)))
        how = {"records": key, "decimal": None, "as_of": None, "times": {}}
        assert how_read(tmp_path) == how
        schema = own(lines, "left").schema
        new = list(new_records(schema, path, **how_read(tmp_path)))
        assert sum(map(len, new)) == len(records)
    with pytest.raises(ValueError, match=r"one record: .*--records '\*' each of its values"):
        own(path, "left")
    assert how_read(tmp_path / "none") == {}


def test_choices_of_a_schema(lines, tmp_path):
    own(lines, "left").schema.save(tmp_path / "schema.json")
    content = json.loads((tmp_path / "schema.json").read_text())
    content["choices"] = {"city": "text", "orders.items.price": "dropped"}
    (tmp_path / "schema.json").write_text(json.dumps(content))
    found = own(lines, "left", schema=str(tmp_path / "schema.json"))
    assert found.schema["city"].kind == "text"
    assert found.schema_of_training()["orders.items.price"].kind == "dropped"
    records = [{"x": i, "left": bool(i % 2)} for i in range(20)]
    other = own_records.write_lines(tmp_path / "x.jsonl", records)
    with pytest.raises(ValueError, match=r"choices about fields .* Received: city"):
        own(other, "left", schema=str(tmp_path / "schema.json"))


def test_keys_of_several_columns(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    lines = [f"{i % 3},{i // 3},{'ab'[i % 2]}" for i in range(30)]
    (folder / "shop.orders.csv").write_text("\n".join(["shop,number,kind", *lines]))
    lines = [f"{i % 3},{i // 3},{price}" for i in range(30) for price in range(i % 4)]
    (folder / "items.csv").write_text("\n".join(["shop,number,price", *lines]))
    (folder / "shop.csv").write_text("id\n1\n")
    text = "items.shop,items.number=shop.orders.shop,shop.orders.number"
    arguments = [str(folder), "--target", "kind", "--key", text]
    parser = argparse.ArgumentParser()
    add_options(parser, TrainOptions)
    options = TrainOptions.of(parser.parse_args(arguments))
    data = OwnData.of(settings_of(options))
    assert set(data.files) == {"shop.orders.csv", "items.csv"}
    settings = dataclasses.replace(settings_of(options), files=data.files)
    write_json(tmp_path / "settings.json", dataclasses.asdict(settings))
    assert train_settings(tmp_path) == settings
    assert [len(record["items"]) for record in data.records.to_pylist()] == [
        i % 4 for i in range(30)
    ]
    data.schema.save(tmp_path / "schema.json")
    pieces = new_records(Schema.load(tmp_path / "schema.json"), folder)
    assert pa.concat_arrays([*pieces]).to_pylist() == data.records.to_pylist()
    for wrong in ("items.shop,items.number=shop.orders.shop", "a=b", "a.b", "a.b=c.d=e.f"):
        with pytest.raises(SystemExit):
            parser.parse_args([*arguments[:-1], wrong])


def test_keys_that_are_not_those_of_the_schema(tables, tmp_path):
    own(tables, "segment", keys=KEYS).schema.save(tmp_path / "schema.json")
    schema = str(tmp_path / "schema.json")
    assert own(tables, "segment", schema=schema).schema.links.top == "customers"
    assert own(tables, "segment", schema=schema, keys=KEYS).schema.links.top == "customers"
    with pytest.raises(ValueError, match="the keys of the schema"):
        own(tables, "segment", schema=schema, keys=KEYS[:1])


def test_settings_come_back(lines, tmp_path):
    options = TrainOptions(data=str(lines), target="left", keys=[], split_by="city")
    settings = settings_of(options)
    content = dataclasses.asdict(settings)
    write_json(tmp_path / "settings.json", content)
    assert train_settings(tmp_path) == settings
    for change in ({"target": 3}, {"keys": None}, {"seed": "0"}, {"more": 1}):
        write_json(tmp_path / "settings.json", content | change)
        with pytest.raises(ValueError, match="the settings of `keras-mmil train`"):
            train_settings(tmp_path)


def test_names_that_are_meant():
    assert did_you_mean("prise", ["price", "a.b", "size"]).startswith(" (did you mean 'price'")
    assert did_you_mean("b", ["price", "a.b", "bb"]) == " (did you mean 'a.b'?)"
    assert did_you_mean("q", "abc") == " (there are a, b, c)"


def test_only_errors_about_data_are_told_as_such():
    """Or a fault of the program would be taken for one."""
    for error in (KeyError("typo"), TypeError("no len()"), ValueError("shapes")):
        with pytest.raises(type(error)) as raised, users_errors():
            raise error
        assert raised.value is error
    with (
        pytest.raises(ValueError, match=r"^Expected texts\. Received: --records 'a'$"),
        users_errors(),
    ):
        raise KeyError("Expected texts. Received: records='a'")


def is_division(split, n):
    return sorted(np.concatenate(split).tolist()) == list(range(n))


@given(st.lists(st.integers(0, 4), min_size=10, max_size=200), st.integers(0, 2**32 - 1))
def test_classes_have_equal_shares(classes, seed):
    classes = np.unique(classes, return_inverse=True)[1]
    split = at_random(classes, seed)
    assert is_division(split, len(classes))
    counts = Counter(classes.tolist())
    for name, n in counts.items():
        train, valid, test = (int((classes[part] == name).sum()) for part in split)
        assert train >= 1
        assert valid == 0
        assert abs(test - (n - 1) / 5) < 1


def test_a_division_depends_on_the_seed():
    classes = np.zeros(100, int)
    a, b, c = (at_random(classes, seed) for seed in (0, 0, 1))
    assert [part.tolist() for part in a] == [part.tolist() for part in b]
    assert a.test.tolist() != c.test.tolist()
    sizes = [len(part) for part in at_random(np.zeros(1000, int), 0)]
    np.testing.assert_allclose(sizes, [800, 0, 200], atol=1)


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 12), min_size=30, max_size=200),
    st.booleans(),
    st.integers(0, 100),
)
def test_no_group_is_in_two_parts(groups, is_number, seed):
    groups = np.array([*groups, 0, 1, 2])
    classes = None if is_number else np.arange(len(groups)) % 2
    split = by_group(groups, classes, seed)
    assert is_division(split, len(groups))
    train, valid, test = (set(groups[part].tolist()) for part in split)
    assert not train & valid
    assert not train & test
    assert not valid & test
    assert train


def test_groups_are_shared_out():
    groups = np.repeat(np.arange(100), 10)
    for classes in (None, np.arange(1000) % 3):
        sizes = [len(part) for part in by_group(groups, classes, 0)]
        np.testing.assert_allclose(sizes, [640, 160, 200], atol=10)
    with pytest.raises(ValueError, match="at least 3 different values, one for each part"):
        by_group(np.array([0, 1] * 10), None, 0)


@given(st.lists(st.integers(0, 6), min_size=3, max_size=60))
def test_the_latest_are_for_test(times):
    """Records of the same time stay together."""
    times = np.array([*times, 7, 8, 9], float)
    split, first_of_valid, first_of_test = by_time(times)
    assert is_division(split, len(times))
    train, valid, test = (times[part] for part in split)
    assert train.max() < first_of_valid == valid.min()
    assert valid.max() < first_of_test == test.min()
    many = np.random.default_rng(0).permutation(1000).astype(float)
    assert [len(part) for part in by_time(many)[0]] == [640, 160, 200]


def test_too_few_times():
    for times in ([1, 1, 1], [1, 1, 2], [5]):
        with pytest.raises(ValueError, match="at least 3 different times"):
            by_time(np.array(times, float))


def test_choices_are_made_by_options_and_files(tmp_path):
    records = [{"a": i % 7, "b": f"x{i}", "c": i % 3, "left": i % 2 == 0} for i in range(40)]
    data = tmp_path / "records.jsonl"
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    choices = tmp_path / "choices.json"
    choices.write_text(json.dumps({"a": "category", "c": "number"}))
    options = {"schema": str(choices), "drop": ["b"], "kind": [("c", "category")]}
    found = settings_of(TrainOptions(data=str(data), target="left", **options))
    assert found.choices == {"a": "category", "c": "category", "b": "dropped"}
    schema = OwnData.of(found).schema_of_training()
    assert [schema[name].kind for name in "abc"] == ["category", "dropped", "category"]
    choices.write_text("{")
    with pytest.raises(ValueError, match="Expected JSON as --schema"):
        settings_of(TrainOptions(data=str(data), target="left", **options))
    unknown = settings_of(TrainOptions(data=str(data), target="left", drop=["nowhere"]))
    with pytest.raises(ValueError, match="Received: nowhere"):
        OwnData.of(unknown)


def test_kinds_of_fields_are_parsed(capsys):
    arguments = ["train", "records.jsonl", "--target", "left", "--kind", "a=colour"]
    with pytest.raises(SystemExit):
        main(arguments)
    assert "expected FIELD=KIND, with a kind of number, category" in capsys.readouterr().err

"""Folders in the form of RelBench's, as of the moments of their tasks, against a loop."""

import datetime
import json
import random
import warnings

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from keras_mmil.records import Schema, from_relbench

START = datetime.datetime(2010, 1, 1)
MOMENTS = [60, 120, 180, 240, 300]  # days


def day(n):
    return START + datetime.timedelta(days=n)


def save(path, frame, id_=None, time=None, keys=None):
    """A table with its metadata, as RelBench saves it."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    about = {"fkey_col_to_pkey_table": keys or {}, "pkey_col": id_, "time_col": time}
    metadata = {key: json.dumps(value).encode() for key, value in about.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(
        table.replace_schema_metadata({**table.schema.metadata, **metadata}), path
    )


@pytest.fixture
def tables():
    """Races on some days, some of which are the moments, and who was there."""
    rng = random.Random(0)
    races = [{"raceId": i, "circuitId": i % 3, "date": day(15 * i)} for i in range(24)]
    results = [
        {
            "resultId": i,
            "raceId": race["raceId"],
            "driverId": rng.choice([None, *range(8)]),
            "points": rng.randrange(26),
            "date": race["date"],
            "protested": rng.choice([None, race["date"] + datetime.timedelta(days=40)]),
        }
        for i, race in enumerate(race for race in races for _ in range(6))
    ]
    return {
        "circuits": [{"circuitId": i, "place": f"place {i}"} for i in range(3)],
        "drivers": [{"driverId": i, "born": day(-9000 - i), "number": i % 3} for i in range(8)],
        "races": races,
        "results": results,
        "fees": [{"driverId": i % 8, "paid": day(30 * i), "fee": i / 2} for i in range(12)],
        "news": [{"line": "x"}],
        "driver-dnf": [
            {"date": day(n), "driverId": i, "did_not_finish": rng.random() < 0.4}
            for n in MOMENTS
            for i in range(8)
        ],
    }


@pytest.fixture
def folder(tables, tmp_path):
    frames = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    frames["results"] = frames["results"].astype({"driverId": "Int64"})
    db, task = tmp_path / "rel-f1" / "db", tmp_path / "rel-f1" / "tasks" / "driver-dnf"
    save(db / "circuits.parquet", frames["circuits"], "circuitId")
    save(db / "drivers.parquet", frames["drivers"], "driverId")
    keys = {"circuitId": "circuits"}
    save(db / "races.parquet", frames["races"], "raceId", "date", keys)
    keys = {"raceId": "races", "driverId": "drivers"}
    save(db / "results.parquet", frames["results"], "resultId", "date", keys)
    save(db / "fees.parquet", frames["fees"], keys={"driverId": "drivers"})  # without a time
    save(db / "news.parquet", frames["news"])
    labels = frames["driver-dnf"]
    for split, (start, end) in {"train": (0, 3), "val": (3, 4), "test": (4, 5)}.items():
        some = labels[8 * start : 8 * end]
        if split == "test":
            some = some.astype({"did_not_finish": "object"})
        save(task / f"{split}.parquet", some, None, "date", {"driverId": "drivers"})
    return tmp_path / "rel-f1"


def by_loop(tables):
    def age(time, moment):
        days = None if time is None else (moment - time).total_seconds() / 86400
        return None if days is None or days < 0 else pytest.approx(days)

    def row(name, id_, value, moment, time):
        (found,) = (dict(x) for x in tables[name] if x[id_] == value)
        return {k if k != time else f"days_since_{k}": x for k, x in found.items()} | (
            {f"days_since_{time}": age(found[time], moment)} if time else {}
        )

    found = []
    for label in tables["driver-dnf"]:
        moment = label["date"]
        driver = row("drivers", "driverId", label["driverId"], moment, "born")
        driver["results"] = [
            {
                "resultId": result["resultId"],
                "raceId": result["raceId"],
                "driverId": result["driverId"],
                "points": result["points"],
                "days_since_date": age(result["date"], moment),
                "days_since_protested": age(result["protested"], moment),
                "races": row("races", "raceId", result["raceId"], moment, "date"),
            }
            for result in tables["results"]
            if result["driverId"] == label["driverId"] and result["date"] <= moment
        ]
        for result in driver["results"]:
            race = result["races"]
            race["circuits"] = row("circuits", "circuitId", race["circuitId"], moment, None)
        driver["fees"] = [
            {"driverId": fee["driverId"], "days_since_paid": age(fee["paid"], moment)}
            | {"fee": fee["fee"]}
            for fee in tables["fees"]
            if fee["driverId"] == label["driverId"]
        ]
        found.append(label | {"drivers": driver})
    return found


@pytest.mark.filterwarnings("ignore:.*left out", "ignore:No key leads to news")
def test_records_of_a_task(folder, tables, capsys):
    train, val, test = from_relbench(folder, "driver-dnf")
    assert [len(train), len(val), len(test)] == [24, 8, 8]
    assert [*train.to_pylist(), *val.to_pylist(), *test.to_pylist()] == by_loop(tables)
    said = capsys.readouterr().out
    assert "drivers.results: those with date not after date" in said
    assert "drivers.fees: all members" in said
    schema = Schema.infer(train)
    assert schema["did_not_finish"].kind == "boolean"
    drivers = pd.DataFrame(tables["drivers"]).assign(mentor=[3] * 8)
    keys = {"mentor": "drivers"}
    save(folder / "db" / "drivers.parquet", drivers, "driverId", keys=keys)
    again, _, _ = from_relbench(str(folder), "driver-dnf", hops=1, verbose=False)
    assert not capsys.readouterr().out
    mentor = again[0]["drivers"]["drivers_at_mentor"].as_py()
    assert {result["driverId"] for result in mentor["results"]} == {3}


def test_what_is_left_out_is_said(folder):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from_relbench(folder, "driver-dnf", verbose=False)
    messages = [str(each.message) for each in caught]
    assert messages[0] == "No key leads to news: not read"
    assert "rows of 'results' refer to no row of 'drivers'" in messages[1]
    assert len(messages) == 2
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore:.*left out", "ignore:No key leads to news")
def test_labels_that_are_columns_of_their_entity(folder, tables):
    rows = [
        {"date": x["date"], "resultId": x["resultId"], "points": x["points"]}
        for x in tables["results"]
    ]
    for split, (start, end) in {"train": (0, 100), "val": (100, 120), "test": (120, 144)}.items():
        path = folder / "tasks" / "results-points" / f"{split}.parquet"
        save(path, pd.DataFrame(rows[start:end]), None, "date", {"resultId": "results"})
    with pytest.warns(UserWarning, match=r"Not read is the label in 'results': 'points'"):
        train, _, test = from_relbench(folder, "results-points", verbose=False)
    assert train.field("points").to_pylist() == [x["points"] for x in rows[:100]]
    assert "points" not in test.field("results").to_pylist()[0]


def test_refused(folder, tables):
    task = folder / "tasks" / "driver-circuit"
    for split in ("train", "val", "test"):
        rows = pd.DataFrame([{"date": day(1), "driverId": 1, "circuitId": [1, 2]}])
        keys = {"driverId": "drivers", "circuitId": "circuits"}
        save(task / f"{split}.parquet", rows, None, "date", keys)
    with pytest.raises(ValueError, match=r"one entity, a time and a label. Received: .*circuitId"):
        from_relbench(folder, "driver-circuit")
    (task / "val.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"Received: none with .*val.parquet"):
        from_relbench(folder, "driver-circuit")
    with pytest.raises(FileNotFoundError, match="drivers-dnf"):
        from_relbench(folder, "drivers-dnf")
    (folder / "db" / "circuits.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"Received: none with .*circuits.parquet"):
        from_relbench(folder, "driver-dnf")
    pa.parquet.write_table(pa.table({"x": [1]}), folder / "db" / "circuits.parquet")
    with pytest.raises(ValueError, match=r"metadata of RelBench. Received: .*circuits.parquet"):
        from_relbench(folder, "driver-dnf")

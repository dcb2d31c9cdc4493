"""Which files are read: folders, patterns, lists, folders of partitions, packed ones."""

import gzip
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from keras_mmil.records import Files, Schema, sources

RECORDS = [{"n": i, "t": "ab"[i % 2], "x": i + 0.5} for i in range(12)]


def whole(source, **arguments):
    return [
        record
        for batch in sources.batches(source, **arguments)
        for record in batch.records.to_pylist()
    ]


def write(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    bare = path.name.removesuffix(".gz").removesuffix(".zst")
    if bare.endswith(".parquet"):
        pa.parquet.write_table(pa.Table.from_pylist(records), path)
        return
    if bare.endswith((".csv", ".tsv")):
        between = "," if bare.endswith(".csv") else "\t"
        rows = [records[0].keys(), *(record.values() for record in records)]
        text = "".join(between.join(map(str, row)) + "\n" for row in rows)
    elif bare.endswith(".json"):
        text = json.dumps(records[0] if len(records) == 1 else records)
    else:
        text = "".join(json.dumps(record) + "\n" for record in records)
    packing = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    with pa.output_stream(str(path), compression=packing) as file:
        file.write(text.encode())


@pytest.mark.parametrize(
    "names",
    [
        ["a.jsonl", "b.ndjson.gz", "in/c.jsonl.zst"],
        ["a.json", "b.json.gz", "in/c.json.zst"],
        ["a.csv", "b.tsv", "in/c.csv.gz"],
        ["a.tsv.zst", "b.csv", "in/c.csv"],
        ["a.parquet", "b.parquet", "in/c.parquet"],
    ],
)
def test_folders_patterns_and_lists(names, tmp_path):
    folder = tmp_path / "records"
    for i, name in enumerate(names):
        write(folder / name, RECORDS[4 * i : 4 * i + 4])
    for junk in ("_SUCCESS", "_log/0.json", ".a.json", "n.txt", "_old/a.csv", ".hidden/b.parquet"):
        (folder / junk).parent.mkdir(exist_ok=True)
        (folder / junk).write_text("no records")
    paths = [folder / name for name in names]
    several = (paths, tuple(map(str, paths)), Files(paths), [folder])
    for source in (folder, str(folder), Files(folder), f"{folder}/[abi]*", *several):
        assert whole(source) == RECORDS, source
    assert whole([*paths[1:], paths[0]]) == RECORDS[4:] + RECORDS[:4]
    assert whole(f"{folder}/[ab].*") == RECORDS[:8]
    schema = Schema.infer(folder)
    assert schema.n_records == 12
    assert schema.read(paths)["x"].numpy().tolist() == [record["x"] for record in RECORDS]


def test_a_folder_of_one_record_a_file(tmp_path):
    for i, record in enumerate(RECORDS):
        write(tmp_path / f"{i:02}.json", [record | {"bag": [{"x": 1}, {"x": 2}]}])
    assert [record["n"] for record in whole(tmp_path)] == list(range(12))


def test_errors_name_the_file_and_the_place_in_it(tmp_path):
    for i in range(3):
        write(tmp_path / f"{i}.jsonl", RECORDS)
        write(tmp_path / "json" / f"{i}.json", RECORDS)
    schema = Schema.infer(tmp_path / "0.jsonl")
    with open(tmp_path / "1.jsonl", "a") as file:
        file.write('{"t": ["list"]}\n')
    with pytest.raises(ValueError, match=r"a bag there, in line 13 of .*1\.jsonl$"):
        schema.read(sorted(tmp_path.glob("*.jsonl")), unseen="error")
    write(tmp_path / "json" / "1.json", [*RECORDS, {"t": {}}])
    with pytest.raises(ValueError, match=r"a record there, in record 12 of .*1\.json$"):
        schema.read(tmp_path / "json", unseen="error")
    (tmp_path / "json" / "2.json").write_text('[{"t": "a"}, 5]')
    with pytest.raises(TypeError, match=r"Received: number as record 1 of .*2\.json$"):
        Schema.infer(tmp_path / "json")


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("{}/no.json", FileNotFoundError, r"Expected a file of records\. Received: .*no\.json"),
        (["{}/a.csv", "{}/no.csv"], FileNotFoundError, r"Received: .*no\.csv"),
        ("{}/*.parquet", FileNotFoundError, r"that match a pattern\. Received: .*\*\.parquet"),
        ("{}/empty", FileNotFoundError, r"that end in .parquet, .csv, .* in a folder"),
        ("{}/a.txt", ValueError, r"that ends in .parquet, .csv, .*\.zst\)\. Rec"),
        ("{}/p.parquet.gz", ValueError, r"that ends in .parquet"),
        (["{}/a.csv", "{}/b.json"], ValueError, r"of one format\. Received: \.csv, \.json in"),
        (["{}/a.csv", 5], TypeError, r"Expected paths\. Received: a int, 5"),
        (Files("{}/a.csv", records="x"), ValueError, r"\.json files, for records='x'"),
        (Files("{}/b.json", decimal=","), ValueError, r"\.csv or \.tsv files, for decimal=','"),
        (Files("{}/b.json", records="x"), ValueError, r"no object, in record 0 of .*b\.json"),
    ],
)
def test_what_is_refused(source, error, message, tmp_path):
    write(tmp_path / "a.csv", RECORDS)
    write(tmp_path / "b.json", RECORDS)
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "p.parquet.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "empty").mkdir()
    if isinstance(source, Files):
        source = Files(source.paths.format(tmp_path), source.records, source.decimal)
    elif isinstance(source, str):
        source = source.format(tmp_path)
    else:
        source = [x.format(tmp_path) if isinstance(x, str) else x for x in source]
    with pytest.raises(error, match=message):
        whole(source)


def test_json_beside_other_files_is_about_them(tmp_path):
    for name in ("a.parquet", "in/b.parquet", "manifest.json"):
        write(tmp_path / name, RECORDS)
    with pytest.warns(UserWarning, match=r"1 \.json files beside \.parquet files in .* skipped"):
        assert whole(tmp_path) == RECORDS * 2
    write(tmp_path / "c.csv", RECORDS)
    with pytest.raises(ValueError, match=r"of one format"), pytest.warns(match="are skipped"):
        whole(tmp_path)


def test_what_files_takes():
    with pytest.raises(TypeError, match=r"a path, or a list of paths. Received: paths=5"):
        Files(5)
    with pytest.raises(ValueError, match=r"Expected '.' or ','. Received: decimal=';'"):
        Files("a.csv", decimal=";")


@pytest.mark.parametrize("values", [[1, 2], ["a/b", "c=ü"], ["007", "8"], [None, 3]])
def test_folders_of_partitions(values, tmp_path):
    """Their columns are in the names of folders alone, as pyarrow and Spark write them."""
    table = pa.table(
        {
            "x": np.arange(20.0),
            "part": pa.array([values[i % 2] for i in range(20)]),
            "year": [2020 + i % 3 for i in range(20)],
        }
    )
    pa.dataset.write_dataset(
        table, tmp_path, format="parquet", partitioning=["part", "year"], partitioning_flavor="hive"
    )
    found = sorted(whole(tmp_path), key=lambda record: record["x"])
    assert found == table.to_pylist()
    assert whole(tmp_path, wanted={"year": True}) == [{"year": x["year"]} for x in whole(tmp_path)]
    schema, expected = Schema.infer(tmp_path), Schema.infer(table)
    assert {f.path: (f.kind, f.why, f.seen.counts) for f in schema} == {
        f.path: (f.kind, f.why, f.seen.counts) for f in expected
    }
    name = next(iter(tmp_path.iterdir()))
    shutil.copy(next(name.rglob("*.parquet")), tmp_path / "astray.parquet")
    with pytest.raises(ValueError, match=r"all files in folders of part, year\. Received: others"):
        whole(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_damaged_files_leave_no_memory_behind(tmp_path):
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 100)

    def taken():
        return int(Path("/proc/self/statm").read_text().split()[0]) * 4096

    before = taken()
    for _ in range(30):
        with pytest.raises(ValueError, match=r"a complete JSON file.*a\.jsonl\.zst"):
            whole(path)
    assert taken() - before < 2**28

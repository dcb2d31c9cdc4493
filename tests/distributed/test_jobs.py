"""Predictions and explanations of files: what is written, continued, and refused."""

import importlib
import json
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from keras_mmil import distributed, io
from keras_mmil.distributed import Predictor
from keras_mmil.distributed.blocks import Block
from keras_mmil.distributed.jobs import Job, digest_of


def run(saved, out, data=None, verb=distributed.predict, **arguments):
    data = f"{saved.folder}/in/*.parquet" if data is None else data
    settings = {"keep": ["id"], "block_size": 20, "verbose": 0, **arguments}
    return verb(saved.model_path, data, out, **settings)


def times(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("block-*")}


@pytest.mark.slow
def test_predictions_of_all_rows(saved, tmp_path, capsys):
    done = run(saved, tmp_path / "out")
    assert not capsys.readouterr().out
    run(saved, tmp_path / "with_bar", verbose=1)
    assert "7/7" in capsys.readouterr().out
    assert (done.rows, done.blocks, len(done.reports)) == (100, 7, 7)
    assert [report.rows for report in done.reports] == [20, 20, 8, 20, 20, 8, 4]
    assert str(done).startswith("100 rows in 7 files in ")
    table = pa.parquet.read_table(tmp_path / "out")
    assert table.column_names == ["id", "prediction"]
    assert table["id"].to_pylist() == [f"row {i}" for i in range(100)]
    expected = saved.model.predict(saved.x, verbose=0)[:, 0]
    np.testing.assert_allclose(table["prediction"].to_numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_explanations_of_all_rows(saved, rules, tmp_path):
    folder, explainer = rules
    run(saved, tmp_path / "out", verb=distributed.explain, explainer=folder, batch_size=8)
    table = pa.parquet.read_table(tmp_path / "out")
    assert table["id"].to_pylist() == [f"row {i}" for i in range(100)]
    assert table["label"].to_pylist() == [explainer.classes_[i] for i in explainer.predict(saved.x)]
    # Top-bags are called by their numbers in their files.
    expected = [str(each).partition(" is ")[2] for each in explainer.explain(saved.x)]
    ours = [each.partition(" is ") for each in table["explanation"].to_pylist()]
    assert [each[2] for each in ours] == expected
    numbers = [*range(48), *range(48), *range(4)]
    assert [each[0] for each in ours] == [f"top-bag {i}" for i in numbers]


@pytest.mark.slow
def test_a_job_is_continued(saved, tmp_path):
    out = tmp_path / "out"
    run(saved, out)
    first, table = times(out), pa.parquet.read_table(out)
    (out / "block-000003.parquet").unlink()
    damaged = out / "block-000005.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    (out / "part-0123456789abcdef-block-000001.parquet").write_bytes(b"of a killed process")
    done = run(saved, out)
    assert [report.number for report in done.reports] == [3, 5]
    kept = first.keys() - {"block-000003.parquet", "block-000005.parquet"}
    again = times(out)
    assert {name: again[name] for name in kept} == {name: first[name] for name in kept}
    paths = sorted(out.glob("block-*"))
    assert pa.concat_tables(map(pa.parquet.read_table, paths)).equals(table)
    assert not run(saved, out).reports


@pytest.mark.slow
def test_other_jobs_are_refused(saved, rules, tmp_path):
    run(saved, tmp_path / "out")
    before = times(tmp_path / "out")
    explain = {"verb": distributed.explain, "explainer": saved.folder / "rules"}
    for other, named in (
        ({"keep": []}, r"keep=\[\] instead of \['id'\]"),
        ({"block_size": 21}, "block_size=21 instead of 20"),
        ({"batch_size": 7}, "batch_size=7 instead of 64"),
        ({"data": saved.folder / "data", "keep": []}, "files=.* instead of"),
        (explain, "verb='explain' instead of"),
    ):
        with pytest.raises(ValueError, match=named):
            run(saved, tmp_path / "out", **other)
        assert times(tmp_path / "out") == before
    saved.model.save(tmp_path / "other.keras")
    other = SimpleNamespace(folder=saved.folder, model_path=tmp_path / "other.keras")
    with pytest.raises(ValueError, match=r"model=.* instead of"):
        run(other, tmp_path / "out")


@pytest.mark.slow
def test_a_damaged_file_is_named_and_the_others_are_done(saved, tmp_path):
    """Pages have checksums where `io.write` made them."""
    data, out = tmp_path / "in", tmp_path / "out"
    io.write(data, saved.x, top_bags_per_file=48, verbose=0)
    damaged = data / "part-00001.parquet"
    content = bytearray(damaged.read_bytes())
    content[200] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(ValueError, match=r"3 of 7 cannot.*rows 0 to 19 of .*part-00001\.parquet"):
        run(saved, out, f"{data}/*.parquet", keep=[])
    assert len(times(out)) == 4
    content[200] ^= 1
    damaged.write_bytes(content)
    assert [r.number for r in run(saved, out, f"{data}/*.parquet", keep=[]).reports] == [3, 4, 5]
    assert pa.parquet.read_table(out).num_rows == 100


@pytest.mark.slow
def test_nothing_is_made_where_nothing_can_be_done(saved, tmp_path):
    out = tmp_path / "out"
    cases = [
        ({"data": f"{tmp_path}/*.parquet"}, FileNotFoundError, "Expected Parquet files"),
        ({"keep": ["key"]}, ValueError, r"without \['key'\], in .*part-00000\.parquet"),
        ({"verb": distributed.explain}, ValueError, "folder of a saved explainer"),
        ({"actors": -1}, ValueError, "actors=-1"),
        ({"actors": True}, ValueError, "actors=True"),
        ({"threads": 0}, ValueError, "threads=0"),
        ({"block_size": 0}, ValueError, "block_size=0"),
    ]
    for arguments, error, message in cases:
        with pytest.raises(error, match=message):
            run(saved, out, **arguments)
    pa.parquet.write_table(pa.table({"id": ["1"], "y": [1]}), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"one column 'bags'.* in .*other\.parquet"):
        run(saved, out, tmp_path / "other.parquet")
    assert not out.exists()


@pytest.mark.slow
def test_a_batch_of_any_engine_is_a_block(saved, tmp_path):
    run(saved, tmp_path / "out")
    table = pa.parquet.read_table(saved.folder / "in" / "part-00000.parquet")
    predictor = Predictor(saved.model_path, keep=["id"])
    (batch,) = table.slice(20, 20).combine_chunks().to_batches()
    ours = predictor.predict_batch(batch)
    theirs = pa.parquet.read_table(tmp_path / "out" / "block-000001.parquet")
    assert pa.Table.from_batches([ours]).equals(theirs)


def test_without_ray(saved, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'keras-mmil\[ray\]'\. actors=0 works"):
        run(saved, tmp_path / "out", actors=1)
    assert not (tmp_path / "out").exists()


def test_importing_needs_no_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in [name for name in sys.modules if name.startswith("keras_mmil.distributed")]:
        monkeypatch.delitem(sys.modules, name)
    again = importlib.import_module("keras_mmil.distributed")
    assert again is not distributed
    assert again.__all__ == distributed.__all__


BLOCK = Block(3, "/in/a.parquet", 40, 500)
ROWS = pa.RecordBatch.from_pydict(
    {"id": list(range(500)), "text": [f"row {i}" for i in range(500)]}
)


def job_in(folder, **others):
    return Job(folder / "out", {"verb": "predict", "model": "m", "files": [{"rows": 9}], **others})


def test_results_of_blocks(tmp_path):
    job = job_in(tmp_path)
    job.begin()
    assert job.is_missing(BLOCK)
    job.write(BLOCK, ROWS)
    assert not job.is_missing(BLOCK)
    # Programs take a folder for a table: the note of the job must not disturb them.
    assert pa.parquet.read_table(tmp_path / "out").to_pylist() == ROWS.to_pylist()
    assert job.path_of(BLOCK).name == "block-000003.parquet"
    assert not job.is_missing(Block(3, "/elsewhere/a.parquet", 40, 500))
    assert job.is_missing(Block(3, BLOCK.file, 41, 500))
    assert job.is_missing(Block(3, BLOCK.file, 40, 499))
    assert job.is_missing(Block(4, BLOCK.file, 40, 500))
    assert Job(job.folder, {"verb": "explain"}).is_missing(BLOCK)
    pa.parquet.write_table(pa.Table.from_batches([ROWS]), job.path_of(BLOCK))  # by someone else
    assert job.is_missing(BLOCK)


@pytest.mark.parametrize("place", [0.01, 0.2, 0.5, 0.7, 0.999])
def test_damaged_results_are_missing(tmp_path, place):
    job = job_in(tmp_path)
    job.begin()
    job.write(BLOCK, ROWS)
    path = job.path_of(BLOCK)
    content = path.read_bytes()
    damaged = bytearray(content)
    damaged[int(place * len(content))] ^= 0x10
    path.write_bytes(damaged)
    assert job.is_missing(BLOCK)
    path.write_bytes(content[: int(place * len(content))])
    assert job.is_missing(BLOCK)
    job.write(BLOCK, ROWS)
    assert path.read_bytes() == content
    assert not job.is_missing(BLOCK)


def test_a_job_is_continued_and_no_other(tmp_path):
    job_in(tmp_path).begin()
    job_in(tmp_path).end()
    job_in(tmp_path).begin()
    with pytest.raises(ValueError, match=r"to continue.* Received: model='n' instead of 'm'"):
        job_in(tmp_path, model="n").begin()
    with pytest.raises(ValueError, match=r"Received: keep=\['id'\] instead of None"):
        job_in(tmp_path, keep=["id"]).begin()
    note = json.loads((tmp_path / "out" / "_job.json").read_text())
    assert note["complete"]
    assert note["job"]["verb"] == "predict"


def test_other_folders_are_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"new or empty folder.*notes\.txt"):
        job_in(tmp_path).begin()
    (tmp_path / "out" / "notes.txt").unlink()
    (tmp_path / "out" / "_job.json").write_text('{"format": "another", "version": 1}')
    with pytest.raises(ValueError, match=r"'keras-mmil batch job'. Received: .*_job\.json"):
        job_in(tmp_path).begin()


def test_digests_of_files(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("1")
    b.write_text("2")
    found = {digest_of([a, b]), digest_of([a]), digest_of([b, a])}
    b.write_text("3")
    assert len(found | {digest_of([a, b])}) == 4

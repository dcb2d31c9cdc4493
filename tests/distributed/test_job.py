"""Folders of results: what is whole, what is missing, and what is of another job."""

import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from keras_mmil.distributed.blocks import Block
from keras_mmil.distributed.job import Job, digest_of

BLOCK = Block(3, "/in/a.parquet", 40, 500)
ROWS = pa.RecordBatch.from_pydict(
    {"id": list(range(500)), "text": [f"row {i}" for i in range(500)]}
)


def job_in(folder, **others):
    return Job(folder / "out", {"verb": "predict", "model": "m", "files": [{"rows": 9}], **others})


def test_results_are_read_as_parquet(tmp_path):
    job = job_in(tmp_path)
    job.begin()
    assert job.lacks(BLOCK)
    job.write(BLOCK, ROWS)
    assert not job.lacks(BLOCK)
    # Programs take a folder for a table: the note of the job must not disturb them.
    assert pa.parquet.read_table(tmp_path / "out").to_pylist() == ROWS.to_pylist()
    assert job.path_of(BLOCK).name == "block-000003.parquet"


def test_results_of_other_blocks_and_jobs(tmp_path):
    job = job_in(tmp_path)
    job.begin()
    job.write(BLOCK, ROWS)
    assert not job.lacks(Block(3, "/elsewhere/a.parquet", 40, 500))
    assert job.lacks(Block(3, BLOCK.file, 41, 500))
    assert job.lacks(Block(3, BLOCK.file, 40, 499))
    assert job.lacks(Block(4, BLOCK.file, 40, 500))
    assert Job(job.folder, {"verb": "explain"}).lacks(BLOCK)
    pa.parquet.write_table(pa.Table.from_batches([ROWS]), job.path_of(BLOCK))  # by someone else
    assert job.lacks(BLOCK)


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
    assert job.lacks(BLOCK)
    path.write_bytes(content[: int(place * len(content))])
    assert job.lacks(BLOCK)
    job.write(BLOCK, ROWS)
    assert path.read_bytes() == content
    assert not job.lacks(BLOCK)


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
    for content in ("{", "[]", '{"format": "another", "version": 1}', "[" * 100_000):
        (tmp_path / "out" / "_job.json").write_text(content)
        with pytest.raises(ValueError, match=r"Expected a job in .*_job\.json"):
            job_in(tmp_path).begin()


def test_digests_of_files(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("1")
    b.write_text("2")
    found = {digest_of([a, b]), digest_of([a]), digest_of([b, a])}
    b.write_text("3")
    assert len(found | {digest_of([a, b])}) == 4

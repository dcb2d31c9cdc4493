"""What is written, from whatever it comes, and writing that was interrupted."""

import itertools
import json
import os
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from shard_data import FORMATS, assert_same, bags, expected, joined, labels, nested, written

from keras_mmil import Bags, batches, io, ragged

N = 23
every_format = pytest.mark.parametrize("format", FORMATS)


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


# Sources ----------------------------------------------------------------------------------------


def data():
    return {"x": bags(2), "y": labels(), "sample_weight": np.linspace(0, 1, N)}


def pieces(x, y, sample_weight, sizes):
    """Batches of some sizes."""
    bounds = np.cumsum([0, *sizes])
    for start, stop in itertools.pairwise(bounds):
        yield x[start:stop], y[start:stop], sample_weight[start:stop]


@pytest.mark.slow
@every_format
def test_the_files_are_the_same_wherever_the_data_come_from(format, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_mmil.io.writing._SLICE", 4)
    whole = content(written(tmp_path / "memory", format, **data()))
    assert len(whole) == 6
    x, y, weights = data().values()
    dataset = batches.to_dataset(x, (y, weights), 7, shuffle=False)
    stream = pieces(**data(), sizes=[1, 9, 0, 2, 11])
    for name, source in {"dataset": dataset, "stream": stream}.items():
        assert content(written(tmp_path / name, format, x=source)) == whole


@pytest.mark.slow
def test_batches_may_be_x_alone_or_in_a_tuple(tmp_path):
    x = nested(N, 2)
    for i, source in enumerate((iter([x]), iter([(x,)]), tf.data.Dataset.from_tensors(x))):
        written(tmp_path / str(i), x=source)
        assert_same(joined(io.read(tmp_path / str(i))), x)


@pytest.mark.slow
def test_any_row_splits_will_do(tmp_path):
    narrow = nested(N, 2).with_row_splits_dtype(tf.int32)
    written(tmp_path / "narrow", x=narrow)
    assert_same(joined(io.read(tmp_path / "narrow")), nested(N, 2))
    uniform = tf.RaggedTensor.from_uniform_row_length(nested(2 * N, 1, dtype="int8"), 2)
    written(tmp_path / "uniform", x=uniform)
    found = joined(io.read(tmp_path / "uniform"))
    assert found.to_list() == uniform.to_list()
    assert found.ragged_rank == uniform.ragged_rank == 2


def test_bags_stay_compressed(tmp_path):
    same = ragged.from_nested_lists([[[1, 2, 2]] * 50] * 20)
    compressed = Bags.from_ragged(same)
    info = io.write(tmp_path, compressed, verbose=0)
    columns = pq.read_table(tmp_path / "part-00000.parquet").to_pydict()
    assert columns["x/bags"] == [[[1, 2]]] * 20
    assert columns["x/counts"] == [[[1.0, 2.0]]] * 20
    assert columns["x/sub_bag_counts"] == [[50.0]] * 20
    assert len({key for (key,) in columns["x/sub_bag_keys"]}) == 1
    assert info.n_tensor_bytes < same.flat_values.numpy().nbytes / 2
    inputs = joined(io.read(tmp_path))
    assert inputs.keys() == compressed.inputs.keys()
    again = Bags(
        inputs["bags"], inputs["counts"], (inputs["sub_bag_counts"],), (inputs["sub_bag_keys"],)
    )
    assert [len(bag) for bag in again.to_ragged().to_list()] == [50] * 20


def test_other_programs_read_the_columns(tmp_path):
    x = {"images": nested(N, 1, inner=(2, 2)), "texts": nested(N, 2, dtype="string")}
    written(tmp_path, x=x, y=labels(), per_file=N)
    columns = pq.read_table(tmp_path / "part-00000.parquet").to_pydict()
    assert columns["x/texts"] == x["texts"].to_list()
    assert columns["y"] == labels().tolist()
    flat = [[np.ravel(image).tolist() for image in bag] for bag in x["images"].to_list()]
    np.testing.assert_equal(columns["x/images"], flat)
    found = duckdb.sql(f"""select y, "x/texts" from '{tmp_path}/*.parquet'""").fetchall()
    assert found == list(zip(columns["y"], columns["x/texts"], strict=True))


def test_sizes_of_files_suit_the_data(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_mmil.io.writing._FILE", 2**12)
    monkeypatch.setattr("keras_mmil.io.writing._GROUP", 2**9)
    rows = np.zeros((512, 4), "float64")
    info = io.write(tmp_path, rows, verbose=0)
    assert (info.n_files, info.n_tensor_bytes) == (4, 512 * 32)
    assert {each["tensor_bytes"] for each in manifest_of(tmp_path)["shards"]} == {2**12}
    with pq.ParquetFile(tmp_path / "part-00000.parquet") as file:
        assert file.num_row_groups == 8


@pytest.mark.parametrize(
    ("source", "error", "match"),
    [
        (
            {"x": [np.zeros(3)]},
            TypeError,
            "Expected a RaggedTensor.*iter.*Received: x of type list",
        ),
        ({"x": {"a": None}}, TypeError, "Received: x/a of type NoneType"),
        ({"x": "text"}, TypeError, "Received: x of type str"),
        ({"x": 3}, TypeError, "Received: x of type int"),
        ({"x": np.zeros(3, "complex64")}, TypeError, "Received: x of complex64"),
        ({"x": tf.zeros([3], tf.bfloat16)}, TypeError, "Received: x of bfloat16"),
        ({"x": np.zeros((3, 0))}, ValueError, r"instances of shape \(0,\)"),
        ({"x": np.zeros(3), "y": np.zeros(4)}, ValueError, r"sizes=\[3, 4\]"),
        ({"x": np.zeros(3), "sample_weight": np.zeros(3)}, ValueError, "Received: y=None"),
        ({"x": np.zeros(0)}, ValueError, "at least one top-bag"),
        ({"x": iter(())}, ValueError, "at least one top-bag"),
        (
            {"x": iter([np.zeros(2)]), "y": np.zeros(2)},
            ValueError,
            "labels and weights in the batches",
        ),
        ({"x": iter([(np.zeros(2),) * 4])}, ValueError, "a tuple of 4"),
        ({"x": iter([np.zeros(2), np.zeros(2, "f4")])}, ValueError, "batch 1.*float32.*instead of"),
        ({"x": iter([np.zeros((2, 3)), np.zeros((2, 4))])}, ValueError, "batches of one structure"),
        ({"x": tf.data.Dataset.from_tensors([1.0]).repeat()}, ValueError, "has no end"),
        ({"x": {"a/b": np.zeros(2), "a": {"b": np.zeros(2)}}}, ValueError, "different names"),
        ({"x": np.zeros(3), "top_bags_per_file": 0}, ValueError, "top_bags_per_file=0"),
        ({"x": np.zeros(3), "format": "csv"}, ValueError, "format='csv'"),
    ],
)
def test_what_cannot_be_written(source, error, match, tmp_path):
    with pytest.raises(error, match=f"(?s){match}"):
        io.write(tmp_path / "new", **source, verbose=0)
    assert not list(tmp_path.rglob("*.parquet"))


# Folders ----------------------------------------------------------------------------------------


def test_the_folder_has_to_be_empty(tmp_path):
    folder = written(tmp_path / "deep" / "data", x=nested(N, 2))
    with pytest.raises(ValueError, match=r"new or empty folder, or resume=True.*manifest.json"):
        written(folder, x=nested(N, 2))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"new or empty folder.*thesis\.tex"):
            io.write(tmp_path / "mine", nested(N, 2), resume=resume)


def test_progress_is_told(tmp_path, capsys):
    info = io.write(tmp_path, nested(N, 2), top_bags_per_file=20, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(", ")[0] for line in lines] == [
        "part-00000.parquet: 20 top-bags",
        "part-00001.parquet: 3 top-bags",
    ]
    assert info.is_complete


# Interruptions ----------------------------------------------------------------------------------


class Killed(BaseException):
    """What ends a program."""


def ending_after(n, sizes):
    for i, batch in enumerate(pieces(**data(), sizes=sizes)):
        if i == n:
            raise Killed
        yield batch


@every_format
@pytest.mark.parametrize("n", [1, 4, 7])
def test_data_that_broke_off_are_continued(format, n, tmp_path):
    whole = content(written(tmp_path / "whole", format, **data()))
    folder = tmp_path / "broken"
    with pytest.raises(Killed):
        written(folder, format, x=ending_after(n, [3] * 8))
    found = content(folder)
    assert all(whole[name] == found[name] for name in found if name != "manifest.json")
    assert len(found) == n * 3 // 5 + 1
    with pytest.raises(ValueError, match=rf"resume=True.*the first {n * 3 // 5 * 5} top-bags"):
        io.read(folder)
    assert ", not yet complete" in repr(io.info(folder))
    written(folder, format, x=ending_after(99, [2] * 12), resume=True)
    assert content(folder) == whole


@pytest.mark.slow
def test_a_program_may_end_at_any_moment(tmp_path, monkeypatch):
    """It leaves what is whole, since nothing but renaming changes what is there."""
    whole = content(written(tmp_path / "whole", **data()))
    replace = os.replace
    folder = tmp_path / "broken"
    for is_after in (False, True):
        for moment in range(8):
            count = iter(range(99))

            def ending(source, target, count=count, moment=moment, is_after=is_after):
                if (is_last := next(count) == moment) and not is_after:
                    raise Killed
                replace(source, target)
                if is_last:
                    raise Killed

            with monkeypatch.context() as patch:
                patch.setattr(os, "replace", ending)
                with pytest.raises(Killed):
                    written(folder, resume=True, **data())
            written(folder, resume=True, **data())
            assert content(folder) == whole
            for path in folder.iterdir():
                path.unlink()


@every_format
def test_damaged_and_missing_files_are_written_again(format, tmp_path):
    whole = content(written(tmp_path, format, **data()))
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    names = [f"part-{i:05d}.{format}" for i in range(5)]
    (tmp_path / names[1]).write_bytes(whole[names[1]][:-9])
    (tmp_path / names[2]).unlink()
    (tmp_path / names[4]).write_bytes(whole[names[3]])
    abandoned = tmp_path / f"part-{'0' * 16}-{names[3]}"
    abandoned.write_bytes(b"what a killed process left")
    written(tmp_path, format, resume=True, **data())
    assert content(tmp_path) == whole
    is_kept = {n for n, t in times.items() if (tmp_path / n).stat().st_mtime_ns == t}
    assert is_kept == {names[0], names[3]}


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"y": labels(seed=2)}, "Received: others than in part-00000.parquet"),
        ({"x": bags(2, seed=2)}, "Received: others than in part-00000.parquet"),
        ({"x": bags(3)}, r"structure that .*x/bags int32 .* instead of int32"),
        ({"y": labels().astype("int32")}, r"Received: y int32 \[top-bags\] instead of int64"),
        ({"sample_weight": None}, "Received: sample_weight missing instead of float64"),
        ({"format": "tfrecord"}, "Received: format='tfrecord' instead of 'parquet'"),
        ({"top_bags_per_file": 6}, "Received: top_bags_per_file=6 instead of 5"),
    ],
)
@pytest.mark.parametrize("is_complete", [False, True])
def test_other_data_are_refused(changed, match, is_complete, tmp_path):
    source = data() if is_complete else {"x": ending_after(4, [3] * 8)}
    try:
        written(tmp_path, **source)
    except Killed:
        assert not is_complete
    before = content(tmp_path)
    with pytest.raises(ValueError, match=match):
        io.write(tmp_path, **{"top_bags_per_file": 5, **data(), **changed}, resume=True, verbose=0)
    assert content(tmp_path) == before


def test_fewer_or_more_data_are_refused(tmp_path):
    written(tmp_path, x=np.arange(20))
    for n, received in ((15, "only those of the first 3 files"), (25, "more than its 20 top-bags")):
        with pytest.raises(ValueError, match=f"Received: {received}"):
            written(tmp_path, x=np.arange(n), resume=True)
    (tmp_path / "part-00001.parquet").unlink()
    with pytest.raises(ValueError, match="Received: others than in part-00001"):
        written(tmp_path, x=np.where(np.arange(20) == 7, 0, np.arange(20)), resume=True)
    assert not (tmp_path / "part-00001.parquet").exists()
    assert_same(expected(np.arange(20)), tf.range(20, dtype=tf.int64))

"""What a manifest may say, also where its checksum is right."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from seals import reseal
from shard_data import bags, labels, nested, written

from keras_mmil import io


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    x = {"a": bags(2), "b": nested(23, 1, inner=(2, 3)), "c": np.arange(23)}
    return written(tmp_path_factory.mktemp("once"), "tfrecord", 10, x=x, y=labels())


@pytest.fixture
def folder(once, tmp_path):
    return Path(shutil.copytree(once, tmp_path / "data"))


def changed(folder, change=None):
    reseal(folder / "manifest.json", change)


def test_people_can_read_it(folder):
    content = json.loads((folder / "manifest.json").read_text())
    assert content["files"] == "tfrecord"
    assert (content["top_bags"], content["complete"]) == (23, True)
    assert content["structure"]["y"] == "y"
    assert content["structure"]["x"]["a"]["sub_bag_keys"] == "x/a/sub_bag_keys"
    assert content["parts"]["x/b"] == {"dtype": "float32", "ragged_rank": 1, "inner_shape": [2, 3]}
    assert [each["top_bags"] for each in content["shards"]] == [10, 10, 3]
    for each in content["shards"]:
        data = (folder / each["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == each["sha256"]
        assert len(data) == each["bytes"]


def test_space_and_order_do_not_matter(folder):
    changed(folder, lambda content: content.update(shards=content.pop("shards")))
    assert io.read(folder, 23).cardinality() == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("file", "../part-00001.tfrecord"),
        ("file", "/etc/passwd"),
        ("file", "part-00002.tfrecord"),
        ("file", "part-00001.parquet"),
        ("file", ["part-00001.tfrecord"]),
        ("top_bags", 0),
        ("top_bags", 11),
        ("top_bags", 10**30),
        ("top_bags", "10"),
        ("bytes", -1),
        ("bytes", 2.5),
        ("tensor_bytes", 0),
        ("sha256", None),
    ],
)
def test_shards_that_nothing_has_written(name, value, folder, tmp_path):
    (tmp_path / "part-00001.tfrecord").write_bytes((folder / "part-00001.tfrecord").read_bytes())
    changed(folder, lambda content: content["shards"][1].update({name: value}))
    for use in (io.read, io.info, lambda folder: io.write(folder, nested(23, 2), resume=True)):
        with pytest.raises(ValueError, match=r"manifest as it was written.*manifest\.json, where "):
            use(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(files="pickle"),
        lambda content: content.update(files=["tfrecord"]),
        lambda content: content.update(complete=1),
        lambda content: content.update(top_bags=24),
        lambda content: content.update(top_bags_per_file=10**30),
        lambda content: content.update(shards={}),
        lambda content: content.update(shards=[1]),
        lambda content: content.pop("shards"),
        lambda content: content["shards"].append(content["shards"][0]),
        lambda content: content["shards"][0].update(further=1),
        lambda content: content["shards"][0].pop("content"),
        lambda content: content.update(structure={}),
        lambda content: content.update(structure={"y": "y"}),
        lambda content: content["structure"].update(x="x/c"),
        lambda content: content["structure"].update(z="y"),
        lambda content: content["structure"].update(y=None),
        lambda content: content["structure"].update(y=json.loads("[" * 99 + '"y"' + "]" * 99)),
        lambda content: content.update(parts=[]),
        lambda content: content["parts"].pop("y"),
        lambda content: content["parts"]["y"].update(dtype="object"),
        lambda content: content["parts"]["y"].update(dtype="variant"),
        lambda content: content["parts"]["y"].update(dtype=3),
        lambda content: content["parts"]["y"].update(ragged_rank=-1),
        lambda content: content["parts"]["y"].update(ragged_rank=10**6),
        lambda content: content["parts"]["y"].update(inner_shape=[10**9]),
        lambda content: content["parts"]["y"].update(inner_shape=[10**9] * 9),
        lambda content: content["parts"]["y"].update(inner_shape=[None]),
        lambda content: content["parts"]["y"].update(inner_shape=3),
    ],
)
def test_manifests_that_nothing_has_written(change, folder):
    changed(folder, change)
    with pytest.raises(ValueError, match=r"manifest as it was written.*manifest\.json, where "):
        io.read(folder)


def test_what_is_no_manifest(folder):
    (folder / "manifest.json").write_bytes(b"[]")
    with pytest.raises(
        ValueError, match=r"'keras-mmil shards'.*manifest\.json', of another format"
    ):
        io.info(folder)


def test_a_folder_without_a_manifest(tmp_path):
    for use in (io.read, io.info):
        with pytest.raises(FileNotFoundError, match=r"no file .*manifest\.json"):
            use(tmp_path)

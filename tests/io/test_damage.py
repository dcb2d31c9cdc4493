"""Files that are damaged, cut off, missing or of other data: an error names them.

Random damages of such files are tried by tests/fuzz.
"""

import json
import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from damage import bounded, plain
from seals import reseal
from shard_data import FORMATS, bags, joined, labels, nested, written

from keras_mmil import io, ragged

every_format = pytest.mark.parametrize("format", FORMATS)


def data():
    return {
        "x": {**bags(2).inputs, "images": nested(23, 1, inner=(2, 2), dtype="uint8")},
        "y": labels(),
    }


def loaded(dataset):
    """All data, as lists; the errors of a Dataset are ValueErrors here."""
    try:
        return plain(tf.nest.map_structure(_listed, joined(dataset)))
    except tf.errors.InvalidArgumentError as error:
        is_plain = "Traceback" not in error.message
        raise (ValueError if is_plain else AssertionError)(error.message) from error


def _listed(part):
    return part.to_list() if hasattr(part, "to_list") else part.numpy().tolist()


@pytest.mark.slow
@every_format
def test_the_error_names_the_file(format, tmp_path):
    written(tmp_path, format, **data())
    dataset = io.read(tmp_path, 4)
    path = tmp_path / f"part-00002.{format}"
    whole = path.read_bytes()
    for content, message in (
        (whole[:50] + b"!" + whole[51:], "another checksum"),
        (whole[:-1], f"of {len(whole) - 1:,}: it is damaged"),
        (b"", "of 0: it is damaged"),
        ((tmp_path / f"part-00003.{format}").read_bytes(), "or of other data"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"(?s)Received: {path}.*{message}"):
            loaded(dataset)
        if len(content) != len(whole):
            with pytest.raises(ValueError, match=f"Received: {path}, of"):
                io.read(tmp_path)
    path.unlink()
    for use in (lambda: loaded(dataset), lambda: io.read(tmp_path)):
        with pytest.raises(ValueError, match=f"Received: no file {path}"):
            use()
    path.write_bytes(whole)
    assert loaded(dataset)
    assert io.read(tmp_path, shard=(0, 2)).cardinality() == 1  # the others' files do not matter


@pytest.mark.slow
@every_format
def test_a_damaged_file_ends_a_training(format, tmp_path):
    written(tmp_path, format, x=np.zeros((23, 2), "float32"), y=np.zeros(23))
    path = tmp_path / f"part-00003.{format}"
    path.write_bytes(path.read_bytes()[::-1])
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Received: {path}, with another"):
        model.fit(io.read(tmp_path, 4), shuffle=False, verbose=0)


@pytest.mark.slow
@every_format
def test_a_file_is_checked_once_in_a_process(format, tmp_path, monkeypatch):
    written(tmp_path, format, x=nested(23, 2))
    read = []
    checksum = io.manifest.checksum_of_file
    monkeypatch.setattr(
        "keras_mmil.io.manifest.checksum_of_file", lambda p: [read.append(p), checksum(p)][1]
    )
    list(io.read(tmp_path, 4))
    assert sorted(read) == sorted(tmp_path.glob("part-*"))
    list(io.read(tmp_path, 4, shuffle=True))
    assert len(read) == 5
    path = tmp_path / f"part-00003.{format}"
    os.utime(path, ns=(1, 1))
    list(io.read(tmp_path, 4))
    assert read[5:] == [path]


@pytest.mark.slow
@every_format
def test_without_checksums_sizes_are_compared(format, tmp_path):
    written(tmp_path, format, x=nested(23, 2), y=labels())
    path = tmp_path / f"part-00003.{format}"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=f"Received: {path}, of"):
        io.read(tmp_path, verify=False)
    path.write_bytes(whole[:30] + bytes(60) + whole[90:])
    if format == "parquet":
        with pytest.raises(ValueError, match=rf"(?s)Parquet file that .*Received: {path}: "):
            loaded(io.read(tmp_path, verify=False))
    else:  # TensorFlow has checksums of its own
        with pytest.raises(tf.errors.DataLossError, match="corrupted record"):
            loaded(io.read(tmp_path, verify=False))


@pytest.mark.slow
def test_a_foreign_parquet_file_is_refused(tmp_path, monkeypatch):
    """Also if it is of the same size."""
    x = nested(23, 2)
    written(tmp_path / "a", x=x)
    written(tmp_path / "b", x=tf.cast(x, tf.float64))
    for module in ("manifest", "reading"):
        monkeypatch.setattr(f"keras_mmil.io.{module}.check_size", lambda path, shard: None)
    path = tmp_path / "a" / "part-00004.parquet"
    for other, message in (("b/part-00004", "its columns are"), ("a/part-00003", "it has 5 rows")):
        path.write_bytes((tmp_path / f"{other}.parquet").read_bytes())
        with pytest.raises(ValueError, match=f"Received: {path}: {message}"):
            loaded(io.read(tmp_path / "a", verify=False))


@pytest.mark.slow
def test_a_file_with_fewer_records_than_a_forged_manifest_has(tmp_path, monkeypatch):
    written(tmp_path, "tfrecord", x=np.zeros((23, 2), "float32"))
    monkeypatch.setattr("keras_mmil.io.manifest.checksum_of_file", lambda path: shard["sha256"])
    path = tmp_path / "part-00000.tfrecord"
    (shard,) = (
        each
        for each in json.loads((tmp_path / "manifest.json").read_text())["shards"]
        if each["file"] == path.name
    )
    whole = path.read_bytes()
    monkeypatch.setattr("keras_mmil.io.manifest.check_size", lambda path, shard: None)
    monkeypatch.setattr("keras_mmil.io.reading.check_size", lambda path, shard: None)
    n, rest = shard["top_bags"], len(whole) // shard["top_bags"]  # records of equal lengths
    path.write_bytes(whole[:-rest])
    with pytest.raises(ValueError, match=f"Expected {n} top-bags. Received: {path} with {n - 1}"):
        loaded(io.read(tmp_path))


@pytest.mark.slow
def test_instances_as_a_forged_manifest_has_them(tmp_path):
    """They are not made room for."""
    written(tmp_path, x=np.zeros((23, 2)))
    of_instances = {"inner_shape": [2**30]}
    reseal(tmp_path / "manifest.json", lambda content: content["parts"]["x"].update(of_instances))
    with bounded(), pytest.raises(ValueError, match=r"part-00000\.parquet: its columns are"):
        loaded(io.read(tmp_path))


@pytest.mark.slow
def test_a_graph_of_tensorflow_alone(tmp_path):
    """As tf.data's service of several workers needs it."""
    x = nested(23, 2)
    written(tmp_path, "tfrecord", x=x, y=labels())
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    dataset = io.read(tmp_path, 4, shuffle=True, seed=1, verify=False)
    shared = dataset.apply(service.distribute(service.ShardingPolicy.OFF, dispatcher.target))
    found, wanted = ragged.concat(list(shared)), joined(io.read(tmp_path, 4, shuffle=True, seed=1))
    assert sorted(found[1].numpy()) == sorted(wanted[1].numpy())
    assert found[0].flat_values.shape == x.flat_values.shape
    del worker

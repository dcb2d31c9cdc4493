"""What batches consist of, and how that is printed."""

import json

import numpy as np
import pytest
import tensorflow as tf
from shard_data import nested, written

from keras_mmil import io
from keras_mmil.io.layout import Layout, TensorLayout


def layout(**parts):
    return Layout.of((parts,))


def test_a_layout_survives_json():
    batch = ({"b": nested(3, 2, inner=(4,)), "a": (tf.zeros([3]),)}, tf.zeros([3, 2]))
    found = Layout.of(batch)
    assert found.parts == (
        TensorLayout("x/a/0", "float32", 0, ()),
        TensorLayout("x/b", "float32", 2, (4,)),
        TensorLayout("y", "float32", 0, (2,)),
    )
    assert found.pack([1, 2, 3]) == ({"a": (1,), "b": 2}, 3)
    assert [part.shape.rank for part in found.flatten(batch)] == [1, 4, 2]
    again = Layout.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again == found
    assert again.element_spec == (
        {
            "a": (tf.TensorSpec([None], tf.float32),),
            "b": tf.RaggedTensorSpec([None, None, None, 4], tf.float32, 2, tf.int64),
        },
        tf.TensorSpec([None, 2], tf.float32),
    )


def test_a_tuple_of_inputs_is_not_taken_for_labels():
    one, two = Layout.of((tf.zeros([3]),)), Layout.of(((tf.zeros([3]), tf.zeros([3])),))
    assert one.pack([1]) == 1
    assert two.pack([1, 2]) == ((1, 2),)


def test_differences_are_told():
    one = layout(a=tf.zeros([2]), b=nested(2, 1))
    assert one.difference(layout(b=nested(5, 1), a=tf.zeros([7]))) is None
    assert one.difference(layout(a=tf.zeros([2]), b=nested(2, 2))) == (
        "x/b float32 [top-bags, (…), (…)] instead of float32 [top-bags, (…)]"
    )
    assert one.difference(layout(a=tf.zeros([2]))) == (
        "x/b missing instead of float32 [top-bags, (…)]"
    )
    two = Layout.of(({"a": (tf.zeros([1]),)},))
    three = Layout.of(({"a": {"0": tf.zeros([1])}},))
    assert two.difference(three) == "the same tensors in another structure"


def test_information(tmp_path):
    x = {"ids": nested(1234, 2, dtype="int32"), "age": np.zeros(1234, "float32")}
    written(tmp_path / "people", "tfrecord", 1000, x=x, y=np.zeros((1234, 2)))
    found = io.info(tmp_path / "people", verify=True)
    files = list((tmp_path / "people").glob("*.tfrecord"))
    assert (found.n_top_bags, found.n_files) == (1234, len(files)) == (1234, 2)
    assert found.n_bytes == sum(file.stat().st_size for file in files)
    splits = [part.shape[0] for part in x["ids"].nested_row_splits]
    # A file has a first row split of its own.
    n_tensor_bytes = 1234 * (4 + 16) + 4 * x["ids"].flat_values.shape[0] + 8 * (sum(splits) + 2)
    assert found.n_tensor_bytes == n_tensor_bytes
    assert found.element_spec == io.read(tmp_path / "people").element_spec
    head, *lines = repr(found).splitlines()
    assert head == (
        "people: 1,234 top-bags in 2 TFRecord files, "
        f"{found.n_bytes / 1000:,.0f} kB ({n_tensor_bytes / 1000:.3g} kB as tensors)"
    )
    assert lines == [
        "  x/age  float32 [top-bags]",
        "  x/ids  int32 [top-bags, (…), (…)]",
        "  y      float64 [top-bags, 2]",
    ]
    damaged = bytearray(files[0].read_bytes())
    damaged[99] ^= 1
    files[0].write_bytes(damaged)
    assert repr(io.info(tmp_path / "people")) == repr(found)
    with pytest.raises(ValueError, match=f"Received: {files[0]}, with another checksum"):
        io.info(tmp_path / "people", verify=True)


def test_sizes_have_units():
    sizes = {0: "0 bytes", 999: "999 bytes", 1000: "1 kB", 123_456: "123 kB", 99_950_000: "100 MB"}
    assert {n: io.manifest.readable_size(n) for n in sizes} == sizes
    assert io.manifest.readable_size(3_100 * 10**12) == "3,100 TB"

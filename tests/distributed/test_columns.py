"""Columns of Arrow as inputs of a network, against the tensors that they were made of."""

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from bag_forms import FORMS, compressed_model, packed, plain_model, text_model, texts, vectors

import keras_mmil
from keras_mmil import io, ragged
from keras_mmil._support.rows import as_tensor
from keras_mmil.distributed.columns import InputColumns
from keras_mmil.layers import BagLayer

LISTS = [[[[1, 2], [3, 4]], [[5, 6]]], [[[7, 8]]], [[], [[9, 10]]]]  # of bags of bags of vectors


def columns_of(model):
    return InputColumns(model.input)


def batch_of(**columns):
    return pa.RecordBatch.from_pydict(columns)


def assert_same(ours, theirs):
    tf.nest.assert_same_structure(ours, theirs, expand_composites=True)
    pairs = zip(*(tf.nest.flatten(x, expand_composites=True) for x in (ours, theirs)), strict=True)
    for a, b in pairs:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("form", FORMS)
def test_what_io_writes(form, tmp_path):
    make_model, make_data = FORMS[form]
    x = make_data()
    x = x.inputs if isinstance(x, keras_mmil.Bags) else x
    io.write(tmp_path, list(x) if form == "texts" else x, np.arange(22), verbose=0)
    (batch,) = pa.parquet.read_table(tmp_path / "part-00000.parquet").to_batches()
    found = columns_of(make_model()).tensors(batch)
    expected = {"bags": x} if form == "ids" else x
    if form == "texts":
        expected = tf.constant(list(x))
    assert_same(found, tf.nest.map_structure(as_tensor, expected))


@pytest.mark.parametrize("outer", [pa.list_, pa.large_list])
@pytest.mark.parametrize("inner", [pa.list_, pa.large_list, lambda of: pa.list_(of, 2)])
@pytest.mark.parametrize("leaf", [pa.float32(), pa.float64(), pa.int8()])
@pytest.mark.parametrize("start", [0, 1])
def test_lists_of_all_types(outer, inner, leaf, start):
    array = pa.array(LISTS, outer(outer(inner(leaf))))[start:]
    found = columns_of(plain_model()).tensors(batch_of(x=array))
    assert found.to_list() == LISTS[start:]
    assert (found.ragged_rank, found.shape[-1]) == (2, 2)


def test_columns_are_called_like_inputs():
    def networks():
        a = keras.Input((None, 2), ragged=True, name="points")
        b = keras.Input((3,), name="known")
        h = keras.layers.Concatenate()([BagLayer(4)(a), b])
        yield {"points": a, "known": b}, h
        yield [a, b], h

    points, known = [[[1, 2]], [[3, 4], [5, 6]]], [[1, 2, 3], [4, 5, 6]]
    batch = batch_of(known=known, other=[0, 1], points=points)
    for inputs, outputs in networks():
        model = keras_mmil.Model(inputs, outputs)
        columns = InputColumns(model.input)
        assert sorted(columns.names(batch.schema).values()) == ["known", "points"]
        found = columns.tensors(batch)
        ours = list(found.values()) if isinstance(found, dict) else found
        by_rank = sorted(ours, key=lambda x: len(x.shape))
        assert by_rank[0].numpy().tolist() == known
        assert by_rank[1].to_list() == points
        assert model.predict(found, verbose=0).shape == (2, 7)


def test_images_may_be_flat_or_nested():
    images = np.arange(2 * 4 * 3 * 1, dtype=np.float32).reshape(2, 4, 3, 1)
    inputs = keras.Input((None, 4, 3, 1), ragged=True)
    flat = keras_mmil.layers.InstanceWise(keras.layers.Flatten())(inputs)
    columns = columns_of(keras_mmil.Model(inputs, BagLayer(2)(flat)))
    for bag in (images.tolist(), images.reshape(2, 12).tolist()):
        found = columns.tensors(batch_of(x=[bag, []]))
        np.testing.assert_array_equal(found[0], images)
        assert found.shape.as_list() == [2, None, 4, 3, 1]
        assert found.row_lengths().numpy().tolist() == [2, 0]


@pytest.mark.parametrize("of", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()])
def test_texts(of):
    array = pa.array(texts(n=3).tolist(), of)
    found = columns_of(text_model()).tensors(batch_of(x=array))
    assert [each.decode() for each in found.numpy()] == texts(n=3).tolist()
    encoded = pa.array(["good", "bad", "good"]).dictionary_encode()
    found = columns_of(text_model()).tensors(batch_of(x=encoded))
    assert found.numpy().tolist() == [b"good", b"bad", b"good"]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"y": [1.0]}, ValueError, r"one column 'keras_tensor\w*' or 'x' .*\['y'\]"),
        ({"x": [1.0]}, ValueError, "nested 2 deep.*column 'x' of 0 levels"),
        ({"x": [[[1.0]]]}, ValueError, r"shape \(2,\).*column 'x'"),
        ({"x": [[[[1.0, 2.0], [1.0]]]]}, ValueError, r"shape \(2,\).*column 'x'"),
        ({"x": [[[[1.0, 2.0, 3.0]]]]}, ValueError, r"shape \(2,\).*column 'x'"),
        ({"x": [None, [[[1.0, 2.0]]]]}, ValueError, "without nulls.*'x' with 1.*place 0"),
        ({"x": [[[[1.0, 2.0]]], [None]]}, ValueError, "without nulls.*'x' with 1.*place 1"),
        ({"x": [[[[1.0, None]]]]}, ValueError, "without nulls.*'x' with 1.*place 1"),
        ({"x": [[[["a", "b"]]]]}, None, ""),
        ({"x": [[[[{"a": 1}] * 2]]]}, TypeError, "numbers or texts.*column 'x' of struct"),
        ({"x": [[[[1.0, 2.0]]]], "x/more": [1]}, ValueError, r"also \['x/more'\]"),
    ],
)
def test_what_does_not_fit_is_named(columns, error, message):
    model = plain_model()
    batch = batch_of(**columns)
    if error is None:  # the network itself refuses texts
        with pytest.raises(TypeError, match="numbers"):
            model.predict(columns_of(model).tensors(batch), verbose=0)
        return
    with pytest.raises(error, match=message):
        columns_of(model).tensors(batch)


def test_parts_of_bags_are_all_known():
    columns = columns_of(compressed_model())
    parts = {f"x/{name}": part.to_list() for name, part in packed(n=4).inputs.items()}
    assert set(columns.names(batch_of(**parts).schema)) == set(packed(n=4).inputs)
    with pytest.raises(ValueError, match=r"also.*x/count'"):
        columns.names(batch_of(**{"x/bags": [[[1]]], "x/count": [[[1.0]]]}).schema)
    with pytest.raises(ValueError, match="one column 'bags' or 'x/bags' or 'x'"):
        columns.names(batch_of(x=[[[1]]], bags=[[[1]]]).schema)
    plain = ragged.from_nested_lists([[[1, 2], [3]], [[4]]], inner_shape=())
    assert columns.tensors(batch_of(bags=plain.to_list()))["bags"].to_list() == plain.to_list()


def test_empty_bags_anywhere():
    x = vectors(n=3)
    lists = [[], [[]], *x.to_list()]
    array = pa.array(lists, pa.list_(pa.list_(pa.list_(pa.float32()))))
    found = columns_of(plain_model()).tensors(batch_of(x=array))
    assert found.row_lengths().numpy()[:2].tolist() == [0, 1]
    np.testing.assert_array_equal(found.flat_values, x.flat_values)

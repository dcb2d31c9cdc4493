"""Each distinct row of values once, against a loop."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import keras_mmil
from keras_mmil.layers import DistinctRows, _hashing
from keras_mmil.testing import run_layer_test

NAN = math.nan
# Without subnormal numbers, which TensorFlow takes for 0.
VALUES = {
    "float32": [0.0, -0.0, 1.0, NAN, -NAN, 1.2e-38, math.inf, 2.5],
    "float64": [0.0, -0.0, NAN, 1.7e9, 1.7e9 + 1e-6],
    "int64": [0, 1, -1, 2**62, -(2**63)],
    "int32": [0, 1, 7],
    "string": ["", "\0", "a", "b", "a\0", "é", "long " * 20],
}


def key(value):
    return "nan" if value != value else value


def rows_by_loop(columns):
    """The distinct rows in the order in which they come, and the row at each place."""
    rows, ids = {}, []
    for row in zip(*columns, strict=True):
        ids.append(rows.setdefault(tuple(map(key, row)), len(rows)))
    return list(rows), ids


def assert_rows(columns, dtypes, layer=None):
    tensors = [tf.constant(x, dtype) for x, dtype in zip(columns, dtypes, strict=True)]
    *values, ids = (layer or DistinctRows())(tensors)
    expected, expected_ids = rows_by_loop([x.numpy().tolist() for x in tensors])
    assert ids.numpy().tolist() == expected_ids
    found = zip(*(x.numpy().tolist() for x in values), strict=True)
    assert [tuple(map(key, row)) for row in found] == expected


@st.composite
def draw_columns(draw):
    n = draw(st.integers(0, 12))
    dtypes = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    columns = [
        draw(st.lists(st.sampled_from(VALUES[dtype]), min_size=n, max_size=n)) for dtype in dtypes
    ]
    return columns, dtypes


@pytest.mark.slow
@given(draw_columns())
def test_rows_are_those_of_a_loop(drawn):
    assert_rows(*drawn)


def poor(x):
    return x % 2


@pytest.mark.parametrize("mix", [poor, tf.zeros_like])
def test_rows_of_equal_hashes_are_told_apart(mix, monkeypatch):
    monkeypatch.setattr(_hashing, "mix", mix)
    columns = [tf.constant([1, 3, 1, 2]), tf.constant(["a", "a", "a", "a"])]
    *values, ids = DistinctRows()(columns)
    assert ids.numpy().tolist() == [0, 1, 2, 3]
    assert [x.numpy().tolist() for x in values] == [[1, 3, 1, 2], [b"a"] * 4]
    *values, ids = tf.function(DistinctRows())(columns)
    assert ids.numpy().tolist() == [0, 1, 2, 3]
    same = [tf.constant([5, 5, 5])]
    assert DistinctRows()(same)[1].numpy().tolist() == [0, 0, 0]  # these are equal


def test_hashes_of_many_rows_do_not_collide():
    """Rows of small numbers, as data have them, differ in few bits."""
    grid = np.stack(np.meshgrid(*[np.arange(20)] * 4, indexing="ij")).reshape(4, -1)
    for dtype in ("int32", "int64", "float32", "float64"):
        columns = [tf.constant(x.astype(dtype)) for x in grid]
        hashes = _hashing.hash_rows(columns).numpy()
        assert len(np.unique(hashes)) == grid.shape[1]
        for shift in (0, 20, 48):  # no part of the bits is poor
            n = len(np.unique(hashes >> shift & 0xFFFF))
            assert n > 0.99 * 2**16 * (1 - np.exp(-(grid.shape[1] / 2**16)))
    assert len(np.unique(_hashing.mix(tf.range(-(2**16), 2**16, dtype=tf.int64)))) == 2**17


@pytest.mark.parametrize("compress", [True, False])
def test_distinct_rows_is_a_layer(compress):
    a = tf.ragged.constant([[[1.0, NAN], [1.0]], [], [[NAN, 1.0, 2.0]]])
    b = a.with_flat_values(tf.constant([3, 4, 3, 4, 3, 3], tf.int64))
    *values, ids = run_layer_test(DistinctRows, {"compress": compress}, {"columns": (a, b)})
    if compress:
        assert ids.to_list() == [[[0, 1], [0]], [], [[1, 0, 2]]]
        np.testing.assert_array_equal(values, [[1.0, NAN, 2.0], [3, 4, 3]])
    else:
        assert ids.to_list() == [[[0, 1], [2]], [], [[3, 4, 5]]]
        np.testing.assert_array_equal(values[0], a.flat_values)


def test_bags_may_be_dense():
    *values, ids = DistinctRows()([tf.constant([[1, 2], [2, 1]])])
    assert ids.numpy().tolist() == [[0, 1], [1, 0]]
    assert values[0].numpy().tolist() == [1, 2]


def test_texts_in_a_model(tmp_path):
    texts = keras.Input((None,), dtype="string", ragged=True)
    value, ids = DistinctRows()([texts])
    lengths = keras.layers.Lambda(tf.strings.length, output_shape=(None,))(value)
    model = keras_mmil.Model(texts, [lengths, ids])
    found, ids = model(tf.ragged.constant([["ab", "c", "ab"], [], ["c"]]))
    assert found.numpy().tolist() == [2, 1]
    assert ids.to_list() == [[0, 1, 0], [], [1]]


def test_columns_are_nested_alike():
    a, b = tf.ragged.constant([[1, 2], [3]]), tf.ragged.constant([[1], [2, 3]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="other sizes in column 1"):
        DistinctRows()([a, b])
    with pytest.raises(ValueError, match=r"nested alike.*\[\(2, None\), \(3,\)\]"):
        DistinctRows()([a, a.flat_values])
    with pytest.raises(ValueError, match="a list of columns"):
        DistinctRows()(a)
    with pytest.raises(ValueError, match="a list of columns"):
        DistinctRows()([])

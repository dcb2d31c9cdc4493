"""Arrow's lists taken apart, against Python's."""

import pyarrow as pa
import pytest

from keras_mmil._support.arrow_lists import as_numpy, lengths_and_members

LISTS = [[1, 2], [], [3], [4, 5, 6]]


@pytest.mark.parametrize("of", [pa.list_, pa.large_list])
@pytest.mark.parametrize("start", [0, 1])
def test_lists(of, start):
    lengths, members = lengths_and_members(pa.array(LISTS, of(pa.int8()))[start:])
    assert lengths.tolist() == [len(each) for each in LISTS[start:]]
    assert lengths.dtype == "int64"
    assert members.to_pylist() == [n for each in LISTS[start:] for n in each]


def test_lists_of_a_fixed_size():
    lengths, members = lengths_and_members(pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2))[1:])
    assert (lengths.tolist(), members.to_pylist()) == ([2], [3, 4])


def test_arrays_of_any_layout():
    assert as_numpy(pa.array([True, False])).tolist() == [True, False]
    assert as_numpy(pa.array([b"a", b"\xff"])).tolist() == [b"a", b"\xff"]

"""Numbers among arguments: those of Python and of NumPy are taken, bools and NaN are not."""

import json

import numpy as np
import pytest

from keras_mmil._support.checks import check_int, check_number, positive_int


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_an_int_becomes_pythons(value):
    for found in (check_int("n", value, 1, 3), positive_int("n", value)):
        assert json.dumps(found) == "3"


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.float64(0.5)])
def test_a_number_becomes_pythons(value):
    assert json.dumps(check_number("rate", value, 0, 1)) == "0.5"


@pytest.mark.parametrize("value", [True, np.True_, 1.0, "1", None, [1], float("nan"), -1, 4])
def test_what_is_no_int_in_the_range(value):
    with pytest.raises(ValueError, match=r"Expected an int from 0 to 3. Received: n="):
        check_int("n", value, 0, 3)


@pytest.mark.parametrize("value", [True, "1", None, 1j, float("nan"), -0.1, 1.1])
def test_what_is_no_number_in_the_range(value):
    with pytest.raises(ValueError, match=r"Expected a number from 0 to 1. Received: rate="):
        check_number("rate", value, 0, 1)


def test_none_where_it_is_allowed():
    assert check_int("n", None, optional=True) is positive_int("n", None, optional=True) is None
    with pytest.raises(ValueError, match=r"Expected an int ≥ 1 or None. Received: n=0"):
        positive_int("n", 0, optional=True)

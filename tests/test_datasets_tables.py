"""Nested bags of a table's rows, checked against loops over its rows."""

import keras
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_mmil.datasets.tables import from_table


def table(**changes):
    columns = {
        "patient": np.array(["b", "a", "b", "a", "b"]),
        "visit": np.array([2, 1, 1, 1, 2]),
        "dose": np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
        "age": np.array([60, 41, 60, 41, 61]),
        "ill": np.array(["no", "yes", "no", "yes", "no"]),
    }
    return columns | {name: np.asarray(values) for name, values in changes.items()}


def structured(columns):
    kinds = [(name, values.dtype) for name, values in columns.items()]
    rows = np.empty(len(columns["dose"]), kinds)
    for name, values in columns.items():
        rows[name] = values
    return rows


@pytest.mark.parametrize("form", [dict, pd.DataFrame, structured])
def test_rows_of_patients_and_visits(form):
    x, y, ids = from_table(form(table()), ["patient", "visit"], ["dose", "age"], label="ill")
    expected = [[[[2, 41], [4, 41]]], [[[3, 60]], [[1, 60], [5, 61]]]]
    assert x.to_list() == expected
    assert (x.dtype, x.row_splits.dtype) == (keras.config.floatx(), "int64")
    assert x.shape.as_list() == [2, None, None, 2]
    assert y.tolist() == ["yes", "no"]
    assert ids.tolist() == ["a", "b"]


def test_a_single_column_and_no_label():
    x, y, ids = from_table(table(age=np.array([6, 4, 6, 4, 6], np.int32)), ["visit"], "age")
    assert x.to_list() == [[4, 6, 4], [6, 6]]
    assert x.dtype == "int32"
    assert y is None
    assert ids.tolist() == [1, 2]


codes = st.integers(0, 2)


@settings(max_examples=25)
@given(st.lists(st.tuples(codes, codes, codes), max_size=12))
def test_three_levels_like_nested_dicts(rows):
    expected = {}
    for number, (a, b, c) in enumerate(rows):
        expected.setdefault(a, {}).setdefault(b, {}).setdefault(c, []).append(number)
    nested = [
        [[expected[a][b][c] for c in sorted(expected[a][b])] for b in sorted(expected[a])]
        for a in sorted(expected)
    ]
    a, b, c = np.array(rows, np.int64).reshape(-1, 3).T
    x, _, ids = from_table(
        {"a": a, "b": b, "c": c, "row": np.arange(len(rows))}, ["a", "b", "c"], "row"
    )
    assert x.to_list() == nested
    assert x.ragged_rank == 3
    assert ids.tolist() == sorted(expected)


def test_dates_and_categories_are_groups():
    frame = pd.DataFrame(table())
    frame["visit"] = pd.to_datetime(frame["visit"], unit="D")
    frame["patient"] = frame["patient"].astype("category")
    x, _, ids = from_table(frame, ["patient", "visit"], "dose")
    assert x.to_list() == [[[2, 4]], [[3], [1, 5]]]
    assert ids.tolist() == ["a", "b"]


@pytest.mark.parametrize("form", [dict, pd.DataFrame])
@pytest.mark.parametrize(
    ("changes", "arguments", "error", "match"),
    [
        ({}, {"groups": "patient"}, ValueError, "Received: groups='patient'"),
        ({}, {"groups": []}, ValueError, r"Received: groups=\[\]"),
        ({}, {"groups": ["ward"]}, KeyError, r"'patient', 'visit'.*Received: 'ward'"),
        ({}, {"features": []}, ValueError, r"Received: features=\[\]"),
        ({}, {"features": ["ill"]}, TypeError, "Received: column 'ill' of dtype"),
        ({}, {"label": "age"}, ValueError, "several values of 'age' for patient=b"),
        (
            {"dose": [1.0, np.nan, 3, np.nan, 5]},
            {},
            ValueError,
            "found 2 in column 'dose'. Received: nan in row 1",
        ),
        ({"dose": [1.0, 2, 3, np.inf, 5]}, {}, ValueError, r"Received: dose\[3\]=inf"),
        (
            {"patient": np.array(["a", None, "b", "b", "b"], object)},
            {},
            ValueError,
            r"found 1 in column 'patient'.* in row 1",
        ),
    ],
)
def test_bad_tables(form, changes, arguments, error, match):
    defaults = {"groups": ["patient"], "features": ["dose"]}
    with pytest.raises(error, match=match):
        from_table(form(table(**changes)), **defaults | arguments)


def test_structured_arrays_name_their_columns():
    with pytest.raises(KeyError, match=r"'patient', 'visit'.*Received: 'ward'"):
        from_table(structured(table()), ["ward"], ["dose"])


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"age": [1, 2]}, r"lengths \{'dose': 5, 'age': 2\}"),
        ({"patient": ["a"]}, r"Received: lengths \[1, 5\]"),
    ],
)
def test_columns_of_different_lengths(changes, match):
    with pytest.raises(ValueError, match=match):
        from_table(table(**changes), ["patient"], ["dose", "age"])

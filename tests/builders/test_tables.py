"""Nested bags of a table's rows, checked against loops over its rows."""

import sqlite3
from contextlib import closing

import keras
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mmil.builders.tables import from_table


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


@pytest.mark.slow
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


# Parents ----------------------------------------------------------------------------------------

PATIENTS = {"patient": np.array([4, 9, 2, 7]), "ill": np.array(["no", "yes", "yes", "no"])}
VISITS = {"patient": np.array([9, 4, 9, 4]), "visit": np.array([1, 2, 3, 1])}
DOSES = {
    "patient": [9, 4, 9],
    "visit": [3, 1, 3],
    "dose": [1.0, 2.0, 3.0],
    "ill": ["yes", "no", "yes"],
}
DOSES = {name: np.array(column) for name, column in DOSES.items()}
PARENTS = {"patient": PATIENTS, "visit": VISITS}


def left_join(patients, visits, doses):
    """What SQL makes of the three tables: a dict of dicts of lists."""
    with closing(sqlite3.connect(":memory:")) as database:
        for name, rows, columns in (
            ("patients", patients, "p"),
            ("visits", visits, "p, v"),
            ("doses", doses, "p, v, dose"),
        ):
            database.execute(f"CREATE TABLE {name} ({columns})")
            marks = ", ".join("?" * len(columns.split(",")))
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        found = database.execute(
            "SELECT patients.p, visits.v, doses.dose FROM patients "
            "LEFT JOIN visits ON visits.p = patients.p "
            "LEFT JOIN doses ON doses.p = visits.p AND doses.v = visits.v "
            "ORDER BY patients.p, visits.v, doses.rowid"
        ).fetchall()
    database.close()
    nested = {}
    for patient, visit, dose in found:
        of_patient = nested.setdefault(patient, {})
        if visit is not None:
            of_visit = of_patient.setdefault(visit, [])
            of_visit += [] if dose is None else [dose]
    return nested


@pytest.mark.parametrize("form", [dict, pd.DataFrame])
def test_bags_without_rows(form):
    parents = {name: form(columns) for name, columns in PARENTS.items()}
    x, y, ids = from_table(form(DOSES), ["patient", "visit"], ["dose"], "ill", parents)
    assert x.to_list() == [[], [[[2.0]], []], [], [[], [[1.0], [3.0]]]]
    assert ids.tolist() == [2, 4, 7, 9]
    assert y.tolist() == ["yes", "no", "no", "yes"]
    assert x.shape.as_list() == [4, None, None, 1]


codes = st.integers(0, 3)


@given(
    st.sets(codes),
    st.sets(st.tuples(codes, codes)),
    st.lists(st.tuples(codes, codes)),
    st.randoms(),
)
def test_parents_are_joined_as_in_sql(patients, visits, doses, random):
    visits = [visit for visit in visits if visit[0] in patients]
    doses = [dose for dose in doses if dose in visits]
    patients = random.sample(sorted(patients), len(patients))
    random.shuffle(visits)
    p, v = np.array(visits, np.int64).reshape(-1, 2).T
    dose_p, dose_v = np.array(doses, np.int64).reshape(-1, 2).T
    table = {"p": dose_p, "v": dose_v, "dose": np.arange(len(doses))}
    tables = {"p": {"p": np.array(patients, np.int64)}, "v": {"p": p, "v": v}}
    expected = left_join(
        [(one,) for one in patients], visits, [(*key, i) for i, key in enumerate(doses)]
    )
    x, _, ids = from_table(table, ["p", "v"], "dose", parents=tables)
    assert dict(zip(ids.tolist(), x.to_list(), strict=True)) == {
        patient: list(of_patient.values()) for patient, of_patient in expected.items()
    }
    assert ids.tolist() == sorted(patients)
    # Of visits only, the patients are those with visits; of patients only, the visits with doses.
    x, _, ids = from_table(table, ["p", "v"], "dose", parents={"v": tables["v"]})
    assert ids.tolist() == sorted(patient for patient, inner in expected.items() if inner)
    x, _, ids = from_table(table, ["p", "v"], "dose", parents={"p": tables["p"]})
    assert ids.tolist() == sorted(patients)
    assert x.to_list() == [
        [of_visit for of_visit in expected[patient].values() if of_visit]
        for patient in ids.tolist()
    ]


def test_labels_of_rows_do_where_no_bag_is_empty():
    parents = {"patient": {"patient": np.array([9, 4])}, "visit": VISITS}
    _, y, ids = from_table(DOSES, ["patient", "visit"], "dose", "ill", parents)
    assert (y.tolist(), ids.tolist()) == (["no", "yes"], [4, 9])


def test_keys_of_several_kinds():
    parents = {"patient": pd.DataFrame({"patient": pd.array([4, 9, 5], "Int64")})}
    assert from_table(DOSES, ["patient"], "dose", parents=parents)[2].tolist() == [4, 5, 9]
    long = {"patient": np.array(["b", "a much longer name"])}
    table = {"patient": np.array(["b"]), "dose": np.array([1])}
    _, _, ids = from_table(table, ["patient"], "dose", parents={"patient": long})
    assert ids.tolist() == ["a much longer name", "b"]
    none = {"patient": np.array([]), "dose": np.array([])}
    x, _, _ = from_table(none, ["patient"], "dose", parents={"patient": long})
    assert x.to_list() == [[], []]


BIG = 2**53


@pytest.mark.parametrize(
    ("parents", "error", "match"),
    [
        ({"ward": PATIENTS}, ValueError, r"some of \['patient', 'visit'\].*parents of \['ward'\]"),
        (
            {"patient": {"patient": np.array([9, 3])}},
            ValueError,
            r"parents\['patient'\] only\. Received: a row with patient=4, and 1 such",
        ),
        (
            {"patient": PATIENTS, "visit": {"patient": [4, 8, 9], "visit": [1, 2, 3]}},
            ValueError,
            r"Received: parents\['visit'\] with patient=8, and 1 such",
        ),
        (
            {"visit": {"patient": np.array([9]), "visit": np.array([3])}},
            ValueError,
            r"Received: a row with patient=4, visit=1, and 1 such",
        ),
        (
            {"patient": {"patient": np.array([4, 9, 4])}},
            ValueError,
            r"once in parents\['patient'\]. Received: patient=4, 2 times",
        ),
        ({"visit": {"visit": np.array([3])}}, KeyError, r"\['visit'\]. Received: 'patient'"),
        ({"patient": {"patient": np.array(["4", "9"])}}, TypeError, "'patient' of one kind.*int64"),
        ({"patient": {"patient": np.array(["4", 9], object)}}, TypeError, "of one kind.*object"),
        (
            {
                "patient": {"patient": np.array([4, 9, BIG + 1]) + 0.0},
                "visit": VISITS | {"patient": np.array([9, 4, 9, BIG + 1])},
            },
            TypeError,
            "of one kind.*float64",
        ),
        (
            {"patient": {"patient": np.array([4.0, np.nan])}},
            ValueError,
            "found 1 in column 'patient'",
        ),
        (
            {"patient": {"patient": np.array([9, 4]), "ill": np.array(["yes", "yes"])}},
            ValueError,
            "several values of 'ill' for patient=4",
        ),
        (
            {"patient": {"patient": np.array([9, 4]), "ill": np.array(["yes"])}},
            ValueError,
            r"lengths \{'patient': 2, 'ill': 1\}",
        ),
        (
            {"patient": {"patient": np.array([9, 4, 6])}},
            ValueError,
            r"column 'ill' of parents\['patient'\]. Received: patient=6 without one",
        ),
    ],
)
def test_bad_parents(parents, error, match):
    with pytest.raises(error, match=match):
        from_table(DOSES, ["patient", "visit"], "dose", "ill", parents)


def test_columns_called_like_attributes_of_pandas():
    frame = pd.DataFrame({"names": [1, 1], "dtype": [2.0, 3.0]})
    assert from_table(frame, ["names"], "dtype")[0].to_list() == [[2.0, 3.0]]
    with pytest.raises(KeyError, match=r"\['names', 'dtype'\]. Received: 'ward'"):
        from_table(frame, ["ward"], "dtype")


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

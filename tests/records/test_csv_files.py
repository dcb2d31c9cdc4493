"""Tables of CSV, against the rows that were written."""

import csv
import re

import pytest

from keras_mmil.records import Schema, link
from keras_mmil.records.csv_files import table


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_cells(tmp_path):
    path = write(
        tmp_path / "a.csv",
        "\ufeffid,name,price,late,day,note",
        "1,Ann,2.5,true,2024-01-02,",
        '2,,,false,,"a, ""b"""',
    )
    assert table(path).to_pylist()[0] == {
        "id": 1,
        "name": "Ann",
        "price": 2.5,
        "late": True,
        "day": table(path)["day"][0].as_py(),
        "note": None,
    }
    schema = Schema.infer(path)
    assert [(part.path, part.kind) for part in schema][2:5] == [
        ("price", "number"),
        ("late", "boolean"),
        ("day", "time"),
    ]
    assert schema["name"].share_missing == 0.5
    x = Schema.infer(write(tmp_path / "b.csv", "n,t", "1,NA", "2,", "3,x", "4,x")).read(
        tmp_path / "b.csv"
    )
    assert x["n"].numpy().tolist() == [1, 2, 3, 4]
    assert x["t"].numpy().tolist() == [b"NA", b"\0", b"x", b"x"]  # Namibia is a place


def test_the_same_rows_as_the_standard_library_reads(tmp_path):
    rows = [["a", "b"], ["x y", 'quoted "q"'], ["", "two\nlines"], ["é", ";"]]
    path = tmp_path / "a.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    with open(path, newline="", encoding="utf-8") as file:
        expected = [{k: v or None for k, v in row.items()} for row in csv.DictReader(file)]
    assert table(path).to_pylist() == expected


def test_a_table_without_rows(tmp_path):
    customers = write(tmp_path / "customers.csv", "id,age", "1,30")
    orders = write(tmp_path / "orders.csv", "customer,price")
    tables = {"customers": customers, "orders": str(orders)}
    records = link(tables, "customers", [("orders.customer", "customers.id")])
    assert records.to_pylist() == [{"id": 1, "age": 30, "orders": []}]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b,a", "1,2,3"], r"columns of different names. Received: \['a'\] twice in .*a\.csv"),
        (["a,b", "1,2", "1,2,3"], r"Expected 2 columns. Received: 3 in line 3 of .*a\.csv"),
        (["a,b", '"x', 'y",2', "1"], r"Expected 2 columns. Received: 1 in line 4 of .*a\.csv"),
        ([""], "(?i)empty"),
    ],
)
def test_what_is_refused(lines, message, tmp_path):
    path = write(tmp_path / "a.csv", *lines)
    with pytest.raises(ValueError, match=message):
        Schema.infer(path)
    path.write_bytes(b"a,b\n\xff,1\n")
    with pytest.raises(ValueError, match=re.escape(str(path))):
        Schema.infer(path)

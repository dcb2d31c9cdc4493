"""Tables of CSV, against the rows that were written."""

import csv
import gzip
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from keras_mmil.records import Files, Schema, files, link
from keras_mmil.records.csv_files import texts, typed


def table(path):
    return typed([texts(path)], [path])


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


def test_numbers_with_zeros_in_front_are_texts(tmp_path):
    path = write(
        tmp_path / "a.csv", "zip,n,x,big", "01234,1,0.5,1", "9876,-0,-.5,12345678901234567890"
    )
    schema = Schema.infer(path)
    assert [part.type for part in schema] == ["text", "number", "number", "number"]
    assert table(path)["zip"].to_pylist() == ["01234", "9876"]


def test_types_are_those_of_the_schema(tmp_path):
    """Whatever the rows at hand look like: a lone 123 is a text where texts were."""
    trained = write(
        tmp_path / "a.csv", "sku,n,late,day,mixed", "007,1,true,2024-01-02,1", "x,2.5,false,,a"
    )
    schema = Schema.infer(trained)
    for each in ("sku", "mixed"):
        schema[each] = "text"
    rows = ["123,4,1,2024-01-03,7", "1e3,007,0,,8", ",,,,"]
    new = write(tmp_path / "b.csv", "sku,n,late,day,mixed", *rows)
    x = schema.read(new)
    assert x["sku"].numpy().tolist() == [b"123", b"1e3", b"\0"]
    assert x["mixed"].numpy().tolist() == [b"7", b"8", b"\0"]
    assert x["n"].numpy().tolist()[:2] == [4, 7]
    assert x["late"].numpy().tolist()[:2] == [1, 0]
    (batch,) = schema.dataset(new, batch_size=3)
    assert {name: str(t) for name, t in batch.items()} == {name: str(t) for name, t in x.items()}
    schema.update(new)  # as if all rows had been there from the start
    assert [part.path for part in schema] == ["sku", "n", "late", "day", "mixed"]
    odd = write(tmp_path / "c.csv", "sku,n,late,day,mixed", "1,many,perhaps,soon,1", "2,3,true,,2")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        x = schema.read(odd)
    found = sorted(str(each.message) for each in seen)
    assert [each.partition(", and are read as missing.")[0] for each in found] == [
        "'day' is time in the schema; 1 of 1 values there are texts that are no times",
        "'late' is boolean in the schema; 1 of 2 values there are texts "
        "that are neither true nor false",
        "'n' is number in the schema; 1 of 2 values there are texts that are no numbers",
    ]
    assert np.isnan(x["n"].numpy()).tolist() == [True, False]


def test_types_of_linked_tables_are_those_of_the_schema(tmp_path):
    for name, ids in (("a", ["01", "x"]), ("b", ["1", "2"])):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "tops.csv", "id,zip", f"{ids[0]},0123", f"{ids[1]},4567")
        write(tmp_path / name / "parts.csv", "top,sku", f"{ids[0]},{ids[0]}", f"{ids[1]},9")
    tables = [
        {each: tmp_path / name / f"{each}.csv" for each in ("tops", "parts")} for name in "ab"
    ]
    schema = Schema.infer_tables(tables[0], "tops", [("parts.top", "tops.id")])
    for path in ("zip", "parts.sku"):
        schema[path] = "text"
    assert schema.read(tables[1])["parts.sku"].to_list() == [[b"1"], [b"9"]]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "utf-16.csv"])
def test_separators_and_codings(separator, ending, tmp_path):
    frame = pd.DataFrame(
        {"a": [1, 2], "b c": ["x,y;z", 'q"\t|'], "é": [0.5, None], "n": ["\n", "u"]}
    )
    separator = "\t" if ending == "tsv" else separator
    content = frame.to_csv(sep=separator, index=False).encode()
    content = content.decode().encode("utf-16") if "utf" in ending else content
    path = tmp_path / f"a.{ending}"
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    expected = frame.astype(object).where(frame.notna(), None).to_dict("records")
    assert table(path).to_pylist() == expected


@pytest.mark.parametrize(
    ("cells", "says"),
    [(["1,5", "-20", "1.234,5"], None), (["1,5", "-20", "0,25"], ","), (["1,234", "5", "1"], "?")],
)
def test_decimal_commas(cells, says, tmp_path):
    path = write(tmp_path / "a.csv", "x;y", *(f"{cell};t" for cell in cells))
    as_numbers = [float(cell.replace(",", ".")) for cell in cells if cell.count(".") == 0]
    if says == ",":
        with pytest.warns(UserWarning, match=r"Commas in \['x'\] of .*decimal='.' keeps them"):
            assert table(path)["x"].to_pylist() == as_numbers
    elif says == "?":
        with pytest.raises(ValueError, match=r"decimal=',' or decimal='.'.*\['x'\] of .*a\.csv"):
            table(path)
    else:
        assert table(path)["x"].to_pylist() == cells
    as_texts = Schema.infer(Files(path, decimal="."))["x"]
    assert (as_texts.type, as_texts.seen.count) == ("text", 3)
    if says:
        x = Schema.infer(Files(path, decimal=","))["x"]
        assert (x.type, x.seen.mean) == ("number", pytest.approx(np.mean(as_numbers)))


def test_lines_that_are_left_out_are_counted(tmp_path):
    path = write(tmp_path / "a.csv", "", "a,b", "", "1,2", "", '3,"', '"', "", "")
    with pytest.warns(UserWarning, match=r"5 empty lines in .*a\.csv are skipped"):
        assert table(path).to_pylist() == [{"a": 1, "b": "2"}, {"a": 3, "b": "\n"}]
    path = write(tmp_path / "a.csv", "a", "1", "", '""', "2")
    with pytest.warns(UserWarning, match=r"1 empty lines in"):
        assert table(path)["a"].to_pylist() == [1, None, 2]


def test_several_files_have_types_together(tmp_path):
    paths = [
        write(tmp_path / "a.csv", "sku,n", "1,1", "2,"),
        write(tmp_path / "b.csv", "n,sku,more", "2.5,x,a", ",007,"),
    ]
    schema = Schema.infer(paths)
    assert [(part.path, part.type) for part in schema] == [
        ("sku", "text"),
        ("n", "number"),
        ("more", "text"),
    ]
    assert schema.read(tmp_path)["n"].numpy().tolist()[:3:2] == [1, 2.5]


def test_long_rows_and_bombs(tmp_path, monkeypatch):
    path = write(tmp_path / "a.csv", "a,b", "x" * 3_000_000 + ",1", "y,2")
    assert table(path)["b"].to_pylist() == [1, 2]
    monkeypatch.setattr(files, "_LIMIT", 1)
    with pytest.raises(ValueError, match=r"straddl.*a\.csv"):
        table(path)
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 10**6))
    with pytest.raises(ValueError, match=r"packed into less than a 100th, .* MiB in .*a\.csv\.gz"):
        table(packed)
    packed.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:-20])
    with pytest.raises(ValueError, match=r"a complete CSV file\. Received: .*a\.csv\.gz"):
        table(packed)


def test_numbers_as_pandas_reads_them(tmp_path):
    cells = ["1", "-2", "+3", "0", "0.5", "-.5", "5.", "1e3", "1E-3", "NA", "", " 7 ", "inf", "nan"]
    path = write(tmp_path / "a.csv", "x,t", *(f"{cell},t" for cell in cells))
    expected = pd.read_csv(path)["x"]
    found = table(path)["x"]
    assert found.type == pa.float64()
    np.testing.assert_array_equal(found.to_pandas().to_numpy(), expected.to_numpy())
    path = write(tmp_path / "b.csv", "x,b,t", "1,true,10:30", "2,FALSE,23:59", ",NA,")
    assert [str(field.type) for field in table(path).schema] == ["int64", "bool", "time32[s]"]

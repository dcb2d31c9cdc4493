"""Parquet files however they were written, against the table that was written."""

import pyarrow as pa
import pyarrow.parquet
import pytest

from keras_mmil.records import Schema, parquet


@pytest.mark.slow
@pytest.mark.parametrize(
    "n_rows", [60_000, *(pytest.param(n, marks=pytest.mark.nightly) for n in (20_000, 7_000))]
)
@pytest.mark.parametrize("wanted", [None, {"bags": True, "few": True}])
def test_texts_are_read_as_they_are(n_rows, wanted, tmp_path):
    n = 60_000
    table = pa.table(
        {
            "few": [["red", "green", None][i % 3] for i in range(n)],
            "many": [f"text {i}" for i in range(n)],
            "bags": [[f"{i % 5}"] * (i % 4) for i in range(n)],
        }
    )
    path = tmp_path / "texts.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=n_rows)
    expected = table if wanted is None else table.select(["few", "bags"])
    found = [record for part in parquet.records(path, wanted) for record in part.to_pylist()]
    assert found == expected.to_pylist()
    one, two = Schema.infer(path), Schema.infer(table)
    assert str(one) == str(two)
    assert one["bags[]"].seen.counts == two["bags[]"].seen.counts
    x, y = one.read(path), one.read(table)
    assert {name: t.shape for name, t in x.items()} == {name: t.shape for name, t in y.items()}
    assert x["few"].numpy().tolist() == y["few"].numpy().tolist()
    assert x["bags[]"].to_list() == y["bags[]"].to_list()


def test_texts_that_are_no_utf_8(tmp_path):
    """As in a damaged file. Arrow does not look at them."""
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(
        pa.table({"a": ["xyz" * 5, "b"]}), path, use_dictionary=False, compression=None
    )
    content = path.read_bytes()
    path.write_bytes(content.replace(b"xyz" * 5, b"xy\xff" * 5))
    with pytest.raises(ValueError, match=r"a complete Parquet file\. Received: .*a\.parquet.*UTF8"):
        Schema.infer(path)


def test_much_of_little_is_read_within_bounds(tmp_path, monkeypatch):
    """Long lists make small batches, and repeated texts are not written out all at once."""
    monkeypatch.setattr(parquet, "_BATCH", 2**16)
    monkeypatch.setattr(parquet, "_RATIO", 1)
    monkeypatch.setenv("KERAS_MMIL_RECORD_MB", "1")  # a file may have four of it
    lists = pa.table({"a": [list(range(i % 2000)) for i in range(300)]})
    texts = ["x" * 5000, "y" * 10, None] * 400
    maps = pa.array([[("k", text)] for text in texts], pa.map_(pa.string(), pa.string()))
    texts = pa.table({"t": texts, "m": maps, "n": range(1200)})
    path = tmp_path / "a.parquet"
    for table, n in ((lists, 5), (texts.drop(["m"]), 30), (texts.drop(["t"]), 30)):
        pyarrow.parquet.write_table(table, path, row_group_size=len(table) // 2)
        parts = list(parquet.records(path, None))
        assert [record for part in parts for record in part.to_pylist()] == table.to_pylist()
        assert len(parts) >= n
        one, two = Schema.infer(path), Schema.infer(table)
        assert str(one) == str(two)
    pyarrow.parquet.write_table(texts.append_column("t2", texts["t"]), path)
    with pytest.raises(ValueError, match="times its size, or a larger KERAS_MMIL_RECORD_MB"):
        list(parquet.records(path, None))
    found = list(parquet.records(path, {"n": True}))  # what is not wanted does not count
    assert [record for part in found for record in part.to_pylist()] == [
        {"n": i} for i in range(1200)
    ]

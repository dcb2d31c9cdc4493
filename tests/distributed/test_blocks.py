"""Blocks of files, against slices of all rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from keras_mmil import io
from keras_mmil.distributed.blocks import Block, blocks_of, files_of, read


def anything(schema):
    return schema.names


def numbers(schema):
    return ["a"]


def write(folder, sizes, row_group_size=7):
    """Files of so many rows each, whose column `a` counts on."""
    folder.mkdir(exist_ok=True)
    start = 0
    for i, size in enumerate(sizes):
        rows = range(start, start + size)
        table = pa.table({"b": [[j] * (j % 3) for j in rows], "a": pa.array(rows, pa.int64())})
        pa.parquet.write_table(table, folder / f"{i}.parquet", row_group_size=row_group_size)
        start += size


@pytest.mark.parametrize("size", [1, 5, 7, 8, 1000])
@pytest.mark.parametrize("row_group_size", [1, 7, 100])
def test_each_row_is_in_one_block(tmp_path, size, row_group_size):
    write(tmp_path, [20, 0, 9, 14], row_group_size)
    blocks = blocks_of(files_of(tmp_path, anything), size)
    assert [block.number for block in blocks] == list(range(len(blocks)))
    assert all(0 < block.rows <= size for block in blocks)
    assert len(blocks) == -(-20 // size) + -(-9 // size) + -(-14 // size)
    found = [read(block, numbers) for block in blocks]
    assert [batch.num_rows for batch in found] == [block.rows for block in blocks]
    assert [i for batch in found for i in batch["a"].to_pylist()] == list(range(43))
    assert found[0].schema.names == ["a"]


def test_columns_come_as_they_are_named(tmp_path):
    write(tmp_path, [20])
    (block,) = blocks_of(files_of(tmp_path, anything), 20)
    batch = read(Block(0, block.file, 8, 9), lambda schema: ["a", "b"])
    assert batch.schema.names == ["a", "b"]
    assert batch["a"].to_pylist() == list(range(8, 17))
    assert batch["b"].to_pylist() == [[j] * (j % 3) for j in range(8, 17)]


def test_files_by_pattern_folder_and_list(tmp_path):
    write(tmp_path / "in", [1, 2])
    write(tmp_path / "more", [4])
    # What `io.write` and others write to before it has its name.
    (tmp_path / "in" / "part-0123456789abcdef-0.parquet").write_bytes(b"half")
    pattern = f"{tmp_path}/in/*.parquet"
    for data in (pattern, tmp_path / "in", str(tmp_path / "in"), [tmp_path / "in"]):
        assert [file.rows for file in files_of(data, anything)] == [1, 2]
    several = [tmp_path / "more" / "0.parquet", pattern]
    assert [file.rows for file in files_of(several, anything)] == [4, 1, 2]
    assert [file.rows for file in files_of(f"{tmp_path}/**/*.parquet", anything)] == [1, 2, 4]


def test_what_a_file_is_known_by(tmp_path):
    write(tmp_path / "a", [20])
    write(tmp_path / "b", [20])
    write(tmp_path / "c", [21])
    a, b, c = (files_of(tmp_path / name, anything)[0].to_dict() for name in "abc")
    assert a == b != c


def test_no_files_or_rows(tmp_path):
    for data in (tmp_path, f"{tmp_path}/*.parquet", [], tmp_path / "none"):
        with pytest.raises(FileNotFoundError, match="Expected Parquet files"):
            files_of(data, anything)
    write(tmp_path, [0])
    with pytest.raises(ValueError, match="at least one row"):
        files_of(tmp_path, anything)


@pytest.mark.parametrize("size", [0, -1, 2.5, None])
def test_sizes_of_blocks(tmp_path, size):
    write(tmp_path, [3])
    with pytest.raises(ValueError, match="block_size"):
        blocks_of(files_of(tmp_path, anything), size)


def test_a_file_without_the_columns_is_named(tmp_path):
    def columns(schema):
        raise ValueError("Expected others")

    write(tmp_path, [3, 3])
    with pytest.raises(ValueError, match=r"Expected others, in .*0\.parquet"):
        files_of(tmp_path, columns)


@pytest.mark.parametrize("damage", [lambda x: x[:-20], lambda x: b"text", lambda x: b""])
def test_a_damaged_end_is_named(tmp_path, damage):
    write(tmp_path, [3, 3])
    path = tmp_path / "1.parquet"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"whole Parquet file\. Received: .*1\.parquet"):
        files_of(tmp_path, anything)


def test_damaged_rows_are_named(tmp_path):
    io.write(tmp_path, x := np.arange(4000.0).reshape(-1, 4), verbose=0)
    (file,) = files_of(tmp_path, anything)
    content = bytearray(Path(file.path).read_bytes())
    content[len(content) // 2] ^= 1
    Path(file.path).write_bytes(content)
    (block,) = blocks_of([file], len(x))
    with pytest.raises(ValueError, match=r"Received: rows 0 to 999 of .*part-00000\.parquet"):
        read(block, anything)


def test_a_file_that_was_replaced_is_refused(tmp_path):
    write(tmp_path, [20])
    blocks = blocks_of(files_of(tmp_path, anything), 8)
    write(tmp_path, [18])
    with pytest.raises(ValueError, match=r"rows 16 to 19 .*it has 2 of 4 rows"):
        read(blocks[-1], anything)


def test_a_folder_that_io_has_not_finished(tmp_path):
    def batches():
        yield np.ones((8, 2), "float32")
        raise OSError("ended")

    with pytest.raises(OSError, match="ended"):
        io.write(tmp_path, batches(), top_bags_per_file=4, verbose=0)
    with pytest.raises(ValueError, match="written to their end"):
        files_of(tmp_path, anything)

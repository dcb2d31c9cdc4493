"""Small files of which much comes are refused before they take memory."""

import gzip
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

JSON_BOMBS = {
    "list.json.gz": b'[{"a": [' + b"1," * 2**26 + b"1]}]",
    "list.jsonl.gz": b'{"a": [' + b"1," * 2**26 + b"1]}",
    "text.json.gz": b'[{"a": "' + b"x" * 2**27 + b'"}]',
    "lists.jsonl.gz": b'{"a": [' + b"[]," * 2**25 + b"[]]}",
    "keys.jsonl.gz": b"".join(b'{"%06x":1}\n' % i for i in range(2**15)),
    "members.json.gz": b'[{"a":[' + b",".join(b'{"%06x":1}' % i for i in range(2**17)) + b"]}]",
    "object.json.gz": b'{"a": [' + b"1," * 2**26 + b"1]}",
}


def json_bombs(folder):
    for name, content in JSON_BOMBS.items():
        (folder / name).write_bytes(gzip.compress(content, 1))
    return [folder / name for name in JSON_BOMBS]


def parquet_bombs(folder):
    """Small files of which much comes, each by another way."""
    n, few = 2**25 + 1, 2**20
    zeros = pa.array(np.zeros(n, np.int8))
    tables = {
        "rows": pa.table({f"{i}": zeros for i in range(4)}),
        "nulls": pa.table({f"{i}": pa.nulls(n, pa.float64()) for i in range(4)}),
        "list": pa.table({"a": pa.ListArray.from_arrays([0, n], zeros)}),
        "texts": pa.table({"a": pa.DictionaryArray.from_arrays(zeros[:few], ["x" * 2**16])}),
        "text": pa.table({"a": ["x" * 2**28 + "x"]}),
        "texts in a list": pa.table(
            {
                "a": pa.ListArray.from_arrays(
                    [0, few], pa.DictionaryArray.from_arrays(zeros[:few], ["y" * 2**16])
                )
            }
        ),
    }
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        pyarrow.parquet.write_table(
            table, path, compression="zstd", row_group_size=n, store_schema=False
        )
        assert path.stat().st_size < 2**20, name
    return [folder / f"{name}.parquet" for name in tables]


_READ = """
import resource, sys
from keras_mmil.records.sources import batches
for path in sys.argv[1:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        for each in batches(path):
            pass
        message = "read"
    except ValueError as error:
        message = str(error)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(more >> 10, message)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ru_maxrss has other units")
def test_bombs_are_refused_before_they_take_memory(tmp_path):
    paths = [*parquet_bombs(tmp_path), *json_bombs(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", _READ, *map(str, paths)], capture_output=True, text=True, check=True
    )
    for path, line in zip(paths, done.stdout.splitlines(), strict=True):
        taken, message = line.split(" ", 1)
        assert int(taken) < 400, line  # MiB
        if path.name.startswith(("keys", "members")):  # these are maps
            assert message == "read"
        elif path.suffix == ".parquet":
            assert re.match("Expected a Parquet file of no more than 256 MiB of values,", message)
            assert f"MiB in {path}" in message
        else:
            assert re.match(
                "Expected records of at most 64 MiB and 4,194,304 values, or a larger KERAS_.* "
                rf"Received: (record 0|line 1) of .*{re.escape(path.name)}, which has more",
                message,
            )

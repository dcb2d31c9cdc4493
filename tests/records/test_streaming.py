"""Streams of records against what is read at once."""

import gc
import gzip
import json
import weakref

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf
from pairs import pairs

from keras_mmil.records import Schema, json_files
from keras_mmil.records.sources import batches


def shop(n):
    random = np.random.default_rng(0)
    return [
        {
            "nr": i + 0.5,
            "good": bool(i % 3),
            "orders": [
                {"price": float(random.integers(9)), "tags": ["a", "b"][: random.integers(3)]}
                for _ in range(random.integers(4))
            ],
        }
        for i in range(n)
    ]


def written(records, form, folder):
    path = folder / f"shop.{form}"
    if form == "parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(records), path, row_group_size=7)
    elif form == "json":
        path.write_text(json.dumps(records))
    else:
        lines = "".join(json.dumps(record) + "\n" for record in records).encode()
        path.write_bytes(gzip.compress(lines) if form.endswith("gz") else lines)
    return path


def joined(batches):
    """Tensors one after the other."""
    return {path: tf.concat([batch[path] for batch in batches], 0) for path in batches[0]}


def nested(x):
    """Lists, without arrays of arrays."""
    return {p: t.to_list() if hasattr(t, "to_list") else t.numpy().tolist() for p, t in x.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "batch_size"), pairs(["list", "parquet", "jsonl", "jsonl.gz", "json"], [1, 8, 100])
)
def test_batches_are_those_of_reading_at_once(form, batch_size, tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "_BLOCK", 300)
    records = shop(20)
    source = records if form == "list" else written(records, form, tmp_path)
    schema = Schema.infer(source)
    assert str(schema) == str(Schema.infer(records))
    dataset = schema.dataset(source, batch_size)
    for _ in range(2):  # again
        batches = list(dataset)
        sizes = [len(batch["nr"]) for batch in batches]
        assert sizes == [len(records[i : i + batch_size]) for i in range(0, 20, batch_size)]
        assert nested(joined(batches)) == nested(schema.read(records))


def test_the_spec_says_what_comes():
    schema = Schema.infer(shop(20))
    spec = schema.dataset(shop(20), 4).element_spec
    assert spec["nr"] == tf.TensorSpec([None], tf.float32)
    assert spec["orders.tags[]"] == tf.RaggedTensorSpec([None, None, None], tf.string, 2)
    for batch in schema.dataset(shop(20), 4):
        assert all(spec[path].is_compatible_with(tensor) for path, tensor in batch.items())


@pytest.mark.slow
def test_shuffling():
    records = shop(50)
    schema = Schema.infer(records)
    dataset = schema.dataset(records, 8, shuffle=50, seed=3)
    one, two = (joined(list(dataset)) for _ in range(2))
    assert one["nr"].numpy().tolist() != two["nr"].numpy().tolist()
    expected = nested(schema.read(records))
    for epoch in (one, two):
        order = (epoch["nr"].numpy() - 0.5).astype(int).tolist()
        assert sorted(order) == list(range(50)) != order
        for path, values in nested(epoch).items():
            assert values == [expected[path][i] for i in order]
    again = joined(list(schema.dataset(records, 8, shuffle=50, seed=3)))
    assert nested(again) == nested(one)
    near = schema.dataset(records, 5, shuffle=10)
    assert all(max(x["nr"]) - min(x["nr"]) < 10 for x in near)


def test_a_wrong_record_is_named_also_where_records_are_shuffled():
    records = shop(40)
    schema = Schema.infer(records)
    records[23] = {"orders": 5}
    for shuffle in (0, 40):
        with pytest.raises(tf.errors.InvalidArgumentError, match="in record 23"):
            list(schema.dataset(records, 8, shuffle=shuffle, unseen="error"))


def test_what_cannot_be_streamed_is_refused():
    schema = Schema.infer(shop(5))
    with pytest.raises(TypeError, match=r"that can be read again. Received: a list_iterator"):
        schema.dataset(iter(shop(5)), 2)
    for arguments in ({"batch_size": 0}, {"batch_size": 1, "shuffle": -1}):
        with pytest.raises(ValueError, match="a batch_size of at least 1, and shuffle"):
            schema.dataset(shop(5), **arguments)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_no_more_of_a_file_is_read_than_batches_ask_for(form, tmp_path, monkeypatch):
    """And what has been read is given back: no records of earlier batches are alive."""
    monkeypatch.setattr(json_files, "_BLOCK", 2**13)
    monkeypatch.setattr("keras_mmil.records.parquet._ROWS", 100)
    records = shop(500) * 4
    path = tmp_path / f"shop.{form}"
    if form == "parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(records), path, row_group_size=100)
    else:
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    schema, taken, alive = Schema.infer(path), [], []

    def watched(*arguments, **named):
        for batch in batches(*arguments, **named):
            taken.append(len(batch.records))
            alive.append(weakref.ref(batch.records))
            yield batch

    monkeypatch.setattr("keras_mmil.records.schema.batches", watched)
    dataset = iter(schema.dataset(path, 50))
    for n in range(1, 11):
        next(dataset)
        gc.collect()
        # A batch waits, another one is being made, and a block of the file is read as a whole.
        assert sum(taken) < 50 * (n + 2) + max(taken)
        assert sum(batch() is not None for batch in alive) <= 3
    assert sum(taken) < len(records) / 2

"""Made-up customers with orders and items, as files of nested records of any size."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keras_mmil._support.files import atomic_write

__all__ = ["write_jsonl", "write_parquet"]

_ITEMS_EACH = 9  # of a customer, on the average: 3 orders of 3 items
_CHUNK = 10_000  # customers made at once
_SHARE_MISSING = 0.1
_CITIES = ("Athens", "Berlin", "Lisbon", "Oslo", "Paris", "Rome")
_CATEGORIES = ("books", "clothes", "electronics", "food", "toys")


def write_parquet(path, n_items, seed=0):
    """Write customers with about so many items to a Parquet file."""
    chunks = _chunks(n_items, seed)
    first = next(chunks)
    with atomic_write(path) as part, pq.ParquetWriter(part, first.schema) as writer:
        writer.write_table(first)
        for chunk in chunks:
            writer.write_table(chunk)


def write_jsonl(path, n_items, seed=0):
    """Write the same customers to a file with a JSON object a line."""
    with atomic_write(path) as part, open(part, "w", encoding="utf-8") as file:
        for chunk in _chunks(n_items, seed):
            for record in chunk.to_pylist():
                file.write(json.dumps(record) + "\n")


def _chunks(n_items, seed):
    """Arrow tables of customers."""
    rng = np.random.default_rng(seed)
    left = max(1, n_items // _ITEMS_EACH)
    while left:
        n = min(left, _CHUNK)
        yield _customers(n, rng)
        left -= n


def _customers(n, rng):
    sizes = rng.integers(1, 6, n)
    order_sizes = rng.integers(1, 6, sizes.sum())
    m = int(order_sizes.sum())
    items = pa.StructArray.from_arrays(
        [
            _column(rng.choice(_CATEGORIES, m), rng),
            _column(rng.lognormal(3, 1, m).round(2), rng),
            _column(rng.integers(1, 6, m), rng),
            _column(rng.random(m) < 0.5, rng),
        ],
        ["category", "price", "quantity", "returned"],
    )
    n_orders = len(order_sizes)
    orders = pa.StructArray.from_arrays(
        [
            _column(rng.choice(("app", "phone", "shop", "web"), n_orders), rng),
            _column(rng.random(n_orders) < 0.07, rng),
            _lists(order_sizes, items),
        ],
        ["channel", "paid_late", "items"],
    )
    return pa.table(
        {
            "city": _column(rng.choice(_CITIES, n), rng),
            "age": _column(rng.integers(18, 90, n), rng),
            "churned": pa.array(rng.random(n) < 0.5),
            "orders": _lists(sizes, orders),
        }
    )


def _column(values, rng):
    return pa.array(values, mask=rng.random(len(values)) < _SHARE_MISSING)


def _lists(sizes, values):
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(sizes)), pa.int32()), values)

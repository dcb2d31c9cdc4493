"""Customers with items, as nested records."""

import numpy as np

KINDS = ["toy", "book", "food"]


def make_records(n=40, seed=0):
    """Customers; whether one is late depends on whether some item is a toy."""
    rng = np.random.default_rng(seed)
    records = []
    for i in range(n):
        items = [
            {"kind": KINDS[k], "price": float(rng.integers(1, 9))}
            for k in rng.integers(0, 3, rng.integers(0, 4))
        ]
        has_toy = any(item["kind"] == "toy" for item in items)
        records.append(
            {
                "items": items,
                "late": has_toy,
                "state": "bad" if has_toy else "good",
                "code": 7 if has_toy else 2,
                "paid": bool(i % 2),
                "spent": sum(item["price"] for item in items),
                "note": "some text" if i % 3 else None,
            }
        )
    return records

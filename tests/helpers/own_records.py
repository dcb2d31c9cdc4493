"""Made-up records for tests of the commands for own data, which know neither schema nor network."""

import csv
import json
import random
from pathlib import Path

KINDS = ("book", "phone", "toy")
KEYS = ("orders.customer=customers.id", "items.order=orders.number")


def customers(n=90, seed=0):
    """Customers, of whom those have left who returned a phone; three are without a word on that."""
    rng = random.Random(seed)
    found = []
    for i in range(n):
        orders = [
            {
                "day": f"2024-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
                "items": [
                    {
                        "kind": rng.choice(KINDS),
                        "price": rng.randint(1, 99),
                        "returned": rng.random() < 0.4,
                    }
                    for _ in range(rng.randint(1, 3))
                ],
            }
            for _ in range(rng.randint(0, 3))
        ]
        items = [item for order in orders for item in order["items"]]
        left = any(item["kind"] == "phone" and item["returned"] for item in items)
        spent = sum(item["price"] for item in items)
        record = {
            "id": f"c{i}",
            "city": f"city {rng.randint(1, 8)}",
            "since": f"20{rng.randint(10, 23)}-{rng.randint(1, 12):02d}-05",
            "orders": orders,
            "spent": spent,
            "left": left,
            "segment": "gone" if left else "large" if spent > 120 else "small",
        }
        found.append(record)
    for i in (5, 17, 40):
        if i < n:
            del found[i]["left"]
    return found


def write_lines(path, records):
    """One record a line."""
    path = Path(path)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def write_tables(folder, records):
    """The same as three tables of CSV."""
    folder = Path(folder)
    folder.mkdir()
    tables = {"customers": [], "orders": [], "items": []}
    for record in records:
        row = {name: record.get(name) for name in ("id", "city", "since", "segment", "spent")}
        tables["customers"].append(row)
        for order in record["orders"]:
            number = f"o{len(tables['orders'])}"
            tables["orders"].append(
                {"number": number, "customer": record["id"], "day": order["day"]}
            )
            tables["items"] += [{"order": number, **item} for item in order["items"]]
    for name, rows in tables.items():
        write_csv(folder / f"{name}.csv", rows)
    return folder


def write_csv(path, rows):
    """Rows, of which the first has all columns."""
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

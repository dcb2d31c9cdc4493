"""The table that exported rules read."""

import collections

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from digit_networks import compressed_model, explainer, random_ids
from record_networks import random_customers, read

from keras_mmil import bags, ragged


def test_a_row_for_every_record(digit_explainer, digit_ids):
    from digit_networks import vectors

    x = vectors(digit_ids)
    table = digit_explainer.labels_table(x)
    rows = collections.defaultdict(list)
    for row in table.to_pylist():
        rows[row["kind"]].append(row)
    labels = digit_explainer.labels(x)[0].to_list()
    names = digit_explainer.clusters_[0].names
    assert list(rows) == ["instance", "sub-bag", "top-bag"]
    assert [row["id"] for row in rows["top-bag"]] == list(range(len(labels)))
    sub_bags = [sub_bag for top_bag in labels for sub_bag in top_bag]
    assert [row["bag"] for row in rows["sub-bag"]] == [
        i for i, top_bag in enumerate(labels) for _ in top_bag
    ]
    assert [(row["bag"], row["cluster"]) for row in rows["instance"]] == [
        (i, names[label]) for i, sub_bag in enumerate(sub_bags) for label in sub_bag
    ]
    assert {row["cluster"] for kind in ("sub-bag", "top-bag") for row in rows[kind]} == {None}
    assert {row["weight"] for row in table.to_pylist()} == {1.0}


def test_members_that_are_stored_once_are_repeated():
    ids = ragged.from_flat(np.array([3, 3, 1, 3, 3, 1, 2]), [[2, 1], [3, 3, 1]])
    fitted = explainer(n_clusters=(4, 2)).fit(compressed_model(), random_ids(80))
    plain = fitted.labels_table(ids)
    compressed = fitted.labels_table(bags.Bags.from_ragged(ids))
    assert plain.num_rows == 7 + 3 + 2

    def content(table):
        found = collections.Counter()
        for row in table.to_pylist():
            found[row["kind"], row["cluster"]] += row["weight"]
        return found

    instances = {key: n for key, n in content(plain).items() if key[0] == "instance"}
    assert sum(instances.values()) == 7
    assert sorted(instances.values()) == [1, 2, 4]
    for language in ("in_words", "to_sql", "to_python"):
        assert getattr(fitted.rules_, language)()
    assert set(compressed["kind"].to_pylist()) == {"instance", "sub-bag", "top-bag"}
    # A member that is stored once counts as often as it occurs in its bag.
    one = ragged.from_flat(np.array([3, 3, 3, 1, 2]), [[1], [5]])
    table = fitted.labels_table(bags.Bags.from_ragged(one))
    assert sorted(table.filter(pc.equal(table["kind"], "instance"))["weight"].to_pylist()) == [
        1,
        1,
        3,
    ]
    assert content(table) == content(fitted.labels_table(one))


def test_fields_are_as_the_records_have_them(churn_explainer):
    customers = random_customers(60, seed=4, missing=0.3)
    table = churn_explainer.labels_table(read(customers))
    names = table.column_names
    assert names[:5] == ["kind", "id", "bag", "weight", "cluster"]
    assert names[5:] == [
        "orders.items.product.tags.name",
        "orders.items.returned",
        "orders.items.product.kind",
        "orders.days_late",
        "orders.note",
        "visits.channel",
        "plan",
        *(f"since.{part}" for part in ("day", "year", "month", "weekday", "hour")),
    ]
    rows = collections.defaultdict(list)
    for row in table.to_pylist():
        rows[row["kind"]].append(row)
    orders = [(i, order) for i, each in enumerate(customers) for order in each["orders"]]
    items = [(i, item) for i, (_, order) in enumerate(orders) for item in order["items"]]
    assert [row["plan"] for row in rows["record"]] == [each["plan"] for each in customers]
    assert [row["bag"] for row in rows["orders"]] == [i for i, _ in orders]
    assert [row["orders.days_late"] for row in rows["orders"]] == [
        order["days_late"] for _, order in orders
    ]
    assert [set((row["orders.note"] or "").split()) for row in rows["orders"]] == [
        set((order["note"] or "").split()) for _, order in orders
    ]
    is_missing = [row["orders.note"] is None for row in rows["orders"]]
    assert is_missing == [order["note"] is None for _, order in orders]
    assert [(row["bag"], row["orders.items.returned"]) for row in rows["orders.items"]] == [
        (i, item["returned"]) for i, item in items
    ]
    years = [
        None if each["since"] is None else np.datetime64(int(each["since"]), "s").item().year
        for each in customers
    ]
    assert [row["since.year"] for row in rows["record"]] == years
    assert all(row["plan"] is None for row in rows["orders"])


@pytest.mark.slow
def test_parquet(churn_explainer, customers, tmp_path):
    path = tmp_path / "labels.parquet"
    table = churn_explainer.labels_table(read(customers), path)
    assert pq.read_table(path).equals(table)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]

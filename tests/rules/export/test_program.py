"""The form that all exports share, and the table that they read."""

import collections

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from digit_networks import compressed_model, explainer, random_ids
from levels import clusters, top_level
from record_networks import random_customers, read

from keras_mmil import bags, ragged
from keras_mmil.rules.export.program import program
from keras_mmil.rules.trees.columns import MISSING
from keras_mmil.rules.trees.features import COUNT, FREQUENCY
from keras_mmil.rules.trees.fields import Field
from keras_mmil.rules.trees.rule_set import Condition


def criterion(condition, bags=(), fields=()):
    level = top_level([(condition,)], bags or (clusters(),), fields)
    (((_, found),),) = [kind.rules for kind in program([level]).kinds if kind.level]
    return found[0] if found else None


@pytest.mark.parametrize("seed", range(3))
def test_bounds_sort_doubles_as_rules_sort_them_in_float32(seed):
    rng = np.random.default_rng(seed)
    exact = rng.normal(size=200).astype(np.float32).astype(float)
    between = (exact + np.nextafter(exact.astype(np.float32), np.float32(9)).astype(float)) / 2
    field = (Field("price", "number"),)
    for bound in [*exact, *between, *rng.normal(size=200), 0.0, 0.5, -2.0]:
        found = criterion(Condition(2, low=bound), fields=field).above
        ulp = np.spacing(np.float32(abs(bound) or 1e-30))
        near = bound + ulp * np.concatenate([np.linspace(-2, 2, 41), rng.uniform(-2, 2, 20)])
        near = np.unique([*near, *np.nextafter(found, [-9.0, 9.0]), found])
        by_rules = near.astype(np.float32).astype(float) > bound
        np.testing.assert_array_equal(near > found, by_rules)
        at_most = criterion(Condition(2, high=bound), fields=field).at_most
        np.testing.assert_array_equal(near <= at_most, ~by_rules)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (12.5, np.inf, (True, False)),  # present, missing
        (-np.inf, 12.5, (True, True)),
        (MISSING / 2, 12.5, (True, False)),
        (MISSING / 2, np.inf, (True, False)),
        (-np.inf, MISSING / 2, (False, True)),
    ],
)
def test_what_is_missing_is_no_number(low, high, expected):
    found = criterion(Condition(2, low, high), fields=(Field("price", "number"),))
    assert (found.present, found.missing) == expected
    assert all(bound is None or abs(bound) < 1e30 for bound in (found.above, found.at_most))
    x = np.array([MISSING, 3.0, 12.5, 99.0], np.float32)
    holds = Condition(0, low, high).holds(x[:, None])
    assert holds[0] == found.missing
    for value, expected_here in zip(x[1:].tolist(), holds[1:], strict=True):
        above = found.above is None or value > found.above
        at_most = found.at_most is None or value <= found.at_most
        assert (found.present and above and at_most) == expected_here


def test_counts_have_whole_bounds():
    bag = (clusters(feature=COUNT),)
    found = criterion(Condition(1, 1.5, 3.5), bag)
    assert (found.above, found.at_most) == (1, 3)
    assert isinstance(found.above, int)
    found = criterion(Condition(0, -np.inf, 0.5), bag)
    assert (found.above, found.at_most) == (None, 0)


def test_quantities():
    fields = Field("note", "text", ("late",)), Field("since", "time"), Field("plan", "category")
    bags = (clusters(feature=FREQUENCY, path="orders"),)
    level = top_level([(Condition(0, 0.5), Condition(3, 0.5), Condition(5, 2020.5))], bags, fields)
    orders, top = program([level]).kinds
    assert (orders.name, top.name, orders.level) == ("orders", "top-bag", None)
    assert top.columns == (
        ("note",),
        ("since.day", "since.year", "since.month", "since.weekday", "since.hour"),
        ("plan",),
    )
    share, token, year = (each.quantity for each in top.rules[0][1])
    assert (share.measure, share.members, share.name) == ("frequency", "orders", "u1")
    assert (token.measure, token.column, token.value) == ("token", "note", "late")
    assert (year.measure, year.column, year.value) == ("time", "since.year", "year")
    assert program([level]).given == ["orders"]


def test_names_in_the_table_are_told_apart():
    fields = tuple(Field(name, "number") for name in ("id", "Price", "price", "PRICE_2"))
    twice = clusters(0, path="orders"), clusters(1, path="orders", names=("v1", "v2"))
    level = top_level([()], twice, fields, record=2, word="orders (u)")
    kinds = program([level]).kinds
    assert [kind.name for kind in kinds] == ["orders (u)", "orders (v)", "orders (u) (top)"]
    assert kinds[-1].columns == (("id_2",), ("Price",), ("price_2",), ("PRICE_2_2",))


def test_a_condition_that_always_holds_is_left_out():
    assert criterion(Condition(0, -0.5, 1.5)) is None
    assert criterion(Condition(0, -0.5, 0.5)).wanted is False


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

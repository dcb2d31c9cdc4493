"""Linked tables against merges of pandas, and loops."""

import collections
import itertools
import json
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.stats

from keras_mmil import NestedClassifier
from keras_mmil.records import Schema, link, records_model

KEYS = [
    ("orders.customer", "customers.id"),
    ("items.order", "orders.number"),
    ("items.product", "products.id"),
]


def shop(seed=0, n=30):
    random = np.random.default_rng(seed)
    customers = pd.DataFrame({"id": random.permutation(n) + 100, "age": random.integers(20, 60, n)})
    orders = pd.DataFrame(
        {
            "number": [f"o{i}" for i in random.permutation(2 * n)],
            "customer": random.choice(customers["id"][: n // 2], 2 * n),
            "late": random.random(2 * n) < 0.3,
        }
    )
    items = pd.DataFrame(
        {
            "order": random.choice(orders["number"], 5 * n),
            "product": random.choice([1.0, 2.0, np.nan], 5 * n),
            "price": random.integers(1, 99, 5 * n),
        }
    )
    products = pd.DataFrame({"id": [1, 2, 3], "category": ["toy", "book", "car"]})
    return {"customers": customers, "orders": orders, "items": items, "products": products}


def by_loop(tables):
    """The nested records as dicts."""
    rows = {name: table.to_dict("records") for name, table in tables.items()}
    products = {row["id"]: row for row in rows["products"]}
    items = [row | {"products": products.get(row["product"])} for row in rows["items"]]
    orders = [
        row | {"items": [item for item in items if item["order"] == row["number"]]}
        for row in rows["orders"]
    ]
    return [
        row | {"orders": [order for order in orders if order["customer"] == row["id"]]}
        for row in rows["customers"]
    ]


def without_nan(value):
    if isinstance(value, dict):
        return {name: without_nan(part) for name, part in value.items()}
    if isinstance(value, list):
        return [without_nan(part) for part in value]
    return None if value != value else value


@pytest.mark.parametrize("seed", range(3))
def test_three_tables_are_nested_as_by_a_loop(seed):
    tables = shop(seed)
    assert without_nan(link(tables, "customers", KEYS).to_pylist()) == without_nan(by_loop(tables))


def test_sums_are_those_of_a_merge():
    tables = shop()
    x = Schema.infer_tables(tables, "customers", KEYS).read(tables)
    merged = tables["items"].merge(tables["orders"], left_on="order", right_on="number")
    expected = (
        merged.groupby("customer")["price"].sum().reindex(tables["customers"]["id"]).fillna(0)
    )
    sums = [sum(sum(order) for order in orders) for orders in x["orders.items.price"].to_list()]
    np.testing.assert_array_equal(sums, expected)


def test_keys_are_identifiers():
    schema = Schema.infer(link(shop(), "customers", KEYS))
    whys = {field.path: field.why for field in schema if field.kind == "identifier"}
    assert whys == {
        "id": "key of customers",
        "orders.number": "key of orders",
        "orders.customer": "key to customers.id",
        "orders.items.order": "key to orders.number",
        "orders.items.product": "key to products.id",
        "orders.items.products.id": "key of products",
    }
    assert schema["orders.items.products"].kind == "record"
    assert schema["orders.items.products.category"].kind == "category"
    schema["orders.items.product"] = "number"  # still, if wanted


def test_schemas_remember_how_tables_are_linked(tmp_path):
    tables = shop()
    schema = Schema.infer_tables(tables, "customers", KEYS)
    assert schema._profile == Schema.infer(link(tables, "customers", KEYS))._profile
    schema.save(tmp_path / "schema.json")
    loaded = Schema.load(tmp_path / "schema.json")
    assert loaded == schema
    found, expected = loaded.read(tables), schema.read(link(tables, "customers", KEYS))
    assert list(found) == list(expected)
    assert found["orders.late"].to_list() == expected["orders.late"].to_list()
    with pytest.raises(ValueError, match="linked in the same way"):
        Schema.merge(schema, Schema.infer(link(tables, "customers", KEYS)))
    assert Schema.merge(schema, schema).n_records == 60


@pytest.mark.parametrize("form", ["arrow", "dicts", "columns", "csv", "parquet", "text keys"])
def test_forms_of_tables(form, tmp_path):
    tables = shop()
    expected = link(tables, "customers", KEYS).to_pylist()
    others = {}
    for name, table in tables.items():
        others[name] = pa.Table.from_pandas(table)
        if form == "dicts":
            others[name] = table.to_dict("records")
        elif form == "columns":
            others[name] = table.to_dict("list")
        elif form == "csv":
            others[name] = tmp_path / f"{name}.csv"
            table.to_csv(others[name], index=False)
        elif form == "parquet":
            pyarrow.parquet.write_table(others[name], tmp_path / f"{name}.parquet")
            others[name] = str(tmp_path / f"{name}.parquet")
    assert without_nan(link(others, "customers", KEYS).to_pylist()) == without_nan(expected)


def test_a_shared_row_is_a_record():
    tables = {"orders": [{"customer": 7}, {"customer": None}], "customers": [{"id": 7, "age": 30}]}
    records = link(tables, "orders", KEYS[:1]).to_pylist()
    assert [record["customers"] for record in records] == [{"id": 7, "age": 30}, None]


def test_several_keys_to_one_table():
    tables = {
        "messages": [{"from": 1, "to": 2, "n": 5}, {"from": 2, "to": 1, "n": 6}],
        "users": [{"id": 1, "age": 30}, {"id": 2, "age": 40}],
    }
    keys = [("messages.from", "users.id"), ("messages.to", "users.id")]
    records = link(tables, "messages", keys).to_pylist()
    assert [record["users_by_from"]["age"] for record in records] == [30, 40]
    assert [record["users_by_to"]["age"] for record in records] == [40, 30]
    with pytest.warns(UserWarning, match=r"lead back to a table: messages.to -> users.id, mess"):
        records = link(tables, "users", keys).to_pylist()
    assert records[0]["messages_by_from"] == [{"from": 1, "to": 2, "n": 5}]
    records = link(tables, "users", keys, hops=1).to_pylist()
    (sent,) = records[0]["messages_by_from"]
    assert sent == {"from": 1, "to": 2, "n": 5, "users_by_to": {"id": 2, "age": 40}}


def test_orphans():
    tables = {"customers": [{"id": 1}], "orders": [{"customer": c} for c in (1, 2, None, 3, 4)]}
    message = (
        "4 of 5 rows of 'orders' refer to no row of 'customers', by 'customer': 2, None, 3 ..."
    )
    with pytest.raises(ValueError, match=rf"or orphans='drop'\). Received: {message}"):
        link(tables, "customers", KEYS[:1])
    with pytest.warns(UserWarning, match=f"{message}; they are left out"):
        records = link(tables, "customers", KEYS[:1], orphans="drop")
    assert records.to_pylist() == [{"id": 1, "orders": [{"customer": 1}]}]
    with pytest.raises(ValueError, match="3 of 5 rows of 'orders' refer to no row of 'customers'"):
        link(tables, "orders", KEYS[:1])
    with pytest.warns(UserWarning, match="3 of 5 rows"):
        records = link(tables, "orders", KEYS[:1], orphans="drop")
    assert [record["customers"] for record in records.to_pylist()] == [{"id": 1}, *4 * [None]]
    with pytest.raises(ValueError, match=r"Expected 'raise' or 'drop'. Received: orphans='keep'"):
        link(tables, "orders", KEYS[:1], orphans="keep")


@pytest.mark.parametrize(
    ("changes", "keys", "error", "message"),
    [
        ({"products": [{"id": i} for i in (1, 2, 2)]}, KEYS, ValueError, r"products\.id.* 2 more"),
        ({"shops": [{"id": 1}]}, KEYS, ValueError, "to each table. Received: none to shops"),
        ({}, KEYS[1:], ValueError, "none to orders, items, products"),
        ({}, [*KEYS, ("items.x", "y.z")], KeyError, "Received: 'items.x'"),
        ({}, ["orders.customer"], ValueError, "Expected pairs of columns"),
        ({"products": [{"id": "a"}]}, KEYS, TypeError, "one type, .*items.product -> products.id"),
        ({"products": []}, KEYS, ValueError, "with columns. Received: none in 'products'"),
        (
            {"customers": shop()["customers"].assign(orders=1, orders_by_customer=2)},
            KEYS,
            ValueError,
            "as columns",
        ),
    ],
)
def test_wrong_tables_are_refused(changes, keys, error, message):
    with pytest.raises(error, match=message):
        link(shop() | changes, "customers", keys, orphans="raise")


def test_a_table_that_refers_to_itself():
    boss_of = {1: None, 2: 1, 3: 1, 4: 2}
    staff = [{"id": i, "boss": boss} for i, boss in boss_of.items()]
    keys = [("staff.boss", "staff.id")]
    with pytest.warns(UserWarning, match=r"hops=0.*: staff.boss -> staff.id"):
        assert link({"staff": staff}, "staff", keys).to_pylist() == staff

    def up(i, hops):
        here = staff[i - 1]
        boss = here["boss"]
        return here if not hops else here | {"staff_at_boss": boss and up(boss, hops - 1)}

    def down(i, hops):
        here = staff[i - 1]
        under = [down(k, hops - 1) for k, boss in boss_of.items() if boss == i and hops]
        return here if not hops else here | {"staff_by_boss": under}

    for hops in (1, 2):
        found = link({"staff": staff}, "staff", keys, hops=hops).to_pylist()
        assert found == [up(i, hops) | down(i, hops) for i in boss_of]
    with pytest.raises(KeyError, match=r"one of staff. Received: 'people'"):
        link({"staff": staff}, "people", [])
    with pytest.raises(ValueError, match=r"hops=-1"):
        link({"staff": staff}, "staff", keys, hops=-1)


def test_hops_in_a_graph():
    """Atoms with their bonds to neighbours, and on from these."""
    atoms = [{"id": i, "molecule": i // 3, "element": "CNO"[i % 3]} for i in range(6)]
    ends = [(0, 1), (1, 2), (2, 0), (3, 4)]
    bonds = [{"one": a, "two": b} for a, b in ends]
    tables = {"molecules": [{"id": 0}, {"id": 1}], "atoms": atoms, "bonds": bonds}
    keys = [("atoms.molecule", "molecules.id"), ("bonds.one", "atoms.id")]
    keys += [("bonds.two", "atoms.id")]

    def around(atom, hops):
        found = dict(atoms[atom])
        for here, there in (("one", "two"), ("two", "one")):
            found[f"bonds_by_{here}"] = [
                bond | ({f"atoms_by_{there}": around(bond[there], hops - 1)} if hops else {})
                for bond in bonds
                if bond[here] == atom
            ]
        return found if hops else dict(atoms[atom])

    for hops in (1, 2, 3):
        expected = [
            {"id": i, "atoms": [around(a, hops) for a in range(3 * i, 3 * i + 3)]} for i in (0, 1)
        ]
        found = link(tables, "molecules", keys, hops=hops).to_pylist()
        assert found == expected


MEMBERS = [("members.group", "groups.id")]


def groups_of(sizes, **others):
    members = [{"group": g, "n": i} for g, size in sizes.items() for i in range(size)]
    return {"groups": [{"id": g} for g in sizes], "members": members} | others


def sampled(tables, keys=MEMBERS, **options):
    """The bags by the ids of their groups, and what the warning says."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records = link(tables, "groups", keys, **options).to_pylist()
    bags = {record["id"]: [x["n"] for x in record["members"]] for record in records}
    return bags, [str(each.message) for each in caught]


def test_samples_of_large_bags():
    sizes = {f"g{i}": i for i in range(30)}
    tables = groups_of(sizes)
    random = np.random.default_rng(0)
    tables["members"] = [tables["members"][i] for i in random.permutation(sum(sizes.values()))]
    whole, _ = sampled(tables)
    found, said = sampled(tables, at_most=10)
    for group, size in sizes.items():
        assert len(found[group]) == min(size, 10)
        assert found[group] == [n for n in whole[group] if n in found[group]]  # in order
    cut, rows = 19, sum(range(11, 30))
    assert said == [
        "Samples of at most 10 members are left of larger bags: "
        f"{cut} of 29 bags by members.group -> groups.id, with {10 * cut} of their {rows} rows"
    ]
    assert sampled(tables, at_most=10, seed=0)[0] == found
    assert sampled(tables, at_most=10, seed=1)[0] != found
    assert sampled(tables, at_most=29) == (whole, [])
    for options in ({"at_most": 0}, {"at_most": 2.5}, {"seed": -1}):
        with pytest.raises(ValueError, match=r"at_most=|seed="):
            link(tables, "groups", MEMBERS, **options)


def test_a_sample_depends_on_its_bag_alone():
    sizes = dict.fromkeys(range(40), 20)
    found, _ = sampled(groups_of(sizes), at_most=5)
    assert len({tuple(bag) for bag in found.values()}) > 35  # each its own
    fewer = {i: sizes[i] for i in (7, 3, 31)} | {99: 4}
    others = {"visits": [{"group": 3}], "towns": [{"id": 1}]}
    tables = groups_of(fewer, **others)
    members = sorted(tables["members"], key=lambda x: (x["n"], -x["group"]))
    tables["members"] = [member | {"town": 1} for member in members]
    keys = [("visits.group", "groups.id"), *MEMBERS, ("members.town", "towns.id")]
    again, _ = sampled(tables, keys, at_most=5)
    assert {i: again[i] for i in (7, 3, 31)} == {i: found[i] for i in (7, 3, 31)}


def test_samples_are_uniform():
    """All sets of members are drawn as often, over bags and over seeds."""
    n, most = 6, 3
    sets = list(itertools.combinations(range(n), most))
    bags, _ = sampled(groups_of(dict.fromkeys(range(4000), n)), at_most=most)
    one = groups_of({"a": n})
    by_seed = [sampled(one, at_most=most, seed=seed)[0]["a"] for seed in range(600)]
    for drawn in (bags.values(), by_seed):
        counts = collections.Counter(map(tuple, drawn))
        assert scipy.stats.chisquare([counts[each] for each in sets]).pvalue > 0.01


def test_samples_in_hops_are_the_same_and_bound_what_hops_cost(tmp_path):
    n = 60
    users = [{"id": i, "age": 20 + i} for i in range(n)]
    edges = [(0, i) for i in range(1, n)] + [(i, (i * 7) % n) for i in range(1, n)]
    tables = {"users": users, "knows": [{"one": a, "two": b} for a, b in edges]}
    keys = [("knows.one", "users.id"), ("knows.two", "users.id")]

    def bags_of(records):
        """The bags of each user, at any depth, and the number of members in all."""
        found, count, waiting = collections.defaultdict(set), 0, [*records]
        while waiting:
            user = waiting.pop()
            for here, there in (("one", "two"), ("two", "one")):
                if f"knows_by_{here}" in user:
                    bag = user[f"knows_by_{here}"]
                    found[here, user["id"]].add(tuple((x["one"], x["two"]) for x in bag))
                    count += len(bag)
                    waiting += [x[f"users_by_{there}"] for x in bag if f"users_by_{there}" in x]
        return found, count

    shares = [1.0]
    for hops in (1, 2):
        whole, n_whole = bags_of(link(tables, "users", keys, hops=hops).to_pylist())
        with pytest.warns(
            UserWarning, match="1 of 60 bags by knows.one -> users.id, with 3 of their 59"
        ):
            records = link(tables, "users", keys, hops=hops, at_most=3)
        few, n_few = bags_of(records.to_pylist())
        for (key, user), bags in few.items():
            (kept,) = bags  # the same wherever the user comes
            (bag,) = whole[key, user]
            assert len(kept) == min(3, len(bag))
            assert set(kept) <= set(bag)
        assert n_few <= n * sum(6**k for k in range(1, hops + 1))
        shares.append(n_few / n_whole)
    assert shares[2] < 0.5 * shares[1]
    with pytest.warns(UserWarning, match="Samples of at most 3"):
        schema = Schema.infer_tables(tables, "users", keys, hops=2, at_most=3, seed=5)
    schema.save(tmp_path / "schema.json")
    loaded = Schema.load(tmp_path / "schema.json")
    assert (loaded.links.at_most, loaded.links.seed) == (3, 5)
    with pytest.warns(UserWarning, match="Samples of at most 3"):
        read = loaded.read(tables)
    with pytest.warns(UserWarning, match="Samples of at most 3"):
        records = link(tables, "users", keys, hops=2, at_most=3, seed=5)
    expected = schema.read(records)
    path = "knows_by_one.users_by_two.age"
    assert read[path].to_list() == expected[path].to_list()


def test_the_target_of_other_records_is_not_read():
    users = [{"id": i, "age": 20.5 + i, "left": i % 2 == 0} for i in range(30)]
    knows = [{"one": i, "two": (i + 1) % 30} for i in range(30)]
    tables = {"users": users, "knows": knows}
    keys = [("knows.one", "users.id"), ("knows.two", "users.id")]
    records = link(tables, "users", keys, hops=1)
    schema = Schema.infer(records)
    others = [f"knows_by_{a}.users_by_{b}" for a, b in (("one", "two"), ("two", "one"))]
    assert schema.copies_of("left") == [f"{other}.left" for other in others]
    x, _ = schema.read(records, target="left")
    assert {*x} == {"age", *(f"{other}.age" for other in others)}
    assert [layer.name for layer in records_model(schema, "left").inputs] == sorted(x)
    classifier = NestedClassifier(effort="low", epochs=1, random_state=0, verbose=0)
    classifier.fit(records, "left")
    assert sorted(classifier.model_.input) == sorted(x)


def test_empty_tables():
    tables = shop()
    empty = {name: table[:0] for name, table in tables.items()}
    records = link({**empty, "customers": tables["customers"]}, "customers", KEYS).to_pylist()
    assert [record["orders"] for record in records] == [[]] * 30
    with pytest.raises(ValueError, match="at least one record"):
        Schema.infer_tables(empty, "customers", KEYS)
    schema = Schema.infer_tables(tables, "customers", KEYS)
    assert schema.read(empty)["orders.items.price"].shape.as_list() == [0, None, None]


def test_names_with_dots():
    tables = {"a.b": [{"c.d": 1}], "e": [{"f.g": 1, "x": 2}]}
    records = link(tables, "a.b", [("e.f.g", "a.b.c.d")]).to_pylist()
    assert records == [{"c.d": 1, "e": [{"f.g": 1, "x": 2}]}]


def test_a_schema_of_linked_records_takes_tables():
    tables = shop()
    records = link(tables, "customers", KEYS)
    whole = Schema.infer_tables(tables, "customers", KEYS)
    assert whole.links.top == "customers"
    assert Schema.infer(records).links is None
    some = Schema.infer(records.take(pa.array([0, 2])), links=whole.links)
    assert some.n_records == 2
    assert Schema.infer(records, links=whole.links) == whole
    found, expected = some.read(tables), some.read(records)
    assert found.keys() == expected.keys()


def _as_key(x):
    """A key as a Python value that is compared exactly; None for none."""
    if x is None or x != x:
        return None
    return int(x) if isinstance(x, int | float | Decimal | np.integer) else x


BIG = [2**53, 2**53 + 1, -(2**53) - 1, 2**60 + 1, 2**60 + 2, 2**63 - 1]
BIGGER = [2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]
LONG = [10**19 + 1, 10**19 + 2, 10**37 + 1, 10**37 + 2, -(10**37) - 1]
TIMES = [np.datetime64("1600-01-01T00:00:00.000001"), np.datetime64("2020-01-01T00:00:00.000001")]


@pytest.mark.parametrize(
    ("ids", "references"),
    [
        (pa.array(BIG), pa.array(BIG)),
        (pa.array(BIG[3:] + BIGGER, pa.uint64()), pa.array(BIG[3:] + BIGGER, pa.uint64())),
        (pa.array(BIG[3:], pa.uint64()), pa.array(BIG[3:])),
        (pa.array(BIG + BIGGER + LONG, pa.decimal128(38, 0)), pa.array(BIG)),
        (pa.array([*map(Decimal, BIG + LONG)], pa.decimal128(38, 0)), [*map(Decimal, LONG)]),
        (pa.array([Decimal(i) for i in BIG], pa.decimal128(25, 2)), pa.array(BIG)),
        (pa.array([Decimal(10**60 + 1), 10**60 + 2], pa.decimal256(62, 0)), [10**37, None]),
        (BIG + BIGGER + LONG, [None, *BIG, *BIGGER, *LONG]),
        (pa.array([2**53, 2, 3]), pa.array([2.0, None, float("nan"), 2.0**53])),
        (pa.array([1, 2, 2**40], pa.int64()), pd.Series([2.0, np.nan, 2.0**40])),
        ([*map(str, BIG + BIGGER + LONG)], [*map(str, LONG), "01", "1.0"]),
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", "x"], pa.large_string())),
        (pa.array(np.array(TIMES)), pa.array(np.array(TIMES[1:], "datetime64[ns]"))),
        (pa.array(BIG).dictionary_encode(), pa.chunked_array([BIG[:3], BIG[3:]])),
    ],
)
def test_keys_join_as_in_a_dict_of_python(ids, references):
    def listed(column):
        return column.to_pylist() if hasattr(column, "to_pylist") else list(column)

    def table(name, column):
        rows = list(range(len(column)))
        if isinstance(column, list):
            return [{name: x, "row": i} for i, x in zip(rows, column, strict=True)]
        if isinstance(column, pd.Series):
            return pd.DataFrame({name: column, "row": rows})
        return pa.table({name: column, "row": rows})

    tables = {"parents": table("id", ids), "children": table("parent", references)}
    found = {_as_key(x): i for i, x in enumerate(listed(ids))}
    expected = [None if _as_key(x) is None else found.get(_as_key(x)) for x in listed(references)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of orphans
        one = link(tables, "children", [("children.parent", "parents.id")], orphans="drop")
        many = link(tables, "parents", [("children.parent", "parents.id")], orphans="drop")
    parents = [record["parents"] for record in one.to_pylist()]
    assert [parent and parent["row"] for parent in parents] == expected
    assert [[child["row"] for child in r["children"]] for r in many.to_pylist()] == [
        [i for i, parent in enumerate(expected) if parent == row] for row in range(len(ids))
    ]


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl"])
def test_keys_in_files_join_exactly(ending, tmp_path):
    keys = BIG if ending == "jsonl" else BIG + BIGGER + LONG
    tables = {}
    for name, column in (("parents", "id"), ("children", "parent")):
        tables[name] = path = tmp_path / f"{name}.{ending}"
        rows = [{column: key, "row": i} for i, key in enumerate(keys)]
        if ending == "csv":
            pd.DataFrame(rows, dtype=object).to_csv(path, index=False)
        else:
            lines = [json.dumps(row) for row in rows]
            path.write_text("\n".join(lines) if ending == "jsonl" else f"[{','.join(lines)}]")
    linked = link(tables, "parents", [("children.parent", "parents.id")]).to_pylist()
    assert [[child["row"] for child in record["children"]] for record in linked] == [
        [i] for i in range(len(keys))
    ]


@pytest.mark.parametrize(
    ("references", "shown"),
    [
        ([1.0, 2.0**53 + 2], r"9007199254740994\.0"),
        ([1.5, 0.1 + 0.2], r"0\.30000000000000004"),
        ([1.5, 10**80], r"1e\+80"),
    ],
)
def test_floats_that_may_stand_for_several_keys_are_refused(references, shown):
    tables = {"parents": [{"id": 1}], "children": [{"parent": x} for x in references]}
    with pytest.raises(ValueError, match=f"that are exact.* the float {shown} in children.parent"):
        link(tables, "parents", [("children.parent", "parents.id")], orphans="drop")


def test_fractions_join_where_they_are_exact():
    tables = {
        "parents": pa.table({"id": [Decimal("1.10"), Decimal("2.00")], "row": [0, 1]}),
        "children": {"parent": [1.1, 2.0, None]},
    }
    found = link(tables, "children", [("children.parent", "parents.id")]).to_pylist()
    assert [each["parents"] and each["parents"]["row"] for each in found] == [0, 1, None]


def test_texts_join_integers_where_all_are_integers():
    tables = {"parents": [{"id": 7}, {"id": 10**25}], "children": [{"parent": "7"}]}
    keys = [("children.parent", "parents.id")]
    with pytest.warns(UserWarning, match="all texts are integers: children.parent -> parents.id"):
        assert len(link(tables, "parents", keys)[0]["children"]) == 1
    for text in ("07", "7.0", "x"):
        tables["children"] = [{"parent": "7"}, {"parent": text}]
        with pytest.raises(TypeError, match=f"children.parent -> .*the text '{text}'"):
            link(tables, "parents", keys)


def test_a_prefix_of_all_references_is_left_out_where_none_is_referred_to_with_it():
    keys = [("visits.patient", "patients.id")]
    patients = [{"id": "p1"}, {"id": "p2"}, {"id": None}]

    def joined(*references):
        tables = {"patients": patients, "visits": [{"patient": x} for x in references]}
        return [len(each["visits"]) for each in link(tables, "patients", keys, "drop").to_pylist()]

    with pytest.warns(UserWarning, match="without 'Patient/', .*: visits.patient -> patients.id"):
        assert joined("Patient/p1", "Patient/p2", "Patient/p1") == [2, 1, 0]
    with pytest.warns(UserWarning, match="without 'urn:uuid:'"):
        assert joined("urn:uuid:p2") == [0, 1, 0]
    for references in (
        ["Patient/p1", "Person/p1"],  # may be others
        ["Patient/p1", "patient/p1"],
        ["Patient/p1", "p1"],
        ["Patient/p3"],
    ):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert sum(joined(*references)) == references.count("p1")
        assert not any("without" in str(each.message) for each in seen)


def test_keys_of_several_columns(tmp_path):
    random = np.random.default_rng(0)
    shops = [2**60 + 1, 2**60 + 2, 3]
    pairs = [(shop, number) for shop in shops for number in "abcd"]
    order = random.permutation(len(pairs))
    orders = pd.DataFrame([pairs[i] for i in order], columns=["shop", "number"])
    orders["total"] = random.integers(1, 99, len(orders))
    chosen = random.integers(0, len(pairs), 40)
    items = pd.DataFrame([pairs[i] for i in chosen], columns=["s", "n"]).assign(price=range(40))
    tables, keys = (
        {"orders": orders, "items": items},
        [(("items.s", "items.n"), ("orders.shop", "orders.number"))],
    )
    found = link(tables, "orders", keys).to_pylist()
    merged = orders.merge(items, left_on=["shop", "number"], right_on=["s", "n"])
    for record in found:
        rows = merged[(merged["shop"] == record["shop"]) & (merged["number"] == record["number"])]
        assert [item["price"] for item in record["items"]] == rows["price"].tolist()
    assert sum(len(record["items"]) for record in found) == 40
    shared = link(tables, "items", keys).to_pylist()
    of_pair = orders.set_index(["shop", "number"])["total"]
    assert [x["orders"]["total"] for x in shared] == [of_pair[x["s"], x["n"]] for x in shared]

    schema = Schema.infer_tables(tables, "orders", keys)
    assert schema["items.s"].why == "key to orders.shop"
    assert schema["number"].why == "key of orders"
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema
    lost = pd.DataFrame({"s": [3, 3, None], "n": ["a", "z", "a"], "price": 0}, dtype=object)
    with pytest.raises(ValueError, match=r"by 's', 'n': \(3, 'z'\), \(None, 'a'\)"):
        link(tables | {"items": lost}, "orders", keys)
    twice = pd.DataFrame({"shop": [3, 3, None, None], "number": ["a"] * 4}, dtype=object)
    with pytest.raises(ValueError, match=r"in orders.shop, orders.number. Received: \(3, 'a'\) m"):
        link(tables | {"orders": twice}, "orders", keys)
    for wrong in (("items.s", ("orders.shop", "orders.number")), ((), ()), (("items.s", 1), "x")):
        with pytest.raises(ValueError, match="or of tuples of equally many columns"):
            link(tables, "orders", [wrong])
    with pytest.raises(ValueError, match="columns of one table on each side"):
        link(tables, "orders", [(("items.s", "orders.total"), ("orders.shop", "orders.number"))])


def test_keys_in_records():
    tables = {
        "patients": [{"identifier": {"value": "p1"}}, {"identifier": {"value": "p2"}}],
        "visits": [{"for": {"patient": "p2"}, "n": 1}, {"for": {"patient": "p1"}, "n": 2}],
    }
    keys = [("visits.for.patient", "patients.identifier.value")]
    records = link(tables, "patients", keys)
    assert [[x["n"] for x in record["visits"]] for record in records.to_pylist()] == [[2], [1]]
    schema = Schema.infer(records)
    assert schema["visits.for.patient"].why == "key to patients.identifier.value"
    assert schema["identifier.value"].why == "key of patients"
    tables["visits"] = [{"for": {"patient": f"Person/x{i}"}, "n": i} for i in (1, 2)]
    with pytest.raises(ValueError, match=r"'Person/x1', .* \(patients.identifier.value has 'p1', "):
        link(tables, "patients", keys)


def test_two_ways_to_a_shared_row_are_no_cycle():
    tables = {
        "customers": [{"id": 1}, {"id": 2}],
        "orders": [{"customer": 1, "product": 7, "n": 3}],
        "views": [{"customer": 1, "product": 8}, {"customer": 2, "product": 7}],
        "products": [{"id": 7, "kind": "toy"}, {"id": 8, "kind": "book"}],
        "reviews": [{"product": 7, "stars": 5}],
    }
    keys = [(f"{child}.customer", "customers.id") for child in ("orders", "views")]
    keys += [(f"{child}.product", "products.id") for child in ("orders", "views", "reviews")]
    toy = {"id": 7, "kind": "toy", "reviews": [{"product": 7, "stars": 5}]}
    book = {"id": 8, "kind": "book", "reviews": []}
    assert link(tables, "customers", keys).to_pylist() == [
        {
            "id": 1,
            "orders": [{"customer": 1, "product": 7, "n": 3, "products": toy}],
            "views": [{"customer": 1, "product": 8, "products": book}],
        },
        {"id": 2, "orders": [], "views": [{"customer": 2, "product": 7, "products": toy}]},
    ]


def test_a_column_that_is_named_as_a_table():
    tables = {"orders": [{"product": 7, "n": 1}], "product": [{"id": 7, "kind": "toy"}]}
    keys = [("orders.product", "product.id")]
    with pytest.warns(UserWarning, match="'product' are 'product_by_product' in 'orders'"):
        (record,) = link(tables, "orders", keys).to_pylist()
    assert record["product_by_product"] == {"id": 7, "kind": "toy"}


def test_records_that_would_be_too_large_are_refused(monkeypatch):
    """Before memory is taken. Each of 20 people knows all others."""
    n = 20
    pairs = [{"a": a, "b": b} for a in range(n) for b in range(n) if a != b]
    tables = {"people": [{"id": i} for i in range(n)], "knows": pairs}
    keys = [("knows.a", "people.id"), ("knows.b", "people.id")]

    def rows(value):
        if isinstance(value, list):
            return sum(map(rows, value))
        inner = (x for x in value.values() if isinstance(x, dict | list)) if value else ()
        return int(value is not None) + sum(map(rows, inner))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        size = rows(link(tables, "people", keys, hops=1).to_pylist())
        monkeypatch.setattr("keras_mmil.records.linking._MOST_ROWS", size)
        assert len(link(tables, "people", keys, hops=1)) == n
        monkeypatch.setattr("keras_mmil.records.linking._MOST_ROWS", size - 1)
        with pytest.raises(
            ValueError, match=rf"at most {size - 1:,} rows.*Received: {size:,} rows"
        ):
            link(tables, "people", keys, hops=1)
        with pytest.raises(ValueError, match=r"by people > knows.*fewer hops than 3, or at_most="):
            link(tables, "people", keys, hops=3)
        assert len(link(tables, "people", keys, hops=1, at_most=2)) == n

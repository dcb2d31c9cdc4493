"""Rules that read records by themselves: Python, JavaScript and SQL on tables, executed.

What statistics are is checked against the layer that computes them, and values against the schema.
"""

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing

import keras
import numpy as np
import pytest
from levels import top_level
from shops import KEYS, as_json, fitted, shop

from keras_mmil import NestedClassifier
from keras_mmil._support.types import MISSING_INT
from keras_mmil.layers import BagStatistics
from keras_mmil.records import Schema, as_of, link
from keras_mmil.records.network import Labels, ensemble
from keras_mmil.records.routes import reads, tables
from keras_mmil.records.scalars import UNKNOWN_INT
from keras_mmil.rules.export import _runtime as runtime
from keras_mmil.rules.export.on_tables import DIALECTS, sql_of
from keras_mmil.rules.export.rule_book import RuleBook
from keras_mmil.rules.export.standalone import Source
from keras_mmil.rules.export.standalone import runtime as source_of

needs_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="needs node, of Debian's nodejs"
)


@pytest.fixture(scope="module")
def of_shop():
    """The tables, the records, how they are read, and each statistic by the layers."""
    rows = shop()
    records = link(rows, "customers", KEYS)
    schema = Schema.infer(records)
    x = schema.read(records, without="left")
    schema.drop("left")
    network = {"units": 4, "activation": "relu", "aggregation": "mean", "dropout": 0.0}
    network |= {"member_dropout": 0.0, "min_count": 2, "n_edges": 0, "compress": "auto"}
    # So that pairs of numbers are chosen, too.
    told = [[_told(row)] for row in records.to_pylist()]
    targets = {"targets": np.array(told, float), "learning_rate": 0.01, "weight_decay": 0.0}
    model = ensemble(schema, Labels("numbers", 1), 2, x, **targets, **network).members
    layers = [each for each in model.layers if isinstance(each, BagStatistics)]
    bags, fields = reads(schema.root)
    formulas = {layer.bag: layer.formulas for layer in layers}
    (layer,) = [each for each in layers if each.bag == "orders"]
    ids = model.get_layer("orders.distinct_bags").output[-1]
    found, at = keras.Model(model.inputs, [layer.output[0], ids])(x)
    expected = dict(zip(layer.names, found.numpy()[at.numpy()].T, strict=True))
    return rows, records, Source(bags, fields, formulas, tables(schema.root, schema.key)), expected


def _told(row):
    """The number of orders of some total that are late, and of light products of their items."""
    orders = row["orders"]
    late = sum(bool(x["late"]) and (x["total"] or 9) <= 2 for x in orders)
    products = [item for order in orders for item in order["items"]]
    return late + sum((x["grade"] or 0) > 1 and _weight(x) <= 2.5 for x in products)


def _weight(item):
    return (item["products"] or {"weight": None})["weight"] or 9


def test_statistics_are_those_of_the_layer(of_shop):
    _, records, source, expected = of_shop
    assert len(expected) > 100
    for sign in (
        "number of orders.items (",
        "products.weight ≤ ",
        "share of",
        "standard deviation",
        "minimum",
        "sum of",
    ):
        assert any(sign in name for name in expected)
    assert any("orders.items.products.reviews" in name for name in expected)
    rows = records.to_pylist()
    for name, values in expected.items():
        column = source.statistic(source.formulas["orders"][name], "")
        found = [runtime._column(row, column) for row in rows]
        np.testing.assert_allclose(np.array(found, float), values, rtol=2e-6, err_msg=name)


@pytest.fixture(scope="module")
def rules(of_shop):
    """Plans of one rule each, on a statistic or the part of a time."""
    _, _, source, expected = of_shop
    rng = np.random.default_rng(1)
    names = [*rng.permutation([*expected])[:35], *[x for x in expected if "≤" in x][:5]]
    columns = [source.statistic(source.formulas["orders"][name], "") for name in names]
    columns.append(source.read("since", ""))
    found = []
    for i, name in enumerate(names):
        values = np.unique(expected[name][np.isfinite(expected[name])])
        bound = float(values[: len(values) // 2 + 1].mean())
        is_low = bool(rng.random() < 0.5)
        found.append(
            {"measure": "statistic", "column": i, "value": None, "above": None if is_low else bound}
            | {"at_most": bound if is_low else None, "present": True, "missing": bool(i % 2)}
        )
    for part, bound in {
        "day": 18_500.5,
        "year": 2021,
        "month": 6,
        "weekday": 3,
        "hour": 11,
    }.items():
        about = {"measure": "time", "column": len(names), "value": part, "above": bound}
        found.append({**about, "at_most": None, "present": True, "missing": False})
    orders = {"name": "orders", "bag": source.bag("orders"), **_rules_of_orders(source)}
    about = {"members": 0, "label": "v1"}
    found.append({**about, "measure": "occurrence", "wanted": True})
    for measure, bound in (("frequency", 0.4), ("count", 1)):
        bounds = {"above": bound, "at_most": None, "present": True, "missing": False}
        found.append({**about, "measure": measure, **bounds})
    plans = []
    for each in found:
        yes = {"number": 1, "label": "yes", "text": "a rule", "all": [each]}
        no = {"number": 2, "label": "no", "text": "no rule", "all": []}
        kind = {"name": "record", "columns": columns, "rules": [yes, no]}
        plans.append({"top": "record", "classes": ["yes", "no"], "kinds": [orders, kind]})
    return plans


def _rules_of_orders(source):
    """Rules that put orders with two items, or late ones of shop a, into a cluster."""
    number = source.statistic(source.formulas["orders.items"]["number of orders.items"], "orders")
    columns = [number, source.read("orders.late", "orders"), source.read("orders.total", "orders")]
    numeric = {"above": None, "at_most": None, "present": True, "missing": False, "value": None}
    two = {"measure": "statistic", "column": 0, **numeric, "above": 1}
    late = {"measure": "boolean", "column": 1, **numeric, "above": 0.5}
    cheap = {"measure": "number", "column": 2, **numeric, "at_most": 2.5, "missing": True}
    label = {"label": "v1", "text": "it's\nv1"}
    cases = [[two], [late, cheap]]
    rules = [{"number": i, **label, "all": case} for i, case in enumerate(cases, 1)]
    return {"columns": columns, "rules": rules}


def by_runtime(plan, records):
    return [runtime.rule_of(plan, record)["label"] for record in records]


def by_node(code, *data):
    """What JavaScript with the runtime prints, of data that it reads as the array `data`."""
    head = f"{source_of('_runtime.js')}\nconst data = JSON.parse(require('fs').readFileSync(0));"
    text = f"{head}\nconsole.log(JSON.stringify({code}));"
    found = subprocess.run(
        ["node", "-e", text], input=json.dumps(data), capture_output=True, text=True, check=True
    )
    return json.loads(found.stdout)


@needs_node
def test_javascript_says_the_same(of_shop, rules):
    rows = as_json(of_shop[1].to_pylist())
    code = "data[0].map((plan) => data[1].map((record) => ruleOf(plan, record).label))"
    expected = [by_runtime(plan, rows) for plan in rules]
    assert by_node(code, rules, rows) == expected


@pytest.mark.parametrize("dialect", DIALECTS)
def test_queries_on_tables(of_shop, rules, dialect, request):
    rows, records, source, _ = of_shop
    expected = [by_runtime(plan, records.to_pylist()) for plan in rules]
    assert sum(len(set(each)) == 2 for each in expected) > 35
    run = request.getfixturevalue(f"run_{dialect}")
    found = [run(rows, sql_of(plan, source.tables, dialect)) for plan in rules]
    assert found == expected


@pytest.fixture
def run_sqlite():
    import pandas as pd

    def run(rows, query):
        with closing(sqlite3.connect(":memory:")) as connection:
            for name, table in rows.items():
                pd.DataFrame(table).to_sql(name, connection, index=False)
            return [label for _, label in connection.execute(query)]

    return run


@pytest.fixture
def run_postgresql(postgres):
    import pandas as pd
    import sqlalchemy

    server = sqlalchemy.create_engine(postgres, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql("CREATE DATABASE shop")
    engine = sqlalchemy.create_engine(sqlalchemy.make_url(postgres).set(database="shop"))

    def run(rows, query):
        with engine.connect() as connection:
            if not sqlalchemy.inspect(engine).has_table("customers"):
                for name, table in rows.items():
                    pd.DataFrame(table).convert_dtypes().to_sql(name, engine, index=False)
            found = connection.exec_driver_sql(query.replace("%", "%%"))
            return [label for _, label in found]

    yield run
    engine.dispose()
    server.dispose()


@pytest.fixture
def run_duckdb():
    duckdb = pytest.importorskip("duckdb")
    import pyarrow as pa

    def run(rows, query):
        with closing(duckdb.connect()) as connection:
            for name, table in rows.items():
                connection.register(name, pa.Table.from_pylist(table))
            return [label for _, label in connection.execute(query).fetchall()]

    return run


# Rules of an estimator ----------------------------------------------------------------------------


@pytest.mark.slow
def test_rules_of_an_estimator(run_sqlite, tmp_path):
    classifier, rows, records, rows_of_json = fitted()
    book = classifier.rules_
    expected = list(map(str, classifier.predict(records, by="rules")))
    assert len(set(expected)) == 2

    module = {}
    exec(book.to_python(), module)
    assert [module["predict"](row) for row in rows_of_json] == expected
    clauses = {rule["clause"] for rule in book.records() if rule["level"] == len(book.levels) - 1}
    assert {module["explain"](row) for row in rows_of_json} <= clauses
    with pytest.raises(TypeError, match=r"Expected a dict\. Received: list"):
        module["predict"](rows_of_json)

    assert run_sqlite(rows, book.to_sql()) == expected
    assert "labels" in book.to_sql(labels=True)
    assert "def predict(rows)" in book.to_python(labels=True)

    classifier.save(tmp_path / "saved")
    again = NestedClassifier.load(tmp_path / "saved").rules_
    assert (again.to_python(), again.to_sql()) == (book.to_python(), book.to_sql())


@pytest.mark.slow
@needs_node
def test_rules_of_an_estimator_in_javascript(tmp_path):
    classifier, _, records, rows = fitted()
    (tmp_path / "rules.mjs").write_text(classifier.rules_.to_javascript())
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    (tmp_path / "run.mjs").write_text("""
        import { readFileSync } from "fs";
        import { predict, explain } from "./rules.mjs";
        const rows = JSON.parse(readFileSync("rows.json"));
        console.log(JSON.stringify([rows.map(predict), rows.map(explain)]));
    """)
    found = subprocess.run(["node", "run.mjs"], cwd=tmp_path, capture_output=True, check=True)
    classes, reasons = json.loads(found.stdout)
    assert classes == list(map(str, classifier.predict(records, by="rules")))
    assert all(reason.startswith(name) for name, reason in zip(classes, reasons, strict=True))


def test_what_programs_cannot_read_is_refused():
    records = [{"day": f"{i % 12 + 1:02}/{i % 28 + 1:02}/2024", "text": "a b"} for i in range(99)]
    _, fields = reads(Schema.infer(records).root)
    source = Source({}, fields, {})
    with pytest.raises(ValueError, match="'day', read as month first"):
        source.read("day", "")
    with pytest.raises(ValueError, match="'age'"):
        source.read("age", "")


def test_rules_of_a_network_read_a_table_of_labels():
    book = RuleBook((top_level([()]),))
    with pytest.raises(ValueError, match="Expected rules of an estimator"):
        book.to_javascript()


@pytest.mark.filterwarnings("ignore:Samples of at most 1 members")
def test_tables_that_records_are_made_of():
    """Not of records as of a moment, which are no longer what is in the tables."""
    records = link(shop(30), "customers", KEYS, at_most=1)
    schema = Schema.infer(records)
    found = tables(schema.root, schema.key)
    assert (found["table"], found["ids"]) == ("customers", [["id"]])
    items = found["parts"]["orders"]["parts"]["items"]
    assert items["on"] == [[["shop"], ["shop"]], [["number"], ["number"]]]
    assert (items["at_most"], items["parts"]["products"]["at_most"]) == (1, None)
    earlier = Schema.infer(as_of(records, "since", verbose=False))
    assert tables(earlier.root, earlier.key) is None


def test_what_a_query_cannot_say_is_refused(of_shop, rules):
    *_, source, _ = of_shop
    with pytest.raises(ValueError, match=r"Expected one of 'sqlite', .*dialect='oracle'"):
        sql_of(rules[0], source.tables, "oracle")
    with pytest.raises(ValueError, match=r"rows .* apart\. Received: none in 'customers'"):
        sql_of(rules[0], {**source.tables, "ids": []}, "sqlite")
    orders = {**source.tables["parts"]["orders"], "at_most": 9}
    with pytest.raises(ValueError, match="Received: samples of at most 9 rows of 'orders'"):
        sql_of(rules[0], {**source.tables, "parts": {"orders": orders}}, "sqlite")
    with pytest.raises(ValueError, match="Received: 'orders', which is inside a column"):
        sql_of(rules[0], {**source.tables, "parts": {}}, "sqlite")


# Values -------------------------------------------------------------------------------------------

NUMBERS = [1, 2.5, "3", " 4.0 ", ".5", "1e3", "+7", True, "x", "", None, float("nan"), 1e39]
NUMBERS += ["9007199254740993", 0.1, 16_777_217, -3.3e38, [1], {"a": 1}]
THOUSANDS = ["4,762", "1,234,567.5", "12", "-3,000", "1,23", "12,3456", None, "nothing", 8]
BOOLEANS = ["yes", "No", " y ", "f", "TRUE", "maybe", None, "0", 1, True, False, 2]
FLAGS = [True, False, None, 1, 0, "true", "N", 3]
TIMES = ["2024-02-29", "2024-02-29T23:59:59.25Z", "1969-12-31 12:30", "2024-02-30", "0000-01-01"]
TIMES += ["2024-07", "2024-07-01T10:00:00+05:30", "2024-07-01T10:00-0130", "9999-12-31", None, "x"]
CODES = [1, 2, 3, 2.0, 2.5, None, "3", -7, True]
TEXTS = ["Größe 12, naïve_x", "it's ALL here", "", None, 5, "e\u0301te \u4e2d\u6587 ½ ① _"]
KINDS = {
    "number": (NUMBERS, [i / 7 for i in range(60)]),
    "thousands": (THOUSANDS, [f"{i:,}" for i in range(990, 1050)]),
    "yes": (BOOLEANS, ["yes", "no"] * 30),
    "flag": (FLAGS, [True, False] * 30),
    "time": (TIMES, [f"2024-01-{i % 28 + 1:02}" for i in range(60)]),
    "code": (CODES, [1, 2, 3] * 20),
    "word": (["a", "it's", "b", None, "\0", " a", 4], ["a", "it's", "c"] * 20),
    "text": (TEXTS, [f"some words of text number {i}" for i in range(60)]),
}


@pytest.fixture(scope="module")
def of_values():
    """Odd records, a schema of tame ones, and how its bags and fields are read."""
    wild, tame = zip(*KINDS.values(), strict=True)
    rows = [dict(zip(KINDS, row, strict=True)) for row in zip(*tame, strict=True)]
    records = [
        {**row, "in": {"it": row}, "line": [row, rows[i - 1]], "pair": [i, 2 * i]}
        | {"tags": ["a", "b"][: i % 3], "by": {f"k{j}": {"n": i + j} for j in range(i % 4)}}
        for i, row in enumerate(rows)
    ]
    schema = Schema.infer(records)
    schema["by"] = "bag"
    odd = [
        {name: values[i % len(values)] for name, values in zip(KINDS, wild, strict=True)}
        for i in range(max(map(len, wild)))
    ]
    odd = [{**row, "in": {"it": row}, "line": [row, odd[i - 1]]} for i, row in enumerate(odd)]
    odd += [{}, {"in": None}, {"in": {"it": []}}, {"line": [None, 3]}, {"line": {}, "in": 5}]
    odd += [{"pair": [1]}, {"pair": [1, None]}, {"pair": 3}, {"tags": [None, "b", 3]}]
    odd += [{"by": {"x": {"n": 1}, "y": None, "z": 2}}, {"by": []}]
    with pytest.warns(UserWarning, match="read as missing"):
        x = schema.read(odd)
    return odd, x, *reads(schema.root)


def test_values_are_read_as_by_the_schema(of_values):
    """Also those of types that were not seen, and in records, vectors and objects by key."""
    records, x, bags, fields = of_values
    forms = {(each["kind"], each["form"]) for each in fields.values()}
    assert forms >= {("number", "thousands"), ("boolean", "boolean"), ("time", "time")}
    assert any(each["by_key"] for each in bags.values())
    for path, read in fields.items():
        found = [runtime._value(each, read) for each in _nodes(records, read["bag"], bags)]
        assert found == _as_python(x[path], read), path


def _nodes(records, bag, bags):
    """The members of a bag in all records."""
    if not bag:
        return records
    outer = _nodes(records, bags[bag]["outer"], bags)
    return [inner for node in outer for inner in runtime._members(node, bags[bag])]


def _as_python(x, read):
    """Values of a tensor as programs have them."""
    values = getattr(x, "flat_values", x).numpy()
    if values.dtype == object:
        return [None if value == b"\0" else value.decode() for value in values]
    if values.dtype == np.int64:
        names = {MISSING_INT: None, UNKNOWN_INT: "2.5"}
        return [names.get(value, str(value)) for value in values.tolist()]
    return [None if np.isnan(value) else value for value in values.tolist()]


@needs_node
def test_javascript_reads_the_same_values(of_values):
    records, _, bags, fields = of_values
    code = """data[2].map((read) => {
      const nodes = (bag) => bag === "" ? data[0]
        : nodes(data[1][bag].outer).flatMap((node) => membersOf(node, data[1][bag]));
      return nodes(read.bag).map((node) => valueOf(node, read));
    })"""
    rows = json.loads(json.dumps(records).replace("NaN", "null"))  # JSON has no NaN
    found = by_node(code, rows, bags, [*fields.values()])
    for read, values in zip(fields.values(), found, strict=True):
        nodes = _nodes(records, read["bag"], bags)
        assert values == [runtime._value(node, read) for node in nodes], read

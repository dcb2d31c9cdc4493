"""Exported rules, executed: SQL, Prolog, Python and JSON say what the explainer says."""

import ast
import functools
import json
import shutil
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from digit_networks import compressed_model, explainer, plain_model, random_ids, vectors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from levels import clusters, top_level
from record_networks import random_customers, read

from keras_mmil.rules.export.program import program
from keras_mmil.rules.export.rule_book import RuleBook
from keras_mmil.rules.trees.features import FREQUENCY
from keras_mmil.rules.trees.fields import Field
from keras_mmil.rules.trees.rule_set import Condition

needs_prolog = pytest.mark.skipif(
    shutil.which("swipl") is None, reason="needs swipl, of Debian's swi-prolog-nox"
)
LANGUAGES = ("SQLite", "DuckDB", pytest.param("SWI-Prolog", marks=needs_prolog), "Python", "JSON")


@pytest.fixture
def executor(load_benchmark):
    return load_benchmark("exports").EXECUTORS


@pytest.fixture(scope="session")
def by_counts():
    """Rules about numbers of instances in sub-bags, with multiplicities."""
    return explainer().fit(compressed_model("sum"), random_ids(80), random_ids(40, seed=1))


@pytest.fixture(scope="session")
def by_shares():
    """Rules about shares."""
    model = plain_model("mean")
    return explainer().fit(model, vectors(random_ids(120)), vectors(random_ids(60, seed=1)))


class Case(NamedTuple):
    """Rules, the table that they read, and the classes that the explainer gives."""

    rules: RuleBook
    table: Any
    expected: dict[int, str]


@pytest.fixture(scope="session")
def cases(digit_explainer, by_counts, by_shares, churn_explainer):
    """Each made once, when it is first asked for."""
    customers = [
        each for seed in range(10, 14) for each in random_customers(250, seed, missing=0.2)
    ]
    data = {
        "digits": (digit_explainer, vectors(random_ids(1000, seed=5))),
        "counts": (by_counts, random_ids(300, seed=5)),
        "shares": (by_shares, vectors(random_ids(300, seed=5))),
        "records": (churn_explainer, read(customers)),
    }

    @functools.cache
    def case(name):
        fitted, x = data[name]
        classes = [fitted.classes_[label] for label in fitted.predict(x)]
        assert len(set(classes)) > 1
        return Case(fitted.rules_, fitted.labels_table(x), dict(enumerate(classes)))

    return case


def test_kinds_of_features(by_counts, by_shares):
    assert {clusters.feature.value for clusters in by_counts.clusters_} & {"count", "weight"}
    assert by_shares.clusters_[0].feature is FREQUENCY


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", "counts", "shares", "records"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_same_classes(executor, cases, language, name):
    rules, table, expected = cases(name)
    assert executor[language](rules, table) == expected


NASTY = "it's \"50 %\" \\ of; -- 'x'\n%{y} é /* z */"


@pytest.mark.parametrize("language", LANGUAGES)
def test_fields_of_all_kinds_with_nasty_names(executor, language):
    """Every kind of condition, on values that are missing as well, against the rules themselves."""
    import pyarrow as pa

    fields = (
        Field(f"number {NASTY}", "number"),
        Field("true?", "boolean"),
        Field(NASTY, "category", (NASTY, "toys")),
        Field("note", "text", ("late", "gift")),
        Field("since", "time"),
    )
    rng = np.random.default_rng(0)
    n = 200

    def maybe(values, missing):
        return np.where(rng.random(n) < 0.3, missing, values)

    raw = (
        maybe(rng.integers(0, 5, n).astype(float), np.nan),
        maybe(rng.integers(0, 2, n).astype(float), np.nan),
        maybe(rng.choice(np.array([NASTY.encode(), b"toys", b"other"], object), n), b"\0"),
        maybe(rng.choice(np.array([b"Late!", b"a gift, late", b"", b"gifted"], object), n), b"\0"),
        maybe(rng.uniform(0, 2e9, n), np.nan),
    )
    space_columns = [column for field in fields for column in field.columns]
    matrix = np.concatenate([f.matrix(x) for f, x in zip(fields, raw, strict=True)], axis=1)
    tests = 0
    for at, column in enumerate(space_columns):
        values = matrix[:, at]
        bounds = {0.5, -1e38, float(np.median(values[values > -1e30])) if at < 2 else 0.5}
        if column.feature == "time":
            bounds = {-1e38, float(np.median(values[values > -1e30]))}
        for bound in bounds:
            sides = Condition(at, low=bound), Condition(at, high=bound)
            holds = [side.holds(matrix) for side in sides]
            if holds[0].all() or holds[1].all():
                continue  # such rules do not come up
            level = top_level([(side,) for side in sides], (), fields, record=0)
            book = RuleBook((level,))
            (kind,) = program((level,)).kinds
            data = {"kind": [kind.name] * n, "id": list(range(n)), "bag": [None] * n}
            data |= {"weight": [1.0] * n, "cluster": [None] * n}
            for field, names, x in zip(fields, kind.columns, raw, strict=True):
                data |= zip(names, (list(each) for each in field.exported(x)), strict=True)
            expected = {i: f"class {int(second)}" for i, second in enumerate(holds[1])}
            assert executor[language](book, pa.table(data)) == expected, column
            tests += 1
    assert tests >= 13


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_empty_bag_has_no_share_of_anything(executor, language):
    import pyarrow as pa

    bag = clusters(feature=FREQUENCY, names=(NASTY, "u2"))
    level = top_level([(Condition(0, low=0.3),), (Condition(0, high=0.3),)], (bag,))
    # The second bag weighs nothing, the third has no members.
    rows = [
        ("instance", i, i // 2, w, c)
        for i, (w, c) in enumerate([(1.0, NASTY), (2.0, "u2"), (0.0, NASTY), (0.0, "u2")])
    ]
    rows += [("top-bag", i, None, 1.0, None) for i in range(3)]
    names = ("kind", "id", "bag", "weight", "cluster")
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    found = executor[language](RuleBook((level,)), table)
    assert found == {0: "class 0", 1: "class 1", 2: "class 1"}


def test_the_module_imports_nothing(churn_explainer):
    tree = ast.parse(churn_explainer.rules_.to_python())
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def test_json_has_a_format_and_a_version(churn_explainer):
    data = json.loads(churn_explainer.rules_.to_json())
    assert (data["format"], data["version"]) == ("keras-mmil-rules", 1)
    assert data["top"] == data["levels"][-1]["kind"] == "record"
    assert data["classes"] == ["negative", "positive"]
    assert data["given"] == []


def test_clusters_that_need_the_network_are_named(digit_explainer):
    rules = digit_explainer.rules_
    assert json.loads(rules.to_json())["given"] == ["instance"]
    assert "'instance', comes from the network" in rules.to_sql()
    assert "of instance, comes from the network" in rules.to_python()
    assert (
        "label('instance', Id, Cluster) :- cluster('instance', Id, Cluster)." in rules.to_prolog()
    )


# None of "\0", which no query holds; nor of lone surrogates, which no file does.
ODD = ["", *"\"'\\;#λé😀_0 |\n\ufeff\x1f"]
ODD += [
    'x"',
    '"""',
    "'''x",
    "x\\",
    "\\\n",
    'a"\n"""',
    "[0]",
    "a[",
    "{x}",
    "%s",
    "--",
    "/*",
    "*/",
    "$1",
]
ODD += ["class", "None", "__import__", "id", "kind", "r", "m0", "row", "labels_0", "top-bag"]
ODD += ["a b", "A B", "a.b", "a_b", "x\u2028y", "x\x85y", "a\tb", "a\rb", "a\x0cb", "日本", "field"]
texts = st.one_of(
    st.sampled_from(ODD),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
)


def levels_of(bag, field, other, cluster, value):
    """Members are in one of two clusters by a number; records are in a class by these and more."""
    number, category = Field(field, "number", is_optional=False), Field(other, "category", (value,))
    names = (cluster, f"{cluster}'")
    members = clusters(path=bag, word=bag, names=names)
    lower = top_level(
        [(Condition(0, low=0.5),), (Condition(0, high=0.5),)], (), (number,), record=0
    )
    lower = replace(
        lower, rules=replace(lower.rules, names=names, needed=(True, True)), word=bag, path=bag
    )
    some, none = Condition(0, low=0.5), Condition(0, high=0.5)
    conditions = [
        (some, Condition(2, low=0.5)),
        (some, Condition(2, high=0.5)),
        (none, Condition(4, low=0.5)),
        (none, Condition(4, high=0.5)),
    ]
    return lower, top_level(conditions, (members,), (number, category))


def table_of(levels, value):
    """Random records, as `Explainer.labels_table` writes them, and what they are."""
    rng = np.random.default_rng(0)
    below, top = program(levels).kinds
    (of_members,), (of_number,), (of_category,) = (*below.columns, *top.columns)
    rows, expected = [], {}
    for i in range(20):
        numbers = rng.integers(0, 2, rng.integers(0, 4)).tolist()
        number, category = int(rng.integers(2)), [value, f"{value}?", None][rng.integers(3)]
        for x in numbers:
            row = {"kind": below.name, "id": len(rows), "bag": i, "weight": 1.0}
            rows.append({**row, of_members: float(x)})
        row = {"kind": top.name, "id": i, "weight": 1.0}
        rows.append({**row, of_number: float(number), of_category: category})
        is_so = number if any(numbers) else category == value
        expected[i] = f"class {2 * (not any(numbers)) + (not is_so)}"
    names = ["kind", "id", "bag", "weight", "cluster", of_members, of_number, of_category]
    assert len({name.lower() for name in names}) == len(names)
    rows.sort(key=lambda row: row["kind"] == top.name)
    return pa.table({name: [row.get(name) for row in rows] for name in names}), expected


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts, texts, texts, texts, texts)
def test_any_names_at_random(executor, bag, field, other, cluster, value):
    levels = levels_of(bag, field, other, cluster, value)
    table, expected = table_of(levels, value)
    for language in ("SQLite", "Python", "JSON"):
        found = executor[language](RuleBook(levels), table)
        assert found == expected, language


@pytest.mark.parametrize("name", ODD, ids=repr)
def test_odd_names(executor, name):
    levels = levels_of(name, name, name, name, name)
    table, expected = table_of(levels, name)
    languages = ["DuckDB", "Python"] + ["SWI-Prolog"] * (shutil.which("swipl") is not None)
    for language in languages:
        found = executor[language](RuleBook(levels), table)
        assert found == expected, language


@pytest.mark.parametrize("name", ["labels_0", "LABELS_1", "r", "m0", 'my "labels"'])
def test_the_table_may_be_called_as_parts_of_the_query_are(name):
    import sqlite3

    levels = levels_of("items", "price", "kind", "u1", "toys")
    table, expected = table_of(levels, "toys")
    with sqlite3.connect(":memory:") as connection:
        columns = ", ".join(f'"{column}"' for column in table.column_names)
        quoted = name.replace('"', '""')
        connection.execute(f'CREATE TABLE "{quoted}" ({columns})')
        places = ", ".join("?" * table.num_columns)
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        connection.executemany(f'INSERT INTO "{quoted}" VALUES ({places})', rows)
        assert dict(connection.execute(RuleBook(levels).to_sql(name)).fetchall()) == expected


def test_python_holds_what_no_query_can(executor):
    name = "a\0b"
    levels = levels_of(name, name, name, name, name)
    table, expected = table_of(levels, name)
    for language in ("Python", "JSON"):
        found = executor[language](RuleBook(levels), table)
        assert found == expected
    with pytest.raises(ValueError, match="a query can hold"):
        RuleBook(levels).to_sql()

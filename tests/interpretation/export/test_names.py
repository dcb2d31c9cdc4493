"""Rules that run elsewhere, with names of bags, fields, clusters and values that are anything."""

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from levels import clusters, top_level

from keras_mmil.interpretation.export.program import program
from keras_mmil.interpretation.export.rule_book import RuleBook
from keras_mmil.interpretation.rules.fields import Field
from keras_mmil.interpretation.rules.rule import Condition

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


@pytest.fixture
def executors(load_benchmark):
    return load_benchmark("exports").EXECUTORS


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
def test_any_names_at_random(executors, bag, field, other, cluster, value):
    levels = levels_of(bag, field, other, cluster, value)
    table, expected = table_of(levels, value)
    for language in ("SQLite", "Python", "JSON"):
        found = executors[language](RuleBook(levels), table)
        assert found == expected, language


@pytest.mark.parametrize("name", ODD, ids=repr)
def test_odd_names(executors, name):
    levels = levels_of(name, name, name, name, name)
    table, expected = table_of(levels, name)
    languages = ["DuckDB", "Python"] + ["SWI-Prolog"] * (shutil.which("swipl") is not None)
    for language in languages:
        found = executors[language](RuleBook(levels), table)
        assert found == expected, language


@pytest.mark.parametrize("name", ["labels_0", "LABELS_1", "r", "m0"])
def test_the_table_may_be_called_as_parts_of_the_query_are(name):
    import sqlite3

    levels = levels_of("items", "price", "kind", "u1", "toys")
    table, expected = table_of(levels, "toys")
    with sqlite3.connect(":memory:") as connection:
        columns = ", ".join(f'"{column}"' for column in table.column_names)
        connection.execute(f'CREATE TABLE "{name}" ({columns})')
        places = ", ".join("?" * table.num_columns)
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        connection.executemany(f'INSERT INTO "{name}" VALUES ({places})', rows)
        assert dict(connection.execute(RuleBook(levels).to_sql(name)).fetchall()) == expected


def test_python_holds_what_no_query_can(executors):
    name = "a\0b"
    levels = levels_of(name, name, name, name, name)
    table, expected = table_of(levels, name)
    for language in ("Python", "JSON"):
        found = executors[language](RuleBook(levels), table)
        assert found == expected
    with pytest.raises(ValueError, match="a query can hold"):
        RuleBook(levels).to_sql()

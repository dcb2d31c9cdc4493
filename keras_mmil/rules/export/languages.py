"""Rules in other languages: SQL, Prolog, Python and JSON."""

from collections.abc import Iterator

import pyarrow as pa

from keras_mmil._support.types import Config
from keras_mmil._version import __version__
from keras_mmil.rules.export.program import (
    COLUMNS,
    Criterion,
    Kind,
    Program,
    Quantity,
    one_line,
)

__all__ = [
    "sql_name",
    "sql_number",
    "sql_text",
    "to_dict",
    "to_prolog",
    "to_python",
    "to_sql",
]


def to_dict(rules: Program) -> Config:
    """All rules for JSON, each kind of records after those that are in it."""
    return {
        "format": "keras-mmil-rules",
        "version": 1,
        "top": rules.top.name,
        "classes": list(rules.top.labels),
        "given": rules.given,
        "levels": [_level(kind, rules) for kind in rules.kinds if kind.level is not None],
    }


def _level(kind: Kind, rules: Program) -> Config:
    assert kind.level is not None
    of_level = kind.level.rules
    return {
        "kind": kind.name,
        "bags": kind.level.word,
        "path": kind.level.path,
        "members": [
            {
                "kind": rules.kinds[bag.level].name,
                "rows": bag.word,
                "path": bag.path,
                "clusters": list(bag.names),
                "needed": list(needed),
                "definition": bag.definition and bag.definition.to_dict(bag.names),
            }
            for bag, needed in zip(kind.level.clusters, kind.level.needed, strict=True)
        ],
        "conclusions": list(kind.labels),
        "rules": [
            {
                "conclusion": kind.labels[rule.conclusion],
                "needed": of_level.needed[rule.conclusion],
                "conditions": [criterion.to_dict() for criterion in criteria],
                "support": rule.support,
                "precision": rule.precision,
                "coverage": rule.coverage,
                "clause": of_level.clause(rule),
            }
            for rule, criteria in kind.rules
        ],
    }


# SQL ----------------------------------------------------------------------------------------------

_MEASURES = {
    "occurrence": "SUM({weight})",
    "count": "SUM({weight})",
    "weight": "SUM({weight})",
    # All frequencies are 0 in a bag whose members weigh nothing.
    "frequency": "SUM({weight}) * 1e0 / NULLIF(SUM(m.weight), 0)",
}


def to_sql(rules: Program, table: str) -> str:
    """A query on a table of labels: the ids of the top-bags and their classes, sorted by id.

    Raises:
        ValueError: if a name, a category or a token contains "\\0", which no query can.
    """
    labelled = rules.labelled
    prefix = "labels_"
    while table.lower().startswith(prefix):
        prefix = f"_{prefix}"
    labels = {kind.name: f"{prefix}{index}" for index, kind in enumerate(labelled)}
    tables = [_sql_table(kind, labels, table) for kind in labelled]
    heading = [
        f"-- The class of each {one_line(rules.top.name)}, by rules.",
        f"-- It reads the table {one_line(table)}, which `Explainer.labels_table` writes.",
    ]
    if rules.given:
        given = ", ".join(map(repr, rules.given))
        heading.append(f"-- The column cluster, of {one_line(given)}, comes from the network.")
    return "\n".join(
        [
            *heading,
            "WITH",
            ",\n".join(tables),
            f"SELECT id, label AS class FROM {labels[rules.top.name]} ORDER BY id",
        ]
    )


def _sql_table(kind: Kind, labels: dict[str, str], table: str) -> str:
    """The common table expression with the label of each record of a kind."""
    aliases: dict[Quantity, str] = {}
    joins: list[str] = []
    for members in dict.fromkeys(q.members for q in kind.quantities if q.members is not None):
        n, of_members = len(joins), [q for q in kind.quantities if q.members == members]
        aliases |= {q: f"m{n}.f{i}" for i, q in enumerate(of_members)}
        joins.append(_sql_join(members, of_members, n, labels, table))
    cases = [
        f"      -- {one_line(text)}\n"
        f"      WHEN {_sql_all(criteria, aliases)} THEN {sql_text(label)}"
        for label, text, criteria in kind.needed
    ]
    return "\n".join(
        [
            f"{labels[kind.name]} AS (  -- {one_line(kind.name)}",
            "  SELECT r.id, r.bag, r.weight,",
            "    CASE",
            *cases,
            "    END AS label",
            f"  FROM {sql_name(table)} AS r",
            *joins,
            f"  WHERE r.kind = {sql_text(kind.name)}",
            ")",
        ]
    )


def _sql_join(
    members: str, quantities: list[Quantity], n: int, labels: dict[str, str], table: str
) -> str:
    """Sums over the members of each bag."""
    # Where no rule concludes a label that matters, the column is NULL, and the sums are 0.
    source, label, where = labels.get(members), "m.label", ""
    if source is None:
        source, label = sql_name(table), "m.cluster"
        where = f"\n    WHERE m.kind = {sql_text(members)}"
    sums = []
    for i, q in enumerate(quantities):
        weight = f"CASE WHEN {label} = {sql_text(q.name)} THEN m.weight ELSE 0 END"
        sums.append(f",\n      {_MEASURES[q.measure].format(weight=weight)} AS f{i}")
    return (
        f"  LEFT JOIN (  -- {one_line(members)}\n    SELECT m.bag{''.join(sums)}\n"
        f"    FROM {source} AS m{where}\n    GROUP BY m.bag\n  ) AS m{n} ON m{n}.bag = r.id"
    )


def _sql_all(criteria: tuple[Criterion, ...], aliases: dict[Quantity, str]) -> str:
    result = [
        part for each in criteria for part in _sql_conjuncts(each, aliases.get(each.quantity))
    ]
    return "\n        AND ".join(result) or "TRUE"


def _sql_conjuncts(criterion: Criterion, alias: str | None) -> Iterator[str]:
    q = criterion.quantity
    if criterion.wanted is not None:
        holds = f"COALESCE({alias}, 0) > 0" if alias else _sql_holds(q)
        yield holds if criterion.wanted else f"NOT ({holds})"
        return
    x = f"COALESCE({alias}, 0)" if alias else f"r.{sql_name(q.column)}"
    bounds = []
    if criterion.above is not None:
        bounds.append(f"{x} > {sql_number(criterion.above)}")
    if criterion.at_most is not None:
        bounds.append(f"{x} <= {sql_number(criterion.at_most)}")
    if alias:
        yield from bounds
    elif not criterion.present:
        yield f"{x} IS NULL"
    elif criterion.missing:
        yield f"COALESCE({' AND '.join(bounds) or 'TRUE'}, TRUE)"
    else:
        yield from (f"COALESCE({bound}, FALSE)" for bound in bounds or [f"{x} IS NOT NULL"])


def _sql_holds(q: Quantity) -> str:
    column = f"r.{sql_name(q.column)}"
    if q.value is None:
        return f"{column} IS NULL"
    if q.measure == "token":
        return f"COALESCE(INSTR({column}, {sql_text(f' {q.value} ')}) > 0, FALSE)"
    return f"COALESCE({column} = {sql_text(str(q.value))}, FALSE)"


def sql_number(x: float) -> str:
    """A literal that no engine reads as a decimal."""
    text = repr(x)
    return text if isinstance(x, int) or "e" in text else f"{text}e0"


def sql_text(text: str) -> str:
    """A text as a literal."""
    return "'" + _sql_checked(text).replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """The name of a table or column, quoted."""
    return '"' + _sql_checked(name).replace('"', '""') + '"'


def _sql_checked(text: str) -> str:
    if "\0" in text:
        raise ValueError(f"Expected texts that a query can hold. Received: {text!r}")
    return text


# Prolog -------------------------------------------------------------------------------------------

_PROLOG = """\
% The class of each {top}, by rules:
%     ?- class(Id, Class).
% Of every record there is a fact
%     row(Kind, Id, Bag, Weight).
% of every value that is not missing
%     field(Kind, Id, Column, Value).
% and of records whose clusters no rules say
%     cluster(Kind, Id, Cluster).

:- set_prolog_flag(double_quotes, codes).
:- dynamic row/4, field/4, cluster/3.
:- discontiguous label/3.
:- table label/3.

class(Id, Class) :- row({top_atom}, Id, _, _), label({top_atom}, Id, Class).

amount(Kind, Bag, Cluster, Amount) :-
    aggregate_all(sum(Weight), (row(Kind, Id, Bag, Weight), label(Kind, Id, Cluster)), Amount).

share(Kind, Bag, Cluster, Share) :-
    aggregate_all(sum(Weight), row(Kind, _, Bag, Weight), Total),
    (   Total > 0
    ->  amount(Kind, Bag, Cluster, Amount), Share is Amount / Total
    ;   Share = 0
    ).

missing(Kind, Id, Column) :- \\+ field(Kind, Id, Column, _).

contains(Kind, Id, Column, Token) :-
    field(Kind, Id, Column, Text), once(sub_atom(Text, _, _, _, Token)).
"""


def to_prolog(rules: Program, facts: pa.Table | None) -> str:
    """A program for SWI-Prolog: clauses, and the table of labels, if given, as facts."""
    top = rules.top.name
    parts = [_PROLOG.format(top=one_line(top), top_atom=_atom(top))]
    for kind in rules.kinds:
        if kind.name in rules.given:
            name = _atom(kind.name)
            parts.append(f"label({name}, Id, Cluster) :- cluster({name}, Id, Cluster).\n")
    parts += [_prolog_clauses(kind) for kind in rules.labelled]
    if facts is not None:
        parts.append("\n".join(_prolog_facts(facts)) + "\n")
    return "\n".join(parts)


def _prolog_clauses(kind: Kind) -> str:
    lines = [f"% {one_line(kind.name)}"]
    name = _atom(kind.name)
    for label, text, criteria in kind.needed:
        goals = [f"row({name}, Id, _, _)"]
        for index, criterion in enumerate(criteria):
            goals += _prolog_goals(criterion, name, f"X{index}")
        lines.append(f"% {one_line(text)}")
        body = ",\n    ".join(goals)
        lines.append(f"label({name}, Id, {_atom(label)}) :-\n    {body}.")
    return "\n".join(lines) + "\n"


def _prolog_goals(criterion: Criterion, kind: str, x: str) -> Iterator[str]:
    q = criterion.quantity
    if q.members is not None:
        measure = "share" if q.measure == "frequency" else "amount"
        yield f"{measure}({_atom(q.members)}, Id, {_atom(q.name)}, {x})"
        if criterion.wanted is not None:
            yield f"{x} > 0" if criterion.wanted else f"{x} =< 0"
        yield from _prolog_bounds(criterion, x)
        return
    column = _atom(q.column)
    if criterion.wanted is not None:
        if q.value is None:
            holds = f"missing({kind}, Id, {column})"
        elif q.measure == "token":
            holds = f"contains({kind}, Id, {column}, {_atom(f' {q.value} ')})"
        else:
            holds = f"field({kind}, Id, {column}, {_atom(str(q.value))})"
        yield holds if criterion.wanted else f"\\+ {holds}"
        return
    bounds = list(_prolog_bounds(criterion, x))
    there = ", ".join([f"field({kind}, Id, {column}, {x if bounds else '_'})", *bounds])
    missing = f"missing({kind}, Id, {column})"
    if not criterion.present:
        yield missing
    elif criterion.missing:
        yield f"( {missing} ; {there} )"
    else:
        yield there


def _prolog_bounds(criterion: Criterion, x: str) -> Iterator[str]:
    if criterion.above is not None:
        yield f"{x} > {criterion.above!r}"
    if criterion.at_most is not None:
        yield f"{x} =< {criterion.at_most!r}"


def _prolog_facts(table: pa.Table) -> Iterator[str]:
    """Facts, grouped by predicate as Prolog expects."""
    kinds = [_atom(kind) for kind in table["kind"].to_pylist()]
    ids = table["id"].to_pylist()
    of_rows = zip(kinds, ids, table["bag"].to_pylist(), table["weight"].to_pylist(), strict=True)
    for kind, row, bag, weight in of_rows:
        yield f"row({kind}, {row}, {'none' if bag is None else bag}, {_prolog_value(weight)})."
    for kind, row, cluster in zip(kinds, ids, table["cluster"].to_pylist(), strict=True):
        if cluster is not None:
            yield f"cluster({kind}, {row}, {_atom(cluster)})."
    for name in table.column_names[len(COLUMNS) :]:
        column = _atom(name)
        for kind, row, value in zip(kinds, ids, table[name].to_pylist(), strict=True):
            if value is not None:
                yield f"field({kind}, {row}, {column}, {_prolog_value(value)})."


def _prolog_value(value: str | float) -> str:
    if isinstance(value, str):
        return _atom(value)
    return str(int(value)) if value.is_integer() else repr(value)


def _atom(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    escaped = "".join(c if c.isprintable() else f"\\x{ord(c):x}\\" for c in escaped)
    return f"'{escaped}'"


# Python -------------------------------------------------------------------------------------------

_PYTHON = '''\
"""The class of each {top}, by rules.

Written by keras-mmil {version}. `predict` reads the rows of a table of labels, which
`Explainer.labels_table` of that library makes.{given}
"""


def predict(rows):
    """The classes of top-bags, a dict from their ids.

    Args:
        rows: dicts with the columns of the table, in any order.
    """
    kinds = {{}}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(row)
    weights = {{}}  # of the members of each bag, by kind, bag and cluster
    labels = {{}}
    for kind in KINDS:
        label = LABEL.get(kind, _given)
        totals = weights[kind] = {{}}
        for row in kinds.get(kind, ()):
            found = labels[kind, row["id"]] = label(row, weights)
            of_bag = totals.setdefault(row["bag"], {{}})
            of_bag[found] = of_bag.get(found, 0) + row["weight"]
    top = KINDS[-1]
    return {{id: found for (kind, id), found in labels.items() if kind == top}}


def _given(row, weights):
    return row["cluster"]


def _count(weights, row, kind, cluster):
    return weights[kind].get(row["id"], {{}}).get(cluster, 0)


def _share(weights, row, kind, cluster):
    members = weights[kind].get(row["id"], {{}})
    total = sum(members.values())
    return members.get(cluster, 0) / total if total else 0.0
'''


def to_python(rules: Program) -> str:
    """A Python module that imports nothing."""
    labelled = [(f"_label_{i}", kind) for i, kind in enumerate(rules.labelled)]
    given = ""
    if rules.given:
        given = f"\n\nThe column cluster, of {', '.join(rules.given)}, comes from the network."
    texts = (_escaped(text) for text in (rules.top.name, __version__, given))
    head = _PYTHON.format(**dict(zip(("top", "version", "given"), texts, strict=True)))
    functions = [_python_function(name, kind) for name, kind in labelled]
    kinds = "".join(f"    {kind.name!r},\n" for kind in rules.kinds)
    table = "".join(f"    {kind.name!r}: {name},\n" for name, kind in labelled)
    last = f"# Each after those that are in it.\nKINDS = [\n{kinds}]\nLABEL = {{\n{table}}}\n"
    return "\n\n".join([head, *functions, last])


def _python_function(name: str, kind: Kind) -> str:
    lines = [f"def {name}(row, weights):", f'    """{_escaped(kind.name)}"""']
    for label, text, criteria in kind.needed:
        lines.append(f"    # {one_line(text)}")
        tests = [_python_test(each) for each in criteria]
        if len(tests) == 1:
            lines.append(f"    if {tests[0]}:")
        elif tests:
            lines += ["    if (", f"        {tests[0]}"]
            lines += [*(f"        and {test}" for test in tests[1:]), "    ):"]
        lines.append(f"    {'    ' if tests else ''}return {label!r}")
    return "\n".join([*lines, "    return None", ""])


def _python_test(criterion: Criterion) -> str:
    q = criterion.quantity
    if q.members is not None:
        measure = "_share" if q.measure == "frequency" else "_count"
        x = f"{measure}(weights, row, {q.members!r}, {q.name!r})"
        if criterion.wanted is not None:
            return f"{x} > 0" if criterion.wanted else f"{x} <= 0"
        return _python_within(x, criterion)
    x = f"row[{q.column!r}]"
    if criterion.wanted is not None:
        if q.value is None:
            return f"{x} is None" if criterion.wanted else f"{x} is not None"
        if q.measure == "token":
            token = f" {q.value} "
            return f"{token!r} {'' if criterion.wanted else 'not '}in ({x} or '')"
        return f"{x} {'==' if criterion.wanted else '!='} {str(q.value)!r}"
    if not criterion.present:
        return f"{x} is None"
    holds = _python_within(x, criterion)
    if criterion.missing:
        return f"({x} is None or {holds})"
    return f"{x} is not None and {holds}"


def _python_within(x: str, criterion: Criterion) -> str:
    low = "" if criterion.above is None else f"{criterion.above!r} < "
    high = "" if criterion.at_most is None else f" <= {criterion.at_most!r}"
    return f"{low}{x}{high}" if low or high else "True"


def _escaped(text: str) -> str:
    """A text as part of a docstring."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "\\0")

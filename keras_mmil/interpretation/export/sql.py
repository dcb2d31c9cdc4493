"""Rules as one query, which SQLite and DuckDB run unchanged."""

from collections.abc import Iterator

from keras_mmil.interpretation.export.program import Criterion, Kind, Program, Quantity, one_line

__all__ = ["to_sql"]

_MEASURES = {
    "occurrence": "SUM({weight})",
    "count": "SUM({weight})",
    "weight": "SUM({weight})",
    # Of a bag whose members weigh nothing, all frequencies are 0.
    "frequency": "SUM({weight}) * 1e0 / NULLIF(SUM(m.weight), 0)",
}


def to_sql(rules: Program, table: str) -> str:
    """A query whose rows are the ids of the top-bags and their classes, in the order of the ids.

    Args:
        rules: the rules.
        table: name of the table of labels.

    Raises:
        ValueError: if a name, a category or a token holds "\\0", which no query can.
    """
    labelled = rules.labelled
    prefix = "labels_"
    while table.lower().startswith(prefix):
        prefix = f"_{prefix}"
    labels = {kind.name: f"{prefix}{index}" for index, kind in enumerate(labelled)}
    tables = [_common_table(kind, labels, table) for kind in labelled]
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


def _common_table(kind: Kind, labels: dict[str, str], table: str) -> str:
    """The common table expression with the label of each record of a kind."""
    aliases: dict[Quantity, str] = {}
    joins: list[str] = []
    for members in dict.fromkeys(q.members for q in kind.quantities if q.members is not None):
        n, of_members = len(joins), [q for q in kind.quantities if q.members == members]
        aliases |= {q: f"m{n}.f{i}" for i, q in enumerate(of_members)}
        joins.append(_join(members, of_members, n, labels, table))
    cases = [
        f"      -- {one_line(text)}\n      WHEN {_all(criteria, aliases)} THEN {_text(label)}"
        for label, text, criteria in kind.needed
    ]
    return "\n".join(
        [
            f"{labels[kind.name]} AS (  -- {one_line(kind.name)}",
            "  SELECT r.id, r.bag, r.weight,",
            "    CASE",
            *cases,
            "    END AS label",
            f"  FROM {_name(table)} AS r",
            *joins,
            f"  WHERE r.kind = {_text(kind.name)}",
            ")",
        ]
    )


def _join(
    members: str, quantities: list[Quantity], n: int, labels: dict[str, str], table: str
) -> str:
    """What is known of the members of each bag."""
    # Where no rule gives a label that matters, the column is NULL, and the sums are 0.
    source, label, where = labels.get(members), "m.label", ""
    if source is None:
        source, label = _name(table), "m.cluster"
        where = f"\n    WHERE m.kind = {_text(members)}"
    sums = []
    for i, q in enumerate(quantities):
        weight = f"CASE WHEN {label} = {_text(q.name)} THEN m.weight ELSE 0 END"
        sums.append(f",\n      {_MEASURES[q.measure].format(weight=weight)} AS f{i}")
    return (
        f"  LEFT JOIN (  -- {one_line(members)}\n    SELECT m.bag{''.join(sums)}\n"
        f"    FROM {source} AS m{where}\n    GROUP BY m.bag\n  ) AS m{n} ON m{n}.bag = r.id"
    )


def _all(criteria: tuple[Criterion, ...], aliases: dict[Quantity, str]) -> str:
    found = [part for each in criteria for part in _conjuncts(each, aliases.get(each.quantity))]
    return "\n        AND ".join(found) or "TRUE"


def _conjuncts(criterion: Criterion, alias: str | None) -> Iterator[str]:
    """What has to hold together."""
    q = criterion.quantity
    if criterion.wanted is not None:
        holds = f"COALESCE({alias}, 0) > 0" if alias else _is_so(q)
        yield holds if criterion.wanted else f"NOT ({holds})"
        return
    x = f"COALESCE({alias}, 0)" if alias else f"r.{_name(q.column)}"
    bounds = []
    if criterion.above is not None:
        bounds.append(f"{x} > {_number(criterion.above)}")
    if criterion.at_most is not None:
        bounds.append(f"{x} <= {_number(criterion.at_most)}")
    if alias:
        yield from bounds
    elif not criterion.present:
        yield f"{x} IS NULL"
    elif criterion.missing:
        yield f"COALESCE({' AND '.join(bounds) or 'TRUE'}, TRUE)"
    else:
        yield from (f"COALESCE({bound}, FALSE)" for bound in bounds or [f"{x} IS NOT NULL"])


def _is_so(q: Quantity) -> str:
    column = f"r.{_name(q.column)}"
    if q.value is None:
        return f"{column} IS NULL"
    if q.measure == "token":
        return f"COALESCE(INSTR({column}, {_text(f' {q.value} ')}) > 0, FALSE)"
    return f"COALESCE({column} = {_text(str(q.value))}, FALSE)"


def _number(x: float) -> str:
    """As a literal that no engine takes for a decimal."""
    text = repr(x)
    return text if isinstance(x, int) or "e" in text else f"{text}e0"


def _text(text: str) -> str:
    return "'" + _checked(text).replace("'", "''") + "'"


def _name(name: str) -> str:
    return '"' + _checked(name).replace('"', '""') + '"'


def _checked(text: str) -> str:
    if "\0" in text:
        raise ValueError(f"Expected texts that a query can hold. Received: {text!r}")
    return text

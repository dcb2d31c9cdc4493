"""Rules as a Prolog program for SWI-Prolog: clauses, and the facts that they are about."""

from collections.abc import Iterator

import pyarrow as pa

from keras_mmil.interpretation.export.program import COLUMNS, Criterion, Kind, Program, one_line

__all__ = ["to_prolog"]

_HEAD = """\
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
    """The program.

    Args:
        rules: the rules.
        facts: a table of labels, to be written as facts; None for clauses only.
    """
    top = rules.top.name
    parts = [_HEAD.format(top=one_line(top), top_atom=_atom(top))]
    for kind in rules.kinds:
        if kind.name in rules.given:
            name = _atom(kind.name)
            parts.append(f"label({name}, Id, Cluster) :- cluster({name}, Id, Cluster).\n")
    parts += [_clauses(kind) for kind in rules.labelled]
    if facts is not None:
        parts.append("\n".join(_facts(facts)) + "\n")
    return "\n".join(parts)


def _clauses(kind: Kind) -> str:
    lines = [f"% {one_line(kind.name)}"]
    name = _atom(kind.name)
    for label, text, criteria in kind.needed:
        goals = [f"row({name}, Id, _, _)"]
        for index, criterion in enumerate(criteria):
            goals += _goals(criterion, name, f"X{index}")
        lines.append(f"% {one_line(text)}")
        body = ",\n    ".join(goals)
        lines.append(f"label({name}, Id, {_atom(label)}) :-\n    {body}.")
    return "\n".join(lines) + "\n"


def _goals(criterion: Criterion, kind: str, x: str) -> Iterator[str]:
    """What has to hold together."""
    q = criterion.quantity
    if q.members is not None:
        measure = "share" if q.measure == "frequency" else "amount"
        yield f"{measure}({_atom(q.members)}, Id, {_atom(q.name)}, {x})"
        if criterion.wanted is not None:
            yield f"{x} > 0" if criterion.wanted else f"{x} =< 0"
        yield from _bounds(criterion, x)
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
    bounds = list(_bounds(criterion, x))
    there = ", ".join([f"field({kind}, Id, {column}, {x if bounds else '_'})", *bounds])
    missing = f"missing({kind}, Id, {column})"
    if not criterion.present:
        yield missing
    elif criterion.missing:
        yield f"( {missing} ; {there} )"
    else:
        yield there


def _bounds(criterion: Criterion, x: str) -> Iterator[str]:
    if criterion.above is not None:
        yield f"{x} > {criterion.above!r}"
    if criterion.at_most is not None:
        yield f"{x} =< {criterion.at_most!r}"


def _facts(table: pa.Table) -> Iterator[str]:
    """Each predicate's facts together, as Prolog expects."""
    kinds = [_atom(kind) for kind in table["kind"].to_pylist()]
    ids = table["id"].to_pylist()
    of_rows = zip(kinds, ids, table["bag"].to_pylist(), table["weight"].to_pylist(), strict=True)
    for kind, row, bag, weight in of_rows:
        yield f"row({kind}, {row}, {'none' if bag is None else bag}, {_value(weight)})."
    for kind, row, cluster in zip(kinds, ids, table["cluster"].to_pylist(), strict=True):
        if cluster is not None:
            yield f"cluster({kind}, {row}, {_atom(cluster)})."
    for name in table.column_names[len(COLUMNS) :]:
        column = _atom(name)
        for kind, row, value in zip(kinds, ids, table[name].to_pylist(), strict=True):
            if value is not None:
                yield f"field({kind}, {row}, {column}, {_value(value)})."


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return _atom(value)
    return str(int(value)) if value.is_integer() else repr(value)


def _atom(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    escaped = "".join(c if c.isprintable() else f"\\x{ord(c):x}\\" for c in escaped)
    return f"'{escaped}'"

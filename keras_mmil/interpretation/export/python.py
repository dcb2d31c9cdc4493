"""Rules as one Python module, which imports nothing but the standard library."""

from keras_mmil._version import __version__
from keras_mmil.interpretation.export.program import Criterion, Kind, Program, one_line

__all__ = ["to_python"]

_HEAD = '''\
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
    """The module's text."""
    labelled = [(f"_label_{i}", kind) for i, kind in enumerate(rules.labelled)]
    given = ""
    if rules.given:
        given = f"\n\nThe column cluster, of {', '.join(rules.given)}, comes from the network."
    texts = (_escaped(text) for text in (rules.top.name, __version__, given))
    head = _HEAD.format(**dict(zip(("top", "version", "given"), texts, strict=True)))
    functions = [_function(name, kind) for name, kind in labelled]
    kinds = "".join(f"    {kind.name!r},\n" for kind in rules.kinds)
    table = "".join(f"    {kind.name!r}: {name},\n" for name, kind in labelled)
    last = f"# Each after those that are in it.\nKINDS = [\n{kinds}]\nLABEL = {{\n{table}}}\n"
    return "\n\n".join([head, *functions, last])


def _function(name: str, kind: Kind) -> str:
    lines = [f"def {name}(row, weights):", f'    """{_escaped(kind.name)}"""']
    for label, text, criteria in kind.needed:
        lines.append(f"    # {one_line(text)}")
        tests = [_test(each) for each in criteria]
        if len(tests) == 1:
            lines.append(f"    if {tests[0]}:")
        elif tests:
            lines += ["    if (", f"        {tests[0]}"]
            lines += [*(f"        and {test}" for test in tests[1:]), "    ):"]
        lines.append(f"    {'    ' if tests else ''}return {label!r}")
    return "\n".join([*lines, "    return None", ""])


def _test(criterion: Criterion) -> str:
    q = criterion.quantity
    if q.members is not None:
        measure = "_share" if q.measure == "frequency" else "_count"
        x = f"{measure}(weights, row, {q.members!r}, {q.name!r})"
        if criterion.wanted is not None:
            return f"{x} > 0" if criterion.wanted else f"{x} <= 0"
        return _within(x, criterion)
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
    holds = _within(x, criterion)
    if criterion.missing:
        return f"({x} is None or {holds})"
    return f"{x} is not None and {holds}"


def _within(x: str, criterion: Criterion) -> str:
    low = "" if criterion.above is None else f"{criterion.above!r} < "
    high = "" if criterion.at_most is None else f" <= {criterion.at_most!r}"
    return f"{low}{x}{high}" if low or high else "True"


def _escaped(text: str) -> str:
    """As a part of a docstring."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "\\0")

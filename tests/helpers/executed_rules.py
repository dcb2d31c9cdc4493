"""Exported rules, executed, and records one by one."""

import sqlite3


def by_sql(explainer, x):
    """The classes of top-bags by the SQL of the rules."""
    table = explainer.labels_table(x)
    with sqlite3.connect(":memory:") as connection:
        names = ", ".join(f'"{name}"' for name in table.column_names)
        connection.execute(f"CREATE TABLE labels ({names})")
        marks = ", ".join("?" * len(table.column_names))
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        connection.executemany(f"INSERT INTO labels VALUES ({marks})", rows)
        return [name for _, name in connection.execute(explainer.rules_.to_sql())]


def by_python(explainer, x):
    """The classes of top-bags by the Python of the rules."""
    module = {}
    exec(explainer.rules_.to_python(), module)
    found = module["predict"](explainer.labels_table(x).to_pylist())
    return [found[i] for i in range(len(found))]


def single(x, n):
    """The first records of inputs by name, each as a batch."""
    for i in range(n):
        yield {name: part[i : i + 1] for name, part in x.items()}

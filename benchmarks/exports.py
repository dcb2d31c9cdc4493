"""Rules executed elsewhere: on how many top-bags, and on how many they differ from the explainer.

`python benchmarks/exports.py RUN...` reads folders that `keras-mmil run` or `train` wrote, and
writes to `benchmarks/results/exports.json`. Each export is executed on all test top-bags and on so
many others that there are 1,000.
"""

import argparse
import json
import runpy
import sqlite3
import subprocess
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import tensorflow as tf
from records import write

from keras_mmil import ragged
from keras_mmil.cli.finished_run import any_run

_LEAST = 1000  # top-bags
_SECONDS = 600  # for a program to run


def main():
    """Execute, print, and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="folders of runs")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    for path in options.runs:
        run = any_run(path)
        found = measured(run.explainer, top_bags(run), run.key)
        if not options.dry:
            write("exports", found, key=("experiment", "model", "metric"))


def top_bags(run):
    """The test set of the rules, and others, so that there are at least so many if data allow."""
    x_test = run.for_testing_rules().x
    parts, n = [x_test], ragged.n_top_bags(x_test)
    for x in run.for_rules():
        if x is not None and n < _LEAST:
            parts.append(ragged.take(x, slice(_LEAST - n)))
            n += ragged.n_top_bags(parts[-1])
    return parts


def measured(explainer, parts, name):
    """The figures of one experiment, as records."""
    differences, seconds, n = defaultdict(int), defaultdict(float), 0
    for x in parts:
        table = explainer.labels_table(x)
        expected = [explainer.classes_[label] for label in explainer.predict(x)]
        n += len(expected)
        for language, execute in EXECUTORS.items():
            start = time.perf_counter()
            found = execute(explainer.rules_, table)
            seconds[language] += time.perf_counter() - start
            ids = list(range(len(expected)))
            assert sorted(found) == ids, f"{language} gave {len(found)} classes"
            differences[language] += sum(found[i] != expected[i] for i in ids)
    for language in EXECUTORS:
        cases = f"{differences[language]} differences in {n} top-bags"
        print(f"{name}: {language}: {cases}, {seconds[language]:.1f} s", flush=True)
    return [
        {
            "experiment": name,
            "model": language,
            "variant": "",
            "metric": metric,
            "mean": mean,
            "std": 0.0,
            "runs": 1,
        }
        for language in EXECUTORS
        for metric, mean in (("top-bags", n), ("differences", differences[language]))
    ]


# Each from rules and a table of labels to a dict from the ids of top-bags to their classes --------


def run_sqlite(rules, table):
    """The query in SQLite."""
    with closing(sqlite3.connect(":memory:")) as connection:
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in table.column_names)
        connection.execute(f"CREATE TABLE labels ({columns})")
        places = ", ".join("?" * table.num_columns)
        rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
        connection.executemany(f"INSERT INTO labels VALUES ({places})", rows)
        return dict(connection.execute(rules.to_sql()).fetchall())


def run_duckdb(rules, table):
    """The query in DuckDB."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("labels", table)
        return dict(connection.execute(rules.to_sql()).fetchall())


def run_python(rules, table):
    """The module."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rules.py")
        path.write_text(rules.to_python(), encoding="utf-8")
        return runpy.run_path(str(path))["predict"](table.to_pylist())


def run_prolog(rules, table):
    """The program in SWI-Prolog."""
    goal = "forall(class(Id, Class), format('~w ~w~n', [Id, Class]))"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rules.pl")
        path.write_text(rules.to_prolog(table), encoding="utf-8")
        command = ["swipl", "-q", "--stack-limit=4g", "-g", goal, "-t", "halt", str(path)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_SECONDS, encoding="utf-8"
        )
    assert not done.stderr, done.stderr
    pairs = (line.split(" ", 1) for line in done.stdout.splitlines())
    return {int(row): label for row, label in pairs}


def run_json(rules, table):
    """The JSON, by an interpreter of a page."""
    data = json.loads(rules.to_json())
    levels = {level["kind"]: level for level in data["levels"]}
    by_kind = defaultdict(list)
    for row in table.to_pylist():
        by_kind[row["kind"]].append(row)
    sums = defaultdict(float)  # of weights, by kind and bag, and by cluster as well
    labels = {}
    for kind, rows in by_kind.items():  # which the table has in the right order
        for row in rows:
            label = row["cluster"]
            if kind in levels:
                label = _conclusion(levels[kind]["rules"], row, sums)
            labels[kind, row["id"]] = label
            sums[kind, row["bag"]] += row["weight"]
            sums[kind, row["bag"], label] += row["weight"]
    return {row: label for (kind, row), label in labels.items() if kind == data["top"]}


def _conclusion(rules, row, sums):
    found = {
        rule["conclusion"]
        for rule in rules
        if all(_holds(condition, row, sums) for condition in rule["conditions"])
    }
    (conclusion,) = found  # rules that match the same record agree, and one does
    return conclusion


def _holds(condition, row, sums):
    about = condition["quantity"]
    measure, members = about["measure"], about["members"]
    if members is not None:
        value = sums[members, row["id"], about["name"]]
        if measure == "frequency":
            value = value / sums[members, row["id"]] if value else 0.0
        if measure == "occurrence":
            return (value > 0) == condition["wanted"]
    else:
        value = row[about["column"]]
        if condition["wanted"] is not None:
            wanted = about["value"]
            if wanted is None:
                holds = value is None
            elif measure == "token":
                holds = wanted in (value or "").split()
            else:
                holds = value == str(wanted)
            return holds == condition["wanted"]
        if value is None:
            return condition["missing"]
        if not condition["present"]:
            return False
    low, high = condition["above"], condition["at_most"]
    return (low is None or value > low) and (high is None or value <= high)


EXECUTORS = {
    "SQLite": run_sqlite,
    "DuckDB": run_duckdb,
    "SWI-Prolog": run_prolog,
    "Python": run_python,
    "JSON": run_json,
}


if __name__ == "__main__":
    tf.config.threading.set_intra_op_parallelism_threads(2)
    main()

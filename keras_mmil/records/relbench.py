"""Tasks of RelBench, from the folders that it downloads."""

import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet

from keras_mmil._support.types import PathLike
from keras_mmil.records.keys import columns_of_table
from keras_mmil.records.linking import Links
from keras_mmil.records.moments import Past
from keras_mmil.records.paths import child
from keras_mmil.records.schema import Schema

__all__ = ["from_relbench"]

_SPLITS = ("train", "val", "test")


def from_relbench(
    folder: PathLike, task: str, *, hops: int = 0, verbose: bool = True
) -> tuple[pa.StructArray, pa.StructArray, pa.StructArray]:
    """Records of a task of RelBench for training, validation and test, as of their moments.

    A record is a row of the task's table, with its label, its entity, and what is linked to that
    by the keys that RelBench declares. As there, members of bags are kept if the time of their
    table is not after the moment, and all of a table without a time; rows that others refer to,
    such as the race of a result, are kept with these. Other times after the moment become missing,
    and times become ages, as by `as_of`.

    Args:
        folder: of a data set, such as "~/.cache/relbench/rel-f1": with the files `db/*.parquet`
            and, for each task, `tasks/<task>/{train,val,test}.parquet`.
        task: its name, such as "driver-dnf".
        hops: see `link`.
        verbose: as in `as_of`.

    Returns:
        Three StructArrays, of the same type. The label has the name that it has in the task, such
        as "did_not_finish".

    Raises:
        FileNotFoundError: without these files.
        ValueError: if a file has no metadata of RelBench; or the task recommends rows, and so has
            no label.

    Warns:
        UserWarning: of what `link` leaves out; and of tasks whose label is a column of the
            entity's table, which is not read then. RelBench leaves out other columns, too, for
            some of these tasks: see `find_leaks`.

    Example:

    >>> train, val, test = from_relbench("~/.cache/relbench/rel-f1", "driver-dnf")
    >>> classifier = NestedClassifier().fit(train, "did_not_finish")

    Reference:
        Robinson et al., RelBench: A Benchmark for Deep Learning on Relational Databases, 2024.
    """
    folder = Path(folder).expanduser()
    paths = {path.stem: path for path in sorted((folder / "db").glob("*.parquet"))}
    about = {name: _About.of(path) for name, path in paths.items()}
    of_splits = [folder / "tasks" / task / f"{split}.parquet" for split in _SPLITS]
    _check_exist([folder / "db", *of_splits])
    about[task] = labels = _About.of(of_splits[0])
    _check_exist(
        [folder / "db" / f"{x}.parquet" for each in about.values() for x in each.keys.values()]
    )
    splits = [pyarrow.parquet.read_table(path) for path in of_splits]
    rows = pa.concat_tables(splits, promote_options="permissive")
    tables = {name: columns_of_table(name, path) for name, path in paths.items()}
    targets = {*rows.column_names} - {labels.time, *labels.keys}
    if task in paths or labels.time is None or len(labels.keys) != 1 or not targets:
        raise ValueError(
            "Expected a task with one entity, a time and a label. "
            f"Received: {of_splits[0]} with {', '.join(rows.column_names)}"
        )
    (entities,) = labels.keys.values()
    for name in sorted(targets & tables[entities].keys()):
        del tables[entities][name]
        warnings.warn(f"Not read is the label in {entities!r}: {name!r}", stacklevel=2)
    tables[task] = columns_of_table(task, rows)
    keys = [
        (f"{name}.{column}", f"{other}.{about[other].id}")
        for name, each in about.items()
        for column, other in each.keys.items()
    ]
    links, linked = Links.of(task, keys, "drop", hops).within(tables)
    if unread := sorted(tables.keys() - linked.keys()):
        warnings.warn(f"No key leads to {', '.join(unread)}: not read", stacklevel=2)
    records = links.link(linked)
    schema = Schema.infer(records)
    past = Past(schema, child("", labels.time), _times(schema, about), is_inclusive=True)
    records = past.of(records)
    if verbose:
        print("\n".join(past.said))
    train, val, _ = (len(split) for split in splits)
    return records[:train], records[train : train + val], records[train + val :]


def _check_exist(paths: Iterable[Path]) -> None:
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"Expected a folder of RelBench. Received: none with {path}")


@dataclass(frozen=True)
class _About:
    """What the metadata of a file say: its columns of ids and times, and the tables of its keys."""

    id: str | None
    time: str | None
    keys: dict[str, str]

    @classmethod
    def of(cls, path: Path) -> Self:
        known = pyarrow.parquet.read_schema(path).metadata or {}
        try:
            found = (known[x] for x in (b"pkey_col", b"time_col", b"fkey_col_to_pkey_table"))
            return cls(*map(json.loads, found))
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"Expected the metadata of RelBench. Received: {path}, {error!r}"
            ) from error


def _times(schema: Schema, about: dict[str, _About]) -> dict[str, str | None]:
    """The times of members of bags by their paths, from the tables that they are rows of."""
    times: dict[str, str | None] = {}
    for part in [each for each in schema if each.type == "bag"]:
        of = [x for x in about if part.name == x or part.name.startswith(f"{x}_by_")]
        if not of:  # a list in a row
            continue
        times[part.path] = name = about[max(of, key=len)].time
        path = part.path if name is None else child(part.path, name)
        if path in schema and schema[path].kind == "constant":
            schema[path] = "time"
    return times

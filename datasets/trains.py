"""Michalski's trains, ten eastbound and ten westbound: linked tables of trains and their cars.

Reference: Michie et al., To the international computing community: a new East-West challenge, 1994.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from keras_mmil._support.files import open_text
from keras_mmil.datasets._io import files

__all__ = ["TARGET", "load"]

TARGET = "direction"
"""The path of the field to predict."""
_KEYS = (("cars.train_id", "trains.id"),)
_COLUMNS = {
    "trains": ("id", "direction"),
    "cars": (
        "id",
        "train_id",
        "position",
        "shape",
        "len",
        "sides",
        "roof",
        "wheels",
        "load_shape",
        "load_num",
    ),
}
_VALUE = r"(?:-?[0-9]{1,18}|'[^'\\]*'|NULL)"
_ROW = rf"\({_VALUE}(?:,{_VALUE})*\)"
_INSERT = re.compile(rf"INSERT INTO `(\w+)` VALUES ({_ROW}(?:,{_ROW})*);\s*")

Value: TypeAlias = int | str | None


class LinkedTables(NamedTuple):
    """Tables that refer to each other: the arguments of `records.link`, in their order."""

    tables: dict[str, dict[str, list[Any]]]  # columns by name, with None for missing values
    top: str  # the table whose rows are the records
    keys: tuple[tuple[str, str], ...]  # pairs of a foreign key and the column that it refers to


def load() -> LinkedTables:
    """The 20 trains, and their 63 cars.

    Returns:
        `LinkedTables`: `trains` with `id` and `direction`, "east" or "west", and `cars` with `id`,
        `train_id`, `position`, `shape`, `len`, `sides`, `roof`, `wheels`, `load_shape`, `load_num`.

    Raises:
        FileNotFoundError: if the file `records/trains.sql` is not there.
        ValueError: if it is damaged or has another format.

    Example:

    >>> schema = Schema.infer_tables(*trains.load())
    """
    path = files.find(
        "records/trains.sql",
        instructions="It is a MySQL dump of https://relational.fel.cvut.cz/dataset/Trains.",
    )
    tables: dict[str, dict[str, list[Value]]] = {
        name: {column: [] for column in columns} for name, columns in _COLUMNS.items()
    }
    for name, row in _inserted(path):
        for column, value in zip(_COLUMNS[name], row, strict=True):
            tables[name][column].append(value)
    if not set(tables["trains"][TARGET]) == {"east", "west"}:
        raise ValueError(
            f"Expected trains to east and west. Received: {path} with trains to "
            f"{sorted(map(str, set(tables['trains'][TARGET])))}"
        )
    return LinkedTables(tables, top="trains", keys=_KEYS)


def _inserted(path: Path) -> Iterator[tuple[str, tuple[Value, ...]]]:
    """The rows that a MySQL dump inserts, each with the name of its table."""
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.lstrip().upper().startswith("INSERT"):
                continue
            match = _INSERT.fullmatch(line)
            if not match:
                raise ValueError(
                    "Expected a line INSERT INTO `table` VALUES (...),(...); of ints, texts "
                    f"without escapes and NULL. Received: {path}, line {number}"
                )
            name, rows = match.groups()
            for row in re.findall(_ROW, rows):
                values = tuple(map(_value, re.findall(_VALUE, row)))
                if len(values) != len(_COLUMNS.get(name, ())):
                    raise ValueError(
                        f"Expected rows of {_COLUMNS}. "
                        f"Received: {path}, line {number}, with a row {row} of {name}"
                    )
                yield name, values


def _value(text: str) -> Value:
    if text == "NULL":
        return None
    return text[1:-1] if text.startswith("'") else int(text)

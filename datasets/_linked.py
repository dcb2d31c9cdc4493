"""Linked tables."""

from typing import Any, NamedTuple

__all__ = ["LinkedTables"]


class LinkedTables(NamedTuple):
    """Tables that refer to each other: the arguments of `records.link`, in their order.

    Attributes:
        tables: dict from names to tables, each a dict from column names to lists of values, None
            where they are missing.
        top: name of the table whose rows are the records.
        keys: pairs of a column that refers and the column that it refers to.
    """

    tables: dict[str, dict[str, list[Any]]]
    top: str
    keys: tuple[tuple[str, str], ...]

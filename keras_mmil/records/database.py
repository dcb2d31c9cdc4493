"""Tables of databases, with the keys between them."""

import contextlib
import itertools
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeGuard

import pyarrow as pa
import sqlalchemy

from keras_mmil._support.types import PathLike
from keras_mmil.records.dumps import read_dump
from keras_mmil.records.files import ending
from keras_mmil.records.keys import Columns, columns_in, find, listed
from keras_mmil.records.linking import Links
from keras_mmil.records.to_arrow import joined, to_arrow

__all__ = ["Database", "from_database", "is_database", "is_dump", "is_url", "write_table"]

Source: TypeAlias = PathLike | sqlalchemy.Engine
Keys: TypeAlias = tuple[tuple[Columns, Columns], ...]

_TIMES = (sqlalchemy.Date, sqlalchemy.DateTime, sqlalchemy.Time)
_ROWS = 2**14  # that are fetched at once
_URL = re.compile(r"[a-z][a-z0-9+]*://")


def is_url(source: object) -> bool:
    """Whether it is the URL of a database, such as `sqlite:///shop.db`."""
    return isinstance(source, str) and _URL.match(source) is not None


def is_dump(source: object) -> TypeGuard[PathLike]:
    """Whether it is the path of a dump: a file that ends in `.sql`, `.sql.gz` or `.sql.zst`."""
    return (
        isinstance(source, str | os.PathLike)
        and not is_url(source)
        and ending(Path(source)) == ".sql"
    )


def is_database(source: object) -> bool:
    """Whether it is the URL of a database, or the path of a dump."""
    return is_url(source) or is_dump(source)


def from_database(
    database: Source,
    top: str,
    *,
    keys: Iterable[tuple[Columns, Columns]] | None = None,
    tables: Sequence[str] | None = None,
    orphans: str = "raise",
    hops: int = 0,
    at_most: int | None = None,
    seed: int = 0,
) -> pa.StructArray:
    """Rows of a table in a database, with the rows of other tables that are linked to them.

    Tables are linked by the foreign keys that the database declares, and by those that `find_keys`
    finds, with a warning that lists the latter. What no key leads to from the table at the top is
    not read, with a warning, too. All rows are held in memory.

    Args:
        database: URL, such as "sqlite:///shop.db" or "postgresql+psycopg://user@host/shop"; an
            `Engine` of SQLAlchemy; or path of a dump of MySQL or MariaDB, such as "shop.sql" or
            "shop.sql.gz".
        top: name of the table whose rows are the records.
        keys: those to follow instead, as in `link`.
        tables: names of those to read; None for all. Views have to be named.
        orphans, hops, at_most, seed: see `link`.

    Returns:
        StructArray, as of `link`, for `NestedClassifier.fit` and `Schema.infer`.

    Raises:
        ImportError: without the driver of the database; SQLite and dumps need none.
        KeyError: if there is no such table or column.
        TypeError, ValueError: as `link`.
        ValueError: for a dump with statements or values that are not read, with their line.

    Example:

    >>> customers = from_database("sqlite:///shop.db", top="customers")
    >>> classifier = NestedClassifier().fit(customers, "churned")
    """
    found = Database.read(database, tables)
    if keys is None:
        keys = found.keys
        if found.proposed:
            said = ", ".join(f"{one} -> {two}" for one, two in found.proposed)
            warnings.warn(f"Keys that the database does not declare: {said}", stacklevel=2)
    links, linked = Links.of(top, keys, orphans, hops, at_most, seed).within(found.tables)
    if unread := [name for name in found.tables if name not in linked]:
        warnings.warn(f"No key leads to {', '.join(unread)}: not read", stacklevel=2)
    return links.link(linked)


@dataclass(frozen=True)
class Database:
    """Tables that were read from a database.

    Attributes:
        tables: their columns.
        names: of all tables, also those that were not read.
        declared: keys that the database declares.
        proposed: others, see `find_keys`.
    """

    tables: dict[str, dict[str, pa.Array]]
    names: list[str]
    declared: Keys
    proposed: Keys

    @classmethod
    def read(cls, database: Source, tables: Sequence[str] | None = None) -> Self:
        """All tables, or those of some names: see `from_database`."""
        if is_dump(database):
            read, known, declared = read_dump(Path(database), tables)
            _check_names(tables, known)
        else:
            read, known, declared = _read(database, tables)
        taken = {column for one, _ in declared for column in columns_in(one)}
        proposed = tuple(pair for pair in find(read) if pair[0] not in taken)
        return cls(read, known, declared, proposed)

    @property
    def keys(self) -> list[tuple[Columns, Columns]]:
        """Those that are declared, and others."""
        return [*self.declared, *self.proposed]


def _read(
    database: Source, tables: Sequence[str] | None
) -> tuple[dict[str, dict[str, pa.Array]], list[str], Keys]:
    """The columns of tables, the names of all, and the keys that a database declares."""
    with _engine(database) as engine:
        inspector = sqlalchemy.inspect(engine)
        known = inspector.get_table_names()
        _check_names(tables, [*known, *inspector.get_view_names()])
        names = known if tables is None else list(tables)
        if not names:
            raise ValueError(f"Expected a database with tables. Received: {engine.url!r}")
        meta = sqlalchemy.MetaData()
        meta.reflect(engine, views=True, only=names, resolve_fks=False)
        with engine.connect() as connection:
            read = {name: _columns(connection, meta.tables[name]) for name in names}
        foreign = [(name, key) for name in names for key in inspector.get_foreign_keys(name)]
    declared = tuple(
        _pair(name, key)
        for name, key in foreign
        if key["referred_table"] in read and key["referred_columns"]
    )
    return read, known, declared


def _check_names(names: Sequence[str] | None, known: Sequence[str]) -> None:
    if unknown := [name for name in names or () if name not in known]:
        raise KeyError(f"Expected tables among {', '.join(known)}. Received: {unknown[0]!r}")


def _pair(table: str, key: Mapping[str, Any]) -> tuple[Columns, Columns]:
    """A foreign key as a key of `link`."""
    one, two = (
        tuple(f"{name}.{column}" for column in key[columns])
        for name, columns in (
            (table, "constrained_columns"),
            (key["referred_table"], "referred_columns"),
        )
    )
    return (one[0], two[0]) if len(one) == 1 else (one, two)


def _columns(connection: Any, table: Any) -> dict[str, pa.Array]:
    """The columns of a table, in the order of its primary key."""
    is_sqlite = connection.dialect.name == "sqlite"
    chosen, binary = [], []
    for column in table.columns:
        if isinstance(column.type, sqlalchemy.LargeBinary):
            binary.append(column.name)
            continue
        if is_sqlite and isinstance(column.type, _TIMES):  # SQLite keeps texts: as they are
            column = sqlalchemy.type_coerce(column, sqlalchemy.String).label(column.name)
        elif is_sqlite and isinstance(column.type, sqlalchemy.Numeric):
            column = sqlalchemy.type_coerce(column, sqlalchemy.Float).label(column.name)
        chosen.append(column)
    if binary:
        warnings.warn(
            f"Bytes are not read: {listed(table.name, [[name] for name in binary])}", stacklevel=6
        )
    query = sqlalchemy.select(*chosen).order_by(*table.primary_key.columns)
    streamed = connection.execution_options(stream_results=True, yield_per=_ROWS)
    parts: list[list[pa.Array]] = [[] for _ in chosen]
    for rows in streamed.execute(query).partitions():
        for part, column, values in zip(parts, chosen, zip(*rows, strict=True), strict=True):
            part.append(to_arrow(values, f"{table.name}.{column.name}"))
    return {
        column.name: joined(part, column.name) if part else pa.nulls(0)
        for column, part in zip(chosen, parts, strict=True)
    }


def write_table(database: Source, name: str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows to a new table of a database, all or none; their number is returned.

    Columns and their types are those of the first row.

    Raises:
        ValueError: if there is such a table.
    """
    types = {bool: sqlalchemy.Boolean, int: sqlalchemy.BigInteger, float: sqlalchemy.Float}
    rows, table, n = iter(rows), None, 0
    with _engine(database) as engine, engine.begin() as connection:
        if sqlalchemy.inspect(connection).has_table(name):
            raise ValueError(f"Expected the name of a new table. Received: {name!r}")
        while some := [dict(row) for row in itertools.islice(rows, _ROWS)]:
            if table is None:
                columns: list[sqlalchemy.Column[Any]] = [
                    sqlalchemy.Column(column, types.get(type(value), sqlalchemy.Text))
                    for column, value in some[0].items()
                ]
                table = sqlalchemy.Table(name, sqlalchemy.MetaData(), *columns)
                table.create(connection)
            connection.execute(table.insert(), some)
            n += len(some)
    return n


@contextlib.contextmanager
def _engine(database: Source) -> Iterator[Any]:
    """The engine of a database, which is disposed of if it is made here."""
    if not isinstance(database, str):
        yield database
        return
    engine = sqlalchemy.create_engine(database)
    try:
        yield engine
    finally:
        engine.dispose()

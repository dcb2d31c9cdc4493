"""Own data: records in files, and linked tables in folders and databases."""

import contextlib
import difflib
import hashlib
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet

from keras_mmil._support.digests import checksum_of_file
from keras_mmil._support.types import PathLike
from keras_mmil.cli.options import TrainSettings
from keras_mmil.records import Schema, csv_files
from keras_mmil.records.database import Database, is_database, is_url
from keras_mmil.records.fields import scalar_types
from keras_mmil.records.files import ENDINGS, Files, ending, list_files, unpacked
from keras_mmil.records.keys import Columns, columns_in, columns_of_table, find
from keras_mmil.records.linking import Links
from keras_mmil.records.moments import like_those
from keras_mmil.records.sources import batches, read_all

__all__ = ["Read", "check_not_input", "did_you_mean", "new_records", "read", "users_errors"]

_ROWS = 4096  # records of a piece that is predicted
_N_SHOWN = 12


@contextlib.contextmanager
def users_errors() -> Iterator[None]:
    """Put errors about data into the words of the command line."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        text = str(error.args[0]) if error.args else str(error)
        if "Received: " not in text:  # a bug, and no message about data
            raise
        text = re.sub(r"\b(orphans|records|decimal)=('[^']*')", r"--\1 \2", text)
        text = re.sub(r"\bat_most=([0-9]+)", r"--at-most \1", text)
        raise ValueError(text.replace(", see `keras_mmil.records.Files`", "")) from error


def check_not_input(path: PathLike, data: PathLike, flag: str) -> None:
    """Raise ValueError if a file to write to is one that the data are read from."""
    if is_url(data):
        return
    out, source = Path(path).resolve(), Path(data).resolve()
    is_input = out == source or (out.exists() and (source in out.parents or out.samefile(source)))
    if is_input:
        raise ValueError(
            f"Expected another file to write to than the data. Received: {flag} {path}, which is "
            f"read as {data}"
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint in brackets about the names that an unknown name may stand for."""
    names = list(dict.fromkeys(known))
    ends_alike = [each for each in names if each.endswith(f".{name}") or name.endswith(f".{each}")]
    close = ends_alike[:3] or difflib.get_close_matches(name, names, n=3)
    if close:
        return f" (did you mean {' or '.join(map(repr, close))}?)"
    more = ", …" if len(names) > _N_SHOWN else ""
    return f" (there are {', '.join(names[:_N_SHOWN])}{more})"


class Read(NamedTuple):
    """All records of a file, a folder, or a database.

    Attributes:
        links: how the tables are linked; None without tables.
        unread: the tables that are not read.
        files: SHA-256 of the files by their paths in the folder, or of the tables of a database.
    """

    records: pa.Array
    links: Links | None
    unread: Sequence[str]
    files: Mapping[str, str]


def read(settings: TrainSettings) -> Read:
    """Read the data of a training; ValueError if they are not those that the settings know."""
    path, where = Path(settings.data), None
    if not is_database(settings.data):
        where = _located(path, settings.tables, settings.keys, settings.top)
    with users_errors():
        if isinstance(where, Path):
            files = _unchanged(_checksums(path, where), settings)
            records = read_all(Files(where, settings.records, settings.decimal))
            return Read(records, None, [], files)
        for flag, value in (("--records", settings.records), ("--decimal", settings.decimal)):
            if value is not None:
                raise ValueError(
                    f"Expected records in files, for {flag}. Received: {flag} {value}, and tables"
                )
        if where is None:
            database = Database.read(settings.data, settings.tables)
        else:
            database = _database_of(path, where, settings.keys)
        columns, keys = database.tables, settings.keys or database.keys
        if is_url(settings.data):
            files = {name: _checksum(of_table) for name, of_table in columns.items()}
        else:
            files = _checksums(path, path if where is None else where)
        files = _unchanged(files, settings)
        top = settings.top or _top(columns, keys, settings.target)
        options = (settings.orphans, settings.hops, settings.at_most, settings.seed)
        links, linked = Links.of(top, keys, *options).within(columns)
        unread = sorted({*database.names} - linked.keys())
        return Read(links.link(linked), links, unread, files)


def _database_of(
    folder: Path, where: Mapping[str, Path], keys: Sequence[tuple[Columns, Columns]]
) -> Database:
    """The tables of files in a folder, and without keys those that names and values suggest."""
    columns = {name: columns_of_table(name, file) for name, file in where.items()}
    proposed = () if keys else tuple(find(columns))
    if not keys and not proposed:
        raise ValueError(
            "Expected --key, such as --key orders.customer=customers.id, for a folder of "
            "several tables whose names and values suggest none. "
            f"Received: {folder} with {_shown(where)}"
        )
    return Database(columns, [*_tables_in(folder)], (), proposed)


def _checksums(path: Path, where: Path | Mapping[str, Path]) -> dict[str, str]:
    files = [where] if isinstance(where, Path) else [*where.values()]
    if where == path and path.is_dir():
        files = [each.path for each in list_files(path)]
    folder = path if path.is_dir() else path.parent
    return {file.relative_to(folder).as_posix(): checksum_of_file(file) for file in files}


def _checksum(columns: Mapping[str, pa.Array]) -> str:
    batch = pa.RecordBatch.from_arrays([*columns.values()], [*columns])
    content = batch.schema.serialize().to_pybytes() + batch.serialize().to_pybytes()
    return hashlib.sha256(content).hexdigest()


def _unchanged(files: dict[str, str], settings: TrainSettings) -> dict[str, str]:
    """The checksums; ValueError if a run knows others."""
    known = settings.files or files
    if changed := sorted(x for x in {*files, *known} if files.get(x) != known.get(x)):
        raise ValueError(
            "Expected the data of the run as they were. "
            f"Received: {settings.data}, of which {', '.join(changed)} has changed"
        )
    return files


def new_records(
    schema: Schema,
    data: PathLike,
    records: str | None = None,
    decimal: str | None = None,
    as_of: str | None = None,
    times: Mapping[str, str | None] | None = None,
) -> Iterator[pa.Array]:
    """Records to predict, like those of a schema, some at a time; linked tables at once."""
    links, path = schema.links, Path(data)
    if links is None and is_database(data):
        raise ValueError(
            "Expected a file or a folder, as that which the run was trained on. "
            f"Received: {data}, a database"
        )
    if links is not None and not is_database(data) and path.is_file():
        raise ValueError(
            "Expected a folder of tables or a database, as that which the run was trained on. "
            f"Received: {data}, a file"
        )
    keys, top = (None, None) if links is None else (links.keys, links.top)
    where: Any = None if is_database(data) else _located(path, None, keys, top)
    with users_errors():
        if links is not None and (where is None or isinstance(where, dict)):
            tables = Database.read(str(data), links.names).tables if where is None else where
            pieces: Iterator[pa.Array] = iter([links.link(tables, schema.root)])
        else:
            types = scalar_types(schema.root.parts)
            source = Files(where, records, decimal) if isinstance(where, Path) else where
            pieces = (batch.records for batch in batches(source, types=types))
        for piece in pieces:
            if as_of is not None:
                piece = like_those(piece, schema, as_of, times)
            for start in range(0, len(piece), _ROWS):
                yield piece[start : start + _ROWS]


def _located(
    path: Path,
    tables: Sequence[str] | None,
    keys: Sequence[Sequence[Columns]] | None,
    top: str | None,
) -> Path | dict[str, Path]:
    """The file or folder of the records, or the files of tables by name.

    With None for keys, only records are accepted.
    """
    if not path.exists():
        raise FileNotFoundError(f"Expected a file or a folder with data. Received: {path}")
    is_linked = bool(tables or keys or top)
    if not path.is_dir():
        if is_linked:
            raise ValueError(
                "Expected a folder of tables, for --tables, --key and --top. "
                f"Received: {path}, a file"
            )
        return path
    found = _tables_in(path)
    if is_linked:
        return _chosen(path, found, tables, keys or (), top)
    if len(found) == 1:
        (file,) = found.values()
        return file
    if not found or _are_alike([*found.values()]):
        list_files(path)  # raises if there are none
        return path
    if keys is not None:
        return found
    raise ValueError(
        "Expected one file of records, as those that the run was trained on. "
        f"Received: {path} with {_shown(found)}"
    )


def _shown(names: Collection[str]) -> str:
    more = f", … ({len(names)} in all)" if len(names) > _N_SHOWN else ""
    return ", ".join([*names][:_N_SHOWN]) + more


def _are_alike(files: Sequence[Path]) -> bool:
    """Whether files are parts of the same records, rather than tables: they have the same fields.

    In JSON, where fields may be absent, a few files must have most fields in common.
    """
    if len({ending(file) for file in files}) > 1:
        return False
    if ending(files[0]) == ".parquet":
        return len({frozenset(pyarrow.parquet.read_schema(file).names) for file in files}) == 1
    if ending(files[0]) in (".csv", ".tsv"):
        return len({frozenset(csv_files.columns(file)) for file in files}) == 1
    some = [files[i] for i in {0, len(files) // 2, len(files) - 1}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come when the records are read
        fields = [_fields_of(file) for file in some]
    return all(2 * len(fields[0] & each) > len(fields[0] | each) for each in fields)


def _fields_of(file: Path) -> set[str]:
    """The names of the fields of the first records in a file."""
    for batch in batches([file, file]):  # read as one of several
        type_ = batch.records.type
        return {field.name for field in type_} if pa.types.is_struct(type_) else set()
    return set()


def _tables_in(folder: Path) -> dict[str, Path]:
    """The files of a folder that may be tables, by their names without endings."""
    found: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if not file.is_file() or ending(file) not in ENDINGS or file.name.startswith((".", "_")):
            continue
        stem = unpacked(file).stem
        if stem in found:
            raise ValueError(
                f"Expected one file for each table. Received: {found[stem].name} and {file.name} "
                f"in {folder}"
            )
        found[stem] = file
    return found


def _chosen(
    folder: Path,
    found: Mapping[str, Path],
    tables: Sequence[str] | None,
    keys: Sequence[Sequence[Columns]],
    top: str | None,
) -> dict[str, Path]:
    """The tables that are named, or else those that keys lead to."""
    columns = [column for pair in keys for side in pair for column in columns_in(side)]
    tables_of = {column: _table_of(column, found) for column in columns}
    if unlinked := [column for column, name in tables_of.items() if name is None]:
        raise ValueError(
            f"Expected the tables of the keys in {folder}. Received: {unlinked[0]}, of no table "
            f"there{did_you_mean(unlinked[0].partition('.')[0], found)}"
        )
    for name in [*(tables or ()), *([] if top is None else [top])]:
        if name not in found:
            raise ValueError(
                f"Expected names of tables in {folder}. Received: {name}{did_you_mean(name, found)}"
            )
    if tables:
        return {name: found[name] for name in tables}
    if not keys:  # which are found in the tables
        return dict(found)
    linked = {top, *tables_of.values()}
    return {name: file for name, file in found.items() if name in linked}


def _table_of(column: str, tables: Iterable[str]) -> str | None:
    """The table of a column: the longest name that it begins with."""
    return max((name for name in tables if column.startswith(f"{name}.")), key=len, default=None)


def _top(
    columns: Mapping[str, Mapping[str, pa.Array]], keys: Sequence[Sequence[Columns]], target: str
) -> str:
    """The table with the target; of several, the one that refers to no other."""
    names = {target, target.partition(".")[0]}
    found = [name for name, of_table in columns.items() if names & of_table.keys()]
    if not found:
        known = [column for of_table in columns.values() for column in of_table]
        raise ValueError(
            "Expected a column of one of the tables as --target. "
            f"Received: {target}{did_you_mean(target, known)}"
        )
    if len(found) > 1:
        children = {_table_of(columns_in(child)[0], columns) for child, _ in keys}
        found = [name for name in found if name not in children] or found
    if len(found) > 1:
        raise ValueError(
            f"Expected --top, one of the tables with a column {target}: {', '.join(found)}. "
            "Received: none"
        )
    return found[0]

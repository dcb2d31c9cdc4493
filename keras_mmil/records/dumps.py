"""Dumps of MySQL and MariaDB: the tables that their statements make, and the keys."""

import io
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from keras_mmil.records.files import DAMAGES, TextFile, check_packing
from keras_mmil.records.keys import Columns, listed
from keras_mmil.records.to_arrow import joined

__all__ = ["read_dump"]

Found: TypeAlias = tuple[
    dict[str, dict[str, pa.Array]], list[str], tuple[tuple[Columns, Columns], ...]
]

_CHUNK = 2**24  # bytes that are read at once
_BATCH = 2**22  # bytes of rows that become Arrow at once
_N_SHOWN = 60  # characters of a statement
_UTF_8 = ("utf8", "utf8mb3", "utf8mb4", "ascii", "binary")


def read_dump(path: Path, wanted: Collection[str] | None = None) -> Found:
    """What is in a file that `mysqldump`, `mariadb-dump`, HeidiSQL or phpMyAdmin wrote.

    The file is read as a stream, of which the rows of tables remain. Views are not read.

    Args:
        path: of the file, which may end in .gz or .zst.
        wanted: names of the tables to read; None for all.

    Returns:
        Columns of the tables, in the order of their rows; the names of all tables; and keys as
        those of `link`.

    Raises:
        ValueError: for statements and values that are not read, with their line.
    """
    dump = _Dump(path, wanted)
    for line, statement in _statements(path):
        dump.run(line, statement)
    if not dump.tables:
        raise ValueError(f"Expected a dump with tables. Received: {path}")
    read = {name: table.finish() for name, table in dump.tables.items() if dump.is_wanted(name)}
    for table in dump.tables.values():
        for message in table.said:
            warnings.warn(message, stacklevel=4)  # of who calls `from_database`
    return read, [*dump.tables], tuple(dump.declared())


# Statements --------------------------------------------------------------------------------------

_STRING = r"'(?:[^'\\]++|\\.)*+'"
_COMMENT = r"/\*.*?\*/|--(?=\s)[^\n]*+\n|\#[^\n]*+\n"
# Comments, also those that some servers would execute, and the statement after them. What has
# another delimiter are triggers and routines. Nothing matches that is not read to its end.
_COMMENTS = re.compile(rf"(?:\s++|{_COMMENT})*+".encode(), re.DOTALL)
_STATEMENT = re.compile(
    rf"""(?:\s++|{_COMMENT})*+(?P<statement>(?i:DELIMITER)\s.*?\n(?i:DELIMITER)\s*;
    |(?!(?i:DELIMITER)\s)(?:[^'"`;/\#-]++|{_STRING}|"(?:[^"\\]++|\\.)*+"|`[^`]*+`|{_COMMENT}
    |/(?!\*)|-(?!-\s))*+;)""".encode(),
    re.DOTALL | re.VERBOSE,
)
_CHARSET = re.compile(rb"\bSET NAMES '?(\w+)", re.IGNORECASE)


def _statements(path: Path) -> Iterator[tuple[int, bytes]]:
    """The statements of a file, without the semicolon, and the line where each starts."""
    line, size, rest, is_end = 1, 0, b"", False
    with TextFile(path) as file:
        while not is_end:
            try:
                chunk = file.read(max(_CHUNK, len(rest)))
            except DAMAGES as error:
                raise ValueError(
                    f"Expected a complete dump. Received: {path}: {error}, in line {line} or later"
                ) from error
            size, is_end = size + len(chunk), not chunk
            check_packing(path, size)
            buffer, at = rest + (chunk or b"\n"), 0
            while match := _STATEMENT.match(buffer, at):
                start = match.start("statement")
                line += buffer.count(b"\n", at, start)
                is_set = buffer[start : start + 3].upper() == b"SET"
                said = buffer[at : match.end() if is_set else start]
                if (found := _CHARSET.search(said)) and found[1].decode().lower() not in _UTF_8:
                    raise _refused("a dump in UTF-8", found[0], line, path)
                yield line, match["statement"][:-1]
                line += match["statement"].count(b"\n")
                at = match.end()
            rest = buffer[at:]
    if left := _COMMENTS.sub(b"", rest, count=1):
        line += rest.count(b"\n") - left.count(b"\n")
        raise _refused("complete statements", left, line, path)


def _refused(expected: str, received: bytes, line: int, path: Path) -> ValueError:
    shown = " ".join(received[:_N_SHOWN].decode(errors="replace").split())
    more = " …" if len(received) > _N_SHOWN else ""
    return ValueError(f"Expected {expected}. Received: {shown}{more}, in line {line} of {path}")


# Tables ------------------------------------------------------------------------------------------

_NAME = r'(?:`(?:[^`]|``)+`|"[^"]+"|[^\s`"\'(),.;]+)'
_TABLE = rf"(?:{_NAME}\s*\.\s*)?({_NAME})"  # after the name of its database
_NAMES = rf"\(((?:\s*{_NAME}\s*,?)+)\)"
_FLAGS = re.IGNORECASE | re.DOTALL
_INSERT = re.compile(
    rf"(?:INSERT|REPLACE)(?:\s+IGNORE)?\s+INTO\s+{_TABLE}\s*(?:{_NAMES}\s*)?VALUES?\b".encode(),
    _FLAGS,
)
_CREATE = re.compile(rf"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_TABLE}\s*(?=\()", _FLAGS)
_ALTER = re.compile(rf"ALTER\s+TABLE\s+(?:ONLY\s+)?{_TABLE}", _FLAGS)
_DROP = re.compile(rf"DROP\s+TABLE\s+(?:IF\s+EXISTS\s+)?{_TABLE}\s*$", _FLAGS)
_OTHERS = re.compile(  # which change no rows; CREATE TABLE … SELECT is none of them
    r"$|(?:SET|USE|LOCK|UNLOCK|START|BEGIN|COMMIT|DROP|DELIMITER)\b|CREATE\s(?!\s*TABLE\b)", _FLAGS
)
_FOREIGN = re.compile(
    rf"\bFOREIGN\s+KEY\s*(?:{_NAME}\s*)?{_NAMES}\s*REFERENCES\s+{_TABLE}\s*{_NAMES}", _FLAGS
)
_NO_COLUMN = re.compile(
    r"(?:PRIMARY|UNIQUE|FOREIGN|FULLTEXT|SPATIAL|CONSTRAINT|CHECK|KEY|INDEX|PERIOD)\b", _FLAGS
)
_COLUMN = re.compile(rf"({_NAME})\s+(\w+)\s*(?:\(([\d\s,]*)\))?(.*)", _FLAGS)
_OF_CODE = re.compile(rf'(`[^`]*`|"[^"]*")|({_STRING})|{_COMMENT}', re.DOTALL)
_BRACKETS = re.compile(r'`[^`]*`|"[^"]*"|([(),])')


@dataclass
class _Dump:
    path: Path
    wanted: Collection[str] | None
    tables: dict[str, "_Table"] = field(default_factory=dict)
    keys: list[tuple[str, list[str], str, list[str]]] = field(default_factory=list)

    def is_wanted(self, name: str) -> bool:
        return self.wanted is None or name in self.wanted

    def run(self, line: int, statement: bytes) -> None:
        """Do what a statement says."""
        if insert := _INSERT.match(statement):
            self._insert(line, statement, insert)
            return
        text = _OF_CODE.sub(_code, statement.decode(errors="replace")).strip()
        create, drop, alter = _CREATE.match(text), _DROP.match(text), _ALTER.match(text)
        if create:
            name = _unquoted(create[1])
            if name in self.tables:
                raise _refused("tables of different names", statement, line, self.path)
            self.tables[name] = _Table(name, _columns(text[create.end() :]), self.path)
        elif drop:
            before = self.tables.pop(_unquoted(drop[1]), None)
            if before is not None and before.line:
                raise _refused("a dump of one database", statement, line, self.path)
        elif not alter and not _OTHERS.match(text):
            raise _refused("statements of MySQL's dumps", statement, line, self.path)
        if head := create or alter:
            name = _unquoted(head[1])
            for one, other, two in _FOREIGN.findall(text):
                self.keys.append((name, _list(one), _unquoted(other), _list(two)))

    def _insert(self, line: int, statement: bytes, head: re.Match[bytes]) -> None:
        name = _unquoted(head[1].decode())
        table = self.tables.get(name)
        if table is None:
            raise _refused("CREATE TABLE before its rows", statement, line, self.path)
        if not self.is_wanted(name):
            return
        columns = _list(head[2].decode()) if head[2] else [*table.columns]
        given = {name for name, column in table.columns.items() if not column.is_generated}
        if not given <= {*columns} <= table.columns.keys():
            raise _refused(f"values of {', '.join(table.columns)}", statement, line, self.path)
        table.add(columns, self._csv(line, statement[head.end() :]), line)

    def _csv(self, line: int, values: bytes) -> bytes:
        """The rows of INSERT as CSV, in which only the apostrophe is special."""
        parts = _TEXT.split(values)
        plain = b"'".join(parts[::2])
        if _MAYBE_BYTES.search(plain):
            parts = _LITERAL.split(values)
            plain = b"'".join(parts[::2])
        end = found.end() if (found := _ROWS.match(plain)) else 0
        if end < len(plain):
            raise _refused("rows of literals", plain[end:].lstrip(b", \r\n"), line, self.path)
        plain = _INTRODUCER.sub(b"", plain).translate(None, b" \t\r\n")
        parts[::2] = plain.replace(b"),(", b"\n")[1:-1].split(b"'")
        parts[1::2] = [x if x[0] == _QUOTE and b"\\" not in x else _quoted(x) for x in parts[1::2]]
        return b"".join(parts)

    def declared(self) -> Iterator[tuple[Columns, Columns]]:
        """The keys between tables that are wanted; names of MySQL may differ in case."""
        tables = {name.lower(): name for name in self.tables if self.is_wanted(name)}
        for child, columns, parent, ids in self.keys:
            if {child.lower(), parent.lower()} <= tables.keys():
                one, two = (
                    self.tables[tables[name.lower()]].paths(of_table)
                    for name, of_table in ((child, columns), (parent, ids))
                )
                yield (one[0], two[0]) if len(one) == 1 else (one, two)


def _code(match: re.Match[str]) -> str:
    """Names as they are, no texts, and a space for comments."""
    return match[1] or ("''" if match[2] else " ")


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name[:1] in '`"' else name


def _list(names: str) -> list[str]:
    return [_unquoted(name) for name in re.findall(_NAME, names)]


def _columns(text: str) -> dict[str, "_Column"]:
    """The columns of CREATE TABLE, from the bracket on."""
    items, depth, start = [], 0, 1
    for match in _BRACKETS.finditer(text):
        depth += {"(": 1, ")": -1}.get(match[1], 0)
        if (match[1] == "," and depth == 1) or depth == 0:
            items.append(text[start : match.start()].strip())
            start = match.end()
        if depth == 0:
            break
    found = [_COLUMN.match(item) for item in items if not _NO_COLUMN.match(item)]
    return {_unquoted(x[1]): _Column.of(x[2].lower(), x[3], x[4]) for x in found if x}


# Values ------------------------------------------------------------------------------------------

_QUOTE = ord("'")
_TEXT = re.compile(rf"({_STRING})".encode(), re.DOTALL)
_LITERAL = re.compile(  # slower
    rf"({_STRING}|\bb'[01]*+'|\bx'[0-9a-f]*+'|\b0x[0-9a-f]++)".encode(), re.DOTALL | re.IGNORECASE
)
_MAYBE_BYTES = re.compile(rb"[bxBX]'|0[xX]")
_VALUE = r"(?:NULL|[-+]?[0-9.]++(?:e[-+]?[0-9]++)?|(?:_\w++\s*+)?'++)"  # ' for each literal
_ROW = rf"\s*+\(\s*+{_VALUE}(?:\s*+,\s*+{_VALUE})*+\s*+\)\s*+"
_ROWS = re.compile(rf"{_ROW}(?:,{_ROW})*+".encode(), re.IGNORECASE)
_INTRODUCER = re.compile(rb"_\w+\s*(?=')")  # of the character set of a literal
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPED = {b"0": b"\0", b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a"}
_ESCAPED |= {b"%": rb"\%", b"_": rb"\_", b"'": b"''"}

_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year", "bool"}
_FLOATS, _DECIMALS = {"float", "double", "real"}, {"decimal", "numeric", "dec", "fixed"}
_SHAPES = {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"}
_SHAPES |= {"multipolygon", "geometrycollection", "geomcollection"}
_TIMES = {"date": pa.date32(), "datetime": pa.timestamp("us"), "timestamp": pa.timestamp("us")}
_MOST_DIGITS = 38  # of numbers that Arrow reads from CSV
_NO_DATE = "0000-00-00"


def _quoted(literal: bytes) -> bytes:
    """A literal with escapes, or of bits or bytes, as a text of CSV."""
    if literal[0] == _QUOTE:
        return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), literal)
    digits, base = literal[2:].strip(b"'"), 2 if literal[:1] in b"bB" else 16
    n = -(-len(digits) // (8 if base == 2 else 2))
    content = int(digits or b"0", base).to_bytes(n)
    return b"'" + content.replace(b"'", b"''") + b"'"


@dataclass(frozen=True)
class _Column:
    """The type of a column: `csv` of its values in CSV, and `type` at last; None for bytes."""

    csv: pa.DataType | None
    type: pa.DataType | None
    is_generated: bool

    @classmethod
    def of(cls, name: str, sizes: str | None, more: str) -> "_Column":
        """The column of a type, with what is behind its name."""
        numbers = [int(x) for x in (sizes or "").split(",") if x.strip()]
        csv: pa.DataType | None = pa.string()
        type_ = csv
        if name in _INTEGERS:
            is_large = name == "bigint" and re.search(r"\bUNSIGNED\b", more, _FLAGS)
            csv = type_ = pa.uint64() if is_large else pa.int64()
        elif name in _FLOATS:
            csv = type_ = pa.float64()
        elif name in _DECIMALS:
            precision, scale = [*numbers, 0][:2] if numbers else (10, 0)
            if precision <= _MOST_DIGITS:
                csv = type_ = pa.decimal128(precision, scale)
            else:
                type_ = pa.decimal256(precision, scale)
        elif name == "bit":
            csv, type_ = pa.binary(), pa.uint64() if numbers and numbers[0] > 1 else pa.bool_()
        elif name.endswith(("blob", "binary")) or name in _SHAPES:
            csv = type_ = None
        else:
            type_ = _TIMES.get(name, csv)
        return cls(csv, type_, re.search(r"\bAS\s*\(", more, _FLAGS) is not None)


@dataclass
class _Table:
    """A table, and its rows: as CSV from a line on, and as Arrow before."""

    name: str
    columns: dict[str, _Column]
    path: Path
    line: int = 0
    given: Sequence[str] = ()
    waiting: list[bytes] = field(default_factory=list)
    size: int = 0
    batches: list[pa.Table] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def paths(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Columns as in keys; names of MySQL may differ in case."""
        known = {name.lower(): name for name in self.columns}
        return tuple(f"{self.name}.{known.get(name.lower(), name)}" for name in columns)

    def add(self, columns: Sequence[str], rows: bytes, line: int) -> None:
        """Add rows of CSV with values of some columns."""
        if columns != self.given or self.size > _BATCH:
            self._flush()
        if not self.waiting:
            self.given, self.line = columns, line
        self.waiting.append(rows)
        self.size += len(rows)

    def _flush(self) -> None:
        if not self.waiting:
            return
        types = {name: self.columns[name].csv for name in self.given}
        content = b"\n".join(self.waiting)
        try:
            batch = pyarrow.csv.read_csv(
                io.BytesIO(content),
                pyarrow.csv.ReadOptions(
                    column_names=self.given, block_size=len(content) + 1, use_threads=False
                ),
                pyarrow.csv.ParseOptions(
                    quote_char="'", newlines_in_values=True, ignore_empty_lines=False
                ),
                pyarrow.csv.ConvertOptions(
                    column_types={name: x or pa.binary() for name, x in types.items()},
                    null_values=["NULL", "null"],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"Expected values of the types of {self.name!r}. Received: {error}, in line "
                f"{self.line} of {self.path} or later"
            ) from error
        self.batches.append(batch.select([name for name, x in types.items() if x is not None]))
        self.waiting, self.size = [], 0

    def finish(self) -> dict[str, pa.Array]:
        """The columns."""
        self._flush()
        read, binary, generated = {}, [], []
        for name, column in self.columns.items():
            parts = [x.column(name) for x in self.batches if name in x.column_names]
            if column.csv is None:
                binary.append([name])
            elif column.is_generated and len(parts) < len(self.batches):
                generated.append([name])
            else:
                chunks = [chunk for part in parts for chunk in part.chunks]
                array = joined(chunks, name) if chunks else pa.nulls(0, column.csv)
                read[name] = self._typed(name, array, column.type)
        for what, names in (("Bytes", binary), ("Generated columns without values", generated)):
            if names:
                self.said.append(f"{what} are not read: {listed(self.name, names)}")
        return read

    def _typed(self, name: str, array: pa.Array, type_: pa.DataType) -> pa.Array:
        if array.type == type_:
            return array
        if pa.types.is_binary(array.type):
            bits = [None if x is None else int.from_bytes(x) for x in array.to_pylist()]
            return pa.array(bits, pa.uint64()).cast(type_)
        if type_ in _TIMES.values():
            array = pc.if_else(pc.starts_with(array, _NO_DATE), None, array)
        try:
            return array.cast(type_)
        except pa.ArrowInvalid as error:  # such as 2024-02-00, a month
            self.said.append(f"Dates are read as texts: {self.name}.{name}: {error}")
            return array

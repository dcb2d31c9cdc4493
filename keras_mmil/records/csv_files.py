"""Tables in files of CSV."""

import csv
import functools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from keras_mmil.records import arrow
from keras_mmil.records.files import DAMAGES, TextFile, check_packing, largest_record, unpacked

__all__ = ["columns", "texts", "typed"]

_SEPARATORS = (",", ";", "\t", "|")
_SAMPLE = 2**16  # bytes in which separators are looked for
_CHUNK = 2**22
_STRADDLES = "straddling object"
_MISSING = [x for x in pyarrow.csv.ConvertOptions().null_values if x]  # in numbers and booleans

_LINE = re.compile("[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BOOLEAN = "^(true|True|TRUE|false|False|FALSE)$"
_BIT = "^(true|True|TRUE|false|False|FALSE|0|1)$"
_TIME = "^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$"
_END = r"(POINT[0-9]*)?|POINT[0-9]+)([eE][+-]?[0-9]+)?|(?i:[+-]?inf(inity)?))$"
_NUMBER = "^([+-]?([0-9]+" + _END
_NUMBER_AS_WRITTEN = "^([+-]?((0|[1-9][0-9]*)" + _END  # without leading zeros, as in 007
_INTEGER = "^[+-]?[0-9]+$"
_WITH_COMMA = "^[+-]?[0-9]+,[0-9]+$"
_THOUSANDS = "^[+-]?[0-9]{1,3}(,[0-9]{3})+$"


def texts(path: Path) -> pa.Table:
    """The rows of a file, whose first line names the columns, all as texts.

    The separator is the comma, or another one that the first lines show; in .tsv the tab.

    Raises:
        ValueError: if the file is damaged or not in UTF-8 or UTF-16, names a column twice, or has
            rows with more or fewer cells than columns; it names the line.

    Warns:
        UserWarning: of empty lines, which are left out.
    """
    try:
        content, sample = _content(path)
    except DAMAGES as error:
        raise ValueError(f"Expected a complete CSV file. Received: {path}: {error}") from error
    names, separator, n_skipped = _header(sample, path)
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ValueError(f"Expected columns of different names. Received: {twice} twice in {path}")
    try:
        table, n_empty = _read(content, separator, names, n_skipped)
    except (*DAMAGES, pa.ArrowInvalid) as error:
        detail = _first_bad_row(path, separator, names) or f"Expected CSV. Received: {error}"
        raise ValueError(f"{detail} of {path}") from error
    if n_empty:
        warnings.warn(f"{n_empty} empty lines in {path} are skipped.", stacklevel=2)
    return table


def columns(path: Path) -> list[str]:
    """The names of the columns of a file; ValueError if it is empty or damaged."""
    try:
        with TextFile(path) as file:
            sample = file.read(_SAMPLE).decode(errors="replace")
    except DAMAGES as error:
        raise ValueError(f"Expected a complete CSV file. Received: {path}: {error}") from error
    return _header(sample, path)[0]


def _header(sample: str, path: Path) -> tuple[list[str], str, int]:
    """The names of columns, the separator, and the number of empty lines above them."""
    lines = _LINE.findall(sample)
    n_skipped = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    separator = "\t" if unpacked(path).suffix == ".tsv" else _separator(lines[n_skipped:])
    names = next(csv.reader(lines[n_skipped:], delimiter=separator), [])
    if not names:
        raise ValueError(f"Expected the names of columns. Received: {path}, which is empty")
    return names, separator, n_skipped


def _content(path: Path) -> tuple[str | pa.Buffer, str]:
    """What Arrow reads: the path of a plain file, else its content; and the first lines."""
    with TextFile(path) as file:
        first = file.read(_SAMPLE)
        more = file.read(_SAMPLE)
        sample = (first + more).decode(errors="replace")
        if more:
            sample = sample[: sample.rfind("\n") + 1] or sample
        if file.is_plain:
            return str(path), sample
        parts, size = [first, more], len(first) + len(more)
        while part := file.read(_CHUNK):
            parts.append(part)
            size += len(part)
            check_packing(path, size)
    return pa.py_buffer(b"".join(parts)), sample


def _separator(lines: Sequence[str]) -> str:
    """The separator: it is in the first line, and equally often in all others."""
    regular, in_header = [], []
    for each in _SEPARATORS:
        sizes = [len(row) for row in csv.reader(lines, delimiter=each) if row]
        if sizes and sizes[0] > 1:
            in_header.append(each)
            regular += [each] * (len(set(sizes)) == 1)
    return (regular or in_header or [","])[0]


def _read(
    content: str | pa.Buffer, separator: str, names: Sequence[str], n_skipped: int
) -> tuple[pa.Table, int]:
    """The rows as texts, and how many empty lines were left out."""

    def read(ignore_empty_lines: bool, block_size: int = 2**20) -> pa.Table:
        source = pa.BufferReader(content) if isinstance(content, pa.Buffer) else content
        try:
            return pyarrow.csv.read_csv(
                source,
                pyarrow.csv.ReadOptions(skip_rows=n_skipped, block_size=block_size),
                pyarrow.csv.ParseOptions(
                    delimiter=separator,
                    newlines_in_values=True,
                    ignore_empty_lines=ignore_empty_lines,
                ),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            if _STRADDLES not in str(error) or block_size >= largest_record():
                raise
        return read(ignore_empty_lines, largest_record())

    table = read(ignore_empty_lines=False)
    is_empty = functools.reduce(pc.and_, (pc.is_null(column) for column in table.columns))
    if not pc.any(is_empty, min_count=0).as_py():
        return table, n_skipped
    filled = read(ignore_empty_lines=True)  # without empty lines, but with rows of empty cells
    return filled, n_skipped + len(table) - len(filled)


def _first_bad_row(path: Path, separator: str, names: Sequence[str]) -> str:
    """The first row with more or fewer cells than there are columns; "" for none."""
    try:
        with TextFile(path) as file:
            reader = csv.reader(_lines(file), delimiter=separator)
            for row in reader:
                if row and len(row) != len(names):
                    return (
                        f"Expected {len(names)} columns. Received: {len(row)} in line "
                        f"{reader.line_num}"
                    )
    except (*DAMAGES, csv.Error):
        pass  # Arrow's own message is better
    return ""


def _lines(file: TextFile) -> Iterator[str]:
    rest = b""
    while part := file.read(_CHUNK):
        *complete, rest = (rest + part).split(b"\n")
        yield from (line.decode(errors="replace") + "\n" for line in complete)
    yield rest.decode(errors="replace")


def typed(
    tables: Sequence[pa.Table],
    paths: Sequence[Path],
    types: Mapping[str, str] | None = None,
    decimal: str | None = None,
) -> pa.Table:
    """Tables of texts as one table of numbers, booleans, times and texts.

    An empty cell is missing. Whole numbers with leading zeros, such as 007, are texts.

    Args:
        tables: of texts, which are joined.
        paths: of their files.
        types: of columns, by name: "number", "boolean", "text" or "time". The cells decide on the
            types of the others.
        decimal: the decimal separator, "." or ","; None to find out.

    Raises:
        ValueError: if the meaning of commas in numbers is unclear.

    Warns:
        UserWarning: if commas are read as decimal points.
    """
    types = types or {}
    joined = pa.concat_tables(tables, promote_options="default")
    columns = {name: _without_empty(joined[name].combine_chunks()) for name in joined.column_names}
    open_ = [name for name in columns if types.get(name, "number") != "text"]
    if decimal is None:
        decimal = _decimal({name: columns[name] for name in open_}, paths)
    for name in open_:
        columns[name] = _converted(columns[name], types.get(name), decimal)
    return pa.table(columns)


def _decimal(columns: Mapping[str, pa.Array], paths: Sequence[Path]) -> str:
    """The decimal separator: a comma only where that is sure."""
    with_commas, is_sure = [], False
    for name, column in columns.items():
        cells = _values(column)
        if not len(cells) or not _all(cells, f"{_WITH_COMMA}|{_INTEGER}|{_THOUSANDS}"):
            if _all(cells, _pattern(_NUMBER, ".")) and _any(cells, r"\."):
                return "."
            continue
        if _any(cells, ","):
            with_commas.append(name)
            is_sure = is_sure or not _all(cells, f"{_THOUSANDS}|{_INTEGER}")
    if not with_commas:
        return "."
    where = f"{paths[0]}" + (" …" if len(paths) > 1 else "")
    if not is_sure:
        raise ValueError(
            "Expected decimal=',' or decimal='.' (then commas separate thousands), see "
            "`keras_mmil.records.Files`, as it is unclear what commas mean. "
            f"Received: {with_commas} of {where}"
        )
    warnings.warn(
        f"Commas in {with_commas} of {where} are read as decimal points; decimal='.' keeps "
        "them as texts: see `keras_mmil.records.Files`.",
        stacklevel=2,
    )
    return ","


def _without_empty(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def _pattern(pattern: str, decimal: str) -> str:
    return pattern.replace("POINT", re.escape(decimal))


def _values(column: pa.Array) -> pa.Array:
    """The cells that are not missing if numbers are expected, without blanks around them."""
    cells = pc.utf8_trim_whitespace(column.drop_null())
    return cells.filter(pc.invert(pc.is_in(cells, pa.array(_MISSING))))


def _all(values: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern), min_count=0).as_py())


def _any(values: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(values, pattern), min_count=0).as_py())


def _converted(column: pa.Array, wanted: str | None, decimal: str) -> pa.Array:
    """A column of texts as the wanted type, mixed with others where cells have another type."""
    if wanted is None:
        present = _values(column)
        if not len(present):
            return pa.nulls(len(column))
        if _all(present, _BOOLEAN) or _all(present, _pattern(_NUMBER_AS_WRITTEN, decimal)):
            return _converted(column, "number", decimal)
        if _all(present, _TIME):
            moments = pc.binary_join_element_wise("1970-01-01", _trimmed(column), " ")
            return moments.cast(pa.timestamp("s")).cast(pa.time32("s"))
        return column
    if wanted not in ("number", "boolean"):
        return column
    cells = _trimmed(column)
    is_boolean = pc.match_substring_regex(cells, _BIT if wanted == "boolean" else _BOOLEAN)
    is_number = pc.and_not(pc.match_substring_regex(cells, _pattern(_NUMBER, decimal)), is_boolean)
    nothing = pa.scalar(None, pa.string())
    parts = {
        "number": _numbers(pc.if_else(is_number, cells, nothing), decimal),
        "boolean": pc.utf8_lower(pc.if_else(is_boolean, cells, nothing)).cast(pa.bool_()),
        "text": pc.if_else(pc.or_(is_boolean, is_number), nothing, cells),
    }
    parts = {type_: part for type_, part in parts.items() if part.null_count < len(part)}
    if not parts:
        return pa.nulls(len(column), pa.float64())
    return next(iter(parts.values())) if len(parts) == 1 else arrow.mixed(parts)


def _trimmed(column: pa.Array) -> pa.Array:
    """Cells without blanks around them, null where they are missing."""
    cells = pc.utf8_trim_whitespace(column)
    is_missing = pc.is_in(cells, pa.array([*_MISSING, ""]))
    return pc.if_else(is_missing, pa.scalar(None, pa.string()), cells)


def _numbers(cells: pa.Array, decimal: str) -> pa.Array:
    cells = pc.utf8_ltrim(pc.replace_substring(cells, decimal, "."), "+")
    if _all(cells, _INTEGER):
        for type_ in (pa.int64(), arrow.WIDE):
            try:
                return cells.cast(type_)
            except pa.ArrowInvalid:
                pass  # too large
    return cells.cast(pa.float64())

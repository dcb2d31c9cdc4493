"""Records in files of JSON, read as streams."""

import codecs
import io
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from keras_mmil._support.types import Array, Ints
from keras_mmil.records import arrow
from keras_mmil.records.files import DAMAGES, LIMIT, TextFile, largest_record, most_values
from keras_mmil.records.to_arrow import records_to_arrow

__all__ = ["document", "lines"]

_EACH = "*"  # the records are the values of an object

_BLOCK = 2**24  # bytes
_CHUNK = 2**20  # characters
_ROWS = 10_000  # records of a batch that Python reads
_PIECE = 2**22  # bytes of a batch that Python reads
_CELLS = 2**23  # objects times different keys, in what is read at once
_LONG = 10_000  # bytes; shorter lines are not nested so deeply that Arrow crashes
_STRADDLES = "straddling object"
_BLANK = " \t\n\r"
_NEWLINE, _OPEN, _CLOSE, _QUOTE, _COLON, _ESCAPE = map(ord, '\n{}":\\')
_OPENING, _CLOSING = (np.frombuffer(brackets, np.uint8) for brackets in (b"{[", b"}]"))
_BEHIND_OBJECTS = np.frombuffer(b"\n,]}", np.uint8)
_BLANKS = np.frombuffer(_BLANK.encode(), np.uint8)
_BLANK_TEXT = re.compile(f"[{_BLANK}]*+")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_NEAR = 64  # characters before the end of a text within which it may be cut
_ENVELOPES = ("data", "records", "results", "rows")


def lines(path: Path) -> Iterator[tuple[pa.Array, range | Ints]]:
    """The records of a file with one in each line, and the numbers of the lines, from 1.

    Raises ValueError, which names the line, if the file is damaged, a line is no JSON, or a record
    is too large. Warns of empty lines, which are left out.
    """
    known = pa.schema([])  # of the columns that Arrow would take for times
    python = _Python(path, "line")
    with TextFile(path) as file:
        for number, block in _line_blocks(file, path):
            for first, piece, is_for_arrow in _pieces(number, block):
                result = _by_arrow(piece, known) if is_for_arrow else None
                if result is None:
                    yield from python.arrays(_decoded_lines(piece, first, python))
                else:
                    records, known = result
                    python.count_empty()
                    yield records, range(first, first + len(records))
    if python.n_empty:
        warnings.warn(f"{python.n_empty} empty lines in {path} are skipped.", stacklevel=2)


def _line_blocks(file: TextFile, path: Path) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines, and the number of the first line of each."""
    rest: list[bytes] = []
    number, n_rest, largest = 1, 0, largest_record()
    while True:
        try:
            chunk = file.read(_BLOCK)
        except DAMAGES as error:
            raise ValueError(
                f"Expected a complete JSON file in UTF-8. Received: {path}: {error}, in line "
                f"{number} or later"
            ) from error
        end = chunk.rfind(b"\n") + 1
        if end or not chunk:
            block = b"".join([*rest, chunk[:end]])
            n_rest, rest = 0, []
            if b"\r" in block:
                block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            _check_sizes(block, number, path)
            if block:
                yield number, block
            number += block.count(b"\n")
        if not chunk:
            return
        rest.append(chunk[end:])
        n_rest += len(rest[-1])
        if n_rest > largest:
            raise _too_large(f"line {number} of {path}")


def _too_large(what: str, detail: str = "") -> ValueError:
    return ValueError(
        f"Expected records of at most {largest_record() >> 20} MiB and {most_values():,} values, "
        f"or a larger {LIMIT} in the environment. Received: {what}, which has more{detail}"
    )


def _check_sizes(block: bytes, first: int, path: Path) -> None:
    """Raise where one of some lines is too long or has too many values."""
    if len(block) <= largest_record() and _n_separators(block) <= most_values():
        return
    for number, line in enumerate(block.split(b"\n"), first):
        if len(line) > largest_record() or _has_too_many_values(line):
            raise _too_large(f"line {number} of {path}")


def _n_separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _has_too_many_values(text: bytes) -> bool:
    if _n_separators(text) <= most_values():
        return False
    bare = _TEXT.sub("", text.decode(errors="replace"))  # those in texts do not count
    return _n_separators(bare.encode()) > most_values()


def _pieces(first: int, block: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Splits a block: the number of the first line, the lines, and whether Arrow may read them."""
    is_for_arrow = _is_for_arrow(block) and not _is_wide(block)
    middle = block.find(b"\n", len(block) // 2) + 1
    if is_for_arrow or len(block) <= _PIECE or not 0 < middle < len(block):
        yield first, block, is_for_arrow
    else:
        yield from _pieces(first, block[:middle])
        yield from _pieces(first + block.count(b"\n", 0, middle), block[middle:])


def _is_wide(block: bytes) -> bool:
    """Whether columns for all different keys of all objects would be too large."""
    return block.count(b"{") * _n_keys(block) > _CELLS


def _n_keys(block: bytes) -> int:
    """The approximate number of different keys."""
    padded = bytes(8) + block
    x = np.frombuffer(padded, np.uint8)
    quotes = np.flatnonzero(x == _QUOTE)
    behind = quotes[:-1] + 1 if len(quotes) and quotes[-1] + 1 == len(x) else quotes + 1
    is_blank = np.isin(x[behind], _BLANKS)
    if is_blank.any():
        others = np.flatnonzero(~np.isin(x, _BLANKS))
        behind = others[np.minimum(np.searchsorted(others, behind), len(others) - 1)]
    number = np.flatnonzero(x[behind] == _COLON)
    number = number[number > 0]
    start, end = quotes[number - 1], quotes[number]
    size = end - start
    words = np.ndarray((len(x) - 7,), "<u8", padded, strides=(1,))  # from each byte
    last = words[end - 8] >> (8 * (8 - np.minimum(size, 8))).astype(np.uint64)
    begin = np.where(size > 8, words[np.minimum(start, len(words) - 1)], 0)
    mixed = (last * np.uint64(0x9E3779B97F4A7C15)) ^ (begin * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed = (mixed ^ size.astype(np.uint64)) * np.uint64(0xD6E8FEB86659FD93)
    seen = np.zeros(2**20, bool)
    seen[mixed >> np.uint64(44)] = True
    is_long = (size > 16) | (x[start - 1] == _ESCAPE)
    if is_long.any():
        ends = zip(start[is_long], end[is_long], strict=True)
        return int(seen.sum()) + len({padded[i:j] for i, j in ends})
    return int(seen.sum())


def _by_arrow(block: bytes, known: pa.Schema) -> tuple[pa.Array, pa.Schema] | None:
    """The records of some lines, and the columns of texts that look like times.

    None if Arrow cannot read them, or has made floats of integers.
    """
    for types in (known, pa.schema([])) if len(known) else (known,):
        try:
            table, with_times = _read_block(block, types)
            if not table.num_columns:
                continue
            batches = [batch.to_struct_array() for batch in table.to_batches()]
            records = batches[0] if len(batches) == 1 else pa.concat_arrays(batches)
            if not _may_exceed_int64(records):
                return records, with_times
        except pa.ArrowMemoryError:
            raise
        except pa.ArrowException:
            # Types vary, also between blocks; or no JSON; or a type that its parser lacks, such as
            # records where nothing was in the first megabyte.
            continue
    return None


def _may_exceed_int64(array: pa.Array) -> bool:
    """Whether some floats may have been integers beyond int64, of which Arrow makes floats."""
    if pa.types.is_struct(array.type):
        return any(map(_may_exceed_int64, array.flatten()))
    if pa.types.is_list(array.type):
        return _may_exceed_int64(array.flatten())
    if not pa.types.is_floating(array.type):
        return False
    return bool(pc.any(pc.greater_equal(pc.abs(array), 2.0**63), min_count=0).as_py())


def _is_for_arrow(block: bytes) -> bool:
    """Whether Arrow's parser can be trusted with some lines.

    It crashes on nothing but nulls, and on very many levels, and accepts several objects in a line.
    So it gets only lines with one object and nothing else, short or not nested deeply.
    """
    try:
        block.decode()  # which it does not check
    except UnicodeDecodeError:
        return False
    x = np.frombuffer(block, np.uint8)
    starts = np.concatenate([[0], np.flatnonzero(x == _NEWLINE) + 1])
    if not (x[starts[starts < len(x)]] == _OPEN).all():
        return False
    closed = np.flatnonzero(x[:-1] == _CLOSE)
    if not np.isin(x[closed + 1], _BEHIND_OBJECTS).all():
        return False
    lengths = np.diff(np.append(starts, len(x)))
    long = np.flatnonzero(lengths > _LONG)
    return all(_depth(x[starts[i] :][: lengths[i]]) < _LONG // 2 for i in long)


def _depth(line: Array) -> int:
    """An upper bound of the levels of a line of JSON; brackets in texts count, too."""
    opened, closed = np.isin(line, _OPENING), np.isin(line, _CLOSING)
    return int((opened.astype(np.int32) - closed).cumsum().max(initial=0))


def _read_block(block: bytes, known: pa.Schema) -> tuple[pa.Table, pa.Schema]:
    """Lines of JSON by Arrow's parser, in which texts that look like times stay texts."""
    table = _parsed(block, known)
    with_times = [field for field in table.schema if _as_text(field.type) != field.type]
    if with_times:
        for field in with_times:
            index = known.get_field_index(field.name)
            known = known if index < 0 else known.remove(index)
            known = known.append(pa.field(field.name, _as_text(field.type)))
        # Arrow puts those that are known before the others.
        table = _parsed(block, known).select(table.column_names)
    return table, known


def _parsed(block: bytes, known: pa.Schema) -> pa.Table:
    options = pyarrow.json.ParseOptions(
        explicit_schema=known if len(known) else None, unexpected_field_behavior="infer"
    )
    try:
        table = pyarrow.json.read_json(io.BytesIO(block), parse_options=options)
    except pa.ArrowInvalid as error:
        if _STRADDLES not in str(error):
            raise
        whole = pyarrow.json.ReadOptions(block_size=len(block) + 1)
        table = pyarrow.json.read_json(io.BytesIO(block), whole, options)
    for field in table.schema:
        arrow.check_depth(field.type)
    table.validate()  # it loses nulls at the start of lists, which are then too short
    return table


def _as_text(type_: pa.DataType) -> pa.DataType:
    """An Arrow type with texts for times."""
    if pa.types.is_timestamp(type_):
        return pa.string()
    if pa.types.is_list(type_):
        return pa.list_(_as_text(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _as_text(field.type)) for field in type_])
    return type_


# Values by Python -------------------------------------------------------------------------------


class _Python:
    """Records that Python's parser reads: slower than Arrow, but of any form.

    In errors, a record of the path is a `place`: "line" or "record".
    """

    def __init__(self, path: Path, place: str) -> None:
        self._where, self._place = path, place
        self.n_empty, self._n_last_empty = 0, 0  # lines, those at the end apart
        self._n_objects, self._keys = 0, set[str]()
        self.decoder = json.JSONDecoder(object_pairs_hook=self._object)

    def count_empty(self, is_empty: bool = False) -> None:
        """Count a line, or lines, as empty or not."""
        if is_empty:
            self._n_last_empty += 1
        else:
            self.n_empty, self._n_last_empty = self.n_empty + self._n_last_empty, 0

    def named(self, number: int) -> str:
        return f"{self._place} {number} of {self._where}"

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the key {twice!r} twice in one object")
        self._n_objects += 1
        self._keys.update(result)
        return result

    def arrays(self, values: Iterable[tuple[int, Any, int]]) -> Iterator[tuple[pa.Array, Ints]]:
        """Records as arrays, and their numbers.

        Args:
            values: number, value and bytes of each record, decoded by `decoder`.
        """
        some: list[Any] = []
        numbers: list[int] = []
        size = 0
        for number, value, n_bytes in values:
            some.append(value)
            numbers.append(number)
            size += n_bytes
            if len(some) == _ROWS or size > _PIECE or self._n_cells() > _CELLS // 2:
                yield self._array(some, numbers), np.array(numbers)
                some, numbers, size = [], [], 0
        if some:
            yield self._array(some, numbers), np.array(numbers)

    def _n_cells(self) -> int:
        """An upper bound of the cells of columns for all keys of all objects."""
        return self._n_objects * len(self._keys)

    def _array(self, records: list[Any], numbers: list[int]) -> pa.Array:
        is_wide = self._n_cells() > _CELLS
        self._n_objects, self._keys = 0, set()
        return records_to_arrow(records, lambda i: self.named(numbers[i]), is_wide=is_wide)


def _no_json(error: Exception, where: str) -> ValueError:
    what = error.msg if isinstance(error, json.JSONDecodeError) else error
    return ValueError(f"Expected JSON. Received: {what}, in {where}")


def _decoded_lines(block: bytes, first: int, python: _Python) -> Iterator[tuple[int, Any, int]]:
    for number, line in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
        python.count_empty(is_empty=not line.strip())
        if not line.strip():
            continue
        where = python.named(number)
        try:
            value = python.decoder.decode(line.decode())
        except json.JSONDecodeError as error:
            raise _no_json(error, f"column {error.colno} of {where}") from error
        except (ValueError, RecursionError) as error:
            raise _no_json(error, where) from error
        yield number, value, len(line)


# Documents --------------------------------------------------------------------------------------


def document(
    path: Path, at: str | None = None, is_alone: bool = True
) -> Iterator[tuple[pa.Array, range | Ints | None]]:
    """The records of a file that is an array of objects, one object, or lines of objects.

    Args:
        path: of the file.
        at: see `Files.records`; None to find out.
        is_alone: whether this is the only file, so that one object is hardly one record.

    Returns:
        Arrays of records, with the numbers of their lines, None where the file has none.

    Raises ValueError as `lines`, and if it is unclear which objects are the records. Warns if
    records are, or may be, in an object around them.
    """
    with TextFile(path) as file:
        text = _Text(file, path)
        first = text.peek()
        if not first:
            return
        if first == "[" or at is not None:
            yield from text.arrays(text.elements() if at is None else text.inside(at))
            return
        one = text.one()
    if one is None:
        yield from lines(path)
        return
    inside = _envelope(one[0], path, is_alone) if isinstance(one[0], Mapping) else None
    records = one if inside is None else inside
    yield from text.arrays((i, each, 0) for i, each in enumerate(records))


def _envelope(value: Mapping[str, Any], path: Path, is_alone: bool) -> list[Any] | None:
    """The records in an object that is only an envelope around them; else None."""
    if (rows := _columns(value)) is not None:
        _warn(f"{path} is read as a table of {len(rows)} records, in columns as pandas writes it.")
        return rows
    bags = {
        key: each
        for key, each in value.items()
        if isinstance(each, list) and each and all(isinstance(x, Mapping) for x in each)
    }
    if len(bags) == len(value) == 1 and (key := next(iter(bags))) in _ENVELOPES:
        _warn(f"{path} is read as the {len(bags[key])} records in its {key!r}.")
        return list(bags[key])
    if not is_alone:
        return None
    keys = {frozenset(each if isinstance(each, Mapping) else ()) for each in value.values()}
    if len(value) > 1 and len(keys) == 1 and keys != {frozenset()}:
        raise ValueError(
            "Expected an array of records, also of a single one, or a record in each line; "
            f"or records='*', see `keras_mmil.records.Files`, to read each value of an object as a "
            f"record. Received: {path}, an object of {len(value)} objects with the same keys"
        )
    bags = {key: each for key, each in bags.items() if len(each) > 1}
    if bags:
        names = " or ".join(map(repr, bags))
        _warn(
            f"{path} holds one object, which is read as one record. To read the records in its "
            f"{names}, give records={next(iter(bags))!r}: see `keras_mmil.records.Files`."
        )
    return None


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=2)


def _columns(value: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The rows of a table that is an object of columns, each an object by row number."""
    columns = list(value.values())
    if not columns or not all(isinstance(column, Mapping) and column for column in columns):
        return None
    numbers = list(columns[0])
    if any(list(column) != numbers for column in columns):
        return None
    if numbers != [str(i) for i in range(len(numbers))] or all(x.isdecimal() for x in value):
        return None
    return [{key: column[number] for key, column in value.items()} for number in numbers]


class _Text:
    """JSON that is read piece by piece, and holds one value at a time."""

    def __init__(self, file: TextFile, path: Path) -> None:
        self._file, self._where = file, path
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._python = _Python(path, "record")
        self._text, self._at, self._number = "", 0, 0

    def arrays(self, values: Iterable[tuple[int, Any, int]]) -> Iterator[tuple[pa.Array, None]]:
        """Same as `_Python.arrays`, without numbers of lines."""
        return ((array, None) for array, _ in self._python.arrays(values))

    def _more(self, n: int = _CHUNK) -> bool:
        try:
            raw = self._file.read(n)
            more = self._decode(raw, not raw)
        except DAMAGES as error:
            raise ValueError(
                f"Expected a complete JSON file in UTF-8. Received: {self._where}: {error}, in "
                f"record {self._number} or later"
            ) from error
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(raw)

    def peek(self) -> str:
        """The next character that is no blank; none at the end."""
        while True:
            blank = _BLANK_TEXT.match(self._text, self._at)
            self._at = blank.end() if blank else self._at
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def _take(self, expected: str, message: str) -> None:
        if self.peek() != expected or not expected:
            raise _no_json(ValueError(message), self._python.named(self._number))
        self._at += 1

    def _value(self) -> tuple[Any, int]:
        """The next value, and its length."""
        self.peek()
        while True:
            try:
                value, end = self._python.decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if self._is_final(error) or not self._longer(error):
                    raise _no_json(error, self._python.named(self._number)) from error
                continue
            size = end - self._at
            if end < len(self._text) or self._text[end - 1] in '"}]' or not self._longer(None):
                if size > most_values() and _has_too_many_values(self._next(size)):
                    raise _too_large(self._python.named(self._number))
                self._at += size
                return value, size  # not the beginning of a number

    def _next(self, size: int) -> bytes:
        return self._text[self._at : self._at + size].encode()

    def _longer(self, error: Exception | None) -> bool:
        size = len(self._text) - self._at
        if size > largest_record() or _has_too_many_values(self._next(size)):
            detail = f", or no JSON: {getattr(error, 'msg', error)}" if error else ""
            raise _too_large(self._python.named(self._number), detail)
        # Doubled, so that long elements are not read again and again.
        return self._more(max(_CHUNK, size))

    def _is_final(self, error: Exception) -> bool:
        """Whether an error remains, however the text goes on."""
        if not isinstance(error, json.JSONDecodeError):
            return True
        return "Unterminated" not in error.msg and error.pos < len(self._text) - _NEAR

    def elements(self) -> Iterator[tuple[int, Any, int]]:
        """The elements of an array, to its end and that of the file."""
        yield from self._members("no array")
        if self.peek():
            raise ValueError(
                f"Expected the end of the file after the last record. Received: {self._where}"
            )

    def _members(self, wrong: str, opening: str = "[") -> Iterator[tuple[int, Any, int]]:
        """The values of an array or an object; `wrong` is the message if it is none."""
        self._take(opening, wrong)
        end = "}" if opening == "{" else "]"
        if self.peek() == end:
            self._at += 1
            return
        while True:
            if opening == "{":
                self._key()
            value, size = self._value()
            yield self._number, value, size
            self._number += 1
            if self.peek() == end:
                self._at += 1
                return
            self._take(",", "no comma between elements")

    def _key(self) -> Any:
        key, _ = self._value()
        self._take(":", "no colon after a key")
        return key

    def inside(self, at: str) -> Iterator[tuple[int, Any, int]]:
        """The records in an object: see `document`."""
        if at == _EACH:
            yield from self._members("no object", "{")
            return
        self._take("{", "no object")
        is_found = False
        others: list[Any] = []
        while self.peek() != "}":
            if others or is_found:
                self._take(",", "no comma between elements")
            key = self._key()
            if key == at and not is_found:
                is_found = True
                opening = "{" if self.peek() == "{" else "["
                yield from self._members(f"no array and no object in {at!r}", opening)
            else:
                self._value()
                others.append(key)
        if not is_found:
            raise ValueError(
                f"Expected an array or object of records in {at!r}. Received: {self._where} with "
                f"{', '.join(map(repr, others[:12]))}"
            )

    def one(self) -> tuple[Any] | None:
        """The only value of the file; None if there are several."""
        value, _ = self._value()
        return None if self.peek() else (value,)

"""Records in files of JSON, read as streams."""

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from keras_mmil._support.types import Array
from keras_mmil.records import arrow
from keras_mmil.records.plain import in_batches, records_to_arrow

__all__ = ["document", "lines"]

_BLOCK = 2**24  # bytes
_CHUNK = 2**20  # characters
_LONG = 10_000  # bytes of a line that is too short to be nested so deeply that Arrow crashes
_STRADDLES = "straddling object"
_BLANK = " \t\n\r"
_DAMAGES = EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError
_NEWLINE, _OPEN, _CLOSE = map(ord, "\n{}")
_OPENING, _CLOSING = (np.frombuffer(brackets, np.uint8) for brackets in (b"{[", b"}]"))
_BEHIND_OBJECTS = np.frombuffer(b"\n,]}", np.uint8)


def lines(path: Path) -> Iterator[pa.Array]:
    """The records of a file with one in each line."""
    with _opened(path) as file:
        yield from _of_line_stream(file, path)


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")


def _damaged(path: Path, number: int, error: Exception) -> ValueError:
    return ValueError(
        f"Expected a whole file of JSON in UTF-8. Received: {path}: {error}, in record {number} "
        "or later"
    )


def _of_line_stream(file: Any, path: Path) -> Iterator[pa.Array]:
    known = pa.schema([])  # of the columns that Arrow would take for times
    first = 0
    blocks = _line_blocks(file)
    while True:
        try:
            block = next(blocks, None)
        except _DAMAGES as error:
            raise _damaged(path, first, error) from error
        if block is None:
            return
        records, known = _of_block(block, known, path, first)
        yield records
        first += len(records)


def _line_blocks(file: Any) -> Iterator[bytes]:
    """Blocks of whole lines."""
    rest: list[bytes] = []
    while chunk := file.read(_BLOCK):
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join([*rest, chunk[:end]])
            rest = []
        rest.append(chunk[end:])
    last = b"".join(rest)
    if last.strip():
        yield last


def _of_block(block: bytes, known: pa.Schema, path: Path, first: int) -> tuple[pa.Array, pa.Schema]:
    """The records of some lines, and what is now known of columns of texts that look like times."""
    block = block.replace(b"\r\n", b"\n")
    if _is_for_arrow(block):
        for types in (known, pa.schema([])) if len(known) else (known,):
            try:
                table, known = _read_block(block, types)
            except pa.ArrowInvalid:  # not one form, or not that of earlier blocks, or no JSON
                continue
            if table.num_columns:
                return _struct_of(table), known
    return records_to_arrow(_decoded_lines(block, path, first), first), known


def _is_for_arrow(block: bytes) -> bool:
    """Whether Arrow's parser can be trusted with some lines.

    It crashes where it finds only nulls, or very many levels, and takes several objects in a line.
    So it gets only lines that begin as objects, of which nothing else follows in the line, and only
    short ones, or such that are not nested deeply.
    """
    try:
        block.decode()  # it does not check this, either
    except UnicodeDecodeError:
        return False
    x = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(x == _NEWLINE)
    starts = np.concatenate([[0], ends + 1])
    if not (x[starts[starts < len(x)]] == _OPEN).all():
        return False
    closed = np.flatnonzero(x[:-1] == _CLOSE)
    if not np.isin(x[closed + 1], _BEHIND_OBJECTS).all():
        return False
    lengths = np.diff(np.append(starts, len(x)))
    long = np.flatnonzero(lengths > _LONG)
    return all(_depth(x[starts[i] :][: lengths[i]]) < _LONG // 2 for i in long)


def _depth(line: Array) -> int:
    """An upper bound of the levels of a line of JSON: brackets in texts count, too."""
    opened, closed = np.isin(line, _OPENING), np.isin(line, _CLOSING)
    return int((opened.astype(np.int32) - closed).cumsum().max(initial=0))


def _struct_of(table: pa.Table) -> pa.Array:
    batches = [batch.to_struct_array() for batch in table.to_batches()]
    return batches[0] if len(batches) == 1 else pa.concat_arrays(batches)


def _read_block(block: bytes, known: pa.Schema) -> tuple[pa.Table, pa.Schema]:
    """Lines of JSON by Arrow's parser, in which texts stay texts."""
    table = _parsed(block, known)
    with_times = [field for field in table.schema if _as_text(field.type) != field.type]
    if with_times:  # texts that look like times: which are times is the schema's business
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
    """An Arrow type with texts for times, and without parts that held nothing."""
    if pa.types.is_timestamp(type_):
        return pa.string()
    if pa.types.is_list(type_):
        return pa.list_(_as_text(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _as_text(field.type)) for field in type_])
    return type_


def _decoded_lines(block: bytes, path: Path, first: int) -> list[Any]:
    decoded: list[Any] = []
    for line in block.splitlines():
        if line.strip():
            decoded.append(_decoded(line, path, first + len(decoded)))
    return decoded


def _decoded(text: bytes, path: Path, number: int) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_distinct_keys)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"Expected JSON. Received: {error}, in record {number} of {path}"
        ) from error


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} twice in one object")
    return found


def document(path: Path) -> Iterator[pa.Array]:
    """The records of a file that is an array of objects, one object, or lines of them."""
    with _opened(path) as file:
        try:
            start = file.read(1)
            while start.isspace() or (start and start in codecs.BOM_UTF8):
                start = file.read(1)
            if start != b"[":
                file.seek(0)
                content = file.read()
        except _DAMAGES as error:
            raise _damaged(path, 0, error) from error
        if start == b"[":
            with io.TextIOWrapper(file, "utf-8") as text:
                yield from in_batches(_elements(text, path))
            return
        try:
            one = json.loads(content, object_pairs_hook=_distinct_keys)
        except (ValueError, RecursionError):
            yield from _of_line_stream(io.BytesIO(content), path)
            return
        yield records_to_arrow([one])


def _elements(file: Any, path: Path) -> Iterator[Any]:
    """The elements of a JSON array whose bracket has been read, one by one."""
    decoder = json.JSONDecoder(object_pairs_hook=_distinct_keys)
    text, at, number = "", 0, 0
    while True:
        try:
            start = _start_of_next(text, at, number)
            if start is None:
                break
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            # More than it was, so that long elements are not read again and again.
            more = _more(file, max(_CHUNK, len(text) - at), path, number)
            if not more:
                raise ValueError(
                    f"Expected JSON. Received: {error}, in record {number} of {path}"
                ) from error
            text, at = text[at:] + more, 0
            continue
        yield value
        at, number = end, number + 1
    if not _is_end(text, at) or _more(file, _CHUNK, path, number).strip(_BLANK):
        raise ValueError(f"Expected the end of the file behind the last record. Received: {path}")


def _more(file: Any, n: int, path: Path, number: int) -> str:
    try:
        return str(file.read(n))
    except _DAMAGES as error:
        raise _damaged(path, number, error) from error


def _start_of_next(text: str, at: int, number: int) -> int | None:
    """Where the next element starts, None where the array ends."""
    at = _behind_blanks(text, at)
    if text.startswith("]", at):
        return None
    if number:
        if not text.startswith(",", at):
            raise ValueError("no comma between elements")
        at = _behind_blanks(text, at + 1)
    return at


def _behind_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _is_end(text: str, at: int) -> bool:
    return not text[_behind_blanks(text, at) + 1 :].strip(_BLANK)

"""Records in files of JSON, read as streams."""

import contextlib
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json

from keras_mmil.records.plain import to_arrow

__all__ = ["document", "lines"]

_ROWS = 10_000
_BLOCK = 2**24  # bytes
_CHUNK = 2**20  # characters
_STRADDLES = "straddling object"
_END = object()


def lines(path: Path) -> Iterator[pa.Array]:
    """The records of a file with one in each line."""
    with _opened(path) as file:
        yield from _of_line_stream(file, path)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(
            f"Expected a whole file of JSON in UTF-8. Received: {path}: {error}"
        ) from error


def _of_line_stream(file: Any, path: Path) -> Iterator[pa.Array]:
    known = pa.schema([])  # of the columns that Arrow would take for times
    first = 0
    for block in _line_blocks(file):
        try:
            table, known = _read_block(block, known)
        except pa.ArrowInvalid:  # not one form, or no JSON at all
            records = to_arrow(_decoded_lines(block, path, first), first=first)
            first += len(records)
            yield records
            continue
        first += table.num_rows
        for batch in table.to_batches():
            yield batch.to_struct_array()
        if not table.num_columns:  # lines of {}
            yield pa.array([{}] * table.num_rows, pa.struct([]))


def _line_blocks(file: Any) -> Iterator[bytes]:
    """Blocks of whole lines."""
    rest = b""
    while chunk := file.read(_BLOCK):
        end = chunk.rfind(b"\n") + 1
        if not end:
            rest += chunk
            continue
        yield rest + chunk[:end]
        rest = chunk[end:]
    if rest.strip():
        yield rest


def _read_block(block: bytes, known: pa.Schema) -> tuple[pa.Table, pa.Schema]:
    """Lines of JSON by Arrow's parser, in which texts stay texts."""
    table = _parsed(block, known)
    with_times = [field for field in table.schema if _as_text(field.type) != field.type]
    if with_times:  # texts that look like times: which are times is the schema's business
        for field in with_times:
            index = known.get_field_index(field.name)
            known = known if index < 0 else known.remove(index)
            known = known.append(pa.field(field.name, _as_text(field.type)))
        table = _parsed(block, known)
    return table, known


def _parsed(block: bytes, known: pa.Schema) -> pa.Table:
    options = pyarrow.json.ParseOptions(
        explicit_schema=known if len(known) else None, unexpected_field_behavior="infer"
    )
    try:
        return pyarrow.json.read_json(io.BytesIO(block), parse_options=options)
    except pa.ArrowInvalid as error:
        if _STRADDLES not in str(error):
            raise
    whole = pyarrow.json.ReadOptions(block_size=len(block) + 1)
    return pyarrow.json.read_json(io.BytesIO(block), whole, options)


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
        start = file.read(1)
        while start.isspace() or (start and start in b"\xef\xbb\xbf"):
            start = file.read(1)
        if start == b"[":
            yield from _in_chunks(_elements(io.TextIOWrapper(file, "utf-8"), path))
            return
        file.seek(0)
        content = file.read()
        try:
            one = json.loads(content, object_pairs_hook=_distinct_keys)
        except (ValueError, RecursionError):
            yield from _of_line_stream(io.BytesIO(content), path)
            return
        yield to_arrow([one])


def _in_chunks(objects: Iterator[Any]) -> Iterator[pa.Array]:
    while some := list(itertools.islice(objects, _ROWS)):
        yield to_arrow(some)


def _elements(file: Any, path: Path) -> Iterator[Any]:
    """The elements of a JSON array whose bracket has been read, one by one."""
    decoder = json.JSONDecoder(object_pairs_hook=_distinct_keys)
    text, number = "", 0
    while True:
        try:
            value, text = _next(text.lstrip(), decoder, is_first=not number)
        except (ValueError, RecursionError) as error:
            more = file.read(
                max(_CHUNK, len(text))
            )  # so that long elements are not read again and again
            if not more:
                raise ValueError(
                    f"Expected JSON. Received: {error}, in record {number} of {path}"
                ) from error
            text += more
            continue
        if value is _END:
            return
        yield value
        number += 1


def _next(text: str, decoder: json.JSONDecoder, is_first: bool) -> tuple[Any, str]:
    """The next element, or `_END`, and the text behind it."""
    if text.startswith("]"):
        return _END, text[1:]
    if not is_first:
        if not text.startswith(","):
            raise ValueError("no comma between elements")
        text = text[1:].lstrip()
    value, end = decoder.raw_decode(text)
    return value, text[end:]

"""Schemas as text."""

import os
from collections.abc import Iterable

from keras_mmil._support.formatting import table
from keras_mmil.records.fields import Field
from keras_mmil.records.statistics import Values

__all__ = ["as_html", "as_text", "named"]

_COLUMNS = ("path", "kind", "why", "missing", "distinct", "examples")
_WIDEST = 60  # characters of a column


def as_text(parts: Iterable[Field]) -> str:
    """A table with a line for each part."""
    rows = [_COLUMNS, *map(_row, parts)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if name in ("missing", "distinct") else cell.ljust(width)
            for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def as_html(parts: Iterable[Field]) -> str:
    """The same as a piece of HTML, for notebooks."""
    return table(_COLUMNS, map(_row, parts))


def named(source: object) -> str:
    """A source of records in an error: its path, or what it is."""
    is_path = isinstance(source, str | os.PathLike)
    return repr(str(source)) if is_path else f"a {type(source).__name__}"


def _row(field: Field) -> tuple[str, ...]:
    distinct = ""
    if isinstance(field.seen, Values):
        distinct = "many" if field.n_distinct is None else str(field.n_distinct)
    missing = f"{field.share_missing * 100:.0f} %"
    cells = field.path, field.kind, field.why, missing, distinct, field.examples
    return tuple(cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 1]}…" for cell in cells)

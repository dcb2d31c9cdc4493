"""Pieces of HTML for notebooks."""

import html
from collections.abc import Iterable, Sequence

__all__ = ["preformatted", "table"]


def preformatted(text: str) -> str:
    """A text as it is."""
    return f'<pre style="white-space:pre-wrap">{html.escape(text)}</pre>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts."""

    def row(tag: str, cells: Sequence[str]) -> str:
        style = ' style="text-align:left"'
        return f"<tr>{''.join(f'<{tag}{style}>{html.escape(c)}</{tag}>' for c in cells)}</tr>"

    return f"<table>{row('th', heads)}{''.join(row('td', cells) for cells in rows)}</table>"

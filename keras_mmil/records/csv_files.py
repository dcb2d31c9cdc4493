"""Tables in files of CSV."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

__all__ = ["table"]

_OTHER_SEPARATORS = (";", "\t", "|")


def table(path: Path) -> pa.Table:
    """The rows of a file of CSV, whose first line names the columns.

    An empty cell is missing. Numbers, booleans, dates and times are recognised column by column.

    Raises:
        ValueError: if the file is damaged or not in UTF-8, names a column twice, or has other
            separators than commas.
    """
    found = pyarrow.csv.read_csv(path)
    names = found.column_names
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ValueError(f"Expected columns of different names. Received: {twice} twice in {path}")
    others = [each for each in _OTHER_SEPARATORS if len(names) == 1 and each in names[0]]
    if others:
        raise ValueError(
            f"Expected columns that commas separate. Received: {path}, with {others[0]!r} in its "
            f"first line, {names[0]!r:.80}"
        )
    if binary := [name for name in names if pa.types.is_binary(found[name].type)]:
        raise ValueError(f"Expected text in UTF-8. Received: {path}, with others in {binary}")
    return pa.table({name: _without_empty(found[name]) for name in names})


def _without_empty(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_string(column.type):
        return column
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)

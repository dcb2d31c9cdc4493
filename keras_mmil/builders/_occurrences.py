"""Tables of occurrences on a grid."""

import csv
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

import numpy as np
import numpy.typing as npt

from keras_mmil._support.files import open_text
from keras_mmil._support.types import PathLike

__all__ = ["Occurrences", "read"]

_WANTED = ("species", "decimalLatitude", "decimalLongitude")


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Species and the cells of a grid where they were seen.

    Attributes:
        presence: bool [cells, species].
        centres: latitude and longitude of each cell's centre, float32 [cells, 2].
        species: their names.
        regions: names of the cells.
    """

    presence: npt.NDArray[np.bool_]
    centres: npt.NDArray[np.float32]
    species: tuple[str, ...]
    regions: tuple[str, ...]


def read(
    path: PathLike, cell: float, *, delimiter: str, quoted: bool | None, encoding: str
) -> Occurrences:
    """The table of a file; see `flora.read_occurrences`."""
    if not cell > 0:
        raise ValueError(f"Expected cells of some size. Received: cell={cell!r}")
    pairs: set[tuple[str, int, int]] = set()
    n_left_out = 0
    with open_text(path, encoding) as file:
        for where, (name, *texts) in _rows(file, path, delimiter, quoted):
            if not name or not all(texts):
                n_left_out += 1
                continue
            latitude, longitude = (_coordinate(text, where) for text in texts)
            if not (abs(latitude) <= 90 and abs(longitude) <= 180):  # NaN is on none
                raise ValueError(
                    f"Expected a place on the globe. Received: {where}: {latitude}, {longitude}"
                )
            pairs.add((name, int(latitude // cell), int(longitude // cell)))
    if n_left_out:
        warnings.warn(
            f"Left out {n_left_out} lines of {path} without species or coordinates.", stacklevel=3
        )
    if not pairs:
        raise ValueError(f"Expected occurrences. Received: {path} without any")
    species = sorted({name for name, *_ in pairs})
    cells = sorted({(row, column) for _, row, column in pairs})
    row_of = {place: i for i, place in enumerate(cells)}
    column_of = {name: i for i, name in enumerate(species)}
    presence = np.zeros((len(cells), len(species)), bool)
    for name, row, column in pairs:
        presence[row_of[row, column], column_of[name]] = True
    centres = (np.array(cells) + 0.5) * cell
    names = tuple(f"{latitude:.3f} {longitude:.3f}" for latitude, longitude in centres)
    return Occurrences(presence, centres.astype(np.float32), tuple(species), names)


def _rows(
    file: TextIO, path: PathLike, delimiter: str, quoted: bool | None
) -> Iterator[tuple[str, list[str]]]:
    """Yields where a row is, and its texts in the wanted columns, stripped of white space."""
    if quoted is None:
        quoted = delimiter != "\t"
    table = csv.reader(
        file,
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=True,
    )
    last = 0  # the line where the row before ends
    try:
        header = next(table, [])
        missing = sorted(name for name in _WANTED if header.count(name) != 1)
        if missing:
            raise ValueError(
                f"Expected columns {', '.join(_WANTED)}, each once. "
                f"Received: {path} without {missing}, or with several, among {header}"
            )
        columns = [header.index(name) for name in _WANTED]
        last = table.line_num
        for row in table:
            where = f"{path}, line {last + 1}"
            last = table.line_num
            if not row:  # an empty line
                continue
            if len(row) != len(header):
                raise ValueError(
                    f"Expected {len(header)} columns, as in the first line. "
                    f"Received: {where} with {len(row)}: {str(row)[:200]}"
                )
            found = [row[column].strip() for column in columns]
            if any("\n" in text or "\r" in text for text in found):
                raise ValueError(
                    f"Expected a species and a place on one line, so that no quotation mark is "
                    f"left open. Received: {where}: {str(found)[:200]}"
                )
            yield where, found
    except csv.Error as error:
        raise ValueError(
            f"Expected columns separated by {delimiter!r}, with quotation marks that fit "
            f"(`quoted=False` if they mean nothing). Received: {path}, line {last + 1}: {error}"
        ) from error


def _coordinate(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"Expected a coordinate. Received: {where}: {text!r}") from error

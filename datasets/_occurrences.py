"""Tables of occurrences on a grid."""

import csv
import warnings

import numpy as np

__all__ = ["read"]


def read(path, cell, delimiter):
    """What `plants.read_occurrences` makes a flora of: presence, centres of cells, and names."""
    if not cell > 0:
        raise ValueError(f"Expected cells of some size. Received: cell={cell!r}")
    wanted = ("species", "decimalLatitude", "decimalLongitude")
    pairs, n_left_out = set(), 0
    with open(path, newline="", encoding="utf-8") as file:
        table = csv.DictReader(file, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL)
        missing = set(wanted) - set(table.fieldnames or ())
        if missing:
            raise ValueError(
                f"Expected columns {', '.join(wanted)}. Received: {path} without {sorted(missing)}"
            )
        for row in table:
            name, *texts = (row[column] for column in wanted)
            if not name or not all(texts):
                n_left_out += 1
                continue
            latitude, longitude = (_coordinate(text, path, table.line_num) for text in texts)
            if not (abs(latitude) <= 90 and abs(longitude) <= 180):  # NaN is on none
                raise ValueError(
                    f"Expected a place on the globe. Received: {path}, line {table.line_num}: "
                    f"{latitude}, {longitude}"
                )
            pairs.add((name, int(latitude // cell), int(longitude // cell)))
    if n_left_out:
        warnings.warn(
            f"Left out {n_left_out} lines of {path} without species or coordinates.", stacklevel=3
        )
    if not pairs:
        raise ValueError(f"Expected occurrences. Received: {path} without any")
    species = sorted({name for name, *_ in pairs})
    cells = sorted({tuple(place) for _, *place in pairs})
    row_of = {place: i for i, place in enumerate(cells)}
    column_of = {name: i for i, name in enumerate(species)}
    presence = np.zeros((len(cells), len(species)), bool)
    for name, *place in pairs:
        presence[row_of[tuple(place)], column_of[name]] = True
    centres = (np.array(cells) + 0.5) * cell
    names = tuple(f"{latitude:.3f} {longitude:.3f}" for latitude, longitude in centres)
    return presence, centres.astype(np.float32), tuple(species), names


def _coordinate(text, path, line):
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(
            f"Expected a coordinate. Received: {path}, line {line}: {text!r}"
        ) from error

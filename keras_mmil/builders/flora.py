"""Floras: regions, the species seen in them, and bags of similar and of nearby regions.

A region is the bag of its species, and a species, seen from a region, the bag of the most similar
regions that have it, too (paper, section "Plant Distribution Data"). Or a region is two bags: of
its species, and of the regions around it.
"""

import csv
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TextIO

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.checks import positive_int
from keras_mmil._support.files import open_text
from keras_mmil._support.types import Array, Ints, PathLike

__all__ = ["Flora", "read_occurrences"]

_BLOCK = 512  # regions whose distances to all others are computed at once
_EARTH_RADIUS = 6371.0  # km
_COLUMNS = ("species", "decimalLatitude", "decimalLongitude")


@dataclass(frozen=True, eq=False)
class Flora:
    """Species and the regions where they were seen.

    Attributes:
        presence: bool [regions, species].
        coordinates: latitude and longitude of each region, degrees, float32 [regions, 2].
        species: their names.
        regions: their names.

    Raises:
        ValueError: if the parts do not fit together.
    """

    presence: npt.NDArray[np.bool_]
    coordinates: npt.NDArray[np.float32]
    species: tuple[str, ...]
    regions: tuple[str, ...]

    def __post_init__(self) -> None:
        shape = len(self.regions), len(self.species)
        if self.presence.shape != shape or self.presence.dtype != bool:
            raise ValueError(
                f"Expected presence of bool {shape}. "
                f"Received: {self.presence.dtype} {self.presence.shape}"
            )
        if self.coordinates.shape != (shape[0], 2) or not np.isfinite(self.coordinates).all():
            raise ValueError(
                f"Expected finite coordinates {(shape[0], 2)}. "
                f"Received: coordinates.shape={self.coordinates.shape}"
            )

    def most_widespread(self, n_species: int) -> "Flora":
        """The flora of the `n_species` seen in most regions, without regions that have none.

        Raises:
            ValueError: if there are fewer species.
        """
        positive_int("n_species", n_species)
        if n_species > len(self.species):
            raise ValueError(
                f"Expected at most {len(self.species)} species. Received: n_species={n_species}"
            )
        order = np.argsort(-self.presence.sum(axis=0), kind="stable")[:n_species]
        rows = np.flatnonzero(self.presence[:, order].any(axis=1))
        return Flora(
            self.presence[rows][:, order],
            self.coordinates[rows],
            tuple(self.species[i] for i in order),
            tuple(self.regions[i] for i in rows),
        )

    def incomplete(self, percent: float, seed: int = 0) -> "Flora":
        """A copy in which a random share of the presences of each species is missing.

        Args:
            percent: share of the regions of each species, from 0 to 100; rounded.
            seed: integer.

        Raises:
            ValueError: if the share is out of range.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"Expected a share from 0 to 100. Received: percent={percent!r}")
        rng = np.random.default_rng(seed)
        presence = self.presence.copy()
        for species in presence.T:  # views
            regions = np.flatnonzero(species)
            species[rng.permutation(regions)[: round(len(regions) * percent / 100)]] = False
        return replace(self, presence=presence)

    def similar_regions(
        self, n_neighbours: int = 25, include_self: bool = False
    ) -> tf.RaggedTensor:
        """For each region and each species seen in it, the most similar regions with that species.

        Regions are similar if few species are seen in only one of the two (Hamming distance).

        Args:
            n_neighbours: number of regions; fewer for species seen in fewer.
            include_self: whether to count the region itself, at distance 0.

        Returns:
            RaggedTensor of int32 [regions, (species), (n_neighbours)] of numbers of regions, by
            decreasing similarity, then by number. For large floras,
            `keras_mmil.datasets.plants.similar_regions` caches it.
        """
        positive_int("n_neighbours", n_neighbours)
        n_regions = len(self.regions)
        n_others = self.presence.sum(axis=0) - (not include_self)
        sizes = np.minimum(n_others, n_neighbours)[np.nonzero(self.presence)[1]]
        begins = np.zeros(self.presence.shape, np.int64)  # of the members of a species
        begins[self.presence] = np.cumsum(sizes) - sizes
        members = np.zeros(sizes.sum(), np.int32)
        holders = [np.flatnonzero(column) for column in self.presence.T]
        for start in range(0, n_regions, _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, n_regions))
            # Sorted by distance, and then by number.
            keys = self.hamming_distances(rows).astype(np.int64) * n_regions + np.arange(n_regions)
            if not include_self:
                keys[rows - start, rows] = np.iinfo(np.int64).max
            for species, (regions, n) in enumerate(zip(holders, n_others, strict=True)):
                here = rows[self.presence[rows, species]]
                n = min(n, n_neighbours)
                if not n or not len(here):
                    continue
                places = begins[here, species, None] + np.arange(n)
                members[places] = _least(keys[np.ix_(here - start, regions)], n) % n_regions
        return ragged.from_flat(members, [self.presence.sum(axis=1), sizes])

    def seen_species(self) -> tf.RaggedTensor:
        """The species seen in each region: RaggedTensor of int32 [regions, (species)], numbers."""
        species = np.nonzero(self.presence)[1].astype(np.int32)
        return ragged.from_flat(species, [self.presence.sum(axis=1)])

    def nearby_regions(self, n_neighbours: int = 25) -> tf.RaggedTensor:
        """The nearest other regions of each region, `n_neighbours` or all if there are fewer.

        Returns:
            RaggedTensor of int32 [regions, (n_neighbours)] of numbers of regions, by distance in
            metres, then by number.
        """
        positive_int("n_neighbours", n_neighbours)
        n_regions = len(self.regions)
        n = max(min(n_neighbours, n_regions - 1), 0)
        members = np.zeros((n_regions, n), np.int32)
        for start in range(0, n_regions, _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, n_regions))
            metres = np.round(1000 * self.distances(rows)).astype(np.int64)
            keys = metres * n_regions + np.arange(n_regions)
            keys[rows - start, rows] = np.iinfo(np.int64).max
            if n:
                members[rows] = _least(keys, n) % n_regions
        return ragged.from_flat(members.reshape(-1), [np.full(n_regions, n)])

    def hamming_distances(self, rows: slice | Ints = slice(None)) -> npt.NDArray[np.int32]:
        """Number of species seen in only one of two regions, int32 [rows, regions]."""
        every = self.presence.astype(np.float32)
        n_species = every.sum(axis=1)
        shared = every[rows] @ every.T  # exact: whole numbers far below 2²⁴
        return (n_species[rows, None] + n_species - 2 * shared).astype(np.int32)

    def distances(self, rows: slice | Ints = slice(None)) -> Array:
        """Straight-line distances in km, float64 [rows, regions]."""
        latitude, longitude = np.radians(self.coordinates.astype(float)).T
        points = _EARTH_RADIUS * np.stack(
            [
                np.cos(latitude) * np.cos(longitude),
                np.cos(latitude) * np.sin(longitude),
                np.sin(latitude),
            ],
            axis=1,
        )
        squares = np.square(points).sum(axis=1)
        squared = squares[rows, None] + squares - 2 * points[rows] @ points.T
        return np.sqrt(np.maximum(squared, 0))


def read_occurrences(
    path: PathLike,
    cell: float = 0.1,
    delimiter: str = "\t",
    quoted: bool | None = None,
    encoding: str = "utf-8-sig",
) -> Flora:
    """The flora of a table of occurrences, as exported by GBIF, on a grid.

    Lines without species or coordinates are skipped, with a warning.

    Args:
        path: text file with the columns `species`, `decimalLatitude` and `decimalLongitude`.
        cell: height and width of a region, degrees.
        delimiter: between columns; GBIF uses tabs.
        quoted: whether texts may be in quotation marks; None for yes, except with tabs.
        encoding: of the text; the default is UTF-8, with or without a byte-order mark.

    Returns:
        `Flora`, with sorted species and regions, and the centres of regions.

    Raises:
        ValueError: if a column is missing or repeated, a line has another number of columns or
            another encoding, a quotation mark is not closed, a coordinate is not on the globe, or
            there is no occurrence. Names the line.
    """
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
            f"Left out {n_left_out} lines of {path} without species or coordinates.", stacklevel=2
        )
    if not pairs:
        raise ValueError(f"Expected occurrences. Received: {path} without any")
    species = sorted({name for name, *_ in pairs})
    cells = sorted({(row, column) for _, row, column in pairs})
    row_of = {cell_index: i for i, cell_index in enumerate(cells)}
    column_of = {name: i for i, name in enumerate(species)}
    presence = np.zeros((len(cells), len(species)), bool)
    for name, row, column in pairs:
        presence[row_of[row, column], column_of[name]] = True
    centres = (np.array(cells) + 0.5) * cell
    names = tuple(f"{latitude:.3f} {longitude:.3f}" for latitude, longitude in centres)
    return Flora(presence, centres.astype(np.float32), tuple(species), names)


def _least(keys: Ints, n: int) -> Ints:
    """The n smallest keys of each row, sorted."""
    return np.sort(np.partition(keys, n - 1, axis=1)[:, :n], axis=1)


def _rows(
    file: TextIO, path: PathLike, delimiter: str, quoted: bool | None
) -> Iterator[tuple[str, list[str]]]:
    """Yields the position of each row in the file, and its stripped texts in `_COLUMNS`."""
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
        missing = sorted(name for name in _COLUMNS if header.count(name) != 1)
        if missing:
            raise ValueError(
                f"Expected columns {', '.join(_COLUMNS)}, each once. "
                f"Received: {path} without {missing}, or with several, among {header}"
            )
        columns = [header.index(name) for name in _COLUMNS]
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
            texts = [row[column].strip() for column in columns]
            if any("\n" in text or "\r" in text for text in texts):
                raise ValueError(
                    f"Expected a species and a place on one line, so that no quotation mark is "
                    f"left open. Received: {where}: {str(texts)[:200]}"
                )
            yield where, texts
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

"""Floras: regions, the species seen in them, and the bags of similar and of nearby regions.

A region is the bag of the species seen in it, and a species, seen from a region, the bag of the
most similar regions in which it was seen, too (paper, section "Plant Distribution Data"). Or a
region is two bags: of its species, and of the regions around it.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import Array, Ints, PathLike
from keras_mmil.builders import _occurrences

__all__ = ["Flora", "read_occurrences"]

_BLOCK = 512  # regions whose distances to all others are computed at once
_EARTH_RADIUS = 6371.0  # km


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
        """The flora of the species seen in most regions, without regions where none was seen.

        Args:
            n_species: number of species to keep.

        Raises:
            ValueError: if there are fewer species.
        """
        positive_int("n_species", n_species)
        if n_species > len(self.species):
            raise ValueError(
                f"Expected at most {len(self.species)} species. Received: n_species={n_species}"
            )
        order = np.argsort(-self.presence.sum(axis=0), kind="stable")[:n_species]
        kept = np.flatnonzero(self.presence[:, order].any(axis=1))
        return Flora(
            self.presence[kept][:, order],
            self.coordinates[kept],
            tuple(self.species[i] for i in order),
            tuple(self.regions[i] for i in kept),
        )

    def incomplete(self, percent: float, seed: int = 0) -> "Flora":
        """A copy in which a share of each species' presences is missing, drawn at random.

        Args:
            percent: share, from 0 to 100, of the regions of each species; rounded.
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

        Regions are similar if their Hamming distance is small: few species are seen in only one of
        the two.

        Args:
            n_neighbours: number of regions; fewer, where a species is seen in fewer.
            include_self: whether a region, whose distance to itself is 0, counts.

        Returns:
            RaggedTensor of int32 [regions, (species), (n_neighbours)] of numbers of regions, the
            most similar first; of equally similar ones, the first. For large floras,
            `keras_mmil.datasets.plants.similar_regions` keeps it in Keras's cache.
        """
        positive_int("n_neighbours", n_neighbours)
        n_regions = len(self.regions)
        n_others = self.presence.sum(axis=0) - (not include_self)
        sizes = np.minimum(n_others, n_neighbours)[np.nonzero(self.presence)[1]]
        begins = np.zeros(self.presence.shape, np.int64)  # where the members of a species begin
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
        """For each region the nearest others.

        Args:
            n_neighbours: number of regions; fewer, where there are no more.

        Returns:
            RaggedTensor of int32 [regions, (n_neighbours)] of numbers of regions, the nearest
            first; of equally distant ones, to a metre, the first.
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

    Args:
        path: text file with the columns `species`, `decimalLatitude` and `decimalLongitude`.
        cell: height and width of a region, degrees.
        delimiter: between columns: GBIF's are tabs.
        quoted: whether quotation marks may enclose the text of a column; None for no if columns are
            separated by tabs, as GBIF's are, and else yes.
        encoding: of the text; the default is UTF-8, with or without a byte-order mark.

    Returns:
        `Flora`, with species and regions in alphabetical order, and the centres of regions. Lines
        without species or coordinates are left out, with a warning of how many.

    Raises:
        ValueError: if a column is missing or occurs twice, a line has more or fewer columns than
            the first or is in another encoding, a quotation mark is left open, a coordinate is not
            a number on the globe, or there is no occurrence. Names the line.
    """
    table = _occurrences.read(path, cell, delimiter=delimiter, quoted=quoted, encoding=encoding)
    return Flora(table.presence, table.centres, table.species, table.regions)


def _least(keys: Ints, n: int) -> Ints:
    """The n least keys of each row, the least first."""
    return np.sort(np.partition(keys, n - 1, axis=1)[:, :n], axis=1)

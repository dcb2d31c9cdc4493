"""Where plants grow: regions, the species seen in them, and what may have been overlooked.

A region is the bag of the species seen in it, and a species, seen from a region, the bag of the
most similar regions that it grows in, too (paper, section "Plant Distribution Data").

Reference: Ramos-Gutiérrez et al., Atlas of the vascular flora of the Iberian Peninsula biodiversity
hotspot (AFLIBER), 2021: the data that `load` reads. The paper's are of Germany.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from keras_mmil import ragged
from keras_mmil._support.checks import positive_int
from keras_mmil.builders import _occurrences
from keras_mmil.datasets._io import archives, cache, files

__all__ = ["Flora", "load", "read_occurrences", "synthetic"]

_VERSION = 2  # of what is cached
_SIMILAR = ("members", "n_species", "sizes")  # what is cached of similar regions
_BLOCK = 512  # regions whose distances to all others are computed at once
_EARTH_RADIUS = 6371.0  # km


@dataclass(frozen=True, eq=False)
class Flora:
    """Species and the regions where they were seen.

    Attributes:
        presence: bool [regions, species].
        coordinates: latitude and longitude of each region, degrees, float32 [regions, 2].
        species: their names, tuple of str.
        regions: their names, tuple of str.
    """

    presence: np.ndarray
    coordinates: np.ndarray
    species: tuple
    regions: tuple

    def __post_init__(self):
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

    def most_widespread(self, n_species):
        """The flora of so many species, those of most regions, where any of them was seen.

        Raises:
            ValueError: if there are not so many species.
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

    def incomplete(self, percent, seed=0):
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

    def similar_regions(self, n_neighbours=25, include_self=False, cache=False):
        """For each region and each species seen in it, the most similar regions that it is seen in.

        Similar are regions of a small Hamming distance: few species are seen in one of both only.

        Args:
            n_neighbours: number of regions; fewer, where a species is seen in fewer.
            include_self: whether a region, whose distance to itself is 0, counts.
            cache: whether to keep what is found in Keras's cache, and to look there first.

        Returns:
            RaggedTensor of int32 [regions, (species), (n_neighbours)] of numbers of regions, the
            most similar first; of equally similar ones, the first.
        """
        positive_int("n_neighbours", n_neighbours)

        def make():
            return self._similar_regions(n_neighbours, include_self)

        if not cache:
            return ragged.from_flat(*make())
        about = f"{self.presence.shape} {n_neighbours} {include_self}".encode()
        digest = hashlib.sha256(about + np.packbits(self.presence).tobytes()).hexdigest()[:16]
        path = files.cache() / f"similar-regions-{digest}-v{_VERSION}.npz"
        return ragged.from_flat(*cache.kept(path, make, self._read_similar, _write_similar))

    def _read_similar(self, path):
        """What `_similar_regions` makes, from a cached file."""
        members, *sizes = cache.read_arrays(path, _SIMILAR).values()
        n = len(self.regions)
        is_wrong = members.size and not 0 <= members.min() <= members.max() < n
        if is_wrong or members.dtype != np.int32 or len(sizes[0]) != n:
            raise ValueError(
                f"Expected bags of {n} regions, of numbers of regions. Received: {path} with "
                f"{len(sizes[0])} bags of numbers up to {members.max(initial=0)}"
            )
        ragged.from_flat(members, sizes)  # which fit together
        return members, sizes

    def _similar_regions(self, n_neighbours, include_self):
        """Numbers of regions, int32 [members], and the sizes of both levels of bags."""
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
                nearest = np.partition(keys[np.ix_(here - start, regions)], n - 1, axis=1)[:, :n]
                places = begins[here, species, None] + np.arange(n)
                members[places] = np.sort(nearest, axis=1) % n_regions
        return members, [self.presence.sum(axis=1), sizes]

    def hamming_distances(self, rows=slice(None)):
        """Number of species seen in one of two regions only, int32 [rows, regions]."""
        every = self.presence.astype(np.float32)
        n_species = every.sum(axis=1)
        shared = every[rows] @ every.T  # exact: whole numbers far below 2²⁴
        return (n_species[rows, None] + n_species - 2 * shared).astype(np.int32)

    def distances(self, rows=slice(None)):
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


def _write_similar(path, found):
    members, sizes = found
    cache.write_arrays(path, dict(zip(_SIMILAR, (members, *sizes), strict=True)))


def load(n_species=842):
    """The most widespread species of the Iberian Peninsula, on a grid of 10 km.

    Args:
        n_species: number of species; 842 in the paper.

    Returns:
        `Flora`: with 842 species, 6,295 regions.

    Raises:
        FileNotFoundError: if the file `plants/afliber_species.npz` is not there.
        ValueError: if it is damaged, or has not so many species.
    """
    path = files.find(
        "plants/afliber_species.npz", instructions="It is made of AFLIBER, doi 10.1111/geb.13363."
    )
    names = ("presence_packed", "shape", "coords", "species", "cells")
    arrays = archives.read_npz(path, dict.fromkeys(names) | {"shape": (2,)})
    if arrays["shape"].dtype.kind not in "iu":
        raise ValueError(f"Expected ints. Received: {path} with shape={arrays['shape']}")
    shape = tuple(map(int, arrays["shape"]))
    packed = arrays["presence_packed"]
    if min(shape) < 0 or packed.shape != (shape[0], -(-shape[1] // 8)) or packed.dtype != np.uint8:
        raise ValueError(
            f"Expected bits of {shape} in {path}. "
            f"Received: presence_packed of {packed.dtype} {packed.shape}"
        )
    presence = np.unpackbits(packed, axis=1, count=shape[1]).astype(bool)
    names = (tuple(arrays[key].tolist()) for key in ("species", "cells"))
    return Flora(presence, arrays["coords"].astype(np.float32), *names).most_widespread(n_species)


def read_occurrences(path, cell=0.1, delimiter="\t", quoted=None, encoding="utf-8-sig"):
    """A flora of a table of occurrences, as GBIF exports it, on a grid.

    Args:
        path: text file with the columns `species`, `decimalLatitude` and `decimalLongitude`.
        cell: height and width of a region, degrees.
        delimiter: between columns: GBIF's are tabs.
        quoted: whether quotation marks may enclose what is in a column; None for no where there are
            tabs, as in GBIF's, and yes elsewhere.
        encoding: of the text; the default is UTF-8, with a byte-order mark or without.

    Returns:
        `Flora`, with species and regions in alphabetical order, and the centres of regions. Lines
        without species or coordinates are left out, with a warning of how many.

    Raises:
        ValueError: if a column is missing or there twice, a line has more columns than the first or
            fewer, or is in another encoding, a quotation mark is left open, a coordinate is no
            number on the globe, or there is no occurrence. Names the line.
    """
    return Flora(*_occurrences.read(path, cell, delimiter, quoted, encoding))


def synthetic(n_regions=(15, 20), n_species=40, seed=0):
    """A made-up flora on a grid: species keep to a range of warmth and of wetness.

    Warmth falls from south to north, and wetness changes from place to place.

    Args:
        n_regions: rows and columns of the grid.
        n_species: number of species.
        seed: integer.

    Returns:
        `Flora`; in some regions nothing may grow.
    """
    positive_int("n_species", n_species)
    rng = np.random.default_rng(seed)
    rows, columns = (axis.reshape(-1) for axis in np.indices(n_regions))
    place = np.stack([rows / max(n_regions[0] - 1, 1), columns / max(n_regions[1] - 1, 1)])
    waves = rng.uniform(2, 9, (4, 2)), rng.uniform(0, 2 * np.pi, (4, 1))
    wetness = np.sin(waves[0] @ place + waves[1]).mean(axis=0)
    conditions = np.stack([1 - place[0], (wetness - wetness.min()) / np.ptp(wetness)], axis=1)
    best = rng.random((n_species, 2))
    width = rng.uniform(0.15, 0.4, (n_species, 1))
    misfit = np.square((conditions[:, None] - best) / width[None]).sum(axis=2)
    presence = rng.random(misfit.shape) < np.exp(-misfit)
    coordinates = np.stack([40 + 0.1 * rows, 0.1 * columns], axis=1).astype(np.float32)
    regions = tuple(
        f"row {row}, column {column}" for row, column in zip(rows, columns, strict=True)
    )
    return Flora(presence, coordinates, tuple(f"species {i}" for i in range(n_species)), regions)

"""Made-up floras."""

import numpy as np

from keras_mmil._support.checks import positive_int
from keras_mmil.builders.flora import Flora

__all__ = ["load_flora"]


def load_flora(n_regions: tuple[int, int] = (15, 20), n_species: int = 40, seed: int = 0) -> Flora:
    """A flora on a grid, whose species have ranges of temperature and moisture.

    Temperature falls from south to north, and moisture varies. Some regions may have no species.

    Args:
        n_regions: rows and columns of the grid.
        n_species: number of species.
        seed: integer.
    """
    positive_int("n_species", n_species)
    rng = np.random.default_rng(seed)
    rows, columns = (axis.reshape(-1) for axis in np.indices(n_regions))
    place = np.stack([rows / max(n_regions[0] - 1, 1), columns / max(n_regions[1] - 1, 1)])
    waves = rng.uniform(2, 9, (4, 2)), rng.uniform(0, 2 * np.pi, (4, 1))
    moisture = np.sin(waves[0] @ place + waves[1]).mean(axis=0)
    conditions = np.stack([1 - place[0], (moisture - moisture.min()) / np.ptp(moisture)], axis=1)
    best = rng.random((n_species, 2))
    width = rng.uniform(0.15, 0.4, (n_species, 1))
    misfit = np.square((conditions[:, None] - best) / width[None]).sum(axis=2)
    presence = rng.random(misfit.shape) < np.exp(-misfit)
    coordinates = np.stack([40 + 0.1 * rows, 0.1 * columns], axis=1).astype(np.float32)
    regions = tuple(
        f"row {row}, column {column}" for row, column in zip(rows, columns, strict=True)
    )
    species = tuple(f"species {i}" for i in range(n_species))
    return Flora(presence, coordinates, species, regions)

"""Made-up point clouds of simple shapes."""

import numpy as np
import numpy.typing as npt

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import Array
from keras_mmil.builders.clouds import normalise, rotation_matrices

__all__ = ["SHAPES", "load_clouds"]


def load_clouds(
    n_clouds: int = 400, n_points: int = 100, seed: int = 0
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Point clouds of four shapes, equally many of each, randomly stretched and rotated about z.

    Args:
        n_clouds: number of clouds.
        n_points: number of points of each.
        seed: integer.

    Returns:
        Normalised clouds, float32 `[n_clouds, n_points, 3]`, and int64 `[n_clouds]`, the indices of
        their shapes in `SHAPES`.
    """
    positive_int("n_clouds", n_clouds)
    positive_int("n_points", n_points)
    rng = np.random.default_rng(seed)
    shapes = rng.permutation(np.arange(n_clouds) % len(SHAPES))
    makers = list(_MAKERS.values())
    clouds = np.stack([makers[shape](n_points, rng) for shape in shapes])
    clouds *= rng.uniform(0.6, 1.4, (n_clouds, 1, 3))
    turns = rotation_matrices(rng.uniform(0, 2 * np.pi, n_clouds), axis="z")
    return normalise(np.einsum("bij,bnj->bni", turns, clouds)), shapes.astype(np.int64)


def _ellipsoid(n: int, rng: np.random.Generator) -> Array:
    x = rng.normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _box(n: int, rng: np.random.Generator) -> Array:
    x = rng.uniform(-1, 1, (n, 3))
    x[np.arange(n), rng.integers(0, 3, n)] = rng.choice([-1, 1], n)
    return x


def _cone(n: int, rng: np.random.Generator) -> Array:
    height, angle = np.sqrt(rng.random(n)), rng.uniform(0, 2 * np.pi, n)
    return np.stack([height * np.cos(angle), height * np.sin(angle), 1 - 2 * height], axis=1)


def _table(n: int, rng: np.random.Generator) -> Array:
    """A plate on four legs."""
    x = rng.uniform(-1, 1, (n, 3))
    is_leg = rng.random(n) < 0.5
    x[is_leg, :2] = np.sign(x[is_leg, :2])
    x[~is_leg, 2] = 1
    return x


_MAKERS = {"ellipsoid": _ellipsoid, "box": _box, "cone": _cone, "table": _table}
SHAPES = tuple(_MAKERS)
"""The kinds of clouds: class `i` is `SHAPES[i]`."""

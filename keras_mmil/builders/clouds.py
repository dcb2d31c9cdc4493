"""Point clouds: bags of points, sampled from surfaces, normalised, rotated.

Clouds of equal size are an array `[clouds, points, 3]`, clouds of any size a RaggedTensor
`[clouds, (points), 3]`.
"""

import numpy as np
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.checks import positive_int

__all__ = ["SHAPES", "normalise", "read_off", "rotations", "sample_surface", "synthetic"]

_AXES = {"x": 0, "y": 1, "z": 2}


def normalise(x):
    """Move each cloud to mean 0 on each axis, and scale it to variance 1 over all coordinates.

    Args:
        x: clouds, array or RaggedTensor of floats.

    Returns:
        The same in float32. A cloud of one point, or of equal points, is at the origin.

    Raises:
        ValueError: if there are no clouds of points in space, or coordinates are not finite.
    """
    flat, bag_of, n_clouds = _points(x)
    sizes = np.maximum(np.bincount(bag_of, minlength=n_clouds), 1)[:, None]  # (clouds, 1)

    def mean(values):
        columns = [np.bincount(bag_of, column, n_clouds) for column in values.T]
        return np.stack(columns, axis=1) / sizes  # (clouds, columns)

    largest = np.zeros(n_clouds)
    np.maximum.at(largest, bag_of, np.abs(flat).max(axis=1, initial=0))
    flat = flat - mean(flat)[bag_of]
    scale = np.sqrt(mean(np.square(flat)).mean(axis=1))
    # Where all points are equal, what is left is rounding, and shall not be blown up.
    scale = np.where(scale > 1e-12 * largest, scale, np.inf)
    return _like(x, flat / scale[bag_of, None])


def rotations(x, n_rotations, axis="z"):
    """Each cloud as the bag of itself rotated by 0, 1/R, 2/R, ... of a full turn.

    Args:
        x: clouds, array or RaggedTensor of floats.
        n_rotations: R.
        axis: "x", "y" or "z", about which to rotate.

    Returns:
        Float32 array `[clouds, R, points, 3]`, or RaggedTensor `[clouds, (R), (points), 3]`.

    Raises:
        ValueError: if an argument is out of range, or there are no clouds of points in space.

    Source:
        Paper, section "Point Clouds".
    """
    positive_int("n_rotations", n_rotations)
    if axis not in _AXES:
        raise ValueError(f"Expected one of {', '.join(_AXES)}. Received: axis={axis!r}")
    flat, bag_of, n_clouds = _points(x)
    angles = 2 * np.pi * np.arange(n_rotations) / n_rotations
    turned = np.einsum("rij,nj->rni", _turn(angles, _AXES[axis]), flat).astype(np.float32)
    if not isinstance(x, tf.RaggedTensor):
        turned = turned.reshape(n_rotations, n_clouds, -1, 3)
        return np.ascontiguousarray(turned.swapaxes(0, 1))
    # Points of a cloud follow each other, and so do its rotations.
    copy = np.repeat(np.arange(n_rotations), len(flat))
    order = np.lexsort((copy, np.tile(bag_of, n_rotations)))
    sizes = np.repeat(np.bincount(bag_of, minlength=n_clouds), n_rotations)
    return ragged.from_flat(
        turned.reshape(-1, 3)[order], [np.full(n_clouds, n_rotations), sizes.astype(np.int64)]
    )


def sample_surface(vertices, triangles, n_points, seed=0):
    """Points drawn uniformly from a surface of triangles.

    Args:
        vertices: floats `[vertices, 3]`.
        triangles: ints `[triangles, 3]`, the corners of each.
        n_points: number of points.
        seed: integer, or a NumPy random generator.

    Returns:
        Float32 array `[n_points, 3]`.

    Raises:
        ValueError: if there is no area to draw from, corners are no vertices, or coordinates are
            not finite.
    """
    positive_int("n_points", n_points)
    vertices = np.asarray(vertices, float)
    triangles = np.asarray(triangles)
    if vertices.ndim != 2 or vertices.shape[1] != 3 or not np.isfinite(vertices).all():
        raise ValueError(
            "Expected finite vertices [vertices, 3]. "
            f"Received: vertices.shape={vertices.shape}, {np.isnan(vertices).sum()} of them NaN"
        )
    if triangles.ndim != 2 or triangles.shape[1] != 3 or triangles.dtype.kind not in "iu":
        raise ValueError(
            "Expected triangles [triangles, 3] of ints. "
            f"Received: triangles.shape={triangles.shape}, dtype={triangles.dtype}"
        )
    if triangles.size and not 0 <= triangles.min() <= triangles.max() < len(vertices):
        raise ValueError(
            f"Expected corners among {len(vertices)} vertices. "
            f"Received: triangles from {triangles.min()} to {triangles.max()}"
        )
    first, second, third = (vertices[triangles[:, corner]] for corner in range(3))
    areas = np.linalg.norm(np.cross(second - first, third - first), axis=1)
    if not areas.sum() > 0:
        raise ValueError(
            f"Expected a surface of some area. Received: {len(triangles)} triangles of area 0"
        )
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(triangles), n_points, p=areas / areas.sum())
    # Osada et al., Shape Distributions, 2002: the root makes it uniform within a triangle.
    root, along = np.sqrt(rng.random((n_points, 1))), rng.random((n_points, 1))
    weights = 1 - root, root * (1 - along), root * along
    corners = first[chosen], second[chosen], third[chosen]
    return sum(w * corner for w, corner in zip(weights, corners, strict=True)).astype(np.float32)


def read_off(text):
    """A surface in the Object File Format. Faces of more than three corners are cut into triangles.

    Args:
        text: str or bytes, what the file holds. The word OFF may run into the numbers, as it does
            in some files of ModelNet.

    Returns:
        Vertices, floats `[vertices, 3]`, and triangles, ints `[triangles, 3]`.

    Raises:
        ValueError: if the text is anything else, or breaks off.
    """
    text = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    lines = (line.partition("#")[0] for line in text.splitlines())
    words = " ".join(lines).strip()
    if not words.startswith("OFF"):
        raise ValueError(f"Expected text that begins with OFF. Received: {words[:20]!r}")
    words = words[3:].split()
    try:
        n_vertices, n_faces, _ = map(int, words[:3])
        if min(n_vertices, n_faces) < 0:
            raise ValueError("negative numbers")
        at = 3 + 3 * n_vertices
        vertices = np.array(words[3:at], float).reshape(n_vertices, 3)
        triangles = _triangles(np.array(words[at:], np.int64), n_faces)
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"Expected vertices and faces, as many as announced. Received: {words[:3]} and "
            f"{len(words) - 3} numbers"
        ) from error
    return vertices, triangles


def _triangles(numbers, n_faces):
    """Triangles of faces, each of which is given as the number of its corners, and these."""
    if len(numbers) == 4 * n_faces and (numbers[::4] == 3).all():
        return numbers.reshape(-1, 4)[:, 1:]
    triangles, at = [np.zeros((0, 3), np.int64)], 0
    for _ in range(n_faces):
        corners = numbers[at + 1 : at + 1 + numbers[at]]
        if len(corners) < max(numbers[at], 1):
            raise ValueError("a face breaks off")
        at += 1 + len(corners)
        first = np.full(max(len(corners) - 2, 0), corners[0])
        triangles.append(np.stack([first, corners[1:-1], corners[2:]], axis=1))
    if at != len(numbers):
        raise ValueError("there are more numbers than faces")
    return np.concatenate(triangles)


def synthetic(n_clouds=400, n_points=100, seed=0):
    """Made-up clouds of four kinds, as many of each, of any proportions, turned about the z axis.

    Args:
        n_clouds: number of clouds.
        n_points: number of points of each.
        seed: integer.

    Returns:
        Normalised clouds, float32 `[n_clouds, n_points, 3]`, and their kinds, int64 `[n_clouds]`:
        positions in `SHAPES`.
    """
    positive_int("n_clouds", n_clouds)
    positive_int("n_points", n_points)
    rng = np.random.default_rng(seed)
    kinds = rng.permutation(np.arange(n_clouds) % len(SHAPES))
    makers = list(_MAKERS.values())
    clouds = np.stack([makers[kind](n_points, rng) for kind in kinds])
    clouds *= rng.uniform(0.6, 1.4, (n_clouds, 1, 3))
    turns = _turn(rng.uniform(0, 2 * np.pi, n_clouds), _AXES["z"])
    return normalise(np.einsum("bij,bnj->bni", turns, clouds)), kinds.astype(np.int64)


def _ellipsoid(n, rng):
    x = rng.normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _box(n, rng):
    x = rng.uniform(-1, 1, (n, 3))
    x[np.arange(n), rng.integers(0, 3, n)] = rng.choice([-1, 1], n)
    return x


def _cone(n, rng):
    height, angle = np.sqrt(rng.random(n)), rng.uniform(0, 2 * np.pi, n)
    return np.stack([height * np.cos(angle), height * np.sin(angle), 1 - 2 * height], axis=1)


def _table(n, rng):
    """A plate on four legs."""
    x = rng.uniform(-1, 1, (n, 3))
    is_leg = rng.random(n) < 0.5
    x[is_leg, :2] = np.sign(x[is_leg, :2])
    x[~is_leg, 2] = 1
    return x


_MAKERS = {"ellipsoid": _ellipsoid, "box": _box, "cone": _cone, "table": _table}
SHAPES = tuple(_MAKERS)


def _turn(angles, axis):
    """Matrices [angles, 3, 3] that rotate about an axis."""
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = (axis + 1) % 3, (axis + 2) % 3
    turn = np.zeros((len(angles), 3, 3))
    turn[:, axis, axis] = 1
    turn[:, first, first] = turn[:, second, second] = cos
    turn[:, second, first], turn[:, first, second] = sin, -sin
    return turn


def _points(x):
    """All points [points, 3] of clouds, the cloud of each, and the number of clouds."""
    rank = len(getattr(x, "shape", ()))
    if rank != 3 or x.shape[-1] != 3:
        raise ValueError(
            "Expected clouds [clouds, (points), 3]. "
            f"Received: {type(x).__name__} of shape {getattr(x, 'shape', None)}"
        )
    ragged.check_finite(x, "x")
    if isinstance(x, tf.RaggedTensor):
        return x.flat_values.numpy().astype(float), x.value_rowids().numpy(), int(x.nrows())
    n_clouds, n_points, _ = x.shape
    flat = np.asarray(x, float).reshape(-1, 3)
    return flat, np.repeat(np.arange(n_clouds), n_points), n_clouds


def _like(x, flat):
    flat = flat.astype(np.float32)
    if isinstance(x, tf.RaggedTensor):
        return x.with_flat_values(tf.constant(flat))
    return flat.reshape(x.shape)

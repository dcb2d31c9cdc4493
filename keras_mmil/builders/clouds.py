"""Point clouds: bags of points, sampled from surfaces, normalised, rotated.

Clouds are an array `[clouds, points, 3]`, or of different sizes a RaggedTensor
`[clouds, (points), 3]`.
"""

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import Array, Ints

__all__ = ["normalise", "read_off", "rotation_matrices", "rotations", "sample_surface"]

_AXES = {"x": 0, "y": 1, "z": 2}


def normalise(x: Array | tf.RaggedTensor) -> npt.NDArray[np.float32] | tf.RaggedTensor:
    """Shift each cloud to mean 0 on each axis, and scale it to variance 1 over all coordinates.

    Args:
        x: clouds, array or RaggedTensor of floats.

    Returns:
        The same in float32. A cloud of one point, or of equal points, is at the origin.

    Raises:
        ValueError: if `x` has another shape, or coordinates are not finite.
    """
    flat, bag_of, n_clouds = _points(x)
    sizes = np.maximum(np.bincount(bag_of, minlength=n_clouds), 1)[:, None]  # (clouds, 1)

    def mean(values: Array) -> Array:
        columns = [np.bincount(bag_of, column, n_clouds) for column in values.T]
        return np.stack(columns, axis=1) / sizes  # (clouds, columns)

    largest = np.zeros(n_clouds)
    np.maximum.at(largest, bag_of, np.abs(flat).max(axis=1, initial=0))
    flat = flat - mean(flat)[bag_of]
    scale = np.sqrt(mean(np.square(flat)).mean(axis=1))
    # Equal points differ by rounding errors only, which must not be scaled up.
    scale = np.where(scale > 1e-12 * largest, scale, np.inf)
    return _like(x, flat / scale[bag_of, None])


def rotations(
    x: Array | tf.RaggedTensor, n_rotations: int, axis: str = "z"
) -> npt.NDArray[np.float32] | tf.RaggedTensor:
    """Each cloud as the bag of its rotations by 0, 1/R, 2/R, ... of a full turn.

    Args:
        x: clouds, array or RaggedTensor of floats.
        n_rotations: R.
        axis: "x", "y" or "z".

    Returns:
        Float32 array `[clouds, R, points, 3]`, or RaggedTensor `[clouds, (R), (points), 3]`.

    Raises:
        ValueError: if an argument is out of range, `x` has another shape, or coordinates are not
            finite.

    Source:
        Paper, section "Point Clouds".
    """
    positive_int("n_rotations", n_rotations)
    _check_axis(axis)
    flat, bag_of, n_clouds = _points(x)
    angles = 2 * np.pi * np.arange(n_rotations) / n_rotations
    turned = np.einsum("rij,nj->rni", rotation_matrices(angles, axis), flat).astype(np.float32)
    if not isinstance(x, tf.RaggedTensor):
        turned = turned.reshape(n_rotations, n_clouds, -1, 3)
        return np.ascontiguousarray(turned.swapaxes(0, 1))
    copy = np.repeat(np.arange(n_rotations), len(flat))
    order = np.lexsort((copy, np.tile(bag_of, n_rotations)))
    sizes = np.repeat(np.bincount(bag_of, minlength=n_clouds), n_rotations)
    return ragged.from_flat(
        turned.reshape(-1, 3)[order], [np.full(n_clouds, n_rotations), sizes.astype(np.int64)]
    )


def rotation_matrices(angles: npt.ArrayLike, axis: str = "z") -> npt.NDArray[np.float64]:
    """Matrices that rotate about an axis, float64 `[angles, 3, 3]`.

    Args:
        angles: floats `[angles]`, radians.
        axis: "x", "y" or "z".

    Raises:
        ValueError: if there is no such axis.
    """
    _check_axis(axis)
    angles = np.asarray(angles, float)
    cos, sin = np.cos(angles), np.sin(angles)
    fixed = _AXES[axis]
    first, second = (fixed + 1) % 3, (fixed + 2) % 3
    matrices = np.zeros((len(angles), 3, 3))
    matrices[:, fixed, fixed] = 1
    matrices[:, first, first] = matrices[:, second, second] = cos
    matrices[:, second, first], matrices[:, first, second] = sin, -sin
    return matrices


def sample_surface(
    vertices: npt.ArrayLike,
    triangles: npt.ArrayLike,
    n_points: int,
    seed: int | np.random.Generator = 0,
) -> npt.NDArray[np.float32]:
    """Points sampled uniformly from a surface of triangles, float32 `[n_points, 3]`.

    Args:
        vertices: floats `[vertices, 3]`.
        triangles: ints `[triangles, 3]`, the vertices of each.
        n_points: number of points.
        seed: integer, or a NumPy random generator.

    Raises:
        ValueError: if the surface has no area, a vertex does not exist, or coordinates are not
            finite.
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
    # Osada et al., Shape Distributions, 2002: the root makes the points uniform in a triangle.
    root, along = np.sqrt(rng.random((n_points, 1))), rng.random((n_points, 1))
    weights = 1 - root, root * (1 - along), root * along
    corners = first[chosen], second[chosen], third[chosen]
    return sum(w * corner for w, corner in zip(weights, corners, strict=True)).astype(np.float32)


def read_off(text: str | bytes) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """A surface in the Object File Format. Faces of more than three vertices become triangles.

    Args:
        text: the content of the file. A number may follow OFF without a space, as in some files of
            ModelNet.

    Returns:
        Vertices, floats `[vertices, 3]`, and triangles, ints `[triangles, 3]`.

    Raises:
        ValueError: if the text has another format, or is truncated.
    """
    text = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    lines = (line.partition("#")[0] for line in text.splitlines())
    joined = " ".join(lines).strip()
    if not joined.startswith("OFF"):
        raise ValueError(f"Expected text that begins with OFF. Received: {joined[:20]!r}")
    words = joined[3:].split()
    try:
        n_vertices, n_faces, _ = map(int, words[:3])
        if min(n_vertices, n_faces) < 0:
            raise ValueError("negative numbers")
        at = 3 + 3 * n_vertices
        vertices = np.array(words[3:at], float).reshape(n_vertices, 3)
        triangles = _triangles(np.array(words[at:], np.int64), n_faces)
    except (ValueError, IndexError, OverflowError) as error:
        raise ValueError(
            f"Expected vertices and faces, as many as announced. Received: {words[:3]} and "
            f"{len(words) - 3} numbers"
        ) from error
    return vertices, triangles


def _triangles(numbers: npt.NDArray[np.int64], n_faces: int) -> npt.NDArray[np.int64]:
    """Triangles of faces, each of which is the number of its vertices, and the vertices."""
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


def _check_axis(axis: str) -> None:
    if axis not in _AXES:
        raise ValueError(f"Expected one of {', '.join(_AXES)}. Received: axis={axis!r}")


def _points(x: Array | tf.RaggedTensor) -> tuple[Array, Ints, int]:
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


def _like(x: Array | tf.RaggedTensor, flat: Array) -> Array | tf.RaggedTensor:
    flat = flat.astype(np.float32)
    if isinstance(x, tf.RaggedTensor):
        return x.with_flat_values(tf.constant(flat))
    return flat.reshape(x.shape)

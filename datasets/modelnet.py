"""ModelNet40: objects of 40 kinds as clouds of points (paper, section "Point Clouds").

Reference: Wu et al., 3D ShapeNets: A Deep Representation for Volumetric Shapes, 2015.
"""

import io
import re
import zipfile

import h5py
import keras
import numpy as np

from keras_mmil._support.checks import positive_int
from keras_mmil.builders import clouds
from keras_mmil.builders.clouds import rotations
from keras_mmil.datasets._io import archives, cache, files

__all__ = ["CLASS_NAMES", "load", "rotations"]

_KINDS = """
airplane bathtub bed bench bookshelf bottle bowl car chair cone cup curtain desk door dresser
flower_pot glass_box guitar keyboard lamp laptop mantel monitor night_stand person piano plant radio
range_hood sink sofa stairs stool table tent toilet tv_stand vase wardrobe xbox
"""
CLASS_NAMES = tuple(_KINDS.split())
_PARTS = ("train", "test")
_VERSION = 2  # of what is cached
_URLS = {
    "surfaces": "http://modelnet.cs.princeton.edu/ModelNet40.zip",
    "hdf5": "https://shapenet.cs.stanford.edu/media/modelnet40_ply_hdf5_2048.zip",
}
_SURFACE = re.compile(rf"(?:.*/)?({'|'.join(CLASS_NAMES)})/(train|test)/[^/]+\.off")
_HDF5 = re.compile(r"(?:.*/)?ply_data_(train|test)\d+\.h5")
_ARRAYS = tuple(f"{kind}_{part}" for part in _PARTS for kind in "xy")
_DENSEST = 1032  # bytes of clouds that a byte of an HDF5 file stands for, at most


def load(n_points=100, source=None, seed=0):
    """Clouds of the 9,843 objects for training, and of the 2,468 for test.

    Args:
        n_points: number of points of each cloud: 100 and 5,000 in the paper.
        source: "points": the file `modelnet40/modelnet40_<n_points>.npz`, of points that were
            drawn before; "surfaces": `modelnet40/ModelNet40.zip`, the original archive, from whose
            surfaces points are drawn uniformly, which takes minutes the first time; "hdf5":
            `modelnet40/modelnet40_ply_hdf5_2048.zip`, with 2,048 points of each object, of which
            some are drawn. None for "points" if that file is there, else "surfaces".
        seed: integer, of the points that are drawn.

    Returns:
        `(x_train, y_train), (x_test, y_test)`: clouds, float32 `[n, n_points, 3]`, each of mean 0
        on every axis and variance 1 over all coordinates, the z axis upwards; and their kinds,
        int64 `[n]`: positions in `CLASS_NAMES`.

    Raises:
        FileNotFoundError: if the file is not there and cannot be downloaded.
        ValueError: if an argument is out of range, or a file is damaged.
    """
    positive_int("n_points", n_points)
    if source not in (None, "points", *_URLS):
        raise ValueError(
            f"Expected 'points', 'surfaces', 'hdf5' or None. Received: source={source!r}"
        )
    if source == "hdf5" and n_points > 2048:
        raise ValueError(f"Expected at most 2,048 points. Received: n_points={n_points}")
    points = f"modelnet40/modelnet40_{n_points}.npz"
    if source == "points" or (source is None and files.find_local(points).is_file()):
        path = files.find(points, instructions="It is drawn from ModelNet40's surfaces.")
        return _pairs(archives.read_npz(path, dict.fromkeys(_ARRAYS)), path)
    source = source or "surfaces"
    url = _URLS[source]
    archive = files.find(f"modelnet40/{url.rpartition('/')[2]}", url)
    digest = files.short_digest(archive)
    name = f"modelnet40-{digest}-{source}-{n_points}-seed{seed}-v{_VERSION}.npz"
    path = files.cache() / name

    def make():
        with archives.opened(archive) as files:
            return _DRAW[source](files, n_points, np.random.default_rng(seed))

    def read(path):
        arrays = cache.read_arrays(path, _ARRAYS)
        _pairs(arrays, path)
        return arrays

    return _pairs(cache.kept(path, make, read, cache.write_arrays), archive)


def _pairs(arrays, path):
    """Pairs of clouds and kinds from the arrays of a file, of whatever sizes."""
    pairs = []
    for part in _PARTS:
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        fits = x.ndim == 3 and x.shape[2] == 3 and y.shape == x.shape[:1] and y.dtype.kind in "iu"
        if not fits or (y.size and not 0 <= y.min() <= y.max() < len(CLASS_NAMES)):
            raise ValueError(
                f"Expected clouds [n, points, 3] of {len(CLASS_NAMES)} kinds [n] in {path}. "
                f"Received: x_{part}.shape={x.shape}, y_{part}.shape={y.shape}"
            )
        pairs.append((clouds.normalise(x), y.astype(np.int64)))
    return tuple(pairs)


def _draw_from_surfaces(files, n_points, rng):
    """Arrays of `_pairs`, drawn from the surfaces of the original archive."""
    names = [name for name in sorted(files.namelist()) if name.endswith(".off")]
    found = {name: _SURFACE.fullmatch(name) for name in names if "__MACOSX/" not in name}
    if not all(found.values()):
        odd = next(name for name, match in found.items() if not match)
        raise ValueError(f"Expected surfaces of known kinds. Received: {odd} of {files.filename}")
    bar = keras.utils.Progbar(len(found), unit_name="object")
    parts = {part: ([], []) for part in _PARTS}
    for name, match in found.items():
        kind, part = match.groups()
        try:
            surface = clouds.read_off(files.read(name))
            x = clouds.sample_surface(*surface, n_points, rng)
        except ValueError as error:
            raise ValueError(f"Received: {name}, which is no surface. {error}") from error
        parts[part][0].append(x)
        parts[part][1].append(CLASS_NAMES.index(kind))
        bar.add(1)
    return _joined(parts, n_points)


def _draw_from_hdf5(files, n_points, rng):
    """The same, of the points that PointNet's authors drew; there the y axis is upwards."""
    parts = {part: ([], []) for part in _PARTS}
    for name in sorted(files.namelist()):
        if match := _HDF5.fullmatch(name):
            for cloud, kind in zip(*_read_hdf5(files.read(name), name), strict=True):
                chosen = np.sort(rng.permutation(len(cloud))[:n_points])
                parts[match[1]][0].append(cloud[chosen][:, [0, 2, 1]] * [1, -1, 1])
                parts[match[1]][1].append(kind)
    return _joined(parts, n_points)


def _read_hdf5(content, name):
    """Clouds [n, points, 3] and their kinds [n] of one file."""
    try:
        with h5py.File(io.BytesIO(content)) as file:
            datasets = file["data"], file["label"]
            if max(dataset.nbytes for dataset in datasets) > _DENSEST * len(content):
                raise ValueError(f"is said to be of {datasets[0].shape}")
            x, y = (dataset[:] for dataset in datasets)
    except Exception as error:  # whatever a damaged file leads to
        raise ValueError(f"Expected an HDF5 file. Received: {name} ({error})") from error
    y = y.reshape(-1)
    is_known = y.dtype.kind in "iu" and ((y >= 0) & (y < len(CLASS_NAMES))).all()
    if x.ndim != 3 or x.shape[1:] != (2048, 3) or y.shape != x.shape[:1] or not is_known:
        raise ValueError(
            f"Expected clouds [n, 2048, 3] of {len(CLASS_NAMES)} kinds [n]. "
            f"Received: {name} with shapes {x.shape} and {y.shape}"
        )
    return x, y


def _joined(parts, n_points):
    if not all(x for x, _ in parts.values()):
        raise zipfile.BadZipFile("there are no objects for training, or none for test")
    arrays = {}
    for part, (x, y) in parts.items():
        arrays[f"x_{part}"] = np.array(x, np.float32).reshape(-1, n_points, 3)
        arrays[f"y_{part}"] = np.array(y, np.uint8)
    return arrays


_DRAW = {"surfaces": _draw_from_surfaces, "hdf5": _draw_from_hdf5}

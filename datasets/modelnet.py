"""ModelNet40: objects of 40 kinds as clouds of points (paper, section "Point Clouds").

Reference: Wu et al., 3D ShapeNets: A Deep Representation for Volumetric Shapes, 2015.
"""

import io
import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import h5py
import keras
import numpy as np
import numpy.typing as npt

from keras_mmil._support import archives
from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import Array, Ints
from keras_mmil.builders import clouds
from keras_mmil.datasets._io import files

__all__ = ["CLASS_NAMES", "load"]

# Clouds, float32 [n, points, 3], and their kinds, int64 [n].
Pair: TypeAlias = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]
# The part of an object, its points [points, 3], and its kind.
_Sampled: TypeAlias = tuple[str, Array, int]

_KINDS = """
airplane bathtub bed bench bookshelf bottle bowl car chair cone cup curtain desk door dresser
flower_pot glass_box guitar keyboard lamp laptop mantel monitor night_stand person piano plant radio
range_hood sink sofa stairs stool table tent toilet tv_stand vase wardrobe xbox
"""
CLASS_NAMES = tuple(_KINDS.split())
"""The 40 kinds of objects: class `i` is `CLASS_NAMES[i]`."""
_PARTS = ("train", "test")
_VERSION = 2  # of what is cached
_URLS = {
    "surfaces": "http://modelnet.cs.princeton.edu/ModelNet40.zip",
    "hdf5": "https://shapenet.cs.stanford.edu/media/modelnet40_ply_hdf5_2048.zip",
}
_SURFACE = re.compile(rf"(?:.*/)?({'|'.join(CLASS_NAMES)})/(train|test)/[^/]+\.off")
_HDF5 = re.compile(r"(?:.*/)?ply_data_(train|test)\d+\.h5")
_ARRAYS = tuple(f"{kind}_{part}" for part in _PARTS for kind in "xy")
_DENSEST = 1032  # greatest ratio of compression of an HDF5 file


def load(n_points: int = 100, source: str | None = None, seed: int = 0) -> tuple[Pair, ...]:
    """Clouds of the 9,843 objects for training, and of the 2,468 for test.

    Args:
        n_points: number of points of each cloud: 100 and 5,000 in the paper.
        source: "points": `modelnet40/modelnet40_<n_points>.npz`, points sampled before, as floats
            or as integers to be multiplied by its `scale`; "surfaces":
            `modelnet40/ModelNet40.zip`, the original archive, whose surfaces are sampled uniformly
            (takes minutes the first time); "hdf5": `modelnet40/modelnet40_ply_hdf5_2048.zip`, a
            sample of its 2,048 points of each object. None for "points" if that file exists, else
            "surfaces".
        seed: integer, of the sample.

    Returns:
        `(x_train, y_train), (x_test, y_test)`: clouds, float32 `[n, n_points, 3]`, each of mean 0
        on every axis and variance 1 over all coordinates, the z axis upwards; and their kinds,
        int64 `[n]`: indices into `CLASS_NAMES`.

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
        return _pairs(_scaled(archives.read_npz(path, dict.fromkeys(_ARRAYS)), path), path)
    source = source or "surfaces"
    url = _URLS[source]
    archive = files.find(f"modelnet40/{url.rpartition('/')[2]}", url)
    digest = files.short_digest(archive)
    name = f"modelnet40-{digest}-{source}-{n_points}-seed{seed}-v{_VERSION}.npz"
    path = files.cache_folder() / name

    def make() -> dict[str, Array]:
        try:
            with archives.open_zip(archive) as members:
                objects = _SAMPLE[source](members, n_points, np.random.default_rng(seed))
                return _joined(objects, n_points)
        except ValueError as error:
            raise ValueError(f"Expected clouds. Received: {archive}. {error}") from error

    def read(path: Path) -> dict[str, Array]:
        arrays = files.read_arrays(path, _ARRAYS)
        _pairs(arrays, path)
        return arrays

    return _pairs(files.cached(path, make=make, read=read, write=files.write_arrays), archive)


def _scaled(arrays: Mapping[str, Array], path: Path) -> dict[str, Array]:
    """The arrays of a file of points, with coordinates as floats."""
    if not any(arrays[f"x_{part}"].dtype.kind == "i" for part in _PARTS):
        return dict(arrays)
    scale = archives.read_npz(path, {"scale": ()})["scale"]
    if scale.dtype.kind != "f" or not 0 < scale < np.inf:
        raise ValueError(f"Expected a positive scale, a float, in {path}. Received: {scale}")
    return {
        name: array * scale.astype(np.float32) if name.startswith("x_") else array
        for name, array in arrays.items()
    }


def _pairs(arrays: Mapping[str, Array], path: Path) -> tuple[Pair, ...]:
    """Pairs of clouds and kinds from the arrays of a file."""
    pairs = []
    for part in _PARTS:
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        fits = x.ndim == 3 and x.shape[2] == 3 and y.shape == x.shape[:1] and y.dtype.kind in "iu"
        fits = fits and x.dtype.kind == "f"
        if not fits or (y.size and not 0 <= y.min() <= y.max() < len(CLASS_NAMES)):
            raise ValueError(
                f"Expected clouds [n, points, 3] of {len(CLASS_NAMES)} kinds [n] in {path}. "
                f"Received: x_{part}.shape={x.shape}, y_{part}.shape={y.shape}"
            )
        try:
            pairs.append((clouds.normalise(x), y.astype(np.int64)))
        except ValueError as error:
            raise ValueError(f"Expected clouds. Received: {path}. {error}") from error
    return tuple(pairs)


def _sample_surfaces(
    archive: zipfile.ZipFile, n_points: int, rng: np.random.Generator
) -> Iterator[_Sampled]:
    """Yields objects sampled from the surfaces of the original archive."""
    names = [name for name in sorted(archive.namelist()) if name.endswith(".off")]
    surfaces = {}
    for name in names:
        if "__MACOSX/" in name:
            continue
        match = _SURFACE.fullmatch(name)
        if not match:
            raise ValueError(
                f"Expected surfaces of known kinds. Received: {name} of {archive.filename}"
            )
        surfaces[name] = match
    bar = keras.utils.Progbar(len(surfaces), unit_name="object")
    for name, match in surfaces.items():
        kind, part = match.groups()
        try:
            vertices, triangles = clouds.read_off(archive.read(name))
            x = clouds.sample_surface(vertices, triangles, n_points, rng)
        except ValueError as error:
            raise ValueError(f"Received: {name}, which is no surface. {error}") from error
        yield part, x, CLASS_NAMES.index(kind)
        bar.add(1)


def _sample_hdf5(
    archive: zipfile.ZipFile, n_points: int, rng: np.random.Generator
) -> Iterator[_Sampled]:
    """Yields objects of the points of PointNet's authors, with the y axis turned to z."""
    for name in sorted(archive.namelist()):
        if match := _HDF5.fullmatch(name):
            for cloud, kind in zip(*_read_hdf5(archive.read(name), name), strict=True):
                chosen = np.sort(rng.permutation(len(cloud))[:n_points])
                yield match[1], cloud[chosen][:, [0, 2, 1]] * [1, -1, 1], kind


def _read_hdf5(content: bytes, name: str) -> tuple[Array, Ints]:
    """Clouds [n, points, 3] and their kinds [n] of one file."""
    try:
        with h5py.File(io.BytesIO(content)) as file:
            datasets = file["data"], file["label"]
            if max(dataset.nbytes for dataset in datasets) > _DENSEST * len(content):
                raise ValueError(f"is said to be of {datasets[0].shape}")
            x, y = (dataset[:] for dataset in datasets)
    except Exception as error:  # damaged files raise many kinds
        raise ValueError(f"Expected an HDF5 file. Received: {name} ({error})") from error
    y = y.reshape(-1)
    is_known = y.dtype.kind in "iu" and ((y >= 0) & (y < len(CLASS_NAMES))).all()
    is_known = is_known and x.dtype.kind == "f"
    if x.ndim != 3 or x.shape[1:] != (2048, 3) or y.shape != x.shape[:1] or not is_known:
        raise ValueError(
            f"Expected clouds [n, 2048, 3] of {len(CLASS_NAMES)} kinds [n]. "
            f"Received: {name} with shapes {x.shape} and {y.shape}"
        )
    return x, y


def _joined(objects: Iterator[_Sampled], n_points: int) -> dict[str, Array]:
    """The arrays of `_pairs`."""
    clouds_of, kinds_of = defaultdict(list), defaultdict(list)
    for part, cloud, kind in objects:
        clouds_of[part].append(cloud)
        kinds_of[part].append(kind)
    if not all(clouds_of[part] for part in _PARTS):
        raise zipfile.BadZipFile("there are no objects for training, or none for test")
    arrays = {}
    for part in _PARTS:
        arrays[f"x_{part}"] = np.array(clouds_of[part], np.float32).reshape(-1, n_points, 3)
        arrays[f"y_{part}"] = np.array(kinds_of[part], np.uint8)
    return arrays


_SAMPLE: dict[str, Callable[[zipfile.ZipFile, int, np.random.Generator], Iterator[_Sampled]]] = {
    "surfaces": _sample_surfaces,
    "hdf5": _sample_hdf5,
}

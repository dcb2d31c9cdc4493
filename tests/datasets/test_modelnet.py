"""ModelNet40: small archives of the official forms, damaged ones, and the real points."""

import io
import os
from pathlib import Path

import damage
import h5py
import numpy as np
import pytest

from keras_mmil.builders import clouds
from keras_mmil.datasets import modelnet

SQUARE = "OFF\n4 1 4\n0 0 0\n2 0 0\n2 2 0\n0 2 0\n4 0 1 2 3\n"
ROOF = "OFF4 2 5\n0 0 0\n2 0 0\n2 2 1\n0 2 1\n3 0 1 2\n3 0 2 3\n"
FILES = {
    "ModelNet40/bed/train/bed_0001.off": SQUARE,
    "ModelNet40/airplane/train/airplane_0001.off": ROOF,
    "ModelNet40/tv_stand/test/tv_stand_0001.off": SQUARE,
    "__MACOSX/ModelNet40/._bed": "junk",
    "ModelNet40/README.txt": "junk",
}
SURFACES = "ModelNet40.zip"
HDF5 = "modelnet40_ply_hdf5_2048.zip"


@pytest.fixture
def folder(folder):
    (folder / "modelnet40").mkdir()
    return folder / "modelnet40"


def hdf5(x, y):
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file["data"], file["label"] = x, y
    return buffer.getvalue()


def write_npz(folder, **changed):
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.normal(5, 2, (3, 20, 3)),
        "y_train": np.array([0, 39, 2], "uint8"),
        "x_test": rng.normal(5, 2, (2, 20, 3)),
        "y_test": np.array([1, 1], "uint8"),
    }
    np.savez(folder / "modelnet40_20.npz", **{**arrays, **changed})
    return arrays


def test_points(folder):
    arrays = write_npz(folder)
    (x, y), (x_test, y_test) = modelnet.load(n_points=20)
    np.testing.assert_allclose(x, clouds.normalise(arrays["x_train"]), rtol=1e-6)
    assert y.tolist() == [0, 39, 2]
    assert y.dtype == np.int64
    assert (x_test.shape, y_test.tolist()) == ((2, 20, 3), [1, 1])


def test_points_that_are_integers(folder):
    x = np.random.default_rng(1).integers(-32767, 32767, (3, 20, 3), np.int16)
    write_npz(folder, x_train=x, scale=np.float32(1 / 32767))
    (found, _), (x_test, _) = modelnet.load(n_points=20)
    np.testing.assert_allclose(found, clouds.normalise(x / 32767), atol=1e-5)
    assert x_test.shape == (2, 20, 3)
    for scale in (np.float32(0), np.float32(np.nan), np.int64(1), np.array([1.0])):
        write_npz(folder, x_train=x, scale=scale)
        with pytest.raises(ValueError, match="scale"):
            modelnet.load(n_points=20)
    write_npz(folder, x_train=x)
    with pytest.raises(ValueError, match=r"arrays \['scale'\]"):
        modelnet.load(n_points=20)


def test_surfaces(folder):
    damage.write_zip(folder / SURFACES, FILES)
    (x, y), (x_test, y_test) = modelnet.load(n_points=50, seed=3)
    names = [modelnet.CLASS_NAMES[kind] for kind in y]
    assert names == ["airplane", "bed"]
    assert [modelnet.CLASS_NAMES[kind] for kind in y_test] == ["tv_stand"]
    assert (x.shape, x_test.shape) == ((2, 50, 3), (1, 50, 3))
    np.testing.assert_allclose(x, clouds.normalise(x), atol=1e-5)
    assert np.ptp(x[1][:, 2]) < 1e-5 < np.ptp(x[0][:, 2])  # the square is flat, the roof is not
    cached = modelnet.load(n_points=50, seed=3)
    np.testing.assert_array_equal(cached[0][0], x)
    assert not np.array_equal(modelnet.load(n_points=50, seed=4)[0][0], x)


def test_hdf5(folder):
    """Their y axis is our z axis, and there are more points than wanted."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 2048, 3)) * [1, 10, 0.1]  # stretched upwards
    files = {
        f"modelnet40_ply_hdf5_2048/ply_data_{part}.h5": hdf5(part_x.astype("float32"), part_y)
        for part, part_x, part_y in (
            ("train0", x[:1], np.array([[7]])),
            ("train1", x[1:2], np.array([[8]])),
            ("test0", x[2:], np.array([[9]])),
        )
    }
    damage.write_zip(folder / HDF5, files)
    (ours, y), (_, y_test) = modelnet.load(n_points=64, source="hdf5")
    assert (y.tolist(), y_test.tolist()) == ([7, 8], [9])
    spread = ours.std(axis=1)
    assert (spread[:, 2] > 5 * spread[:, 0]).all()
    assert (spread[:, 0] > 5 * spread[:, 1]).all()
    whole = modelnet.load(n_points=2048, source="hdf5")[0][0]
    turned = np.stack([x[:2, :, 0], -x[:2, :, 2], x[:2, :, 1]], axis=2)
    np.testing.assert_allclose(whole, clouds.normalise(turned), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"n_points": 0}, "n_points=0"),
        ({"source": "ply"}, "source='ply'"),
        ({"source": "hdf5", "n_points": 2049}, "n_points=2049"),
    ],
)
def test_arguments(folder, arguments, match):
    with pytest.raises(ValueError, match=match):
        modelnet.load(**arguments)


@pytest.mark.parametrize("source", [None, "points", "surfaces", "hdf5"])
def test_no_files(folder, source):
    with pytest.raises(FileNotFoundError, match="modelnet40"):
        modelnet.load(source=source)


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({}, "whole archive"),
        ({"ModelNet40/bed/train/bed_0001.off": SQUARE}, "none for test"),
        ({**FILES, "ModelNet40/bed/train/bed_0001.off": SQUARE[:30]}, "bed_0001.off"),
        ({**FILES, "ModelNet40/bed/test/b.off": SQUARE.replace("2 2 0", "nan 2 0")}, "b.off"),
    ],
)
def test_damaged_archives(folder, files, match):
    damage.write_zip(folder / SURFACES, files)
    with pytest.raises(ValueError, match=match):
        modelnet.load(n_points=10)
    assert not list((folder.parent / "keras").rglob("*.npz"))


@pytest.mark.parametrize("name", [SURFACES, HDF5])
def test_no_archive(folder, name):
    (folder / name).write_bytes(b"PK no archive")
    with pytest.raises(ValueError, match="delete it and get it again"):
        modelnet.load(n_points=10, source="hdf5" if name == HDF5 else "surfaces")


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"x_train": np.zeros((3, 20, 2))}, "Expected clouds"),
        ({"y_train": np.zeros(2, int)}, "Expected clouds"),
        ({"y_test": np.array([0, 40])}, "Expected clouds"),
        ({"y_test": np.array([0.0, 1.0])}, "Expected clouds"),
        ({"x_train": np.full((3, 20, 3), np.nan)}, "180 that are NaN"),
        ({"x_test": np.array([[["a"] * 3] * 20] * 2)}, r"modelnet40_20\.npz"),
        ({"x_test": np.full((2, 20, 3), np.nan)}, r"modelnet40_20\.npz.*finite"),
    ],
)
def test_damaged_points(folder, changed, match):
    write_npz(folder, **changed)
    with pytest.raises(ValueError, match=match):
        modelnet.load(n_points=20)


# Damaged files ----------------------------------------------------------------------------------

SURFACE = ROOF.replace("OFF4", "OFF\n4")


def write_surfaces(folder):
    names = ("bed/train/bed_1.off", "airplane/train/airplane_1.off", "bed/test/bed_2.off")
    return damage.write_zip(folder / SURFACES, dict.fromkeys(names, SURFACE))


def write_hdf5(folder):
    files = {}
    for part in ("train0", "test0"):
        content = io.BytesIO()
        with h5py.File(content, "w") as file:
            # Few different points, so that the file is small.
            cloud = np.repeat(np.arange(32, dtype=np.float32).reshape(16, 2), 128, axis=0)
            cloud = np.concatenate([cloud, -cloud[:, :1]], axis=1)
            file.create_dataset("data", data=cloud[None], compression="gzip")
            file["label"] = np.array([[3]])
        files[f"ply_data_{part}.h5"] = content.getvalue()
    return damage.write_zip(folder / HDF5, files)


def write_points(folder):
    rng = np.random.default_rng(0)
    arrays = {f"x_{part}": rng.normal(0, 1, (2, 5, 3)) for part in ("train", "test")}
    arrays |= {f"y_{part}": np.array([1, 39]) for part in ("train", "test")}
    np.savez_compressed(folder / "modelnet40_5.npz", **arrays)
    return folder / "modelnet40_5.npz"


WRITERS = {"surfaces": write_surfaces, "hdf5": write_hdf5, "points": write_points}


@pytest.mark.parametrize("source", WRITERS)
def test_damaged_files(folder, source):
    path = WRITERS[source](folder)
    damage.check_files([path], lambda: damage.plain(modelnet.load(5, source)), is_checked=True)


def test_clouds_that_claim_to_be_huge(folder):
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.create_dataset("data", shape=(2**30, 2048, 3), dtype="f4", chunks=True)
        file["label"] = np.zeros(2)
    files = {"ply_data_train0.h5": content.getvalue()}
    damage.write_zip(folder / HDF5, files)
    match = r"train0\.h5 \(is said to be of \(1073741824, 2048, 3\)"
    with damage.bounded(), pytest.raises(ValueError, match=match):
        modelnet.load(5, "hdf5")


def test_surfaces_of_unknown_kinds_are_not_left_out(folder):
    names = ("bed/train/a.off", "bed/test/b.off", "bad/train/c.off")
    damage.write_zip(folder / SURFACES, dict.fromkeys(names, SURFACE))
    with pytest.raises(
        ValueError, match=r"of known kinds\. Received: bad/train/c\.off of .*ModelNet40"
    ):
        modelnet.load(5, "surfaces")


@pytest.mark.slow
def test_damaged_caches_are_made_anew(folder):
    write_surfaces(folder)
    damage.check_caches(folder.parent / "keras", lambda: damage.plain(modelnet.load(5)))


@pytest.mark.parametrize("reason", ["full", "no folder"])
def test_caches_that_cannot_be_written(folder, reason, monkeypatch):
    write_surfaces(folder)
    load = lambda: damage.plain(modelnet.load(5))  # noqa: E731
    damage.check_unwritable_cache(folder.parent / "keras", load, reason, monkeypatch)


def test_caches_of_what_cannot_be(folder):
    write_surfaces(folder)
    load = lambda: damage.plain(modelnet.load(5))  # noqa: E731
    changed = {"y_train": np.array([40, 0], np.uint8)}
    damage.check_impossible_cache(folder.parent / "keras", load, **changed)


@pytest.mark.data
def test_the_real_points():
    assert Path(os.environ["KERAS_MMIL_DATA"], "modelnet40", "modelnet40_100.npz").is_file()
    (x, y), (x_test, y_test) = modelnet.load()
    assert (x.shape, x_test.shape) == ((9843, 100, 3), (2468, 100, 3))
    assert np.bincount(y).shape == np.bincount(y_test).shape == (40,)
    kinds = list(modelnet.CLASS_NAMES)
    extent = np.ptp(x, axis=1)
    bottles, airplanes = (
        extent[y == kinds.index(kind)].mean(axis=0) for kind in ("bottle", "airplane")
    )
    assert bottles.argmax() == 2  # the z axis is upwards
    assert airplanes.argmin() == 2


@pytest.mark.slow
@pytest.mark.data
def test_the_real_points_of_which_there_are_more():
    """They are of the same objects in the same order."""
    few, more = (modelnet.load(n_points) for n_points in (100, 1024))
    for (x, y), (denser, kinds) in zip(few, more, strict=True):
        assert denser.shape == (len(x), 1024, 3)
        np.testing.assert_array_equal(kinds, y)
        ours, theirs = (np.ptp(part, axis=1) for part in (x, denser))
        ours, theirs = (part / part.sum(axis=1, keepdims=True) for part in (ours, theirs))
        assert np.abs(ours - theirs).mean() < 0.02  # of other objects of a kind: more


@pytest.mark.parametrize(
    ("source", "name", "content"),
    [
        ("surfaces", "bed/train/bed_1.off", SURFACE.replace("3 0 1 2", f"3 0 1 {2**63}")),
        ("surfaces", "bed/train/bed_1.off", "no surface"),
        ("hdf5", "ply_data_train0.h5", hdf5(np.full((1, 2048, 3), b"a"), [[3]])),
        ("hdf5", "ply_data_train0.h5", "no HDF5"),
    ],
)
def test_errors_name_the_archive(folder, source, name, content):
    path = WRITERS[source](folder)
    damage.write_zip(path, {name: content})
    with pytest.raises(ValueError, match=rf"{path.name}.*{name}|{path.name}.*vertices"):
        modelnet.load(5, source)

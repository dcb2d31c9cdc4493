"""NumPy's archives: whole, damaged, and claiming to be huge."""

import io

import damage
import numpy as np
import pytest

from keras_mmil.datasets._io import archives


def test_npz_files_are_checked(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((2, 3)), y=np.array([{}], object))
    assert archives.read_npz(path, {"x": (2, 3)})["x"].shape == (2, 3)
    for shapes, match in [
        ({"x": (2, 4)}, r"`x` of shape \(2, 4\) in .*a\.npz.*shape=\(2, 3\)"),
        ({"z": (2,)}, r"arrays \['z'\].*a\.npz"),
        ({"y": (1,)}, r"a\.npz.*Python objects"),
    ]:
        with pytest.raises(ValueError, match=match):
            archives.read_npz(path, shapes)


@pytest.mark.parametrize("cut", [0, 10, 200, 600])
def test_corrupt_npz_files(tmp_path, cut):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).random(100))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"delete the file and get it again. Received: .*a\.npz"):
        archives.read_npz(path, {"x": (100,)})


def test_single_arrays_are_not_archives(tmp_path):
    with open(tmp_path / "a.npz", "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match=r"Received: .*a\.npz"):
        archives.read_npz(tmp_path / "a.npz", {"x": (3,)})


def test_damaged_npz_files(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).random(100))
    content = bytearray(path.read_bytes())
    content[300:320] = bytes(20)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"Received: .*a\.npz"):
        archives.read_npz(path, {"x": (100,)})


def test_arrays_that_claim_to_be_huge(tmp_path):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        content, {"descr": "<f8", "fortran_order": False, "shape": (2**34,)}
    )
    path = damage.write_zip(tmp_path / "a.npz", {"x.npy": content.getvalue() + bytes(80)})
    match = r"a\.npz \(x\.npy is said to be of shape \(17179869184,\)"
    with damage.bounded(), pytest.raises(ValueError, match=match):
        archives.read_npz(path, {"x": None})

"""NumPy's archives: whole, damaged, and claiming to be huge."""

import io

import damage
import numpy as np
import pytest

from keras_mmil._support import archives


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


def test_bombs(tmp_path):
    """What is large and packed too densely is not unpacked."""
    path = damage.write_zip(tmp_path / "a.zip", {"x": bytes(2**26 + 1)})
    with pytest.raises(ValueError, match=r"a\.zip.*'x' of 67,108,865 bytes"), archives.opened(path):
        pass
    path = damage.write_zip(tmp_path / "b.zip", {"x": bytes(2**24)})
    with archives.opened(path) as archive:
        assert len(archive.read("x")) == 2**24


def test_all_arrays(tmp_path):
    arrays = {"x": np.arange(3), "texts": np.array(["ä", "bc"])}
    np.savez(tmp_path / "a.npz", **arrays)
    found = archives.read_npz(tmp_path / "a.npz")
    assert {name: x.tolist() for name, x in found.items()} == {"x": [0, 1, 2], "texts": ["ä", "bc"]}


@pytest.mark.parametrize("order", ["<", ">"])
def test_texts_of_no_characters(tmp_path, order):
    """NumPy would make a SystemError of them."""
    codes = np.array([[97, 2**20 * 17]], f"{order}u4")
    np.save(tmp_path / "a.npy", codes.view(f"{order}U2"))
    with pytest.raises(ValueError, match=r"a\.npy .*17825792, which is no character"):
        archives.read_npy(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.array(["\U0010ffff", "b"], f"{order}U2"))
    assert archives.read_npy(tmp_path / "a.npy").tolist() == ["\U0010ffff", "b"]


@pytest.mark.parametrize("content", [b"", b"junk", b"\x93NUMPY\x01\x00\x10\x00" + b"{" * 16])
def test_damaged_arrays(tmp_path, content):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"a \.npy file|\.npy file\. Received: .*a\.npy"):
        archives.read_npy(tmp_path / "a.npy")

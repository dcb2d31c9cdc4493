"""NumPy's files and saved networks: whole, damaged, and claiming to be huge."""

import io
import json
import zipfile

import damage
import numpy as np
import pytest
from trainable_networks import make_model

from keras_mmil._support import archives
from keras_mmil._support.archives import load_network


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


def test_damaged_npz_files(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).random(100))
    content = bytearray(path.read_bytes())
    content[300:320] = bytes(20)
    single = io.BytesIO()
    np.save(single, np.zeros(100))
    for damaged in (content, single.getvalue()):
        path.write_bytes(damaged)
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
    with (
        pytest.raises(ValueError, match=r"a\.zip.*'x' of 67,108,865 bytes"),
        archives.open_zip(path),
    ):
        pass
    path = damage.write_zip(tmp_path / "b.zip", {"x": bytes(2**24)})
    with archives.open_zip(path) as archive:
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


# Saved networks ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "network.keras"
    model = make_model()
    model.optimizer.build(model.trainable_variables)
    model.save(path)
    return path


def with_config(saved, path, change):
    """A copy whose configuration is changed by a function, with checksums that are right."""
    with zipfile.ZipFile(saved) as archive, zipfile.ZipFile(path, "w") as copy:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "config.json":
                config = json.loads(content)
                change(config["config"]["layers"][-1])
                content = json.dumps(config).encode()
            copy.writestr(name, content)
    return path


def test_networks_are_loaded(saved):
    for found, weight in zip(
        load_network(saved).get_weights(), make_model().get_weights(), strict=True
    ):
        np.testing.assert_array_equal(found, weight)


def test_no_network(tmp_path):
    path = tmp_path / "a.keras"
    with pytest.raises(FileNotFoundError, match=r"a saved network.*no file .*a\.keras"):
        load_network(path)
    path.write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"a\.keras"):
        load_network(path)


@pytest.mark.parametrize("place", [300, 3000, -300])
def test_damaged_networks(saved, tmp_path, place):
    content = bytearray(saved.read_bytes())
    content[place] ^= 1
    path = tmp_path / "b.keras"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"whole.*b\.keras"):
        load_network(path)


def test_weights_larger_than_the_files(saved, tmp_path):
    """Keras makes room for them, and fills it, before it looks at the weights in the file."""
    path = with_config(saved, tmp_path / "c.keras", lambda x: x["config"].update(units=2**31))
    with (
        damage.bounded(),
        pytest.raises(ValueError, match=r"c\.keras.*which are larger than the file's"),
    ):
        load_network(path)


@pytest.mark.parametrize(
    "config",
    [
        {"module": "os", "class_name": "system", "config": "true", "registered_name": "system"},
        {"module": "keras.layers", "class_name": "Lambda", "config": {"function": "exec"}},
        {"module": "elsewhere", "class_name": "Layer", "config": {}, "registered_name": "a>b"},
    ],
)
def test_layers_that_are_not_known(saved, tmp_path, config):
    path = with_config(saved, tmp_path / "d.keras", lambda x: x.update(config))
    with pytest.raises(ValueError, match=r"of layers that are known\. Received: .*d\.keras"):
        load_network(path)


def test_bombs_in_networks(saved, tmp_path):
    path = tmp_path / "e.keras"
    with zipfile.ZipFile(saved) as archive, zipfile.ZipFile(path, "w") as copy:
        copy.writestr("config.json", archive.read("config.json"))
        copy.writestr("model.weights.h5", bytes(2**26 + 1), zipfile.ZIP_DEFLATED)
    with (
        damage.bounded(),
        pytest.raises(ValueError, match=r"e\.keras.*'model\.weights\.h5' of 67,108,865"),
    ):
        load_network(path)

"""Saved networks: whole, damaged, and asking for more than they hold."""

import json
import zipfile

import numpy as np
import pytest
from damage import bounded
from trainable_networks import make_model

from keras_mmil._support.keras_files import load_network


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
    with pytest.raises(FileNotFoundError, match=r"a saved network.*no file .*a\.keras"):
        load_network(tmp_path / "a.keras")


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
    with bounded(), pytest.raises(ValueError, match=r"c\.keras.*which are larger than the file's"):
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


def test_bombs(saved, tmp_path):
    path = tmp_path / "e.keras"
    with zipfile.ZipFile(saved) as archive, zipfile.ZipFile(path, "w") as copy:
        copy.writestr("config.json", archive.read("config.json"))
        copy.writestr("model.weights.h5", bytes(2**26 + 1), zipfile.ZIP_DEFLATED)
    with (
        bounded(),
        pytest.raises(ValueError, match=r"e\.keras.*'model\.weights\.h5' of 67,108,865"),
    ):
        load_network(path)


def test_no_archive(tmp_path):
    path = tmp_path / "f.keras"
    path.write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"f\.keras"):
        load_network(path)

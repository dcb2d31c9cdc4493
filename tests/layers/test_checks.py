"""Files that were saved when arguments of layers had other names."""

import json
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil.layers import BagLayer, ConcatDense, Distinct, TextBags


def network():
    """A network that reads texts, with all layers of which an argument was renamed."""
    texts = keras.Input((), dtype="string", name="texts")
    bags = TextBags(["_", "?", "not", "bad"], splitter="core", name="texts_to_bags")(texts)
    ids, sub_bags, top_bags = Distinct()({"bags": bags})
    words = keras.layers.Embedding(4, 5, name="words")(ids)
    members, _ = sub_bags
    x = BagLayer(6, window_size=3, name="sub_bags")(words, *sub_bags)
    y = ConcatDense(6, window_size=3, name="windows")(words, members)
    z = BagLayer(None, name="sub_bags_too")(y)
    x = keras.layers.Concatenate()([x, z])
    return keras_mmil.Model(texts, keras.layers.Dense(1)(BagLayer(4)(x, *top_bags)))


OLD_NAMES = {"TextBags": "size", "BagLayer": "positions", "ConcatDense": "positions"}


def with_old_names(node):
    """A saved configuration, with the arguments of these layers as they were called."""
    if isinstance(node, list):
        return [with_old_names(each) for each in node]
    if not isinstance(node, dict):
        return node
    node = {key: with_old_names(each) for key, each in node.items()}
    if node.get("class_name") in OLD_NAMES:
        node["config"][OLD_NAMES[node["class_name"]]] = node["config"].pop("window_size")
    return node


@pytest.mark.slow
def test_a_model_saved_with_the_older_names_loads(tmp_path):
    model, x = network(), tf.constant(["Not bad. Bad! Not good", "Good, not bad"])
    model.save(tmp_path / "new.keras")
    with (
        zipfile.ZipFile(tmp_path / "new.keras") as new,
        zipfile.ZipFile(tmp_path / "old.keras", "w") as old,
    ):
        for name in new.namelist():
            content = new.read(name)
            if name == "config.json":
                content = json.dumps(with_old_names(json.loads(content))).encode()
                assert b"window_size" not in content
            old.writestr(name, content)
    loaded = keras.models.load_model(tmp_path / "old.keras")
    np.testing.assert_array_equal(loaded(x), model(x))
    named = [loaded.get_layer(name) for name in ("texts_to_bags", "sub_bags", "windows")]
    assert [layer.window_size for layer in named] == [3, 3, 3]


@pytest.mark.parametrize(
    "layer",
    [
        BagLayer(4),
        BagLayer(4, window_size=2),
        ConcatDense(4, window_size=2),
        TextBags(["_", "?", "not"], window_size=5, splitter="core"),
    ],
    ids=["None", "BagLayer", "ConcatDense", "TextBags"],
)
def test_older_names_in_configurations(layer):
    config = layer.get_config()
    config[OLD_NAMES[type(layer).__name__]] = config.pop("window_size")
    assert type(layer).from_config(config).get_config() == layer.get_config()

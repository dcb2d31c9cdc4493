"""What experiments write to the folder of a run."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import Explainer, Model
from keras_mmil.layers import BagLayer
from keras_mmil.zoo.experiments import RunWriter


def show(position):
    return "at " + "/".join(map(str, position))


@pytest.fixture(scope="module")
def clouds():
    """An untrained network, its rules, and bags of clouds of points in space [30, 2, 5, 3]."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, None, 3), ragged=True)
    x = BagLayer(3, name="sub_bags")(BagLayer(4, name="instances")(inputs))
    label = keras.layers.Dense(1, "sigmoid")
    model = Model(inputs, label(x))
    points = np.random.default_rng(0).normal(size=(30, 2, 5, 3)).astype("float32")
    bags = tf.RaggedTensor.from_tensor(points, ragged_rank=2)
    probability = np.median(model.predict(bags, verbose=0))
    label.bias.assign([np.log(1 / probability - 1)])  # half of the top-bags are positive
    explainer = Explainer(n_clusters=2, verbose=0).fit(model, bags, bags)
    return model, explainer, bags


@pytest.fixture
def report(clouds, tmp_path):
    return RunWriter(tmp_path, *clouds)


def test_texts_are_those_of_the_explainer(report):
    explainer, x = report.explainer, report.x
    report.clusters(x, show)
    expected = explainer.cluster_table(x, show=show).to_markdown() + "\n"
    assert (report.folder / "clusters.md").read_text() == expected
    report.explanations(x, show)
    written = (report.folder / "explanations.txt").read_text()
    assert written == "\n\n".join(map(str, explainer.explain(x[:20], show))) + "\n"
    assert "at 19" in written
    sides = tf.RaggedTensor.from_tensor([[0, 1]] * 30)
    report.sub_bags(x, sides, ("left", "right"))
    names = {"sub-bag": ("left", "right")}
    description = explainer.describe(x, sub_bag_labels=sides, label_names=names)[1]
    assert (report.folder / "sub_bags.txt").read_text() == f"{description}\n"
    assert (report.folder / "clusters.png").stat().st_size > 0


def test_a_model_for_texts_is_saved(report):
    report.model_for_texts(report.model)
    loaded = keras.models.load_model(report.folder / "text_model.keras")
    np.testing.assert_array_equal(
        loaded.predict(report.x, verbose=0), report.model.predict(report.x, verbose=0)
    )


def test_pictures_are_left_out_without_matplotlib(report, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    report.clouds(report.x, show)
    said = capsys.readouterr().out
    assert said.startswith("clouds.png is left out. Expected matplotlib to draw")
    assert not list(report.folder.iterdir())


def test_clouds_are_drawn_with_their_names(report, monkeypatch):
    drawn = []
    plot = "keras_mmil.zoo.experiments.experiment.plot_clouds"
    monkeypatch.setattr(
        plot, lambda *arguments, path: (drawn.append(arguments), path.write_text("drawn"))
    )
    report.clouds(report.x, show)
    ((explainer, some, around, titles),) = drawn
    assert explainer is report.explainer
    assert titles == [f"at {i}" for i in range(8)]
    np.testing.assert_array_equal(some.to_tensor(), report.x[:8].to_tensor())
    np.testing.assert_array_equal(around.to_tensor(), report.x.to_tensor())
    assert (report.folder / "clouds.png").read_text() == "drawn"

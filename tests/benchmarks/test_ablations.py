"""Ablations are compared on data that the networks do not learn from."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import zoo

pytestmark = pytest.mark.slow


@pytest.fixture
def ablations(load_benchmark, tmp_path, monkeypatch):
    module = load_benchmark("ablations")
    monkeypatch.setattr(load_benchmark("records"), "FOLDER", tmp_path)
    return module


def test_clouds_for_validation_are_not_learned_from(ablations):
    experiment = zoo.registry["modelnet-mil-P100"]
    data = experiment.load(seed=3, source="synthetic", limit=40)
    x, y = ablations.training_data(experiment, data)
    assert (x.shape[0], data.valid.x.shape[0], data.train.x.shape[0]) == (32, 8, 40)
    seen = {each.numpy().tobytes() for each in x}
    assert not seen & {each.numpy().tobytes() for each in data.valid.x}
    assert len(y) == 32


@pytest.mark.nightly
def test_ablations_are_recorded(ablations, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ablations.py"])
    built = []

    def small(**arguments):
        model = zoo.imdb_mil(**arguments, filters=4, bag_units=(4,))
        built.append((arguments, model.get_config()))
        return model

    experiment = zoo.registry["imdb-mil"]
    monkeypatch.setitem(ablations.zoo.registry, "imdb-mil", replaced(experiment, build=small))
    options = ["imdb-mil", "--source", "opinions", "--limit", "60", "--epochs", "2", "--seeds", "2"]
    ablations.main([*options, "--ablations", "as it is", "no dropout"])
    assert [arguments.get("dropout") for arguments, _ in built] == [None, None, 0.0, 0.0]
    records = json.loads((tmp_path / "ablations.json").read_text())
    assert [(each["variant"], each["metric"]) for each in records] == [
        ("as it is", "valid_accuracy"),
        ("as it is", "valid_accuracy_majority"),
        ("no dropout", "valid_accuracy"),
        ("no dropout", "valid_accuracy_majority"),
    ]
    y = experiment.load(seed=1, source="opinions", limit=60).valid.y
    assert records[1]["mean"] == pytest.approx(max(np.bincount(y)) / len(y), abs=1e-6)
    shown = [float(line.split("%")[0].split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert records[0]["mean"] == pytest.approx(np.mean(shown[:2]) / 100, abs=1e-4)
    assert records[0]["std"] == pytest.approx(np.std(shown[:2], ddof=1) / 100, abs=1e-4)

    # One that is measured anew replaces its own record only.
    ablations.main([*options[:-1], "1", "--ablations", "no dropout"])
    again = json.loads((tmp_path / "ablations.json").read_text())
    assert [each["runs"] for each in again] == [2, 2, 1, 1]
    with pytest.raises(SystemExit):
        ablations.main([*options, "--ablations", "more luck"])
    assert "more luck" in capsys.readouterr().err


def test_changes_of_the_compiled_model(ablations):
    model = zoo.pointcloud_mil(4, equivariant_units=(8,), dense_units=200)
    kernel = model.get_layer("dense").kernel
    assert np.abs(kernel).max() < np.sqrt(1 / 8)
    ablations.with_weights_of_keras(model)
    bound = np.sqrt(6 / (8 + 200))
    assert 0.95 * bound < np.abs(kernel).max() < bound
    ablations.with_epsilon_of_deep_sets(model)
    assert model.optimizer.get_config()["epsilon"] == 1e-3
    assert [ablations.of_deep_sets(10)(epoch) for epoch in (0, 3, 4, 7, 8)] == [
        *(1e-3, 1e-3, 1e-4, 1e-4, 1e-5)
    ]


def test_rotations_of_a_cloud_draw_points_of_their_own(ablations):
    """Two equal clouds in a bag keep equal points, unless each draws its own."""
    model = zoo.pointcloud_mmil(4, equivariant_units=(8,), dense_units=8, n_points=5)
    cloud = np.random.default_rng(0).normal(size=(1, 1, 50, 3)).astype(np.float32)
    bags = tf.RaggedTensor.from_tensor(np.repeat(cloud, 2, axis=1), ragged_rank=2)
    layer = model.get_layer("random_points")

    def are_equal():
        first, second = np.sort(layer(bags, training=True).to_tensor()[0], axis=1)
        return np.allclose(first, second)

    assert are_equal()
    ablations.with_points_of_each(model)
    assert not are_equal()


def replaced(experiment, **changes):
    """A copy of an experiment with other attributes."""
    return type(experiment)(**{**vars(experiment), **changes})

"""Averages of networks for point clouds, against loops over clouds."""

import json

import numpy as np
import pytest

from keras_mmil import zoo

UNITS = {"equivariant_units": (4,), "dense_units": 4}


@pytest.mark.slow
def test_networks_over_rotations(load_benchmark, tmp_path, capsys):
    averaged = load_benchmark("averaged_clouds")
    test = zoo.registry["modelnet-P100"].load(seed=0, source="synthetic", limit=7).test
    models = {
        "modelnet-P100": zoo.pointcloud_mmil(4, **UNITS),
        "modelnet-mil-P100-rotations": zoo.pointcloud_mil(4, **UNITS),
    }
    runs, expected = [], []
    for key, model in models.items():
        folder = tmp_path / key
        folder.mkdir()
        settings = {"experiment": key, "source": "synthetic", "limit": 7}
        (folder / "settings.json").write_text(json.dumps(settings))
        model.optimizer.build(model.trainable_variables)
        model.save(folder / "model.keras")
        runs.append(folder)
    bags, single = models.values()
    expected.append(bags.predict(test.x, verbose=0))
    of_each = []
    for rotations in test.x:
        logs = np.log(single.predict(rotations, verbose=0)).mean(axis=0)
        of_each.append(np.exp(logs) / np.exp(logs).sum())
    expected.append(np.array(of_each))
    for model, found in zip(models.values(), expected, strict=True):
        np.testing.assert_allclose(averaged.of_objects(model, test.x), found, atol=1e-5)
    records = averaged.measure(runs)
    accuracies = [(p.argmax(axis=1) == test.y).mean() for p in (expected[1], sum(expected))]
    assert [each["mean"] for each in records] == pytest.approx(accuracies, abs=1e-6)
    assert [each["variant"] for each in records] == [
        "P100-rotations, averaged over rotations",
        "P100, mil-P100-rotations",
    ]
    assert capsys.readouterr().out.count("%") == 2
    (runs[0] / "settings.json").write_text(json.dumps({**settings, "limit": 8}))
    with pytest.raises(SystemExit, match="runs that differ"):
        averaged.measure(runs)
    of_clouds = {**settings, "experiment": "modelnet-mil-P100"}  # which has not seen rotations
    (runs[0] / "settings.json").write_text(json.dumps(of_clouds))
    with pytest.raises(SystemExit, match=r"Expected rotations.*modelnet-mil-P100"):
        averaged.measure(runs)

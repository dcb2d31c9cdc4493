"""Folders of runs that are damaged."""

import json

import pytest

from keras_mmil.cli.finished_run import finished_run

SETTINGS = {"experiment": "mnist", "seed": 0, "limit": 12, "source": None, "adversarial": False}


@pytest.mark.parametrize(
    "change",
    [
        {"experiment": "other"},
        {"experiment": []},
        {"seed": "0"},
        {"limit": 1.5},
        {"source": 3},
        {"adversarial": None},
    ],
)
def test_settings_that_are_none(tmp_path, change):
    for name in ("rules", "model.keras", "trained_on.npy"):
        (tmp_path / name).touch()
    (tmp_path / "settings.json").write_text(json.dumps(SETTINGS | change))
    with pytest.raises(ValueError, match=r"the settings of a run\. Received: .*settings\.json"):
        finished_run(tmp_path)


def test_settings_that_are_nested_too_deeply(tmp_path):
    for name in ("rules", "model.keras", "trained_on.npy"):
        (tmp_path / name).touch()
    (tmp_path / "settings.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"the settings of a run\. Received: .*settings\.json"):
        finished_run(tmp_path)

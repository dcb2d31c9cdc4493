"""Folders of finished runs: those that are damaged, and what a network was trained on."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from keras_mmil.cli.finished_run import TrainedRun, finished_run

SETTINGS = {"experiment": "mnist", "seed": 0, "limit": 12, "source": None, "adversarial": False}


@pytest.mark.parametrize(
    "content",
    [
        *(
            json.dumps(SETTINGS | change)
            for change in (
                {"experiment": "other"},
                {"experiment": []},
                {"seed": "0"},
                {"limit": 1.5},
                {"source": 3},
                {"adversarial": None},
            )
        ),
        "[" * 100_000,
    ],
)
def test_settings_that_are_none(tmp_path, content):
    for name in ("rules", "model.keras", "trained_on.npy"):
        (tmp_path / name).touch()
    (tmp_path / "settings.json").write_text(content)
    with pytest.raises(ValueError, match=r"the settings of a run\. Received: .*settings\.json"):
        finished_run(tmp_path)


def test_records_for_validation_count_as_trained_on():
    """They choose the weights."""
    explainer = SimpleNamespace(hashes=lambda x: np.asarray(x, np.uint64))
    schema = SimpleNamespace(read=lambda records, without: records)
    estimator = SimpleNamespace(explainer_=explainer, schema_=schema)
    data = SimpleNamespace(split=([1, 2], [3], [4, 5]), take=lambda part: part, target="y")
    assert TrainedRun(estimator, data).trained_on.tolist() == [1, 2, 3]

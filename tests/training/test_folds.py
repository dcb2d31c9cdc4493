"""The figures of a cross-validation."""

import json

import numpy as np
import pytest

from keras_mmil.training import CrossValidation
from keras_mmil.training.folds import FoldLog, Place


def test_mean_and_standard_deviation():
    scores = np.array([[0.5, 0.7], [0.9, 0.7]])
    result = CrossValidation({"accuracy": scores}, np.full((2, 2), 60.0), majority=0.5)
    assert result.mean() == pytest.approx(0.7)
    assert result.std() == pytest.approx(np.std([0.6, 0.8], ddof=1))  # of the rounds
    figures = "accuracy 0.7000 ± 0.1414; most frequent class 0.5000"
    assert str(result) == f"{figures} (2 x 2 folds, 4 min of training)"
    one_round = CrossValidation({"accuracy": scores[:1]}, np.ones((1, 2)), majority=0.5)
    assert one_round.std() == pytest.approx(np.std([0.5, 0.7], ddof=1))  # of the folds


@pytest.mark.parametrize(
    "folds",
    [
        "all",
        [3],
        [{"round": 0, "fold": "x", "seconds": 1.0}],
        [{"round": 0, "fold": 2, "seconds": 1.0}],
        [{"round": 0, "fold": 0, "seconds": None}],
        [{"round": 0, "fold": 0}],
        [{"round": 0, "fold": 0, "seconds": 1.0}] * 2,
        [{"round": 0, "fold": i, "seconds": 1.0, f"score{i}": 1.0} for i in range(2)],
    ],
)
def test_folds_that_are_none(tmp_path, folds):
    path = tmp_path / "cross_validation.json"
    path.write_text(json.dumps({"settings": {}, "folds": folds}))
    with pytest.raises(ValueError, match=r"finished folds.*cross_validation\.json"):
        FoldLog(tmp_path, {}, rounds=1, folds=2, resume=True)


def test_scores_that_are_no_numbers_come_back(tmp_path):
    """The file is JSON for every program: it holds null for them."""
    settings = {"network": "a"}
    log = FoldLog(tmp_path, settings, rounds=1, folds=2, verbose=0)
    for fold, loss in enumerate((float("nan"), 0.5)):
        log.add(Place(0, fold), {"seconds": 1.0, "loss": loss})
    text = (tmp_path / "cross_validation.json").read_text()
    found = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert [fold["loss"] for fold in found["folds"]] == [None, 0.5]
    again = FoldLog(tmp_path, settings, rounds=1, folds=2, resume=True, verbose=0)
    np.testing.assert_array_equal(again.result(0.5).scores["loss"], [[np.nan, 0.5]])


def test_networks_that_nobody_can_compare_are_not_resumed(tmp_path):
    log = FoldLog(tmp_path, {"network": None}, rounds=1, folds=2, verbose=0)
    log.add(Place(0, 0), {"seconds": 1.0, "loss": 0.5})
    with pytest.raises(ValueError, match="a network that Keras can serialize"):
        FoldLog(tmp_path, {"network": None}, rounds=1, folds=2, resume=True)

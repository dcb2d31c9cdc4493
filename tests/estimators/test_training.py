"""Estimators on validation data of the user's, with checkpoints, and in folders."""

import json

import keras
import numpy as np
import pytest

from keras_mmil import NestedClassifier, NestedRegressor
from keras_mmil.estimators import saved
from keras_mmil.records import Schema

# Short trainings end with networks, and so rules, of a single class.
pytestmark = pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
QUICK = {"units": 4, "epochs": 3, "random_state": 0, "learning_rate": 0.02}
RECORDS = [{"x": i % 7, "bag": [i % 3] * (i % 4), "y": i % 7 > 3, "n": i % 5} for i in range(40)]
PLAIN = [{"x": record["x"], "bag": record["bag"]} for record in RECORDS]
Y = [record["y"] for record in RECORDS]


def labels_kept(estimator):
    """Which values of x each of the two parts has."""
    return [sorted(part.tensors()["x"].numpy().tolist()) for part in estimator._kept]


@pytest.mark.slow
def test_validation_data_are_those_given():
    by_path = NestedClassifier(**QUICK)
    by_path.fit(RECORDS[:25], "y", validation_data=(RECORDS[25:], "y"))
    arrays = NestedClassifier(**QUICK).fit(PLAIN[:25], Y[:25], validation_data=(PLAIN[25:], Y[25:]))
    expected = [sorted(r["x"] for r in part) for part in (RECORDS[:25], RECORDS[25:])]
    assert labels_kept(by_path) == labels_kept(arrays) == expected
    assert arrays.schema_ == Schema.infer(PLAIN[:25])
    x, y = by_path.schema_.read(RECORDS[25:], "y")
    loss = by_path.model_.evaluate(x, y, verbose=0, return_dict=True)["loss"]
    assert loss == pytest.approx(min(by_path.history_["val_loss"]), rel=1e-5)


@pytest.mark.slow
def test_validation_data_with_weights():
    arguments = {"sample_weight": np.ones(25), "validation_data": (PLAIN[25:], Y[25:], [2.0] * 15)}
    weighted = NestedClassifier(**QUICK).fit(PLAIN[:25], Y[:25], **arguments)
    plain = NestedClassifier(**QUICK).fit(PLAIN[:25], Y[:25], validation_data=(PLAIN[25:], Y[25:]))
    np.testing.assert_allclose(
        weighted.history_["val_loss"], 2 * np.array(plain.history_["val_loss"]), rtol=1e-5
    )
    arguments["validation_data"] = PLAIN[25:], Y[25:], np.zeros(15)
    with pytest.raises(ValueError, match=r"that are held out\. .* 15 that are all 0"):
        NestedClassifier(**QUICK).fit(PLAIN[:25], Y[:25], **arguments)
    with pytest.raises(ValueError, match=r"the same path for all records, 'y'\. Received: 'n'"):
        NestedClassifier(**QUICK).fit(RECORDS, "y", validation_data=(RECORDS, "n"))
    with pytest.raises(ValueError, match=r"each of 40 records\. Received: 3 labels"):
        NestedClassifier(**QUICK).fit(PLAIN, Y, validation_data=(PLAIN, Y[:3]))


@pytest.mark.slow
def test_callbacks_are_called():
    seen = []
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    NestedClassifier(**QUICK).fit(PLAIN, Y, callbacks=[callback])
    assert seen == [0, 1, 2]


@pytest.mark.slow
def test_a_training_that_is_resumed_ends_as_a_whole_one(tmp_path):
    arguments = {"validation_data": (RECORDS[25:], "y")}
    whole = NestedClassifier(**QUICK | {"epochs": 6})
    whole.fit(RECORDS[:25], "y", folder=tmp_path / "whole", **arguments)
    part = NestedClassifier(**QUICK)
    part.fit(RECORDS[:25], "y", folder=tmp_path / "part", **arguments)
    resumed = NestedClassifier(**QUICK | {"epochs": 6})
    resumed.fit(RECORDS[:25], "y", folder=tmp_path / "part", resume=True, **arguments)
    assert len(part.history_["loss"]) == 3
    np.testing.assert_allclose(resumed.history_["loss"], whole.history_["loss"], rtol=1e-4)
    np.testing.assert_allclose(
        resumed.predict_proba(RECORDS), whole.predict_proba(RECORDS), atol=1e-4
    )
    assert "seconds" not in whole.history_
    for state in (None, np.random.RandomState(0)):
        with pytest.raises(ValueError, match="random_state to be an int, for a training that may"):
            NestedClassifier(**QUICK | {"random_state": state}).fit(PLAIN, Y, folder=tmp_path)


@pytest.mark.slow
def test_regressors_are_saved_with_their_rules(tmp_path):
    explainer = {"n_clusters": 2, "verbose": 0}
    estimator = NestedRegressor(**QUICK, explainer=explainer, bins=[1, 3]).fit(RECORDS, "n")
    rules = str(estimator.rules_)
    estimator.save(tmp_path)
    loaded = NestedRegressor.load(tmp_path)
    assert str(loaded.rules_) == rules
    x = loaded.schema_.read(RECORDS, without="n")
    assert loaded.explainer_.fidelity(x) == estimator.explainer_.fidelity(x)
    bins = np.digitize(loaded.predict(RECORDS), [1, 3])
    assert loaded.explainer_.fidelity(x) == np.mean(loaded.explainer_.predict(x) == bins)
    assert loaded.rule_classes(np.array([0.5, 1, 2, 3, 9])).tolist() == [0, 1, 1, 2, 2]
    assert type(saved.load(tmp_path)) is NestedRegressor


@pytest.mark.slow
@pytest.mark.parametrize(
    ("y", "edges"),
    [
        ([0] * 30 + [4, 5, 6, 7] + [8] * 6, [4]),  # two thirds of them are the lowest
        ([0] * 20 + list(range(1, 21)), [7]),
        (list(range(40)), [13, 26]),
    ],
)
def test_no_bin_is_below_all_numbers(y, edges):
    estimator = NestedRegressor(**QUICK).fit(PLAIN, np.array(y, float))
    np.testing.assert_allclose(estimator.edges_, edges)


@pytest.mark.slow
def test_saved_estimators_of_any_class(tmp_path):
    assert not saved.is_saved(tmp_path)
    with pytest.raises(FileNotFoundError):
        saved.load(tmp_path)
    NestedClassifier(**QUICK).fit(PLAIN, Y).save(tmp_path)
    assert saved.is_saved(tmp_path)
    assert type(saved.load(tmp_path)) is NestedClassifier
    content = json.loads((tmp_path / "estimator.json").read_text())
    for wrong in ("{", "[]", json.dumps(content | {"class": "Other"})):
        (tmp_path / "estimator.json").write_text(wrong)
        with pytest.raises(ValueError, match="Expected a saved estimator, one of"):
            saved.load(tmp_path)

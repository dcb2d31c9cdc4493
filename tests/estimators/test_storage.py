"""Estimators in folders and pickles: what comes back, what is refused, and what is not replaced."""

import copy
import json
import pickle
import re

import joblib
import numpy as np
import pytest
from customers import make_records
from seals import reseal
from sklearn.base import clone

import keras_mmil
from keras_mmil import NestedClassifier, NestedRegressor
from keras_mmil.estimators import storage
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.estimators.storage import is_saved

pytestmark = [pytest.mark.eager, pytest.mark.filterwarnings("ignore:.*one class:UserWarning")]
RULES = {"n_clusters": 2, "verbose": 0}
QUICK = {"effort": "low", "units": 4, "epochs": 1, "random_state": 0, "explainer": RULES}

RECORDS = [{name: r[name] for name in ("items", "late", "spent")} for r in make_records(30)]
PLAIN = [{"items": r["items"]} for r in RECORDS]
LATE = np.array([r["late"] for r in RECORDS])
SPENT = np.array([r["spent"] for r in RECORDS])


@pytest.fixture(scope="module")
def classifier():
    """Fitted, without rules."""
    return NestedClassifier(**QUICK).fit(PLAIN, LATE)


def rewrite(saved, /, **changes):
    """Change the content of `estimator.json`, and its checksum."""

    def change(content):
        content["fitted"] |= changes.pop("fitted_too", {})
        content |= changes

    reseal(saved / "estimator.json", change)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["folder", "pickle", "joblib"])
def test_estimators_come_back(classifier, way, tmp_path):
    if way == "folder":
        classifier.save(tmp_path / "saved")
        loaded = NestedClassifier.load(tmp_path / "saved")
        with pytest.raises(ValueError, match="before it was saved"):
            loaded.fit_rules()
        names = {path.name for path in (tmp_path / "saved").iterdir()}
        assert {re.sub("-.*", "", name) for name in names} == {"estimator.json", "files"}
        assert len(names) == 2
    elif way == "pickle":
        loaded = pickle.loads(pickle.dumps(classifier))
    else:
        joblib.dump(classifier, tmp_path / "saved.joblib")
        loaded = joblib.load(tmp_path / "saved.joblib")
    np.testing.assert_array_equal(loaded.predict_proba(PLAIN), classifier.predict_proba(PLAIN))
    np.testing.assert_array_equal(loaded.predict(PLAIN), classifier.predict(PLAIN))
    assert loaded.history_ == classifier.history_
    assert loaded.schema_ == classifier.schema_
    assert (loaded.units, loaded.aggregation) == (4, ("max", "mean", "sum"))


def test_estimators_of_either_class(classifier, tmp_path):
    assert not is_saved(tmp_path)
    with pytest.raises(FileNotFoundError):
        NestedEstimator.load(tmp_path)
    estimator = NestedRegressor(**QUICK).fit(RECORDS, "spent")
    estimator.save(tmp_path)
    assert is_saved(tmp_path)
    loaded = NestedEstimator.load(tmp_path)
    assert type(loaded) is NestedRegressor
    np.testing.assert_array_equal(loaded.predict(RECORDS), estimator.predict(RECORDS))
    assert loaded.edges_.tolist() == estimator.edges_.tolist()
    assert loaded.score(RECORDS, "spent") == estimator.score(RECORDS, "spent")
    with pytest.raises(ValueError, match=r"a NestedClassifier in .*kind='NestedRegressor'"):
        NestedClassifier.load(tmp_path)
    classifier.save(tmp_path)
    assert type(NestedEstimator.load(tmp_path)) is NestedClassifier
    content = json.loads((tmp_path / "estimator.json").read_text())
    for wrong in ("{", "[]", json.dumps(content | {"kind": "Other"})):
        (tmp_path / "estimator.json").write_text(wrong)
        with pytest.raises(ValueError, match="Expected a NestedClassifier or NestedRegressor in"):
            NestedEstimator.load(tmp_path)


@pytest.mark.slow
def test_regressors_are_saved_with_their_rules(tmp_path):
    estimator = NestedRegressor(**QUICK, bins=[3, 9]).fit(RECORDS, "spent").fit_rules()
    estimator.save(tmp_path)
    loaded = NestedRegressor.load(tmp_path)
    assert loaded.rules_.text() == estimator.rules_.text()
    x = loaded.schema_.read(RECORDS, without="spent")
    bins = np.digitize(loaded.predict(RECORDS), [3, 9])
    agreement = np.mean(loaded.explainer_.predict(x) == bins)
    assert loaded.explainer_.fidelity(x) == estimator.explainer_.fidelity(x) == agreement
    assert loaded.rule_classes(np.array([0.5, 3, 4, 9, 99])).tolist() == [0, 1, 1, 2, 2]


def test_several_labels_of_an_array_come_back_with_their_rules(tmp_path):
    y = np.stack([LATE, ~LATE], axis=1).astype(int)
    found = NestedClassifier(**QUICK).fit(PLAIN, y).fit_rules()
    texts = [str(found.rules_of(label)) for label in found.classes_]  # ints of NumPy
    found.history_["val_loss"] = [float("nan")]
    found.save(tmp_path)
    text = (tmp_path / "estimator.json").read_text()
    content = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert content["history"]["val_loss"] == [None]
    loaded = NestedClassifier.load(tmp_path)
    assert [str(loaded.rules_of(label)) for label in (0, 1)] == texts
    assert np.isnan(loaded.history_["val_loss"]).all()
    assert loaded.history_["loss"] == found.history_["loss"]
    assert loaded.predict([]).shape == (0, 2)
    loaded.set_params(dropout=float("nan"))
    with pytest.raises(ValueError, match="Received: dropout=nan"):
        loaded.save(tmp_path)


@pytest.mark.slow
def test_parameters_that_json_cannot_hold(tmp_path):
    odd = NestedClassifier(**QUICK, aggregation=keras_mmil.aggregations.Max()).fit(PLAIN, LATE)
    with pytest.raises(ValueError, match="Received: aggregation="):
        odd.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_a_save_that_is_killed_leaves_the_older_estimator(classifier, tmp_path, monkeypatch):
    classifier.save(tmp_path)
    monkeypatch.setattr(storage, "write_state", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        clone(classifier).fit(PLAIN, ~LATE).save(tmp_path)
    loaded = NestedClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(PLAIN), classifier.predict_proba(PLAIN))
    monkeypatch.undo()
    classifier.save(tmp_path)
    assert len(list(tmp_path.glob("files-*"))) == 2  # and what was left is removed hours later


def test_damaged_files(classifier, tmp_path):
    classifier.save(tmp_path)
    (model,) = tmp_path.glob("files-*/model.keras")
    content = model.read_bytes()
    model.write_bytes(content[:-1])
    with pytest.raises(ValueError, match=r"a NestedClassifier in .*not as they were written"):
        NestedClassifier.load(tmp_path)
    model.unlink()
    with pytest.raises(ValueError, match=r"a NestedClassifier in .*not as they were written"):
        NestedClassifier.load(tmp_path)
    model.write_bytes(content)
    text = (tmp_path / "estimator.json").read_text()
    for change in (
        {"parameters": {"odd": 1}},
        {"parameters": None},
        {"fitted": {}},
        {"target": 3},
        {"rules_of": "all"},
        {"rules_of": [{}]},
        {"folder": ".."},
    ):
        (tmp_path / "estimator.json").write_text(text)
        rewrite(tmp_path, **change)
        name = next(iter(change))
        with pytest.raises(ValueError, match=f"a NestedClassifier in .*Received: .*{name}"):
            NestedClassifier.load(tmp_path)
    (tmp_path / "estimator.json").write_text(text)
    for classes in (["x", "x"], [True, False], [False, True, 2], [[], []]):
        rewrite(tmp_path, fitted_too={"classes_": classes})
        with pytest.raises(ValueError, match=r"Expected a NestedClassifier in .* Received: "):
            NestedClassifier.load(tmp_path)
    rewrite(tmp_path, fitted_too={"classes_": [False, True]})
    loaded = NestedClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(PLAIN), classifier.predict(PLAIN))
    (tmp_path / "estimator.json").write_text(text.replace('"units": 4', '"units": 5'))
    with pytest.raises(ValueError, match=r"estimator.json', damaged: its checksum differs"):
        NestedClassifier.load(tmp_path)


def test_save_does_not_write_among_other_things(classifier, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    with pytest.raises(FileExistsError, match=r"new or empty folder.*other with thesis.txt"):
        classifier.save(other)
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]
    with pytest.raises(FileExistsError, match=r"Received: .*thesis.txt, a file"):
        classifier.save(other / "thesis.txt")
    classifier.save(other, overwrite=True)
    classifier.save(other)  # an estimator is replaced
    assert (other / "thesis.txt").read_text() == "precious"
    (tmp_path / "killed" / "files-0123456789abcdef").mkdir(parents=True)
    classifier.save(tmp_path / "killed")
    assert NestedClassifier.load(tmp_path / "killed").predict(PLAIN).shape == (30,)


def test_pickles_hold_no_records_unless_they_are_to(classifier):
    classifier = copy.copy(classifier)
    classifier._explainers = {}
    with pytest.raises(ValueError, match=r"pickled .* keep_data=True. Received: one without rules"):
        pickle.loads(pickle.dumps(classifier)).rules_  # noqa: B018
    kept = copy.copy(classifier).set_params(keep_data=True)
    copies = [pickle.loads(pickle.dumps(kept)), copy.deepcopy(classifier)]
    expected = classifier.rules_.text()
    assert copies[1].model_ is not classifier.model_
    for each in copies:
        np.testing.assert_array_equal(each.predict_proba(PLAIN), classifier.predict_proba(PLAIN))
        assert each.rules_.text() == expected
    small, large = pickle.dumps(classifier), pickle.dumps(kept)
    assert pickle.loads(small).rules_.text() == expected  # as they were learned before
    assert len(small) < len(large)
    assert clone(kept).keep_data
    assert "_cache" not in vars(clone(kept))

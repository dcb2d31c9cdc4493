"""What estimators are given: labels that are missing, one record, none; and what files hold."""

import copy
import hashlib
import json
import pickle

import executed_rules
import numpy as np
import pandas as pd
import pytest
from customers import make_records
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_validate

from keras_mmil import NestedClassifier, NestedRegressor

pytestmark = [pytest.mark.eager, pytest.mark.filterwarnings("ignore:.*one class:UserWarning")]
RULES = {"n_clusters": 2, "verbose": 0}
QUICK = {"units": 4, "epochs": 1, "random_state": 0, "explainer": RULES}

RECORDS = [{"items": r["items"], "late": r["late"]} for r in make_records(30)]
PLAIN = [{"items": r["items"]} for r in RECORDS]
LATE = np.array([r["late"] for r in RECORDS])


@pytest.fixture(scope="module")
def classifier():
    """Fitted on labels at a path, never asked for rules."""
    return NestedClassifier(**QUICK).fit(RECORDS, "late")


@pytest.mark.slow
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_records_without_a_label_are_left_out(missing, classifier):
    lost = [0, 7, 8]
    left = [i for i in range(len(RECORDS)) if i not in lost]
    names = ["no" if each else "yes" for each in LATE]
    y = [missing if i in lost else name for i, name in enumerate(names)]
    weights = np.linspace(1, 2, len(y))
    expected = NestedClassifier(**QUICK).fit(
        [PLAIN[i] for i in left], [names[i] for i in left], weights[left]
    )
    given = np.array(y, object) if missing is None else pd.Series(y) if missing is pd.NA else y
    with pytest.warns(UserWarning, match="3 of 30 records have no label in y; .* left out"):
        found = NestedClassifier(schema=expected.schema_, **QUICK).fit(PLAIN, given, weights)
    assert found.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(found.predict_proba(PLAIN), expected.predict_proba(PLAIN))
    with pytest.warns(UserWarning, match="3 of 30"):
        score = found.score(PLAIN, y, weights)
    true = [names[i] for i in left]
    assert score == pytest.approx(
        accuracy_score(true, found.predict(PLAIN)[left], sample_weight=weights[left])
    )
    if missing is None:
        some = [{**r, "late": None} if i in lost else r for i, r in enumerate(RECORDS)]
        with pytest.warns(UserWarning, match="3 of 30 records have no label in 'late'"):
            by_path = NestedClassifier(**QUICK).fit(some, "late")
        assert by_path.classes_.tolist() == [False, True]
        with pytest.warns(UserWarning, match="3 of 30"):
            assert by_path.score(some, "late") == by_path.score([some[i] for i in left], "late")
    none = r"labels of some records\. Received: none of 30"
    with pytest.warns(UserWarning, match="30 of 30"), pytest.raises(ValueError, match=none):
        classifier.score(PLAIN, [missing] * 30)


def test_iterators_one_record_and_none(classifier):
    y = LATE.tolist()
    for data, labels in ((RECORDS, "late"), (PLAIN, y)):
        assert classifier.score(iter(data), labels) == classifier.score(data, labels)
    one = PLAIN[0]
    for call in (
        lambda: classifier.predict(one),
        lambda: classifier.predict_proba(one),
        lambda: classifier.explain(one),
        lambda: classifier.score(one, "late"),
        lambda: classifier.score(one, [True]),
    ):
        with pytest.raises(TypeError, match=r"Received: a dict .*\[record\] is a list of one"):
            call()
    assert len(classifier.explain([one])) == 1
    for nothing in ([], iter(())):
        found = classifier.predict(nothing)
        assert (found.shape, found.dtype) == ((0,), classifier.classes_.dtype)
        assert classifier.predict_proba([]).shape == (0, 2)
        assert len(classifier.explain([])) == 0
    with pytest.raises(ValueError, match="the same path for all records, 'late'"):
        classifier.score(RECORDS, "items")


def test_several_types_at_a_path():
    records = [{**r, "rating": "good" if i % 5 == 0 else i} for i, r in enumerate(RECORDS)]
    with pytest.raises(KeyError, match="rating<number>"):
        NestedRegressor(**QUICK).fit(records, "rating")
    with pytest.warns(UserWarning, match="6 of 30 records have no label in 'rating<number>'"):
        found = NestedRegressor(**QUICK).fit(records, "rating<number>")
    true = [i for i in range(30) if i % 5]
    with pytest.warns(UserWarning, match="6 of 30"):
        score = found.score(records, "rating<number>")
    expected = r2_score(true, found.predict([records[i] for i in true]))
    assert score == pytest.approx(expected, abs=1e-5)
    assert len(found.predict(records)) == 30
    assert not any("rating" in name for name in found.model_.input)


def strict(path):
    """JSON as the standard knows it."""
    return json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))


def test_several_labels_of_an_array_come_back_with_their_rules(tmp_path):
    y = np.stack([LATE, ~LATE], axis=1).astype(int)
    found = NestedClassifier(**QUICK).fit(PLAIN, y)
    texts = [str(found.rules_of(label)) for label in found.classes_]  # ints of NumPy
    found.history_["val_loss"] = [float("nan")]
    found.save(tmp_path)
    assert strict(tmp_path / "estimator.json")["history"]["val_loss"] == [None]
    loaded = NestedClassifier.load(tmp_path)
    assert [str(loaded.rules_of(label)) for label in (0, 1)] == texts
    assert np.isnan(loaded.history_["val_loss"]).all()
    assert loaded.history_["loss"] == found.history_["loss"]
    assert loaded.predict([]).shape == (0, 2)
    loaded.set_params(dropout=float("nan"))
    with pytest.raises(ValueError, match="Received: dropout=nan"):
        loaded.save(tmp_path)


def test_pickles_hold_no_records_unless_they_are_to(classifier):
    classifier = copy.copy(classifier)
    classifier._explainers = {}
    with pytest.raises(ValueError, match=r"pickled .* keep_data=True. Received: one without rules"):
        pickle.loads(pickle.dumps(classifier)).rules_  # noqa: B018
    kept = copy.copy(classifier).set_params(keep_data=True)
    copies = [pickle.loads(pickle.dumps(kept)), copy.deepcopy(classifier)]
    expected = str(classifier.rules_)
    assert copies[1].model_ is not classifier.model_
    for each in copies:
        np.testing.assert_array_equal(each.predict_proba(PLAIN), classifier.predict_proba(PLAIN))
        assert str(each.rules_) == expected
    small, large = pickle.dumps(classifier), pickle.dumps(kept)
    assert str(pickle.loads(small).rules_) == expected  # as they were asked for before
    assert len(small) < len(large)
    assert clone(kept).keep_data
    assert "_kept" not in vars(clone(kept))


@pytest.mark.slow
def test_scikit_learn_in_processes():
    estimator = NestedClassifier(**QUICK)
    search = GridSearchCV(estimator, {"units": [2, 3]}, cv=2, n_jobs=2).fit(PLAIN, LATE)
    assert search.best_params_["units"] in (2, 3)
    assert len(search.predict(PLAIN)) == 30
    assert str(search.best_estimator_.rules_)  # fitted here
    found = cross_validate(estimator, PLAIN, LATE, cv=2, n_jobs=2, return_estimator=True)
    assert np.isfinite(found["test_score"]).all()
    with pytest.raises(ValueError, match="from another process"):
        found["estimator"][0].rules_  # noqa: B018


def change(folder, **fitted):
    """Change what `estimator.json` says, with the checksum that it should have then."""
    content = json.loads((folder / "estimator.json").read_text())
    head = {"format": content.pop("format"), "sha256": content.pop("sha256")}
    content["fitted"] |= fitted
    head["sha256"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (folder / "estimator.json").write_text(json.dumps(head | content))


def test_classes_that_are_not_those_of_the_network(classifier, tmp_path):
    classifier.save(tmp_path)
    for classes in (["x", "x"], [True, False], [False, True, 2], [[], []]):
        change(tmp_path, classes_=classes)
        with pytest.raises(ValueError, match=r"Expected a NestedClassifier in .* Received: "):
            NestedClassifier.load(tmp_path)
    change(tmp_path, classes_=[False, True])
    loaded = NestedClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(PLAIN), classifier.predict(PLAIN))
    text = (tmp_path / "estimator.json").read_text()
    (tmp_path / "estimator.json").write_text(text.replace('"units": 4', '"units": 5'))
    with pytest.raises(ValueError, match=r"another checksum of estimator.json"):
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


def test_without_a_patience_the_last_epoch_is_kept(tmp_path):
    arguments = {**QUICK, "epochs": 3, "learning_rate": 2.0, "validation_split": 0.4}
    for folder in (tmp_path, None):
        found = NestedClassifier(**arguments, patience=None).fit(PLAIN, LATE, folder=folder)
        losses = found.history_["val_loss"]
        assert len(losses) == 3
        assert folder is None or losses[-1] > 1.01 * min(losses)
        x = found._kept[1].tensors()
        (rows,) = {len(each.to_list()) for each in x.values()}
        assert rows == 12
        y = [float(any(k == b"toy" for k in kinds)) for kinds in x["items.kind"].to_list()]
        loss = found.model_.evaluate(x, np.array(y), verbose=0, return_dict=True)["loss"]
        assert loss == pytest.approx(losses[-1], rel=1e-4)


@pytest.mark.slow
def test_numbers_far_from_0(tmp_path):
    """Times in seconds of one day, which float32 knows in steps of two minutes."""
    n_items = np.array([len(r["items"]) for r in PLAIN])
    y = 1.7e9 + 20.0 * n_items
    records = [{**r, "at": number} for r, number in zip(PLAIN, y.tolist(), strict=True)]
    edges = [1.7e9 + 50, 1.7e9 + 70]
    arguments = {**QUICK, "units": 8, "aggregation": "sum", "epochs": 30, "learning_rate": 0.1}
    arguments["batch_size"] = len(PLAIN)
    for X, target, weights, bins in (
        (records, "at", None, 3),
        (PLAIN, y, np.linspace(1, 2, len(y)), edges),
    ):
        found = NestedRegressor(**arguments, bins=bins).fit(X, target, weights)
        assert found.score(X, target, weights) > 0.5
        predicted = found.predict(X)
        assert predicted.dtype == np.float64
        assert found.score(X, target) == pytest.approx(r2_score(y, predicted))
        assert found.predict([]).dtype == np.float64
        names = found.explainer_.classes_
        assert len(set(names)) == len(names) == len(found.edges_) + 1
        bins = np.digitize(predicted, found.edges_)
        x = found._read(PLAIN)
        by_rules = found.explainer_.predict(x)
        assert found.explainer_.fidelity(x) == np.mean(by_rules == bins) > 0.6
        of_rules = [names[i] for i in by_rules]
        assert executed_rules.by_sql(found.explainer_, x) == of_rules
        assert executed_rules.by_python(found.explainer_, x) == of_rules
    assert found.edges_.tolist() == edges
    assert list(names) == ["below 1700000050", "1700000050 to 1700000070", "from 1700000070"]
    found.save(tmp_path / "saved")
    loaded = NestedRegressor.load(tmp_path / "saved")
    np.testing.assert_array_equal(loaded.predict(PLAIN), predicted)
    assert str(loaded.rules_) == str(found.rules_)
    change(tmp_path / "saved", offset_="far")
    with pytest.raises(ValueError, match="Received: offset_='far'"):
        NestedRegressor.load(tmp_path / "saved")
    change(tmp_path / "saved", offset_=0.0, edges_=[2, 1])
    with pytest.raises(ValueError, match="Received: edges_="):
        NestedRegressor.load(tmp_path / "saved")

"""Nested records in, predictions out: the estimators, as scikit-learn uses them."""

import hashlib
import json
import pickle
import re

import joblib
import numpy as np
import pytest
from customers import KINDS, make_records
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks as checks

import keras_mmil
from keras_mmil import NestedClassifier, NestedRegressor
from keras_mmil.estimators import _rules, _storage
from keras_mmil.records import Schema

QUICK = {"units": 6, "epochs": 1, "random_state": 0}

RECORDS = make_records()
PLAIN = [{name: r[name] for name in ("items", "note")} for r in RECORDS]
LATE = np.array([r["late"] for r in RECORDS])
SPENT = np.array([r["spent"] for r in RECORDS])


@pytest.fixture(scope="module")
def classifier():
    arguments = {**QUICK, "epochs": 12, "learning_rate": 0.1, "validation_split": 0.2}
    return NestedClassifier(**arguments).fit(PLAIN, LATE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "classes"),
    [("late", [False, True]), ("state", ["bad", "good"]), ("code", [2, 7])],
)
def test_labels_at_a_path(path, classes):
    estimator = NestedClassifier(**QUICK).fit(RECORDS, path)
    assert estimator.classes_.tolist() == classes
    assert not any(path in name for name in estimator.model_.input)
    found = estimator.predict(RECORDS)
    assert set(found.tolist()) <= set(classes)
    y = [record[path] for record in RECORDS]
    expected = accuracy_score(y, found)
    assert estimator.score(RECORDS, path) == estimator.score(RECORDS, y) == expected
    without = [{k: v for k, v in record.items() if k != path} for record in RECORDS]
    np.testing.assert_array_equal(estimator.predict(without), found)


@pytest.mark.parametrize(
    "y", [LATE, np.where(LATE, "yes", "no"), np.where(LATE, 5, 3), list(map(int, LATE)), KINDS * 13]
)
def test_labels_of_all_types(y):
    records = PLAIN[: len(y)]
    estimator = NestedClassifier(**{**QUICK, "epochs": 1}).fit(records, y)
    assert estimator.classes_.tolist() == sorted(set(np.asarray(y).tolist()))
    probabilities = estimator.predict_proba(records)
    assert probabilities.shape == (len(y), len(estimator.classes_))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    likeliest = estimator.classes_[probabilities.argmax(axis=1)]
    np.testing.assert_array_equal(estimator.predict(records), likeliest)
    assert estimator.score(records, y) == accuracy_score(y, likeliest)


def test_it_learns(classifier):
    test = make_records(100, seed=1)
    assert classifier.score(test, [record["late"] for record in test]) > 0.9
    assert classifier.history_["loss"][-1] < classifier.history_["loss"][0]
    assert len(classifier.history_["val_loss"]) <= 12


@pytest.mark.slow
def test_the_best_epoch_is_restored():
    arguments = {**QUICK, "epochs": 30, "patience": 2, "learning_rate": 0.1}
    estimator = NestedClassifier(**arguments, validation_split=0.3).fit(PLAIN, LATE)
    losses = estimator.history_["val_loss"]
    assert len(losses) == min(30, int(np.argmin(losses)) + 3)
    _, kept = estimator._kept
    x = kept.tensors()
    restored = estimator.model_.predict(x, verbose=0)
    assert len(restored) == 12
    found = [1 - abs(p - y) for p, y in zip(restored[:, 0], labels_of(x, estimator), strict=True)]
    assert -np.log(found).mean() == pytest.approx(min(losses), rel=1e-3)


def labels_of(x, estimator):
    """The labels of records as they were kept: whether there is a toy."""
    return [float(b"toy" in kinds) for kinds in x["items.kind"].to_list()]


def test_without_validation_all_records_are_trained_on():
    estimator = NestedClassifier(**QUICK, validation_split=0).fit(PLAIN, LATE)
    assert "val_loss" not in estimator.history_
    assert len(estimator.history_["loss"]) == 1
    assert estimator._kept[1] is None


def test_several_labels():
    y = ("late", "paid")
    estimator = NestedClassifier(**QUICK).fit(RECORDS, y)
    assert estimator.classes_.tolist() == ["late", "paid"]
    expected = np.array([[r["late"], r["paid"]] for r in RECORDS], int)
    found = estimator.predict(RECORDS)
    np.testing.assert_array_equal(found, estimator.predict_proba(RECORDS) > 0.5)
    assert estimator.score(RECORDS, y) == np.mean((found == expected).all(axis=1))
    other = NestedClassifier(**QUICK).fit(PLAIN, expected)
    assert other.predict(PLAIN).shape == (40, 2)
    with pytest.raises(ValueError, match=r"labels \['late', 'paid'\]\. Received: label=None"):
        estimator.rules_  # noqa: B018
    with pytest.raises(ValueError, match="Received: label='odd'"):
        estimator.rules_of("odd")


@pytest.mark.slow
def test_numbers():
    arguments = {**QUICK, "epochs": 40, "learning_rate": 0.05, "aggregation": "sum"}
    arguments["batch_size"] = len(PLAIN)
    estimator = NestedRegressor(**arguments).fit(PLAIN, SPENT)
    assert estimator.score(PLAIN, SPENT) > 0.8
    found = estimator.predict(PLAIN)
    assert found.shape == (40,)
    assert estimator.score(PLAIN, SPENT) == pytest.approx(r2_score(SPENT, found))
    np.testing.assert_allclose(estimator.edges_, np.quantile(SPENT, [1 / 3, 2 / 3]), rtol=1e-6)
    by_path = NestedRegressor(**QUICK, bins=[5, 10]).fit(RECORDS, "spent")
    assert by_path.edges_.tolist() == [5, 10]
    assert by_path.score(RECORDS, "spent") == pytest.approx(
        r2_score(SPENT, by_path.predict(RECORDS))
    )


@pytest.mark.slow
def test_a_schema_with_choices():
    schema = Schema.infer(PLAIN)
    schema.drop("items.price")
    estimator = NestedClassifier(schema=schema, **QUICK).fit(PLAIN, LATE)
    assert "items.price" not in estimator.model_.input
    assert estimator.schema_ == schema
    estimator = NestedClassifier(schema=Schema.infer(RECORDS), **QUICK).fit(RECORDS, "code")
    assert estimator.schema["code"].kind == "category"  # by its name
    assert "code" in estimator.schema


@pytest.mark.slow
def test_equal_seeds_make_equal_estimators(classifier):
    a, b, c = (
        NestedClassifier(**{**QUICK, "dropout": 0.3, "random_state": seed}).fit(PLAIN, LATE)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(a.predict_proba(PLAIN), b.predict_proba(PLAIN))
    assert a.history_ == b.history_
    assert not np.array_equal(a.predict_proba(PLAIN), c.predict_proba(PLAIN))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["folder", "pickle", "joblib"])
def test_files(classifier, way, tmp_path):
    if way == "folder":
        classifier.save(tmp_path / "saved")
        loaded = NestedClassifier.load(tmp_path / "saved")
        with pytest.raises(ValueError, match="before it was saved"):
            loaded.rules_  # noqa: B018
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
    assert loaded.units == classifier.units
    assert loaded.aggregation == ("max", "mean")


def test_a_saved_regressor(tmp_path):
    estimator = NestedRegressor(**QUICK).fit(RECORDS, "spent")
    estimator.save(tmp_path)
    loaded = NestedRegressor.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(RECORDS), estimator.predict(RECORDS))
    assert loaded.edges_.tolist() == estimator.edges_.tolist()
    assert loaded.score(RECORDS, "spent") == estimator.score(RECORDS, "spent")
    with pytest.raises(ValueError, match=r"a NestedClassifier .*class='NestedRegressor'"):
        NestedClassifier.load(tmp_path)


def sealed(content):
    """What `estimator.json` holds, with the checksum that it should have."""
    about = {name: value for name, value in content.items() if name != "format"}
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return {"format": content["format"], "sha256": digest} | about


def test_a_save_that_is_killed_leaves_the_older_estimator(classifier, tmp_path, monkeypatch):
    classifier.save(tmp_path)
    monkeypatch.setattr(_storage, "write_json", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        clone(classifier).set_params(epochs=1).fit(PLAIN, ~LATE).save(tmp_path)
    loaded = NestedClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(PLAIN), classifier.predict_proba(PLAIN))
    monkeypatch.undo()
    classifier.save(tmp_path)
    assert len(list(tmp_path.glob("files-*"))) == 2  # and what was left is removed hours later


def test_other_files_than_were_saved(classifier, tmp_path):
    classifier.save(tmp_path)
    (model,) = tmp_path.glob("files-*/model.keras")
    model.write_bytes(model.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"a NestedClassifier in .*not as they were written"):
        NestedClassifier.load(tmp_path)
    model.unlink()
    with pytest.raises(ValueError, match=r"a NestedClassifier in .*not as they were written"):
        NestedClassifier.load(tmp_path)


def test_damaged_files(classifier, tmp_path):
    classifier.save(tmp_path)
    path = tmp_path / "estimator.json"
    content = json.loads(path.read_text())
    del content["sha256"]
    for change in (
        {"format": 1},
        {"parameters": {"odd": 1}},
        {"parameters": None},
        {"fitted": {}},
        {"target": 3},
        {"rules_of": "all"},
        {"rules_of": [{}]},
        {"folder": ".."},
    ):
        path.write_text(json.dumps(sealed(content | change)))
        name = next(iter(change))
        with pytest.raises(ValueError, match=f"a NestedClassifier in .*Received: .*{name}"):
            NestedClassifier.load(tmp_path)
    path.write_text("{")
    with pytest.raises(ValueError, match="Expected a NestedClassifier in"):
        NestedClassifier.load(tmp_path)


@pytest.mark.slow
def test_parameters_that_are_no_json(classifier, tmp_path):
    odd = clone(classifier).set_params(aggregation=keras_mmil.aggregations.Max())
    odd.fit(PLAIN, LATE)
    with pytest.raises(ValueError, match="Received: aggregation="):
        odd.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_before_fit(tmp_path):
    estimator = NestedClassifier()
    for call in (
        lambda: estimator.predict(PLAIN),
        lambda: estimator.score(PLAIN, LATE),
        lambda: estimator.rules_,
        lambda: estimator.explain(PLAIN),
        lambda: estimator.save(tmp_path / "saved"),
        lambda: NestedRegressor().predict(PLAIN),
    ):
        with pytest.raises(NotFittedError):
            call()


@pytest.mark.parametrize(
    ("y", "arguments", "match"),
    [
        (LATE[:5], {}, "each of 40 records. Received: 5 labels"),
        (np.zeros(40, int), {}, r"at least two classes\. Received: \[0\]"),
        (np.linspace(0, 1, 40), {}, "continuous"),
        (np.tile([[0, 2], [1, 3]], (20, 1)), {}, r"labels 0 or 1.*Received: \[0, 1, 2, 3\]"),
        (LATE, {"validation_split": 2}, "Received: validation_split=2"),
        (LATE, {"epochs": 0}, "Received: epochs=0"),
        (LATE, {"units": 0}, "Received: units=0"),
        (LATE, {"patience": 0}, "Received: patience=0"),
    ],
)
def test_what_does_not_fit(y, arguments, match):
    with pytest.raises(ValueError, match=match):
        NestedClassifier(**{**QUICK, **arguments}).fit(PLAIN, y)


def test_what_is_no_number():
    with pytest.raises(ValueError, match="one finite number"):
        NestedRegressor(**QUICK).fit(PLAIN, ["a"] * 40)
    with pytest.raises(ValueError, match="one finite number"):
        NestedRegressor(**QUICK).fit(PLAIN, [np.inf] * 40)
    with pytest.raises(ValueError, match=r"float32 can hold. Received: 1e\+39 in y"):
        NestedRegressor(**QUICK).fit(PLAIN, [1e39, *range(39)])
    with (
        pytest.warns(UserWarning, match="40 of 40 records have no label in y"),
        pytest.raises(ValueError, match=r"labels of some records. Received: none of 40"),
    ):
        NestedRegressor(**QUICK).fit(PLAIN, [np.nan] * 40)
    for bins in ([3, 2], [1, np.inf], [np.nan, 1]):
        with pytest.raises(ValueError, match=r"increasing numbers. Received: bins="):
            NestedRegressor(**QUICK, bins=bins).fit(PLAIN, SPENT)
    with pytest.raises(ValueError, match="Received: bins=1"):
        NestedRegressor(**QUICK, bins=1).fit(PLAIN, SPENT)
    with pytest.raises(KeyError, match="Received: 'none'"):
        NestedClassifier(**QUICK).fit(PLAIN, "none")


@pytest.mark.slow
def test_scikit_learn_chooses_with_it():
    estimator = NestedClassifier(**{**QUICK, "epochs": 1})
    few, y = PLAIN[:16], LATE[:16]
    scores = cross_val_score(estimator, few, y, cv=2)
    assert ((scores >= 0) & (scores <= 1)).all()
    strip = FunctionTransformer(lambda rows: [{"items": row["items"]} for row in rows])
    pipeline = make_pipeline(strip, clone(estimator)).fit(RECORDS, LATE)
    assert list(pipeline[-1].model_.input) == ["items.kind", "items.price"]
    assert len(pipeline.predict(RECORDS)) == 40
    regression = cross_val_score(NestedRegressor(**QUICK), few, SPENT[:16], cv=2)
    assert np.isfinite(regression).all()


@pytest.mark.slow
def test_generators_and_files(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    from_file = NestedClassifier(**QUICK).fit(path, "late")
    from_list = NestedClassifier(**QUICK).fit(RECORDS, "late")
    streamed = NestedClassifier(**QUICK).fit((record for record in RECORDS), "late")
    expected = from_list.predict_proba(RECORDS)
    np.testing.assert_array_equal(from_file.predict_proba(path), expected)
    np.testing.assert_array_equal(streamed.predict_proba(iter(RECORDS)), expected)


class Recorder:
    """In place of the explainer: what it is given."""

    def __init__(self, **arguments):
        self.arguments = arguments

    def fit(self, model, x, x_valid):
        self.fitted = model, x, x_valid
        return self


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(_rules, "Explainer", Recorder)


def test_what_the_explainer_is_given(recorder):
    estimator = NestedClassifier(explainer={"max_clusters": 3}, **QUICK).fit(PLAIN, LATE)
    given = estimator.explainer_
    names = {"class_names": ["False", "True"], "max_clusters": 3, "verbose": 0}
    assert given.arguments == names
    model, x, x_valid = given.fitted
    assert model is estimator.model_
    whole = estimator.schema_.read(PLAIN)
    assert {path: each.dtype for path, each in x.items()} == {
        path: each.dtype for path, each in whole.items()
    }
    for path, each in whole.items():
        rows = [*each.numpy().tolist()] if path == "note" else each.to_list()
        parts = [part[path] for part in (x, x_valid)]
        found = [
            row
            for part in parts
            for row in (part.numpy().tolist() if path == "note" else part.to_list())
        ]
        assert sorted(map(str, found)) == sorted(map(str, rows))
    assert len(x_valid["note"]) == 4
    assert estimator.explainer_ is given
    assert pickle.loads(pickle.dumps(estimator._kept))[0].tensors().keys() == x.keys()


@pytest.mark.slow
def test_what_the_explainer_is_given_of_labels_and_numbers(recorder):
    labels = NestedClassifier(**QUICK).fit(RECORDS, ("late", "paid"))
    assert labels.explainer_of("paid").arguments == {
        "target": (1, 0.5),
        "class_names": ["not paid", "paid"],
        "verbose": 0,
    }
    numbers = NestedRegressor(bins=[5, 10.5], **QUICK).fit(PLAIN, SPENT)
    arguments = numbers.explainer_.arguments
    assert arguments["class_names"] == ["below 5", "5 to 10.5", "from 10.5"]
    assert arguments["target"](np.array([[4.9], [5], [10], [10.5], [99]])).tolist() == [
        0,
        1,
        1,
        2,
        2,
    ]
    assert pickle.loads(pickle.dumps(arguments["target"]))(np.array([[7]])).tolist() == [1]


@pytest.mark.slow
def test_rules(tmp_path):
    records = [{"items": record["items"]} for record in RECORDS]
    arguments = {**QUICK, "epochs": 12, "learning_rate": 0.1}
    explainer = {"n_clusters": 2, "verbose": 0}
    estimator = NestedClassifier(explainer=explainer, **arguments).fit(records, LATE)
    assert not estimator._explainers
    found = estimator.explainer_.predict(estimator._read(records))
    assert np.mean(estimator.classes_[found] == LATE) > 0.8
    assert str(estimator.rules_) == str(estimator.explainer_.rules_)
    assert "True" in str(estimator.rules_)
    assert len(estimator.explain(records[:2])) == 2
    with pytest.raises(ValueError, match="Expected no label"):
        estimator.rules_of("late")
    estimator.save(tmp_path)
    loaded = NestedClassifier.load(tmp_path)
    assert str(loaded.rules_) == str(estimator.rules_)
    estimator.explainer = {**explainer, "instances": "centroids"}
    estimator._explainers.clear()
    assert "\n     definitions of items: accuracy " in str(estimator.rules_)


@pytest.mark.slow
def test_rules_of_numbers_and_of_several_labels():
    records = [{"items": record["items"]} for record in RECORDS]
    explainer = {"n_clusters": 2, "verbose": 0}
    arguments = {**QUICK, "epochs": 5, "learning_rate": 0.1, "explainer": explainer}
    regressor = NestedRegressor(bins=[5, 10], **arguments).fit(records, SPENT)
    names = {"below 5", "5 to 10", "from 10"}
    assert any(name in str(regressor.rules_) for name in names)
    bins = np.digitize(regressor.predict(records), [5, 10])
    x = regressor._read(records)
    assert regressor.explainer_.fidelity(x) == pytest.approx(
        np.mean(regressor.explainer_.predict(x) == bins)
    )
    highest = float(regressor.predict(records).max())
    regressor.edges_ = np.array([5, highest + 1, highest + 2])  # no record is in the last two bins
    regressor._explainers.clear()
    assert len(regressor.explainer_.classes_) == 4
    assert 0.5 < regressor.explainer_.fidelity(x) <= 1
    y = np.stack([LATE, SPENT > 8], axis=1).astype(int)
    labels = NestedClassifier(**arguments).fit(records, y)
    assert {"1", "not 1"} & set(str(labels.rules_of(1)).replace(".", " ").split())
    assert labels.explainer_of(0) is not labels.explainer_of(1)


# Of scikit-learn's checks of estimators these need no table of numbers. All others fit on such
# arrays, which are no records, or are about transformers, clusterings and sparse matrices.
CHECKS = [
    checks.check_do_not_raise_errors_in_init_or_set_params,
    checks.check_estimator_cloneable,
    checks.check_estimator_repr,
    checks.check_estimator_tags_renamed,
    checks.check_get_params_invariance,
    checks.check_mixin_order,
    checks.check_no_attributes_set_in_init,
    checks.check_parameters_default_constructible,
    checks.check_set_params,
    checks.check_valid_tag_types,
]


@pytest.mark.parametrize("estimator", [NestedClassifier(), NestedRegressor()], ids=["c", "r"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_checks_of_scikit_learn(check, estimator):
    check(type(estimator).__name__, estimator)


@pytest.mark.slow
def test_what_checks_that_fit_arrays_would_find(classifier):
    """Their statements, on records: fit returns self, changes no parameter and no record."""
    assert is_classifier(classifier)
    assert is_regressor(NestedRegressor())
    before = json.dumps(PLAIN)
    estimator = NestedClassifier(**QUICK)
    parameters = estimator.get_params()
    assert estimator.fit(PLAIN, LATE) is estimator
    assert estimator.get_params() == parameters
    assert json.dumps(PLAIN) == before
    expected = estimator.predict_proba(PLAIN)
    attributes = set(vars(estimator))
    new = attributes - set(parameters)
    assert all(name.endswith("_") or name.startswith("_") for name in new)
    np.testing.assert_array_equal(estimator.predict_proba(PLAIN), expected)  # changes nothing
    assert set(vars(estimator)) == attributes
    np.testing.assert_allclose(  # records do not depend on each other, nor on their order
        estimator.predict_proba(PLAIN[::-1])[::-1], expected, rtol=1e-5
    )
    np.testing.assert_allclose(estimator.predict_proba(PLAIN[:3]), expected[:3], rtol=1e-5)
    estimator.fit(PLAIN, LATE)  # again: from the start
    np.testing.assert_array_equal(estimator.predict_proba(PLAIN), expected)
    fresh = clone(estimator)
    assert not hasattr(fresh, "model_")

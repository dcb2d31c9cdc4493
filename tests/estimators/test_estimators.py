"""Nested records in, predictions out: the estimators, as scikit-learn uses them."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import keras
import numpy as np
import own_records
import pandas as pd
import pytest
from customers import KINDS, make_records
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks as checks

from keras_mmil import NestedClassifier, NestedRegressor
from keras_mmil.records import Schema
from keras_mmil.training.stopping import is_over

# Short trainings end with networks, and so rules, of a single class.
pytestmark = pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
QUICK = {"effort": "low", "units": 6, "epochs": 1, "random_state": 0}

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
@pytest.mark.parametrize(("patience", "folder"), [(2, None), (None, None), (None, "checkpoints")])
def test_the_best_epoch_is_restored_or_the_last_is_kept(patience, folder, tmp_path):
    arguments = {
        **QUICK,
        "epochs": 30 if patience else 3,
        "learning_rate": 0.1 if patience else 0.3,
    }
    estimator = NestedClassifier(**arguments, patience=patience, validation_split=0.3)
    estimator.fit(PLAIN, LATE, folder=folder and tmp_path / folder)
    losses = estimator.history_["val_loss"]
    if patience:
        assert len(losses) < 30
        assert is_over(losses, 2, 0.003)
        assert not is_over(losses[:-1], 2, 0.003)
    else:
        assert len(losses) == 3
    _, x = estimator._cache.tensors()
    y = np.array([float(b"toy" in kinds) for kinds in x["items.kind"].to_list()])
    assert len(y) == 12
    loss = estimator.model_.evaluate(x, y, verbose=0, return_dict=True)["loss"]
    assert loss == pytest.approx(min(losses) if patience else losses[-1], rel=1e-3)


def test_without_validation_all_records_are_trained_on():
    estimator = NestedClassifier(**QUICK, validation_split=0).fit(PLAIN, LATE)
    assert "val_loss" not in estimator.history_
    assert len(estimator.history_["loss"]) == 1
    assert estimator._cache.tensors()[1] is None


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


LABELLED = [{"items": r["items"], "late": r["late"]} for r in make_records(30)]
ITEMS = [{"items": r["items"]} for r in LABELLED]
LATE_OF_ITEMS = np.array([r["late"] for r in LABELLED])
TINY = {**QUICK, "units": 4, "explainer": {"n_clusters": 2, "verbose": 0}}


@pytest.fixture(scope="module")
def by_path():
    """Fitted on labels at a path."""
    return NestedClassifier(**TINY).fit(LABELLED, "late")


@pytest.mark.slow
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_records_without_a_label_are_left_out(missing, by_path):
    lost = [0, 7, 8]
    left = [i for i in range(len(LABELLED)) if i not in lost]
    names = ["no" if each else "yes" for each in LATE_OF_ITEMS]
    y = [missing if i in lost else name for i, name in enumerate(names)]
    weights = np.linspace(1, 2, len(y))
    expected = NestedClassifier(**TINY).fit(
        [ITEMS[i] for i in left], [names[i] for i in left], weights[left]
    )
    given = np.array(y, object) if missing is None else pd.Series(y) if missing is pd.NA else y
    with pytest.warns(UserWarning, match="3 of 30 records have no label in y; .* left out"):
        found = NestedClassifier(schema=expected.schema_, **TINY).fit(ITEMS, given, weights)
    assert found.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(found.predict_proba(ITEMS), expected.predict_proba(ITEMS))
    with pytest.warns(UserWarning, match="3 of 30"):
        score = found.score(ITEMS, y, weights)
    true = [names[i] for i in left]
    assert score == pytest.approx(
        accuracy_score(true, found.predict(ITEMS)[left], sample_weight=weights[left])
    )
    if missing is None:
        some = [{**r, "late": None} if i in lost else r for i, r in enumerate(LABELLED)]
        with pytest.warns(UserWarning, match="3 of 30 records have no label in 'late'"):
            other = NestedClassifier(**TINY).fit(some, "late")
        assert other.classes_.tolist() == [False, True]
        with pytest.warns(UserWarning, match="3 of 30"):
            assert other.score(some, "late") == other.score([some[i] for i in left], "late")
    none = r"labels of some records\. Received: none of 30"
    with pytest.warns(UserWarning, match="30 of 30"), pytest.raises(ValueError, match=none):
        by_path.score(ITEMS, [missing] * 30)


def test_iterators_one_record_and_none(by_path):
    y = LATE_OF_ITEMS.tolist()
    for data, labels in ((LABELLED, "late"), (ITEMS, y)):
        assert by_path.score(iter(data), labels) == by_path.score(data, labels)
    one = ITEMS[0]
    for call in (
        lambda: by_path.predict(one),
        lambda: by_path.predict_proba(one),
        lambda: by_path.explain(one),
        lambda: by_path.score(one, "late"),
        lambda: by_path.score(one, [True]),
    ):
        with pytest.raises(TypeError, match=r"Received: a dict .*\[record\] is a list of one"):
            call()
    assert len(by_path.explain([one])) == 1
    for nothing in ([], iter(())):
        found = by_path.predict(nothing)
        assert (found.shape, found.dtype) == ((0,), by_path.classes_.dtype)
        assert by_path.predict_proba([]).shape == (0, 2)
        assert len(by_path.explain([])) == 0
    with pytest.raises(ValueError, match="the same path for all records, 'late'"):
        by_path.score(LABELLED, "items")


def test_several_types_at_a_path():
    records = [{**r, "rating": "good" if i % 5 == 0 else i} for i, r in enumerate(LABELLED)]
    with pytest.raises(KeyError, match="rating<number>"):
        NestedRegressor(**TINY).fit(records, "rating")
    with pytest.warns(UserWarning, match="6 of 30 records have no label in 'rating<number>'"):
        found = NestedRegressor(**TINY).fit(records, "rating<number>")
    true = [i for i in range(30) if i % 5]
    with pytest.warns(UserWarning, match="6 of 30"):
        score = found.score(records, "rating<number>")
    expected = r2_score(true, found.predict([records[i] for i in true]))
    assert score == pytest.approx(expected, abs=1e-5)
    assert len(found.predict(records)) == 30
    assert not any("rating" in name for name in found.model_.input)


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
@pytest.mark.eager
def test_scikit_learn_in_processes():
    estimator = NestedClassifier(**QUICK, explainer={"n_clusters": 2, "verbose": 0})
    search = GridSearchCV(estimator, {"units": [2, 3]}, cv=2, n_jobs=2).fit(PLAIN, LATE)
    assert search.best_params_["units"] in (2, 3)
    assert len(search.predict(PLAIN)) == 40
    assert search.best_estimator_.rules_.text()  # fitted here
    found = cross_validate(estimator, PLAIN, LATE, cv=2, n_jobs=2, return_estimator=True)
    assert np.isfinite(found["test_score"]).all()
    with pytest.raises(ValueError, match="from another process"):
        found["estimator"][0].rules_  # noqa: B018


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


NUMBERS = [{"x": i % 7, "bag": [i % 3] * (i % 4), "y": i % 7 > 3, "n": i % 5} for i in range(40)]
BAGS = [{"x": record["x"], "bag": record["bag"]} for record in NUMBERS]
Y = [record["y"] for record in NUMBERS]
THREE = {"effort": "low", "units": 4, "epochs": 3, "random_state": 0, "learning_rate": 0.02}


def parts_kept(estimator):
    """The values of x in each of the two parts."""
    return [sorted(part["x"].numpy().tolist()) for part in estimator._cache.tensors()]


@pytest.mark.slow
def test_validation_data_are_those_given():
    by_path = NestedClassifier(**THREE)
    by_path.fit(NUMBERS[:25], "y", validation_data=(NUMBERS[25:], "y"))
    arrays = NestedClassifier(**THREE).fit(BAGS[:25], Y[:25], validation_data=(BAGS[25:], Y[25:]))
    expected = [sorted(r["x"] for r in part) for part in (NUMBERS[:25], NUMBERS[25:])]
    assert parts_kept(by_path) == parts_kept(arrays) == expected
    assert arrays.schema_ == Schema.infer(BAGS[:25])
    x, y = by_path.schema_.read(NUMBERS[25:], "y")
    loss = by_path.model_.evaluate(x, y, verbose=0, return_dict=True)["loss"]
    assert loss == pytest.approx(min(by_path.history_["val_loss"]), rel=1e-5)


@pytest.mark.slow
def test_validation_data_with_weights():
    arguments = {"sample_weight": np.ones(25), "validation_data": (BAGS[25:], Y[25:], [2.0] * 15)}
    weighted = NestedClassifier(**THREE).fit(BAGS[:25], Y[:25], **arguments)
    plain = NestedClassifier(**THREE).fit(BAGS[:25], Y[:25], validation_data=(BAGS[25:], Y[25:]))
    np.testing.assert_allclose(
        weighted.history_["val_loss"], 2 * np.array(plain.history_["val_loss"]), rtol=1e-5
    )
    arguments["validation_data"] = BAGS[25:], Y[25:], np.zeros(15)
    with pytest.raises(ValueError, match=r"that are held out\. .* 15 that are all 0"):
        NestedClassifier(**THREE).fit(BAGS[:25], Y[:25], **arguments)
    with pytest.raises(ValueError, match=r"the same path for all records, 'y'\. Received: 'n'"):
        NestedClassifier(**THREE).fit(NUMBERS, "y", validation_data=(NUMBERS, "n"))
    with pytest.raises(ValueError, match=r"each of 40 records\. Received: 3 labels"):
        NestedClassifier(**THREE).fit(BAGS, Y, validation_data=(BAGS, Y[:3]))


@pytest.mark.slow
def test_callbacks_are_called():
    seen = []
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    NestedClassifier(**THREE).fit(BAGS, Y, callbacks=[callback])
    assert seen == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("of_effort", [{}, {"effort": "auto", "patience": 1}])
def test_a_training_that_is_resumed_ends_as_a_whole_one(tmp_path, of_effort):
    arguments = {"validation_data": (NUMBERS[25:], "y")} if not of_effort else {}
    settings = THREE | of_effort
    whole = NestedClassifier(**settings | {"epochs": 6})
    whole.fit(NUMBERS[:25], "y", folder=tmp_path / "whole", **arguments)
    part = NestedClassifier(**settings)
    part.fit(NUMBERS[:25], "y", folder=tmp_path / "part", **arguments)
    resumed = NestedClassifier(**settings | {"epochs": 6})
    resumed.fit(NUMBERS[:25], "y", folder=tmp_path / "part", resume=True, **arguments)
    assert len(part.history_["loss"]) == 3
    np.testing.assert_allclose(resumed.history_["loss"], whole.history_["loss"], rtol=1e-4)
    np.testing.assert_allclose(
        resumed.predict_proba(NUMBERS), whole.predict_proba(NUMBERS), atol=1e-4
    )
    assert "seconds" not in whole.history_
    for state in (None, np.random.RandomState(0)):
        with pytest.raises(ValueError, match="random_state to be an int, for a training that may"):
            NestedClassifier(**THREE | {"random_state": state}).fit(BAGS, Y, folder=tmp_path)


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
    estimator = NestedRegressor(**THREE).fit(BAGS, np.array(y, float))
    np.testing.assert_allclose(estimator.edges_, edges)


@pytest.mark.slow
def test_threads_do_not_disturb_each_other():
    segments = [{k: r[k] for k in ("orders", "segment")} for r in own_records.customers(40)]
    barrier = Barrier(2)

    def fitted(seed, *, at_once):
        if at_once:
            barrier.wait(60)
        estimator = NestedClassifier(
            effort="low",
            units=4,
            dropout=0.3,
            epochs=2,
            patience=None,
            learning_rate=0.01,
            random_state=seed,
        )
        return estimator.fit(segments, "segment").predict_proba(segments)

    expected = [fitted(seed, at_once=False) for seed in (0, 1)]
    assert not np.allclose(*expected)
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda seed: fitted(seed, at_once=True), (0, 1)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert random.getstate() == before[0]
    for one, other in zip(np.random.get_state(), before[1], strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(one, other)


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

"""Weights of records and of classes in the estimators."""

import json
import sys

import numpy as np
import pytest
from pairs import pairs
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.class_weight import compute_sample_weight

from keras_mmil import NestedClassifier, NestedRegressor
from keras_mmil.records import Schema

RNG = np.random.default_rng(0)
RECORDS = [
    {"items": [{"price": float(p)} for p in RNG.integers(1, 9, RNG.integers(1, 4))]}
    for _ in range(30)
]
SPENT = np.array([sum(item["price"] for item in r["items"]) for r in RECORDS])
LARGE = SPENT > 10
KINDS = np.array(["few", "some", "many"])[np.digitize(SPENT, [6, 14])]
COUNTS = RNG.integers(0, 4, len(RECORDS))
REPEATED = np.repeat(np.arange(len(RECORDS)), COUNTS)
SCHEMA = Schema.infer(RECORDS)
# All records in one batch: then the weighted mean is that of repeated records.
WHOLE = {
    "effort": "low",
    "schema": SCHEMA,
    "units": 4,
    "epochs": 5,
    "batch_size": 200,
    "validation_split": 0,
}
AS_REPEATED = COUNTS * len(RECORDS) / COUNTS.sum()


def weights_of(estimator):
    return np.concatenate([w.ravel() for w in estimator.model_.get_weights()])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "y"),
    [
        pytest.param(NestedClassifier, LARGE, marks=pytest.mark.nightly),
        (NestedClassifier, KINDS),
        (NestedRegressor, SPENT),
    ],
)
def test_weights_are_repetitions(cls, y, capsys, monkeypatch):
    def new():
        return cls(**WHOLE, learning_rate=0.01, random_state=0)

    weighted = new().fit(RECORDS, y, sample_weight=AS_REPEATED)
    repeated = new().fit([RECORDS[i] for i in REPEATED], y[REPEATED])
    np.testing.assert_allclose(weights_of(weighted), weights_of(repeated), atol=2e-4)
    unweighted = weights_of(new().fit(RECORDS, y))
    assert np.abs(weights_of(weighted) - unweighted).max() > 2e-3
    monkeypatch.setitem(sys.modules, "ipykernel", None)  # as in a notebook, which shows progress
    ones = new().fit(RECORDS, y, sample_weight=[1] * len(RECORDS))
    assert "No records were held out" in capsys.readouterr().out
    np.testing.assert_array_equal(weights_of(ones), unweighted)


def test_a_record_without_weight_makes_no_difference():
    """Not even one that is far off, by which a number would be standardised."""
    y, counts = SPENT.copy(), np.ones(len(SPENT))
    y[3], counts[3] = 1e6, 0
    found = NestedRegressor(**WHOLE, random_state=0).fit(RECORDS, y, counts)
    y[3] = -5
    same = NestedRegressor(**WHOLE, random_state=0).fit(RECORDS, y, counts)
    np.testing.assert_array_equal(found.predict(RECORDS), same.predict(RECORDS))


@pytest.mark.slow
def test_training_stops_by_the_weighted_loss():
    """Where only one class of the held-out records counts, it is as if the others were none."""
    counts = np.where(LARGE, 1.0, 1e-9)
    arguments = {**WHOLE, "validation_split": 0.5, "epochs": 2}
    fitted = NestedClassifier(**arguments, random_state=0).fit(RECORDS, LARGE, counts)
    _, x = fitted._cache.tensors()
    p = fitted.model_.predict(x, verbose=0)[:, 0].astype(float)
    large = held_out_labels(x)
    # Keras's mean is that over all records, whatever their weights.
    expected = -np.log(p[large]).sum() / len(p)
    assert min(fitted.history_["val_loss"]) == pytest.approx(expected, rel=1e-4)


def held_out_labels(x):
    spent = [float(np.sum(row)) for row in x["items.price"].to_list()]
    return np.array(spent) > 10


@pytest.mark.slow
@pytest.mark.parametrize(("y", "chosen"), pairs([LARGE, KINDS], ["balanced", "dict"]))
def test_weights_of_classes(y, chosen):
    classes = np.unique(y).tolist()
    class_weight = {classes[0]: 2.5} if chosen == "dict" else "balanced"
    expected = compute_sample_weight(
        "balanced" if chosen == "balanced" else dict.fromkeys(classes, 1.0) | class_weight, y
    )
    found = NestedClassifier(**WHOLE, class_weight=class_weight, random_state=0).fit(RECORDS, y)
    same = NestedClassifier(**WHOLE, random_state=0).fit(RECORDS, y, expected)
    np.testing.assert_allclose(weights_of(found), weights_of(same), atol=1e-6)
    both = NestedClassifier(**WHOLE, class_weight=class_weight, random_state=0)
    total = both.fit(RECORDS, y, COUNTS)._weigh(np.searchsorted(classes, y), COUNTS)
    if chosen == "dict":
        np.testing.assert_allclose(total, expected * COUNTS)
    else:
        of_classes = [total[y == name].sum() for name in classes]
        np.testing.assert_allclose(of_classes, COUNTS.sum() / len(classes), rtol=1e-5)


@pytest.mark.slow
def test_scores_are_those_of_scikit_learn():
    classifier = NestedClassifier(**WHOLE, random_state=0).fit(RECORDS, KINDS)
    expected = accuracy_score(KINDS, classifier.predict(RECORDS), sample_weight=COUNTS)
    assert classifier.score(RECORDS, KINDS, sample_weight=COUNTS) == expected
    assert expected != classifier.score(RECORDS, KINDS)
    regressor = NestedRegressor(**WHOLE, random_state=0).fit(RECORDS, SPENT)
    expected = r2_score(SPENT, regressor.predict(RECORDS), sample_weight=COUNTS)
    assert regressor.score(RECORDS, SPENT, sample_weight=COUNTS) == expected


@pytest.mark.parametrize(
    ("sample_weight", "match"),
    [
        (np.ones(5), "one weight for each of 30 .*Received: 5 weights"),
        (-np.ones(30), "weights ≥ 0. Received: sample_weight"),
        (np.full(30, np.nan), "NaN or infinite"),
        (np.ones((30, 1)), r"one weight for each of 30 records. Received: weights.shape=\(30, 1\)"),
        (np.zeros(30), "some of the records to train on. Received: weights of 30 that are all 0"),
    ],
)
@pytest.mark.parametrize("estimator", [NestedClassifier(**WHOLE), NestedRegressor(**WHOLE)])
def test_weights_that_do_not_fit(estimator, sample_weight, match):
    y = LARGE if isinstance(estimator, NestedClassifier) else SPENT
    with pytest.raises(ValueError, match=match):
        estimator.fit(RECORDS, y, sample_weight)


@pytest.mark.parametrize(
    ("class_weight", "match"),
    [
        ("equal", "Expected 'balanced', None or a dict.*Received: class_weight='equal'"),
        ({"tiny": 2}, r"some of the classes \['few', 'many', 'some'\].*Received: .*'tiny'"),
        ({"few": -1}, r"Received: class_weight\['few'\]=-1"),
    ],
)
def test_weights_of_classes_that_do_not_fit(class_weight, match):
    with pytest.raises(ValueError, match=match):
        NestedClassifier(**WHOLE, class_weight=class_weight).fit(RECORDS, KINDS)


def test_several_labels_have_no_class_weights():
    y = np.stack([LARGE, SPENT > 8], axis=1).astype(int)
    with pytest.raises(ValueError, match="Expected class_weight=None for several labels"):
        NestedClassifier(**WHOLE, class_weight="balanced").fit(RECORDS, y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("class_weight", "y"),
    [
        ({True: 3.0}, LARGE),
        ({0: 2, 1: 1.5}, LARGE.astype(int)),
        ({"few": 2.0}, KINDS),
        ({"pairs": 2.0}, np.where(LARGE, "pairs", "single")),
        ("balanced", KINDS),
    ],
)
def test_weights_of_classes_are_saved(class_weight, y, tmp_path):
    fitted = NestedClassifier(**{**WHOLE, "epochs": 1}, class_weight=class_weight)
    fitted.fit(RECORDS, y).save(tmp_path)
    assert json.loads((tmp_path / "estimator.json").read_text())
    loaded = NestedClassifier.load(tmp_path)
    assert loaded.class_weight == class_weight
    assert list(map(type, loaded.class_weight)) == list(map(type, class_weight))

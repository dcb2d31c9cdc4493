"""Pages about the rules of estimators."""

import numpy as np
import pytest
from customers import make_records

from keras_mmil import NestedClassifier, NestedRegressor

SETTINGS = {
    "units": 8,
    "epochs": 6,
    "learning_rate": 0.1,
    "random_state": 0,
    "explainer": {"n_clusters": 2, "verbose": 0},
}
LONGER = {**SETTINGS, "epochs": 12, "learning_rate": 0.03}

TRAIN, TEST = (
    [{name: r[name] for name in ("items", "state")} for r in make_records(n, seed)]
    for n, seed in ((80, 0), (50, 1))
)
ITEMS, TEST_ITEMS = ([{"items": r["items"]} for r in records] for records in (TRAIN, TEST))


def column(name, records):
    """A label of each record: its state, whether it has a toy, a book, or what it spent."""
    if name == "state":
        return np.array([r["state"] for r in records])
    if name == "spent":
        return np.array([sum(item["price"] for item in r["items"]) for r in records])
    return np.array([any(item["kind"] == name for item in r["items"]) for r in records]).astype(int)


def accuracy(page):
    """The share of the records on a page that the rules classify correctly."""
    return page.data["certificate"]["accuracy"]["estimate"]


@pytest.fixture(scope="module")
def classifier():
    return NestedClassifier(**SETTINGS).fit(ITEMS, column("state", TRAIN))


@pytest.mark.slow
def test_labels_are_in_the_records():
    classifier = NestedClassifier(**SETTINGS).fit(TRAIN, "state")
    page = classifier.report(TEST, "state", title="Who is late?", n_cases=2)
    x = classifier.schema_.read(TEST, without="state")
    by_rules = np.array(["bad", "good"])[classifier.explainer_.predict(x)]
    assert accuracy(page) == np.mean(by_rules == column("state", TEST)) > 0.9
    assert page.data["title"] == "Who is late?"
    assert len(page.data["cases"]) == 2


@pytest.mark.slow
def test_labels_are_given_as_to_fit(classifier):
    truth = column("state", TEST)
    truth[:10] = np.where(truth[:10] == "bad", "good", "bad")
    by_rules = classifier.classes_[classifier.explainer_.predict(classifier._read(TEST_ITEMS))]
    found = accuracy(classifier.report(TEST_ITEMS, truth, n_cases=0))
    assert found == np.mean(by_rules == truth)
    assert 0.5 < found < 0.9


@pytest.mark.slow
def test_without_labels_there_is_no_accuracy(classifier):
    page = classifier.report(TEST_ITEMS, n_cases=0)
    assert page.data["certificate"]["accuracy"] is None
    assert page.data["certificate"]["fidelity"]["n"] == len(TEST)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("y", "match"),
    [
        (
            np.full(len(TEST), "lost"),
            r"among \['bad', 'good'\]\. Received: .*'lost'.* in y",
        ),
        (["late"], "one label for each of 50 records. Received: 1 labels"),
    ],
)
def test_labels_that_are_none_are_named(classifier, y, match):
    with pytest.raises(ValueError, match=match):
        classifier.report(TEST_ITEMS, y)


@pytest.mark.slow
def test_one_of_several_labels():
    y, truth = (np.stack([column(k, x) for k in ("toy", "book")], 1) for x in (TRAIN, TEST))
    classifier = NestedClassifier(**LONGER).fit(ITEMS, y)
    by_rules = classifier.explainer_of(1).predict(classifier._read(TEST_ITEMS))
    found = accuracy(classifier.report(TEST_ITEMS, truth, 1, n_cases=0))
    assert found == np.mean(by_rules == truth[:, 1]) != np.mean(by_rules == truth[:, 0])


@pytest.mark.slow
def test_numbers_are_in_bins():
    regressor = NestedRegressor(bins=[5, 10], **LONGER).fit(ITEMS, column("spent", TRAIN))
    truth = np.digitize(column("spent", TEST), [5, 10])
    by_rules = regressor.explainer_.predict(regressor._read(TEST_ITEMS))
    page = regressor.report(TEST_ITEMS, column("spent", TEST), n_cases=0)
    assert accuracy(page) == np.mean(by_rules == truth)

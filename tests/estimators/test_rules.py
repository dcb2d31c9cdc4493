"""The rules of estimators, when they are learned, and reports about them."""

import pickle

import executed_rules
import numpy as np
import pytest
from customers import make_records
from sklearn.metrics import r2_score

from keras_mmil import NestedClassifier, NestedRegressor
from keras_mmil.estimators import base

pytestmark = pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
QUICK = {"effort": "low", "units": 6, "epochs": 1, "random_state": 0}
SETTINGS = {
    **{"effort": "low", "units": 8, "epochs": 6, "learning_rate": 0.1, "random_state": 0},
    "explainer": {"n_clusters": 2, "verbose": 0},
}
LONGER = {**SETTINGS, "epochs": 12, "learning_rate": 0.03}

TRAIN, TEST = (
    [{name: r[name] for name in ("items", "state")} for r in make_records(n, seed)]
    for n, seed in ((80, 0), (50, 1))
)
ITEMS, TEST_ITEMS = ([{"items": r["items"]} for r in records] for records in (TRAIN, TEST))
RECORDS = make_records()
PLAIN = [{name: r[name] for name in ("items", "note")} for r in RECORDS]
LATE = np.array([r["late"] for r in RECORDS])
SPENT = np.array([r["spent"] for r in RECORDS])


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


class Recorder:
    """In place of the explainer: what it is passed."""

    n_fits = 0

    def __init__(self, **arguments):
        self.arguments = arguments

    def fit(self, model, x, x_valid):
        Recorder.n_fits += 1
        self.fitted = model, x, x_valid
        return self


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(base, "Explainer", Recorder)
    monkeypatch.setattr(Recorder, "n_fits", 0)


def test_rules_are_learned_once_from_all_records(recorder):
    estimator = NestedClassifier(explainer={"max_clusters": 3}, **QUICK).fit(PLAIN, LATE)
    assert Recorder.n_fits == 0
    assert estimator.fit_rules() is estimator
    assert estimator.fit_rules().explainer_ is estimator.explainer_
    assert Recorder.n_fits == 1
    expected = {"class_names": ["False", "True"], "max_clusters": 3, "verbose": 0}
    expected["tolerance"] = "one_standard_error"
    assert estimator.explainer_.arguments == expected
    model, x, x_valid = estimator.explainer_.fitted
    assert model is estimator.model_
    for path, whole in estimator.schema_.read(PLAIN).items():
        assert x[path].dtype == whole.dtype

        def rows(tensor, path=path):
            return tensor.numpy().tolist() if path == "note" else tensor.to_list()

        parts = [*rows(x[path]), *rows(x_valid[path])]
        assert sorted(map(str, parts)) == sorted(map(str, rows(whole)))
    assert len(x_valid["note"]) == 4
    assert pickle.loads(pickle.dumps(estimator._cache)).tensors()[0].keys() == x.keys()


@pytest.mark.slow
def test_targets_of_the_explainer(recorder):
    labels = NestedClassifier(**QUICK).fit(RECORDS, ("late", "paid")).fit_rules()
    assert Recorder.n_fits == 2
    assert labels.explainer_of("paid").arguments == {
        "target": (1, 0.5),
        "class_names": ["not paid", "paid"],
        "tolerance": "one_standard_error",
        "verbose": 0,
    }
    numbers = NestedRegressor(bins=[5, 10.5], **QUICK).fit(PLAIN, SPENT)
    arguments = numbers.explainer_.arguments
    assert arguments["class_names"] == ["below 5", "5 to 10.5", "from 10.5"]
    outputs = np.array([[4.9], [5], [10], [10.5], [99]])
    assert arguments["target"](outputs).tolist() == [0, 1, 1, 2, 2]
    assert pickle.loads(pickle.dumps(arguments["target"]))(np.array([[7]])).tolist() == [1]


@pytest.fixture(scope="module")
def classifier():
    return NestedClassifier(**SETTINGS).fit(ITEMS, column("state", TRAIN))


@pytest.mark.slow
def test_rules_of_classes(classifier, tmp_path):
    found = classifier.predict(ITEMS, by="rules")
    assert np.mean(found == column("state", TRAIN)) > 0.8
    by_sql = executed_rules.by_sql(classifier.explainer_, classifier._read(ITEMS))
    assert by_sql == found.tolist()
    assert classifier.predict([], by="rules").dtype == found.dtype
    with pytest.raises(ValueError, match=r"'network' or 'rules'\. Received: by='rule'"):
        classifier.predict(ITEMS, by="rule")
    assert classifier.rules_.text() == classifier.explainer_.rules_.text()
    assert "bad" in classifier.rules_.text()
    assert len(classifier.explain(ITEMS[:2])) == 2
    with pytest.raises(ValueError, match="Expected no label"):
        classifier.rules_of("late")
    classifier.save(tmp_path)
    loaded = NestedClassifier.load(tmp_path)
    assert loaded.rules_.text() == classifier.rules_.text()
    other = NestedClassifier(**SETTINGS).fit(ITEMS, column("state", TRAIN))
    other.explainer = {**SETTINGS["explainer"], "instances": "centroids"}
    assert "\n     definitions of items: accuracy " in other.rules_.text(all=True)


@pytest.mark.slow
def test_rules_of_numbers_and_of_several_labels():
    arguments = {**SETTINGS, "epochs": 5}
    records = [{"items": record["items"]} for record in RECORDS]
    regressor = NestedRegressor(bins=[5, 10], **arguments).fit(records, SPENT)
    names = {"below 5", "5 to 10", "from 10"}
    assert any(name in regressor.rules_.text() for name in names)
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
    assert {"1", "not 1"} & set(labels.rules_of(1).text().replace(".", " ").split())
    assert labels.explainer_of(0) is not labels.explainer_of(1)


@pytest.mark.slow
def test_numbers_far_from_0(tmp_path):
    """Times in seconds of one day, which float32 knows in steps of two minutes."""
    records = [{"items": r["items"]} for r in make_records(30)]
    y = 1.7e9 + 20.0 * np.array([len(r["items"]) for r in records])
    labelled = [{**r, "at": number} for r, number in zip(records, y.tolist(), strict=True)]
    edges = [1.7e9 + 50, 1.7e9 + 70]
    arguments = {**SETTINGS, "aggregation": "sum", "epochs": 30, "batch_size": len(records)}
    for X, target, weights, bins in (
        (labelled, "at", None, 3),
        (records, y, np.linspace(1, 2, len(y)), edges),
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
        x = found._read(records)
        by_rules = found.explainer_.predict(x)
        assert found.explainer_.fidelity(x) == np.mean(by_rules == bins) > 0.6
        of_rules = [names[i] for i in by_rules]
        assert executed_rules.by_sql(found.explainer_, x) == of_rules
        assert executed_rules.by_python(found.explainer_, x) == of_rules
    assert found.edges_.tolist() == edges
    assert list(names) == ["below 1700000050", "1700000050 to 1700000070", "from 1700000070"]
    found.save(tmp_path)
    loaded = NestedRegressor.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(records), predicted)
    assert loaded.rules_.text() == found.rules_.text()
    for name, wrong in (("offset_", "far"), ("edges_", np.array([2, 1]))):
        before = getattr(loaded, name)
        setattr(loaded, name, wrong)
        loaded.save(tmp_path)
        with pytest.raises(ValueError, match=f"Received: {name}="):
            NestedRegressor.load(tmp_path)
        setattr(loaded, name, before)


@pytest.mark.slow
def test_reports_on_labels_in_the_records():
    classifier = NestedClassifier(**SETTINGS).fit(TRAIN, "state")
    page = classifier.report(TEST, "state", title="Who is late?", n_cases=2)
    x = classifier.schema_.read(TEST, without="state")
    by_rules = np.array(["bad", "good"])[classifier.explainer_.predict(x)]
    assert accuracy(page) == np.mean(by_rules == column("state", TEST)) > 0.9
    assert page.data["title"] == "Who is late?"
    assert len(page.data["cases"]) == 2


@pytest.mark.slow
def test_reports_on_labels_beside_the_records(classifier):
    truth = column("state", TEST)
    truth[:10] = np.where(truth[:10] == "bad", "good", "bad")
    by_rules = classifier.classes_[classifier.explainer_.predict(classifier._read(TEST_ITEMS))]
    found = accuracy(classifier.report(TEST_ITEMS, truth, n_cases=0))
    assert found == np.mean(by_rules == truth)
    assert 0.5 < found < 0.9
    without = classifier.report(TEST_ITEMS, n_cases=0)
    assert without.data["certificate"]["accuracy"] is None
    assert without.data["certificate"]["fidelity"]["n"] == len(TEST)
    with pytest.raises(ValueError, match=r"among \['bad', 'good'\]\. Received: .*'lost'.* in y"):
        classifier.report(TEST_ITEMS, np.full(len(TEST), "lost"))
    with pytest.raises(ValueError, match=r"one label for each of 50 records\. Received: 1 labels"):
        classifier.report(TEST_ITEMS, ["late"])


@pytest.mark.slow
def test_reports_on_one_of_several_labels_and_on_numbers():
    y, truth = (np.stack([column(k, x) for k in ("toy", "book")], 1) for x in (TRAIN, TEST))
    classifier = NestedClassifier(**LONGER).fit(ITEMS, y)
    by_rules = classifier.explainer_of(1).predict(classifier._read(TEST_ITEMS))
    found = accuracy(classifier.report(TEST_ITEMS, truth, 1, n_cases=0))
    assert found == np.mean(by_rules == truth[:, 1]) != np.mean(by_rules == truth[:, 0])
    regressor = NestedRegressor(bins=[5, 10], **LONGER).fit(ITEMS, column("spent", TRAIN))
    bins = np.digitize(column("spent", TEST), [5, 10])
    by_rules = regressor.explainer_.predict(regressor._read(TEST_ITEMS))
    page = regressor.report(TEST_ITEMS, column("spent", TEST), n_cases=0)
    assert accuracy(page) == np.mean(by_rules == bins)

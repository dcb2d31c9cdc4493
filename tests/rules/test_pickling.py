"""Explainers go through pickle, as joblib and scikit-learn's tools need it."""

import copy
import pickle
import subprocess
import sys

import joblib
import keras
import numpy as np
import pytest
from record_networks import read as read_customers
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import keras_mmil
from keras_mmil import Explainer, ragged
from keras_mmil.layers import BagLayer, InstanceWise, TextBags


def low(outputs):
    """A target that can be pickled, as it has a name in a module."""
    return (outputs[:, 0] < np.median(outputs)).astype(int)


def make_data(n=40):
    rng = np.random.default_rng(0)
    sizes = [rng.integers(1, 4, n)]
    sizes.append(rng.integers(1, 4, sizes[0].sum()))
    return ragged.from_flat(rng.normal(size=(sizes[1].sum(), 2)).astype(np.float32), sizes)


def make_model(kind, x):
    keras.utils.set_random_seed(1)
    if kind == "sequential":
        layers = [keras.Input((None, None, 2), ragged=True), BagLayer(4), BagLayer(3, "tanh")]
        return keras.Sequential([*layers, keras.layers.Dense(1, activation="sigmoid")])
    inputs = keras.Input((None, None, 2), ragged=True)
    hidden = BagLayer(4, aggregation="max|mean")(BagLayer(4)(inputs))
    outputs = keras.layers.Dense(1, activation="sigmoid")(hidden)
    if kind == "keras":
        return keras.Model(inputs, outputs)
    model = keras_mmil.Model(inputs, outputs)
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.fit(x, np.arange(40) % 2, epochs=1, verbose=0)
    return model


@pytest.fixture(scope="module")
def x():
    return make_data()


@pytest.fixture(scope="module", params=["trained", "keras", "sequential"])
def fitted(request, x):
    model = make_model(request.param, x)
    target = 0, float(np.median(model(x)))
    return Explainer(n_clusters=3, target=target, class_names=("no", "yes"), verbose=0).fit(
        model, x
    )


def by_joblib(explainer, folder):
    joblib.dump(explainer, folder / "explainer.joblib")
    return joblib.load(folder / "explainer.joblib")


@pytest.mark.slow
@pytest.mark.parametrize(
    "send",
    [
        lambda explainer, _: pickle.loads(pickle.dumps(explainer)),
        lambda explainer, _: copy.deepcopy(explainer),
        by_joblib,
    ],
    ids=["pickle", "deepcopy", "joblib"],
)
def test_round_trip(fitted, x, tmp_path, send):
    fitted.rename("u", {0: "bright"})
    sent = send(fitted, tmp_path)
    assert sent is not fitted
    assert sent._network.model is not fitted._network.model
    assert sent.get_params() == fitted.get_params()
    assert sent.rules_.text() == fitted.rules_.text()
    assert list(sent.rules_) == list(fitted.rules_)
    assert (sent.grid_, sent.n_clusters_) == (fitted.grid_, fitted.n_clusters_)
    assert (sent.fidelity_, sent.majority_) == (fitted.fidelity_, fitted.majority_)
    assert sent.classes_ == fitted.classes_
    np.testing.assert_array_equal(sent.predict(x), fitted.predict(x))
    assert sent.fidelity(x) == fitted.fidelity(x)
    explanations = fitted.explain(x)
    assert list(map(str, sent.explain(x))) == list(map(str, explanations))
    assert list(map(str, pickle.loads(pickle.dumps(explanations)))) == list(map(str, explanations))
    assert str(sent.describe(x)) == str(fitted.describe(x))
    fitted.save(tmp_path / "rules")  # a saved one fits the network that was sent
    assert (
        Explainer.load(tmp_path / "rules", sent._network.model).rules_.text() == sent.rules_.text()
    )


@pytest.mark.parametrize("features", ["occurrence", "frequency", "count", "weight"])
def test_every_feature_is_sent(x, features):
    model = make_model("keras", x)
    explainer = Explainer(n_clusters=3, target=low, features=features, verbose=0).fit(model, x)
    sent = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(sent.predict(x), explainer.predict(x))
    features = [clusters.feature for clusters in sent.clusters_]
    assert features == [clusters.feature for clusters in explainer.clusters_]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The rules put every:UserWarning")
def test_models_of_texts():
    texts = np.array(["A good film. I liked it.", "A bad film. I slept.", "Good!", "Bad, bad."] * 5)
    inputs = keras.Input((), dtype="string")
    vocabulary = ["_", "?", "good", "bad", "film", "liked", "slept"]
    words = TextBags(vocabulary, splitter="core")(inputs)
    vectors = InstanceWise(keras.layers.Embedding(len(vocabulary), 2))(words)
    hidden = BagLayer(3)(BagLayer(4)(InstanceWise(keras.layers.Flatten())(vectors)))
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(hidden))
    explainer = Explainer(n_clusters=2, target=low, verbose=0).fit(model, texts, texts)
    sent = pickle.loads(pickle.dumps(explainer))
    assert list(map(str, sent.explain(texts))) == list(map(str, explainer.explain(texts)))


CODE = """
import pickle, sys
explainer, x, expected = pickle.load(open(sys.argv[1], "rb"))
assert "keras_mmil" in sys.modules  # by the pickle alone
import numpy as np
from keras_mmil import ragged
x = ragged.from_flat(x[0], x[1:])
np.testing.assert_array_equal(explainer.predict(x), expected)
"""


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("fitted", ["keras"], indirect=True)  # no class of ours in the model's type
def test_in_a_fresh_process(fitted, x, tmp_path):
    arrays = x.flat_values.numpy(), *(lengths.numpy() for lengths in x.nested_row_lengths())
    with open(tmp_path / "file", "wb") as file:
        pickle.dump((fitted, arrays, fitted.predict(x)), file)
    subprocess.run([sys.executable, "-W", "error", "-c", CODE, tmp_path / "file"], check=True)


class RuleClassifier(ClassifierMixin, BaseEstimator):
    """What one writes for scikit-learn: its data are the positions of top-bags."""

    def __init__(self, model=None, explainer=None, x=None):
        self.model, self.explainer, self.x = model, explainer, x

    def part(self, rows):
        return ragged.take(ragged.from_flat(*self.x), rows)

    def fit(self, rows, y):
        self.classes_ = np.unique(y)
        self.fitted_ = clone(self.explainer).fit(self.model, self.part(rows), self.part(rows))
        return self

    def predict(self, rows):
        return self.fitted_.predict(self.part(rows))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The rules put every:UserWarning")
def test_scikit_learn(x):
    """Cross-validation and search by scikit-learn, which copies all it works on."""
    model = make_model("trained", x)
    lengths = [lengths.numpy() for lengths in x.nested_row_lengths()]
    threshold = float(np.median(model(x)))
    explainer = Explainer(n_clusters=2, target=(0, threshold), verbose=0)
    estimator = RuleClassifier(model, explainer, (x.flat_values.numpy(), lengths))
    rows, y = np.arange(40), (model(x).numpy()[:, 0] > threshold).astype(int)
    scores = cross_val_score(estimator, rows, y, cv=KFold(2))
    by_hand = []
    for train, test in ((rows[20:], rows[:20]), (rows[:20], rows[20:])):
        explainer.fit(model, ragged.take(x, train), ragged.take(x, train))
        by_hand.append(explainer.score(ragged.take(x, test), y[test]))
    np.testing.assert_array_equal(scores, by_hand)
    search = GridSearchCV(estimator, {"explainer__n_clusters": [2, 3]}, cv=2).fit(rows, y)
    best = pickle.loads(pickle.dumps(search)).best_estimator_
    np.testing.assert_array_equal(best.predict(rows), search.predict(rows))
    assert best.fitted_.n_clusters_ == (search.best_params_["explainer__n_clusters"],) * 2


def test_unfitted_and_clones(fitted):
    for fresh in (clone(fitted), pickle.loads(pickle.dumps(clone(fitted)))):
        assert fresh.get_params() == fitted.get_params()
        with pytest.raises(NotFittedError):
            _ = fresh.rules_


@pytest.mark.slow
def test_rules_of_records_are_sent(churn_explainer, customers):
    """Fields, paths and names are; the network goes with them."""
    sent, x = pickle.loads(pickle.dumps(churn_explainer)), read_customers(customers[:40])
    assert sent.rules_.text() == churn_explainer.rules_.text()
    np.testing.assert_array_equal(sent.predict(x), churn_explainer.predict(x))
    assert [str(e) for e in sent.explain(x)] == [str(e) for e in churn_explainer.explain(x)]
    assert sent._network.paths == churn_explainer._network.paths
    again = copy.deepcopy(churn_explainer).rename("visits", {"by phone": "called"})
    assert "called" in again.rules_.text()
    assert "called" not in churn_explainer.rules_.text()

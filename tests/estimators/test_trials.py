"""Networks and trees that decide together, and what the estimators say of each."""

import dataclasses

import keras
import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn import metrics
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from keras_mmil import NestedClassifier, NestedRegressor, datasets
from keras_mmil.datasets.synthetic.sensors import TARGET
from keras_mmil.estimators import trials
from keras_mmil.estimators.halves import HALVES, HalfLoss
from keras_mmil.layers import GroupedDense
from keras_mmil.records.network import Labels
from keras_mmil.rules.fitting.plan import field_names
from keras_mmil.training.stopping import EarlyStopping

QUICK = {"epochs": 12, "units": 6, "random_state": 0, "verbose": 0}
RULES = {"max_clusters": 3, "verbose": 0}
MACHINES = datasets.synthetic.load_sensors(400, share_flipped=0.0)
TRAIN, NEW = MACHINES[:300], MACHINES[300:]
PARTS = ["network with statistics", "network", "linear", "forest", "boosting"]
FAILED = np.array([each[TARGET] for each in NEW])


@pytest.fixture(scope="module")
def classifier():
    return NestedClassifier(**QUICK, explainer=RULES).fit(TRAIN, TARGET)


def test_folds_are_stratified():
    y = np.repeat([0, 1], [30, 11])
    folds = trials.folds_of(y, 4, seed=3)
    assert np.ptp(np.bincount(folds)) <= 1
    for label in (0, 1):
        assert np.ptp(np.bincount(folds[y == label], minlength=4)) <= 1
    assert not np.array_equal(folds, trials.folds_of(y, 4, seed=4))
    numbers = np.random.default_rng(0).normal(size=40)
    of_fold = [numbers[trials.folds_of(numbers, 4, seed=0) == k].mean() for k in range(4)]
    assert np.std(of_fold) < 0.2


def test_weights_of_the_pool_are_those_of_the_least_loss():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=2000)
    good = expit(rng.normal(size=(2000, 1)) + 2 * (2 * y[:, None] - 1))
    noise = rng.uniform(0.2, 0.8, (2000, 1))
    labels, equal = Labels("classes", 2), np.ones(2000)
    # A cautious forecast of good evidence is made bolder; noise does not count.
    bold, little = trials.weights_of(labels, [expit(logit(good) / 2), noise], y, equal)
    assert bold > 1.5
    assert little < 0.2
    numbers = Labels("numbers", 1, mean=(0.0,), scale=(1.0,))
    goal = rng.normal(size=(2000, 1))
    two = [goal + rng.normal(0, scale, (2000, 1)) for scale in (1.0, 2.0)]
    shares = trials.weights_of(numbers, two, goal[:, 0], equal)
    np.testing.assert_allclose(shares, [0.8, 0.2], atol=0.03)  # by the inverse of the variance


X = np.random.default_rng(0).normal(size=(300, 5)).astype("float32")
NOISE = np.random.default_rng(1).normal(size=300)


@pytest.mark.parametrize(
    ("labels", "y"),
    [
        (Labels("classes", 2), (X[:, 0] + NOISE > 0).astype(int)),
        (Labels("classes", 4), np.digitize(X[:, 1] + NOISE, [-0.5, 0.5])),  # the last is never seen
        (Labels("labels", 2), np.stack([X[:, 2] + NOISE > 0, np.zeros(300)], 1).astype("float32")),
        (Labels("numbers", 1, (5.0,), (3.0,)), 5 + 3 * X[:, 4] + NOISE),
    ],
    ids=lambda each: each.kind if isinstance(each, Labels) else "y",
)
def test_linear_models_of_statistics(labels, y):
    weights = np.ones(300)
    weights[:50] = 0
    columns = np.array([0, 1, 2, 4])
    layer, predictions = trials.linear_of(labels, X[:, columns], columns, y, weights, 5, seed=0)
    x = np.where(np.arange(5) == 3, 7.0, X)  # the fourth is not read
    known, goal = layer(x).numpy(), trials.targets(labels, y)
    np.testing.assert_allclose(known, layer(X), atol=1e-6)
    losses = [trials.losses_of(labels, each, goal)[50:].mean() for each in (predictions, known)]
    of_mean = trials.losses_of(labels, trials.constant(labels, y, weights), goal)[50:].mean()
    assert losses[1] < losses[0] < 0.9 * of_mean
    if labels.n == 2 and labels.kind == "classes":
        penalties = [1.0, 6.0, 40.0, 250.0]
        x = StandardScaler().fit(X[:, columns]).transform(X[:, columns])[50:]
        expected = [
            LogisticRegression(C=1 / each).fit(x, y[50:]).predict_proba(x)[:, 1]
            for each in penalties
        ]
        assert min(np.abs(known[50:, 0] - each).max() for each in expected) < 0.01


@pytest.mark.slow
def test_all_together_are_at_least_as_good_as_the_best(classifier):
    found = {trial.model: trial for trial in classifier.trials_}
    assert list(found) == ["majority", "one condition", *PARTS, "all"]
    y = np.array([each[TARGET] for each in TRAIN])
    assert found["majority"].score == pytest.approx(max(y.mean(), 1 - y.mean()))
    assert found["majority"].auc == 0.5
    best = min(found[name].loss for name in PARTS)
    assert found["all"].loss < best + 0.01
    p = classifier.predict_proba(NEW)[:, 1]
    assert metrics.roc_auc_score(FAILED, p) > 0.85
    # What is said of unseen records holds for new ones.
    assert metrics.log_loss(FAILED, p) == pytest.approx(found["all"].loss, abs=0.15)
    table = trials.table(classifier.trials_, is_number=False)
    assert len(table.splitlines()) == 9
    assert trials.diagnosis(classifier.trials_) == []
    assert found["one condition"].of.startswith(("mean of", "maximum of", "number of", "sum of"))
    assert found["one condition"].loss > found["all"].loss


@pytest.mark.slow
def test_the_model_is_the_pool_of_its_parts(classifier, tmp_path):
    """And it is the one that is saved, explained and predicted by."""
    x = classifier.schema_.read(NEW, without=TARGET)
    decision = classifier.model_.get_layer("decision")
    parts = keras.Model(classifier.model_.input, decision.input).predict(x, verbose=0)
    shares = [trial.weight for trial in classifier.trials_[2:-1]]
    expected = trials.pooled(Labels("classes", 2), parts, shares)
    p = classifier.predict_proba(NEW)[:, 1:]
    np.testing.assert_allclose(p, expected, atol=1e-5)
    of_members = classifier.model_.get_layer("members").output
    members = keras.Model(classifier.model_.input, of_members).predict(x, verbose=0)
    for part, half in zip(parts, np.split(members, 2, axis=1), strict=False):
        np.testing.assert_allclose(part, half.mean(axis=1), atol=1e-6)
    classifier.fit_rules().save(tmp_path)
    loaded = NestedClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(NEW), classifier.predict_proba(NEW))
    assert loaded.trials_ == classifier.trials_
    explainer = classifier.explainer_
    by_model = classifier.model_.predict(x, verbose=0)[:, 0] > 0.5
    agreement = np.mean(explainer.predict(x) == by_model)
    assert explainer.fidelity(x) == pytest.approx(agreement)
    assert agreement > 0.8
    assert " of sensors.readings.value " in classifier.rules_.text()
    names = [field_names(explainer._network, record) for record in range(3)]
    assert "mean of readings.value" in names[1]  # of a sensor
    assert "mean of sensors.readings.value" in names[2]


def test_one_condition_is_the_best_threshold():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).round(2)
    y = (x[:, 1] + 0.3 * rng.normal(size=60) > 0.2).astype(int)
    equal, labels, folds = np.ones(60), Labels("classes", 2), np.arange(60) % 5
    column, judged = trials.condition_of(labels, x, y, equal, folds, None, 0)
    assert column == 1

    def best(x, y):
        """Of all thresholds with five records on each side, the one of the least variance."""
        found = []
        for j in range(3):
            values = np.unique(x[:, j])
            for at in (values[1:] + values[:-1]) / 2:
                low, high = y[x[:, j] <= at], y[x[:, j] > at]
                if min(len(low), len(high)) >= 5:
                    parts = low.mean(), high.mean()
                    cost = sum(((part - part.mean()) ** 2).sum() for part in (low, high))
                    found.append((cost, j, at, parts))
        _, j, at, (low, high) = min(found)
        return lambda x: np.where(x[:, j] > at, high, low)

    for fold in range(5):
        at = folds == fold
        expected = best(x[~at], y[~at])(x[at])
        np.testing.assert_allclose(judged[at, 0], expected * (1 - 2 / 62) + 1 / 62)


def test_what_a_user_should_know_is_said():
    y = np.zeros(1000, int)
    y[:20] = 1
    equal, labels = np.ones(1000), Labels("classes", 2)

    def trial(name, p, **arguments):
        found = trials.trial_of(name, labels, p[:, None], y, equal, 1.0)
        return dataclasses.replace(found, **arguments)

    worst = trial("majority", np.full(1000, 0.02))
    some = trial("network", np.where(np.arange(1000) < 40, 0.4, 0.01))
    assert (some.rarest, some.recall, some.precision) == (0.02, 0, None)
    assert "rarest class, 2.0 % of the records, is hardly ever predicted" in trials.table(
        [worst, some], is_number=False
    )
    half = trial("network", np.where((y == 1) | (np.arange(1000) < 40), 0.9, 0.01))
    assert (half.recall, half.precision) == (1, 0.5)
    assert trials.diagnosis([worst, half]) == []
    leak = trial("one condition", y * 0.999 + 0.0005, of="status")
    (said,) = trials.diagnosis([worst, leak, half])
    assert "'status' alone" in said
    assert "--drop FIELD" in said


@pytest.mark.slow
def test_who_learns_nothing_says_so():
    rng = np.random.default_rng(0)
    records = [{"bag": [{"x": float(x)} for x in rng.normal(size=3)]} for _ in range(150)]
    found = NestedClassifier(**QUICK).fit(records, rng.integers(2, size=150))
    assert found.trials_[-1].loss < 1.05 * found.trials_[0].loss
    assert "No better than the majority" in trials.table(found.trials_, is_number=False)


@pytest.mark.slow
def test_numbers_labels_and_several_classes():
    rng = np.random.default_rng(0)
    records = [{"bag": [{"x": float(x)} for x in rng.normal(size=5)]} for _ in range(200)]
    means = np.array([np.mean([each["x"] for each in r["bag"]]) for r in records])
    regressor = NestedRegressor(**QUICK).fit(records, means)
    assert [trial.model for trial in regressor.trials_] == ["mean", "one condition", *PARTS, "all"]
    assert regressor.trials_[0].score == pytest.approx(0, abs=1e-6)
    assert regressor.trials_[-1].score > 0.9
    assert "R²" in trials.table(regressor.trials_, is_number=True)
    three = NestedClassifier(**QUICK).fit(records, np.digitize(means, [-0.2, 0.2]))
    assert three.trials_[-1].score > 0.8
    assert three.predict_proba(records).shape == (200, 3)
    y = np.stack([means > 0, means > 0.3], axis=1).astype(int)
    both = NestedClassifier(**QUICK).fit(records, y)
    assert [trial.model for trial in both.trials_] == [
        "majority",
        "one condition",
        *PARTS[:-1],
        "all",
    ]
    assert both.trials_[-1].score > 0.9
    held_out = NestedClassifier(**QUICK, validation_split=0.2).fit(records, y[:, 0])
    assert held_out.trials_[-1].score > 0.8
    assert held_out._cache.tensors()[1]["bag.x"].nrows() == 40
    whole = NestedClassifier(**{**QUICK, "epochs": 2}, validation_split=0).fit(records, y[:, 0])
    assert whole.trials_ == ()
    with pytest.raises(ValueError, match="Received: effort='much'"):
        NestedClassifier(effort="much").fit(records, y)


@pytest.mark.slow
@pytest.mark.parametrize("least", [1, 3], ids=["presence", "threshold"])
def test_bags_are_positive_by_what_is_in_them(least):
    """By the presence of an instance, or a number of them, and not by what else is there.

    After Raff and Holt, Reproducibility in Multiple Instance Learning: A Case For Algorithmic Unit
    Tests, 2023.
    """
    rng = np.random.default_rng(least)

    def bag(n_signals, n_others):
        kinds = ["signal"] * n_signals + rng.choice(["a", "b", "c"], n_others).tolist()
        return {"bag": [{"kind": str(kind)} for kind in rng.permutation(kinds)]}

    y = np.arange(200) % 2
    n_signals = [rng.integers(least, least + 3) if each else rng.integers(least) for each in y]
    records = [bag(n, rng.integers(2, 8)) for n in n_signals]
    found = NestedClassifier(**QUICK).fit(records, y)
    # Bags of other sizes, where shares and totals say the opposite.
    many = [bag(least - 1, 2) for _ in range(40)], [bag(least, 7) for _ in range(40)]
    assert found.predict(many[0]).mean() < 0.1
    assert found.predict(many[1]).mean() > 0.9


def test_each_half_keeps_the_weights_of_its_best_epoch():
    inputs = keras.Input((3,))
    layer = GroupedDense(4, 4, n_blind=2)
    outputs = keras.layers.Reshape((4, 1))(layer(None, inputs, inputs))
    model = keras.Model(inputs, outputs)
    weights = []
    model.stop_training = False
    callback = EarlyStopping(patience=2, losses=HALVES)
    callback.set_model(model)
    callback.on_train_begin()
    losses = [(3.0, 9.0), (1.0, 8.0), (2.0, 7.0), (np.nan, 8.0), (4.0, 9.0), (5.0, 9.0)]
    for epoch, (first, second) in enumerate(losses):
        weights.append([np.full(w.shape, float(epoch)) for w in model.trainable_variables])
        model.set_weights(weights[-1])
        callback.on_epoch_end(epoch, {"val_first_half": first, "val_second_half": second})
        assert model.stop_training == (epoch >= 4)
    callback.on_train_end()
    for variable in model.trainable_variables:
        expected = [1, 1] if "partly" in variable.path else [1, 1, 2, 2]
        np.testing.assert_array_equal(np.array(variable).reshape(-1, len(expected))[0], expected)
    y = np.zeros((5, 4, 1), np.float32)
    p = np.random.default_rng(0).uniform(0.1, 0.9, (5, 4, 1)).astype(np.float32)
    weights = np.random.default_rng(1).integers(0, 2, (5, 4)).astype(np.float32)
    metric = HalfLoss("binary_crossentropy", 1)
    metric.update_state(y, p, weights)
    each = -np.log(1 - p[:, 2:, 0])
    expected = np.average(each, weights=weights[:, 2:])
    np.testing.assert_allclose(float(metric.result()), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_regression_with_a_kernel_is_the_best_one(kind):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 5)) * [1, 2, 3, 4, 0] + 1
    columns = np.array([3, 4, 6, 7, 8])
    score = np.sin(features[:, 0]) + features[:, 1] / 4 + rng.normal(0, 0.1, 60)
    labels = Labels(kind, 1) if kind == "numbers" else Labels(kind, 2)
    y = score if kind == "numbers" else (score > 0.2).astype(int)
    layer, unseen = trials.kernel_of(labels, features, columns, y, np.ones(60), 10, seed=0)
    loss = trials.losses_of(labels, unseen, trials.targets(labels, y)).mean()
    of_constant = trials.constant(labels, y, np.ones(60))
    worst = trials.losses_of(labels, of_constant, trials.targets(labels, y)).mean()
    assert loss < 0.6 * worst

    # Where the loss with its penalty is least, each weight is the error of its record over the
    # penalty, and errors sum to 0.
    whole = np.full((60, 10), np.nan)
    whole[:, columns] = features
    error = y - np.asarray(layer(whole))[:, 0]
    weights = layer.get_weights()[4][:, 0]
    penalty = np.median(error / weights)
    assert min(abs(penalty - each) for each in trials._OF_KERNEL) < 0.15 * penalty
    np.testing.assert_allclose(error, penalty * weights, atol=0.05)
    assert abs(error.sum()) < 0.05

    z = (features - features.mean(axis=0)) / (features.std(axis=0) + (features.std(axis=0) == 0))
    similar = np.exp(-((z[:, None] - z) ** 2).mean(axis=2))
    inner = similar @ weights + layer.get_weights()[5]
    expected = inner if kind == "numbers" else 1 / (1 + np.exp(-inner))
    np.testing.assert_allclose(layer(whole)[:, 0], expected, atol=1e-4)
    copy = type(layer).from_config(layer.get_config())
    copy.build()
    copy.set_weights(layer.get_weights())
    np.testing.assert_array_equal(copy(whole), layer(whole))
    assert trials.kernel_of(labels, features, columns[:0], y, np.ones(60), 10, 0) is None


@pytest.mark.slow
def test_a_report_says_what_was_tried(classifier):
    """Beside the forest, which is asked for the same records; by the key of these."""
    page = classifier.report(iter(NEW), TARGET)
    data = page.data
    assert data["title"] == f"Rules for {TARGET}"
    shares = {each["title"]: each["share"] for each in data["figures"]}
    assert shares["network accuracy"] == classifier.score(NEW, TARGET)
    forest = keras.Model(classifier.model_.input, classifier.model_.get_layer("forest").output)
    says = forest.predict(classifier._read(NEW), verbose=0)[:, 0] > 0.5
    right = np.mean(says == classifier.rule_classes(classifier.schema_.read(NEW, TARGET)[1]))
    assert shares["accuracy of a random forest on aggregates"] == right
    assert [row[""] for row in data["tried"]] == ["majority", "one condition", *PARTS, "all"]
    assert data["tried"][-1]["AUC"] == f"{classifier.trials_[-1].auc:.3f}"
    assert data["history"] == {name: classifier.history_[name] for name in ("loss", "val_loss")}
    key = classifier.schema_.key
    assert [case["name"] for case in data["cases"]] == (
        [record[key[0]] for record in NEW] if key else list(map(str, range(len(NEW))))
    )
    likely = classifier.predict_proba(NEW).max(axis=1)
    found = [case["probability"] for case in data["cases"]]
    np.testing.assert_allclose(found, likely, atol=0.0006)
    left_out = {part.path for part in classifier.schema_ if part.is_left_out}
    assert set(data["left_out"]) == left_out
    fields = {each["path"] for each in data["fields"]}
    assert fields <= {part.path for part in classifier.schema_} - left_out - {TARGET}
    assert TARGET not in page.to_json().replace(data["title"], "")
    few = classifier.report(NEW[:3])
    assert few.data["scores"] is None
    assert len(few.data["cases"]) == 3


@pytest.mark.slow
def test_held_out_losses_are_those_of_a_record(classifier):
    """As training losses are: the mean over the networks that are judged by a record."""
    lowest = min(classifier.history_["val_loss"])
    outputs = [trial.loss for trial in classifier.trials_ if trial.model.startswith("network")]
    assert 0.5 * min(outputs) < lowest < 2 * max(outputs)

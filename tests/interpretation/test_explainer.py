"""The explainer, on networks whose weights are set by hand so that they compute known rules."""

import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score

import keras_mmil
from keras_mmil import ragged
from keras_mmil.interpretation import Explainer
from keras_mmil.interpretation.fitting.clustering import RowSample, fit_centroids, nearest
from keras_mmil.interpretation.fitting.search import GridPoint, choose
from keras_mmil.interpretation.network.capture import Network, Observation
from keras_mmil.interpretation.network.nesting import concatenate, multiplicities
from keras_mmil.layers import BagLayer, Distinct, bag_inputs

N_DIGITS = 4  # a sub-bag is positive iff it holds a 3 and no 2


def join(observations):
    """The observations of several batches as one."""
    nestings, representations, outputs = zip(
        *((o.nestings, o.representations, o.outputs) for o in observations), strict=True
    )
    return Observation(
        tuple(map(concatenate, zip(*nestings, strict=True))),
        tuple(map(np.concatenate, zip(*representations, strict=True))),
        np.concatenate(outputs),
    )


def set_rule_weights(first, second, output):
    """A top-bag is positive iff some sub-bag holds a 3 and no 2."""
    zeros = np.zeros(N_DIGITS)
    identity = np.eye(*first.kernel.shape)
    first.set_weights([identity, zeros, zeros, *first.get_weights()[3:]])
    kernel = np.zeros((N_DIGITS, N_DIGITS))
    kernel[3, 0], kernel[2, 0] = 5, -5  # unit 0: a 3 and no 2
    second.set_weights([kernel, zeros, zeros])
    output.set_weights([np.array([[4.0], [0], [0], [0]]), np.array([-10.0])])


def plain_model(aggregation="max"):
    """Reads one-hot vectors, [batch, (n), (m), 4]."""
    inputs = keras.Input((None, None, N_DIGITS), ragged=True)
    first = BagLayer(N_DIGITS, aggregation=aggregation)
    second, output = BagLayer(N_DIGITS), keras.layers.Dense(1, activation="sigmoid")
    model = keras_mmil.Model(inputs, output(second(first(inputs))))
    set_rule_weights(first, second, output)
    return model


def compressed_model(aggregation="max"):
    """The same for ids, plain or compressed."""
    inputs = bag_inputs(2)
    rows, sub_bags, top_bags = Distinct()(inputs)
    one_hot = keras.layers.CategoryEncoding(N_DIGITS, output_mode="one_hot")(rows)
    first = BagLayer(N_DIGITS, aggregation=aggregation)
    second, output = BagLayer(N_DIGITS), keras.layers.Dense(1, activation="sigmoid")
    model = keras_mmil.Model(inputs, output(second(first(one_hot, *sub_bags), *top_bags)))
    set_rule_weights(first, second, output)
    return model


def random_ids(n, seed=0, smallest=1):
    rng = np.random.default_rng(seed)
    bags = rng.integers(1, 5, n)
    sub_bags = rng.integers(smallest, 5, bags.sum())
    return ragged.from_flat(rng.integers(0, N_DIGITS, sub_bags.sum()), [bags, sub_bags])


def vectors(ids):
    """A vector for each id, those of 0 and 1 alike; with noise, so that many are distinct."""
    ids = ids.with_values(ids.values.with_row_splits_dtype(tf.int64))
    table = np.eye(N_DIGITS)
    table[1] = [0.8, 0.2, 0, 0]
    noise = np.random.default_rng(7).normal(scale=0.02, size=(ids.flat_values.shape[0], N_DIGITS))
    return ids.with_flat_values((table[ids.flat_values] + noise).astype(np.float32))


def truth(ids):
    return np.array([any(3 in s and 2 not in s for s in top) for top in ids.to_list()], int)


def explainer(**arguments):
    return Explainer(**{"max_clusters": 4, "verbose": 0, **arguments})


@pytest.fixture(scope="module")
def model():
    return plain_model()


@pytest.fixture(scope="module")
def ids():
    return random_ids(120)


@pytest.fixture(scope="module")
def fitted(model, ids):
    return explainer().fit(model, vectors(ids), vectors(random_ids(60, seed=1)))


# What is learned --------------------------------------------------------------------------------


def test_rules_are_those_of_the_network(model, ids, fitted):
    x = vectors(random_ids(80, seed=2))
    assert fitted.fidelity_ == 1.0
    assert fitted.fidelity(x) == 1.0
    assert fitted.score(x, truth(random_ids(80, seed=2))) == 1.0
    assert fitted.n_clusters_ == (3, 2)
    described = fitted.describe(vectors(ids), instance_labels=ids)[0]
    u = dict(zip(described.majority, described.names, strict=True))
    assert u.keys() >= {2, 3}
    np.testing.assert_allclose(described.share[[list(u).index(2), list(u).index(3)]], 1)
    clauses = [fitted.levels_[0].rules.clause(rule) for rule in fitted.levels_[0].rules]
    v = fitted.levels_[1].rules
    positive = next(c.cluster for r in v for c in r.conditions if r.conclusion == 1)
    on, off = f"v{positive + 1}", f"v{2 - positive}"
    present, absent = f"o_{u[3]}=1", f"o_{u[2]}=0"
    body = ", ".join(sorted([present, absent], key=lambda text: text[2:4]))
    assert set(clauses) == {f"{on} ← {body}.", f"{off} ← o_{u[3]}=0.", f"{off} ← o_{u[2]}=1."}
    assert [v.clause(rule) for rule in v] == [f"negative ← o_{on}=0.", f"positive ← o_{on}=1."]


def reference_fidelities(model, x, x_valid, options, seed):
    """Algorithms 1-3 of the paper with Python loops, on nested lists of representations.

    But for one thing: the upper tree learns from sub-bags as the lower one labels them.
    """
    from sklearn.tree import DecisionTreeClassifier

    def representations(data):
        first, second = (layer for layer in model.layers if isinstance(layer, BagLayer))
        instances = first.represent(data)
        return instances.to_list(), second.represent(first(data)).to_list()

    def occurrence(bag, k):
        return [float(c in bag) for c in range(k)]

    def tree(bags, labels):
        return DecisionTreeClassifier(ccp_alpha=1e-3, random_state=seed).fit(bags, labels)

    instances, sub_bags = representations(x)
    valid, _ = representations(x_valid)
    y, y_valid = (model(data).numpy()[:, 0] > 0.5 for data in (x, x_valid))
    flat_instances = np.float32([i for top in instances for sub in top for i in sub])
    flat_sub_bags = np.float32([s for top in sub_bags for s in top])
    fidelities = {}
    for k_sub, k_instance in itertools.product(options, options):
        c_sub = fit_centroids(flat_sub_bags, np.ones(len(flat_sub_bags)), k_sub, seed)
        c_instance = fit_centroids(flat_instances, np.ones(len(flat_instances)), k_instance, seed)

        def label(vector, centroids):
            return int(np.argmin([np.sum((np.float32(vector) - c) ** 2) for c in centroids]))

        def bags_of(nested, centroids=c_instance):
            return [[label(i, centroids) for i in bag] for bag in nested]

        top_labels = [[label(s, c_sub) for s in top] for top in sub_bags]
        sub_tree = tree(
            [occurrence(bag, k_instance) for top in instances for bag in bags_of(top)],
            [s for top in top_labels for s in top],
        )

        sub_bag_occurrences = []
        for data in (instances, valid):
            labelled = (
                sub_tree.predict([occurrence(bag, k_instance) for bag in bags_of(top)])
                for top in data
            )
            sub_bag_occurrences.append([occurrence(list(labels), k_sub) for labels in labelled])
        top_tree = tree(sub_bag_occurrences[0], y)
        predicted = top_tree.predict(sub_bag_occurrences[1])
        fidelities[k_instance, k_sub] = accuracy_score(y_valid, predicted)
    return fidelities


def test_grid_is_that_of_the_algorithms_in_loops():
    keras.utils.set_random_seed(3)
    inputs = keras.Input((None, None, 3), ragged=True)
    x = BagLayer(8, name="first")(inputs)
    outputs = keras.layers.Dense(1)(BagLayer(8, name="second")(x))
    model = keras_mmil.Model(inputs, keras.layers.Activation("sigmoid")(outputs - 0.2))
    rng = np.random.default_rng(0)
    bags = [rng.integers(1, 4, n) for n in (50, 25)]
    subs = [rng.integers(1, 4, b.sum()) for b in bags]
    x, x_valid = (
        ragged.from_flat(rng.normal(size=(s.sum(), 3)).astype(np.float32), [b, s])
        for b, s in zip(bags, subs, strict=True)
    )
    fitted = explainer().fit(model, x, x_valid)
    expected = reference_fidelities(model, x, x_valid, (2, 3, 4), seed=0)
    assert {point.n_clusters: point.fidelity for point in fitted.grid_} == pytest.approx(expected)
    assert fitted.fidelity_ == max(expected.values())
    assert min(expected.values()) < max(expected.values())


def test_same_result_whatever_the_number_of_threads(model, ids):
    fits = [explainer(n_jobs=n, n_init=1).fit(model, vectors(ids)) for n in (1, 2, None)]
    for other in fits[1:]:
        assert other.grid_ == fits[0].grid_
        assert str(other.rules_) == str(fits[0].rules_)
        for a, b in zip(other.levels_, fits[0].levels_, strict=True):
            np.testing.assert_array_equal(a.centroids, b.centroids)


@pytest.mark.parametrize("aggregation", ["max", "mean"])
def test_compressed_bags_give_the_rules_of_plain_ones(aggregation):
    model = compressed_model(aggregation)
    ids, ids_valid = random_ids(100), random_ids(50, seed=1)
    pack = keras_mmil.Bags.from_ragged
    plain = explainer(n_clusters=(4, 2), n_init=10).fit(model, ids, ids_valid)
    packed = explainer(n_clusters=(4, 2), n_init=10).fit(model, pack(ids), pack(ids_valid))
    assert packed.fidelity_ == plain.fidelity_
    for a, b in zip(packed.levels_, plain.levels_, strict=True):
        np.testing.assert_allclose(a.centroids, b.centroids, atol=1e-5)
        np.testing.assert_allclose(a.sizes, b.sizes, atol=1e-6)
        assert [(r.conclusion, r.conditions) for r in a.rules] == [
            (r.conclusion, r.conditions) for r in b.rules
        ]
        for r, s in zip(a.rules, b.rules, strict=True):
            assert (r.support, r.precision) == pytest.approx((s.support, s.precision))


def test_instances_of_several_rows_give_the_rules_of_concatenations():
    """Of each pair of ids in an instance, the first decides."""
    ids, ids_valid = random_ids(100), random_ids(50, seed=1)

    def pairs(x):
        others = np.roll(x.flat_values, 1)
        return x.with_flat_values(np.stack([x.flat_values, others], axis=1).astype("int32"))

    def concatenated(x):
        return x.with_flat_values(np.eye(N_DIGITS, dtype="f")[pairs(x).flat_values].reshape(-1, 8))

    inputs, bags = bag_inputs(2, window_size=2), keras.Input((None, None, 8), ragged=True)
    rows, sub_bags, top_bags = Distinct()(inputs)
    one_hot = keras.layers.CategoryEncoding(N_DIGITS, output_mode="one_hot")(rows)
    models = []
    for inputs_, arguments, first_inputs, second_inputs in (
        (inputs, {"window_size": 2}, (one_hot, *sub_bags), top_bags),
        (bags, {}, (bags,), ()),
    ):
        first, second = BagLayer(N_DIGITS, **arguments), BagLayer(N_DIGITS)
        output = keras.layers.Dense(1, activation="sigmoid")
        x = second(first(*first_inputs), *second_inputs)
        models.append(keras_mmil.Model(inputs_, output(x)))
        set_rule_weights(first, second, output)
        first.kernel.assign(np.eye(8)[:, :N_DIGITS] + 0.1 * np.eye(8)[:, N_DIGITS:])
    ours, theirs = (
        explainer(n_clusters=(4, 2), n_init=10).fit(model, form(ids), form(ids_valid))
        for model, form in zip(models, (pairs, concatenated), strict=True)
    )
    assert ours.fidelity_ == theirs.fidelity_
    assert str(ours.rules_) == str(theirs.rules_)
    for a, b in zip(ours.labels(pairs(ids)), theirs.labels(concatenated(ids)), strict=True):
        np.testing.assert_array_equal(a.flat_values, b.flat_values)


def test_captured_multiplicities_are_the_occurrences(ids):
    network = Network(compressed_model())
    packed = network.data(keras_mmil.Bags.from_ragged(ids), batch_size=50)
    seen = join(list(network.batches(packed.batches())))
    rows, sub_bags, top_bags = multiplicities(seen.nestings)
    assert len(rows) < ids.flat_values.shape[0]
    assert rows.sum() == ids.flat_values.shape[0]
    assert sub_bags.sum() == ids.values.nrows()
    assert len(top_bags) == len(seen.outputs) == 120
    digits = seen.representations[0].argmax(axis=1)
    np.testing.assert_array_equal(
        np.bincount(digits, rows), np.bincount(ids.flat_values, minlength=N_DIGITS)
    )


def test_features_follow_the_aggregation(ids):
    for aggregation, feature in (
        ("max", "occurrence"),
        ("mean", "frequency"),
        ("max|mean", "frequency"),
        ("sum", "count"),
        ("max|sum", "count"),
        ("attention", "frequency"),
    ):
        model = plain_model(aggregation)
        middle = float(np.median(model(vectors(ids))))
        fit = explainer(n_clusters=(3, 4), target=(0, middle)).fit(model, vectors(ids))
        assert [level.feature.name for level in fit.levels_] == [feature, "occurrence"]
        assert fit.fidelity_ > 0.6


def test_features_as_asked_for(model, ids):
    fit = explainer(n_clusters=(3, 2), features=("frequency", "count")).fit(model, vectors(ids))
    assert [level.feature.name for level in fit.levels_] == ["frequency", "count"]


def test_fractional_weights_are_no_counts():
    inputs = {
        "bags": keras.Input((None, 2), ragged=True, name="bags"),
        "weights": keras.Input((None,), ragged=True, optional=True, name="weights"),
    }
    x = BagLayer(2, aggregation="sum")(inputs["bags"], weights=inputs["weights"])
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 5, 40)
    values = rng.normal(size=(sizes.sum(), 2)).astype(np.float32)
    x = {
        "bags": ragged.from_flat(values, [sizes]),
        "weights": ragged.from_flat(rng.random(sizes.sum()).astype(np.float32), [sizes]),
    }
    target = (0, float(np.median(model(x))))
    for data, name in ((x, "weight"), (x["bags"], "count")):
        assert explainer(target=target).fit(model, data).levels_[0].feature.name == name


def test_empty_bags_have_labels_but_no_clusters_of_their_own(model):
    ids = random_ids(120, smallest=0)
    x = vectors(ids)
    layer = next(layer for layer in model.layers if isinstance(layer, BagLayer))
    kernel, bias, _ = layer.get_weights()
    far = plain_model()
    next(each for each in far.layers if isinstance(each, BagLayer)).set_weights(
        [kernel, bias, np.full(N_DIGITS, 0.1)]
    )
    fit = explainer(n_clusters=(4, 2)).fit(far, x)
    assert fit.fidelity(x) == 1.0
    np.testing.assert_allclose(sum(level.sizes.sum() for level in fit.levels_), 2)
    assert fit.levels_[1].centroids.min() >= 0
    empty = ragged.from_flat(np.zeros((0, N_DIGITS), np.float32), [[2, 0], [0, 0]])
    assert fit.predict(empty).tolist() == [0, 0]
    text = str(fit.explain(empty)[0])
    assert "because of an empty bag" in text


def test_fidelity_and_accuracy_beside_the_most_frequent_class(model, ids):
    """Counted by hand; on data where rules, network and truth differ."""
    valid, x, labels = (random_ids(n, seed) for n, seed in ((60, 1), (90, 2), (90, 3)))
    fit = explainer(n_clusters=(2, 2)).fit(model, vectors(ids), vectors(valid))

    def by_network(data):
        return (model.predict(vectors(data), verbose=0)[:, 0] > 0.5).astype(int).tolist()

    def share_of_most_frequent(classes):
        return max(map(classes.count, classes)) / len(classes)

    assert fit.majority_ == share_of_most_frequent(by_network(valid))
    by_rules, y = fit.predict(vectors(x)).tolist(), truth(labels)
    found = fit.evaluate(vectors(x), y)
    assert found == {
        "fidelity": np.mean([a == b for a, b in zip(by_rules, by_network(x), strict=True)]),
        "fidelity_majority": share_of_most_frequent(by_network(x)),
        "accuracy": accuracy_score(y, by_rules),
        "accuracy_majority": share_of_most_frequent(y.tolist()),
    }
    assert len({round(figure, 6) for figure in found.values()}) > 2
    assert found["fidelity"] == fit.fidelity(vectors(x))
    assert found["accuracy"] == fit.score(vectors(x), y)
    without_labels = {name: found[name] for name in ("fidelity", "fidelity_majority")}
    assert fit.evaluate(vectors(x)) == without_labels
    with pytest.raises(ValueError, match=r"Expected labels.*Received: y=None"):
        fit.score(vectors(x), None)


def test_three_levels_are_read_as_three_levels_of_rules():
    inputs = keras.Input((None, None, None, N_DIGITS), ragged=True)
    layers = [BagLayer(N_DIGITS) for _ in range(3)]
    output = keras.layers.Dense(1, activation="sigmoid")
    x = inputs
    for layer in layers:
        x = layer(x)
    model = keras_mmil.Model(inputs, output(x))
    set_rule_weights(layers[0], layers[1], output)
    layers[2].set_weights([np.eye(N_DIGITS), np.zeros(N_DIGITS), np.zeros(N_DIGITS)])
    rng = np.random.default_rng(0)
    sizes = [rng.integers(1, 3, 150)]
    for _ in range(2):
        sizes.append(rng.integers(1, 4, sizes[-1].sum()))
    ids = ragged.from_flat(rng.integers(0, N_DIGITS, sizes[-1].sum()), sizes)
    fit = explainer(max_clusters=3).fit(model, vectors(ids))
    y = [any(3 in s and 2 not in s for sub in top for s in sub) for top in ids.to_list()]
    assert fit.fidelity_ == 1.0
    assert fit.score(vectors(ids), np.array(y, float)[:, None]) == 1.0
    assert len(fit.levels_) == 3
    assert len(fit.grid_) == 8
    text = fit.rules_.text(all=True)
    assert all(word in text for word in ("sub-bags, by their instances", "level-2 bags", "w1"))
    explanation = fit.explain(vectors(ids)[:1])[0]
    assert explanation.top_bag.children[0].children[0].children[0].level == 0
    instances, sub_bags, bags = fit.labels(vectors(ids))
    assert instances.shape.rank == 4
    np.testing.assert_array_equal(instances.values.row_splits, ids.values.row_splits)
    assert sub_bags.shape.rank == 3
    assert bags.shape.rank == 2


def test_one_level_of_dense_bags_of_three_classes():
    inputs = keras.Input((5, 3))
    layer, output = BagLayer(3), keras.layers.Dense(3, activation="softmax")
    model = keras.Model(inputs, output(layer(inputs)))
    layer.set_weights([np.eye(3), np.zeros(3), np.zeros(3)])
    output.set_weights([5 * np.diag([1.0, 2.0, 4.0]), np.zeros(3)])
    classes = np.random.default_rng(0).integers(0, 3, (90, 5)) * (np.arange(90) % 2)[:, None]
    x = np.eye(3, dtype=np.float32)[classes]
    y = classes.max(axis=1)
    fit = explainer(max_clusters=3, class_names=("low", "middle", "high")).fit(model, x)
    assert fit.fidelity(x) == fit.score(x, y) == fit.score(x, np.eye(3)[y]) == 1.0
    assert {rule.conclusion for rule in fit.rules_} == {0, 1, 2}
    assert "high ← o_" in str(fit.rules_)
    assert explainer(n_clusters=3).fit(model, x).classes_ == ("class_0", "class_1", "class_2")


def test_sequential_model(ids):
    reference = plain_model()
    model = keras.Sequential([keras.Input((None, None, N_DIGITS), ragged=True)])
    for layer in reference.layers[1:]:
        model.add(type(layer).from_config(layer.get_config()))
    model.set_weights(reference.get_weights())
    assert explainer().fit(model, vectors(ids)).fidelity_ == 1.0


# The choice -------------------------------------------------------------------------------------


def test_choice_among_equals():
    grid = [
        GridPoint((4, 2), 0.9, 9),
        GridPoint((3, 3), 0.9, 8),
        GridPoint((2, 4), 0.9, 9),
        GridPoint((2, 2), 0.895, 4),
        GridPoint((2, 5), 0.9, 3),
        GridPoint((2, 3), 0.7, 2),
    ]
    assert choose(grid).n_clusters == (3, 3)
    assert choose(grid[:1] + grid[2:]).n_clusters == (2, 4)
    assert choose(grid, tolerance=0.004).n_clusters == (2, 5)
    assert choose(grid, tolerance=0.2).n_clusters == (2, 3)
    assert choose(grid[:4], tolerance=0.005).n_clusters == (2, 2)


def test_held_out_fraction_is_of_the_seed(model, ids):
    fits = [explainer(random_state=s, n_clusters=(3, 2)).fit(model, vectors(ids)) for s in (1, 1)]
    assert fits[0].fidelity_ == fits[1].fidelity_
    with pytest.raises(ValueError, match=r"1 top-bags, validation_fraction=0\.2"):
        explainer().fit(model, vectors(ids)[:1])


def test_random_state_none_works(model, ids):
    assert explainer(random_state=None, n_clusters=(3, 2)).fit(model, vectors(ids)).fidelity_ > 0.5


def test_clusters_of_a_sample_of_the_rows(model, ids):
    fit = explainer(max_rows=100).fit(model, vectors(ids))
    assert fit.fidelity_ == 1.0
    whole = explainer(max_rows=10**6).fit(model, vectors(ids))
    # The rows that were not clustered are labelled and counted all the same.
    assert (fit.levels_[0].centroids != whole.levels_[0].centroids).any()
    np.testing.assert_allclose(fit.levels_[0].sizes, whole.levels_[0].sizes)


def test_row_sample_is_uniform_and_keeps_weights():
    drawn = np.zeros(40)
    for seed in range(500):
        sample = RowSample(10, seed)
        for start in range(0, 40, 8):
            rows = np.arange(start, start + 8, dtype=np.float32)[:, None]
            sample.add(rows, np.where(rows[:, 0] == 3, 0.0, rows[:, 0] + 1))
        rows, weights = sample.draw()
        assert rows.shape == (10, 1)
        assert sample.n_seen == 40
        np.testing.assert_array_equal(weights, rows[:, 0] + 1)
        assert (np.diff(rows[:, 0]) > 0).all()
        drawn[rows[:, 0].astype(int)] += 1
    assert drawn[3] == 0
    expected = 500 * 10 / 39
    assert (abs(np.delete(drawn, 3) - expected) < 5 * expected**0.5).all()


def test_nearest_as_in_a_loop():
    rng = np.random.default_rng(0)
    rows, centroids = (rng.normal(size=(n, 5)).astype(np.float32) for n in (50, 4))
    expected = [np.argmin([np.linalg.norm(r - c) for c in centroids]) for r in rows]
    np.testing.assert_array_equal(nearest(rows, centroids), expected)
    assert nearest(rows[:0], centroids).shape == (0,)


# Looking at it ----------------------------------------------------------------------------------


def test_explanation_names_what_decided(model, fitted):
    ids = ragged.from_nested_lists([[[0, 3, 1], [2, 3], [0]], [[0, 1], [2]]])
    positive, negative = fitted.explain(vectors(ids))
    assert (positive.label, positive.network, positive.agrees) == (1, 1, True)
    sub_bags = positive.top_bag.children
    assert [part.deciding for part in sub_bags] == [True, False, False]
    assert [part.position for part in sub_bags[0].children] == [(0, 0, i) for i in range(3)]
    assert [part.deciding for part in sub_bags[0].children] == [False, True, False]
    assert len(sub_bags[0].absent) == 1
    assert sub_bags[0].nearest == sub_bags[0].name
    assert [part.role for part in negative.top_bag.children] == ["checked", "checked"]
    text = str(positive)
    assert text.startswith("top-bag 0 is positive, because positive ← o_v")
    assert "(network: positive)" in text
    assert "decides: sub-bag 0 is v" in text
    assert "does not matter: sub-bags 1 (v" in text
    assert "decides: instance 1 (u" in text
    assert "    absent: u" in text
    data = json.loads(json.dumps(positive.to_dict()))
    assert data["top_bag"]["children"][0]["role"] == "decides"
    assert data["agrees"] is True


def test_explanation_shows_what_the_user_wants_to_see(fitted):
    ids = ragged.from_nested_lists([[[0, 3, 1], [2, 3], [0]]])
    titles = {0: "the case", 1: "visit {}", 2: "measurement {}"}

    def show(position):
        return titles[len(position) - 1].format(position[-1] + 1)

    (explanation,) = fitted.explain(vectors(ids), show)
    text = str(explanation)
    assert text.startswith("top-bag the case is positive")
    assert "decides: sub-bag visit 1 is v" in text
    assert "does not matter: sub-bags visit 2 (v" in text
    assert "decides: instance measurement 2 (u" in text
    assert explanation.to_dict()["top_bag"]["children"][2]["title"] == "visit 3"


def test_explanation_says_where_rules_and_network_disagree(model, ids):
    x = vectors(ids)
    fit = explainer(n_clusters=(3, 2), max_depth=1).fit(model, x)
    by_rules = fit.predict(x)
    by_network = (model(x).numpy()[:, 0] > 0.5).astype(int)
    wrong = int(np.flatnonzero(by_rules != by_network)[0])
    explanation = fit.explain(x[wrong : wrong + 1])[0]
    assert not explanation.agrees
    assert f"NOT as the network: {('negative', 'positive')[by_network[wrong]]}" in str(explanation)
    assert any("nearest centroid: v" in str(each) for each in fit.explain(x))


def test_rules_of_one_class_are_a_warning(model, ids):
    with pytest.warns(UserWarning, match=r"every (sub|top)-bag into one class") as caught:
        explainer(n_clusters=(2, 2)).fit(model, vectors(ids))
    assert any("sub-bag into one class, 'v1'" in str(one.message) for one in caught)


def test_explanation_of_compressed_bags_shows_multiplicities():
    model = compressed_model("mean")
    ids = random_ids(100)
    fit = explainer(n_clusters=(4, 2)).fit(model, ids)
    bags = keras_mmil.Bags.from_ragged(ragged.from_nested_lists([[[3, 3, 3], [3, 3, 3], [0]]]))
    top_bag = fit.explain(bags)[0].top_bag
    assert sorted(part.weight for part in top_bag.children) == [1, 2]
    assert "(×3)" in str(fit.explain(bags)[0])
    assert "(×2)" in str(fit.explain(bags)[0])


def test_labels_are_nested_like_the_data(ids, fitted):
    instances, sub_bags = fitted.labels(vectors(ids))
    np.testing.assert_array_equal(instances.row_splits, ids.row_splits)
    np.testing.assert_array_equal(instances.values.row_splits, ids.values.row_splits)
    np.testing.assert_array_equal(sub_bags.row_splits, ids.row_splits)
    assert len({(d, c) for d, c in zip(ids.flat_values.numpy(), instances.flat_values.numpy(),
                                       strict=True)}) == N_DIGITS  # fmt: skip


def test_description(ids, fitted):
    x = vectors(ids)
    sizes = [level.sizes for level in fitted.describe()]
    np.testing.assert_allclose([s.sum() for s in sizes], 1)
    positive = ids.with_values(
        ragged.from_flat(
            [int(3 in s and 2 not in s) for top in ids.to_list() for s in top],
            [ids.row_lengths()],
        ).values
    )
    description = fitted.describe(
        x,
        instance_labels=ids,
        sub_bag_labels=positive,
        label_names={"sub-bag": ("no", "yes")},
    )
    table = description[0].table
    clusters = fitted.labels(x)[0].flat_values.numpy()
    expected = np.zeros((3, N_DIGITS))
    for cluster, digit in zip(clusters, ids.flat_values.numpy(), strict=True):
        expected[cluster, digit] += 1
    np.testing.assert_array_equal(table, expected)
    np.testing.assert_allclose(description[0].sizes, expected.sum(axis=1) / expected.sum())
    np.testing.assert_allclose(description[1].share, 1)
    assert "of which 100.0 % are yes" in str(description)
    records = description.to_dict()
    assert [r["majority"] for r in records["sub-bag"]] in (["no", "yes"], ["yes", "no"])
    assert json.loads(json.dumps(records)) == records
    assert not all(description[0].needed)
    assert "(not needed)" in str(description)
    with pytest.raises(ValueError, match=r"one for|integer label ≥ 0 for each of \d+ instances"):
        fitted.describe(x, instance_labels=ids[:3])
    with pytest.raises(ValueError, match="Received: x=None"):
        fitted.describe(instance_labels=ids)
    with pytest.raises(ValueError, match="labels below 1"):
        fitted.describe(x, sub_bag_labels=positive, label_names={"sub-bag": ("no",)})


@pytest.mark.parametrize("by", ["separation", "closeness"])
def test_representatives(by):
    keras.utils.set_random_seed(5)
    inputs = keras.Input((None, 2), ragged=True)
    model = keras_mmil.Model(
        inputs, keras.layers.Dense(1, activation="sigmoid")(BagLayer(4)(inputs))
    )
    rng = np.random.default_rng(0)
    values = rng.normal(size=(90, 2)).astype(np.float32)
    x = ragged.from_flat(np.repeat(values, 2, axis=0), [np.full(60, 3)])  # each instance twice
    fit = explainer(n_clusters=3, validation_fraction=0.5).fit(model, x)
    rho = model.layers[1].represent(x).flat_values.numpy()
    scores = []
    for index, row in enumerate(rho):
        distances = [float(np.linalg.norm(row - c)) for c in fit.levels_[0].centroids]
        if int(np.argmin(distances)) == 1:
            others = min(d for c, d in enumerate(distances) if c != 1)
            position = (index // 3, index % 3)
            scores.append((-others if by == "separation" else distances[1], position, others))
    scores = [s for s in sorted(scores) if (s[1][0] * 3 + s[1][1]) % 2 == 0]  # the first of each
    found = fit.representatives(x, 0, 1, n=5, by=by)
    np.testing.assert_allclose([r.separation for r in found], [s[2] for s in scores[:5]], rtol=1e-4)
    assert [r.position for r in found] == [s[1] for s in scores[:5]]
    assert len(fit.representatives(x, "u", "u2", n=1000, by=by)) == len(scores)
    for match, arguments in {
        "by='best'": (0, 0, 3, "best"),
        "level='v'": ("v", 0),
        "level=1": (1, 0),
        "cluster=3": (0, 3),
        "cluster='u9'": (0, "u9"),
        "n=0": (0, 0, 0),
    }.items():
        with pytest.raises(ValueError, match=match):
            fit.representatives(x, *arguments)


def test_names_appear_everywhere(model, ids, tmp_path):
    x = vectors(ids)
    fit = explainer(n_clusters=(3, 2)).fit(model, x)
    needed = [
        name for name, n in zip(fit.levels_[0].names, fit.levels_[0].needed, strict=True) if n
    ]
    fit.rename("u", {needed[0]: "first", fit.levels_[0].names.index(needed[1]): "second"})
    yes = next(c.cluster for r in fit.levels_[1].rules for c in r.conditions)
    fit.rename(1, {yes: "yes"})
    for text in (fit.rules_, fit.describe(x), "\n".join(map(str, fit.explain(x)))):
        assert all(name in str(text) for name in ("first", "second", "yes"))
    assert "yes ← " in str(fit.rules_)
    assert "positive ← o_yes=1." in str(fit.rules_)
    assert "o_first=" in fit.rules_.to_json()
    fit.save(tmp_path / "rules")
    assert str(Explainer.load(tmp_path / "rules", model).rules_) == str(fit.rules_)
    for names in ({"first": "second"}, {0: ""}, {0: 5}):
        with pytest.raises(ValueError, match="a name of its own"):
            fit.rename(0, names)
    with pytest.raises(ValueError, match="cluster='u9'"):
        fit.rename(0, {"u9": "nine"})


def test_rules_as_data(fitted):
    data = json.loads(fitted.rules_.to_json())
    assert [len(level["rules"]) for level in data["levels"]] == [3, 2]
    assert data["levels"][1]["conclusions"] == ["negative", "positive"]
    assert len(fitted.rules_) == len(list(fitted.rules_)) == 5
    frame = fitted.to_dataframe()
    assert list(frame["clause"]) == [r.clause(level.names, level.rules.names)
                                     for level in fitted.levels_ for r in level.rules]  # fmt: skip
    assert set(frame["bags"]) == {"sub-bag", "top-bag"}
    assert list(frame["coverage"]) == [rule.coverage for rule in fitted.rules_]
    assert data["levels"][1]["rules"][0]["coverage"] == list(fitted.rules_)[3].coverage


def test_fit_prints_one_progress_bar(model, ids, capsys):
    explainer(verbose=1, n_clusters=(3, 2)).fit(model, vectors(ids))
    lines = capsys.readouterr().out.splitlines()
    assert "6/6" in lines[-1]  # 3 batches, 2 clusterings, 1 search
    explainer(n_clusters=(3, 2)).fit(model, vectors(ids))
    assert capsys.readouterr().out == ""


def test_estimator_conventions():
    made = explainer(n_clusters=(3, 2), tolerance=0.1)
    assert clone(made).get_params() == made.get_params()
    assert made.set_params(tolerance=0.2).tolerance == 0.2
    for call in (
        lambda: made.predict(None),
        lambda: made.score(None, None),
        lambda: made.fidelity(None),
        lambda: made.evaluate(None),
        lambda: made.explain(None),
        lambda: made.labels(None),
        lambda: made.describe(),
        lambda: made.representatives(None, 0, 0),
        lambda: made.rename(0, {}),
        lambda: made.to_dataframe(),
        lambda: made.rules_,
        lambda: made.save("nowhere"),
    ):
        with pytest.raises(NotFittedError):
            call()


def test_model_is_left_as_it_was(ids):
    model = plain_model()
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.fit(vectors(ids), truth(ids), verbose=0)
    before = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    trainable = [layer.trainable for layer in model.layers]
    explainer(n_clusters=(3, 2)).fit(model, vectors(ids))
    after = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    assert [layer.trainable for layer in model.layers] == trainable
    assert [len(layer._inbound_nodes) for layer in model.layers] == [1] * len(model.layers)
    model.fit(vectors(ids), truth(ids), verbose=0)

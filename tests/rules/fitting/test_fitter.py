"""Fitting: compared with the algorithms of the paper in loops."""

import itertools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from digit_networks import explainer, vectors
from random_networks import make_data, make_model, quick_explainer
from sklearn.metrics import accuracy_score
from sklearn.tree import DecisionTreeClassifier

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer
from keras_mmil.rules.fitting.cluster import WeightedRows, fit_centroids


def reference_fidelities(model, x, x_valid, options, seed):
    """Algorithms 1-3 of the paper with Python loops, on nested lists of representations.

    But for one thing: the upper tree learns from sub-bags as the lower one labels them.
    """

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
        c_sub, c_instance = (
            fit_centroids(WeightedRows(rows, np.ones(len(rows))), k, seed=seed)
            for rows, k in ((flat_sub_bags, k_sub), (flat_instances, k_instance))
        )

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


@pytest.mark.slow
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


def test_same_result_whatever_the_number_of_threads(digit_model, digit_ids):
    fits = [
        explainer(n_jobs=n, n_init=1).fit(digit_model, vectors(digit_ids)) for n in (1, 2, None)
    ]
    for other in fits[1:]:
        assert other.grid_ == fits[0].grid_
        assert other.rules_.text() == fits[0].rules_.text()
        for a, b in zip(other.clusters_, fits[0].clusters_, strict=True):
            np.testing.assert_array_equal(a.centroids, b.centroids)


def test_clusters_of_a_sample_of_the_rows(digit_model, digit_ids):
    fit = explainer(max_rows=100).fit(digit_model, vectors(digit_ids))
    assert fit.fidelity_ == 1.0
    whole = explainer(max_rows=10**6).fit(digit_model, vectors(digit_ids))
    # The rows that were not clustered are labelled and counted all the same.
    assert (fit.clusters_[0].centroids != whole.clusters_[0].centroids).any()
    np.testing.assert_allclose(fit.clusters_[0].sizes, whole.clusters_[0].sizes)


def test_rules_of_one_class_are_a_warning(digit_model, digit_ids):
    with pytest.warns(UserWarning, match=r"every (sub|top)-bag into one class") as caught:
        explainer(n_clusters=(2, 2)).fit(digit_model, vectors(digit_ids))
    assert any("sub-bag into one class, 'v1'" in str(one.message) for one in caught)
    assert {one.filename for one in caught} == {__file__}  # the line that calls `fit`


def test_warning_where_clusters_are_more_than_points():
    points = np.repeat(np.float32([[1, 0], [0, 1], [1, 1]]), 10, axis=0)
    x = ragged.from_flat(points, [np.ones(30, int)])
    model = make_model()
    model.layers[1].set_weights([np.eye(2, 3), np.zeros(3), np.zeros(3)])
    target = (0, float(np.median(model(x))))
    fit = quick_explainer(max_clusters=5, target=target).fit(model, x, x)  # a search just ends
    assert {point.n_clusters for point in fit.grid_} == {(2,), (3,)}
    for few in (x, x[8:11]):  # with fewer rows than clusters, too
        n = len(np.unique(few.numpy(), axis=0))
        with pytest.warns(UserWarning, match=f"'u' has only {n} distinct points.*4 clusters") as w:
            fit = quick_explainer(n_clusters=4, target=target).fit(model, few, few)
        assert {one.filename for one in w} == {__file__}  # the line that calls `fit`
        assert fit.n_clusters_ == (n,)


@pytest.mark.parametrize("limit", [10**9, np.int64(10**12), (10**30,)])
def test_numbers_far_above_the_data_take_no_memory(limit):
    x, model = make_data(8), make_model()
    kernel, bias, _ = model.layers[1].get_weights()
    n = len(np.unique(np.maximum(x.flat_values @ kernel + bias, 0), axis=0))
    huge = {"max_rows": 10**12, "batch_size": 10**12, "n_jobs": 10**9}
    target = (0, float(np.median(model(x))))
    fit = quick_explainer(max_clusters=limit, target=target, **huge).fit(model, x, x)
    assert {point.n_clusters for point in fit.grid_} == {(k,) for k in range(2, n + 1)}
    same = quick_explainer(max_clusters=n, target=target).fit(model, x, x)
    assert (same.grid_, same.rules_.text()) == (fit.grid_, fit.rules_.text())


def test_warning_where_everything_is_one_class():
    x = make_data()
    with pytest.warns(UserWarning, match="every top-bag into one class, 'positive'"):
        fit = quick_explainer(target=(0, -1.0)).fit(make_model(), x)
    constant, *others = fit.rules_.text().splitlines()
    assert constant.startswith("# CONSTANT: the rules put every top-bag into one class, 'positive'")
    assert not any("positive" in line for line in others)  # nor is there a rule to be believed
    assert fit.rules_.constant == "positive"
    assert fit.evaluate(x) == {"fidelity": 1.0, "fidelity_majority": 1.0}
    assert fit.majority_ == 1.0
    explanation = fit.explain(x[:1])[0]
    assert "is positive, whatever it holds." in str(explanation)
    assert {part.role for part in explanation.top_bag.children} == {"does not matter"}
    with pytest.warns(UserWarning, match="only 1 distinct points|into one class"):
        flat = quick_explainer(target=(0, -1.0)).fit(make_model(), tf.zeros_like(x))
    assert flat.n_clusters_ == (1,)
    assert flat.representatives(tf.zeros_like(x), 0, 0)[0].separation == np.inf


def test_fit_prints_one_progress_bar(digit_model, digit_ids, capsys):
    explainer(verbose=1, n_clusters=(3, 2)).fit(digit_model, vectors(digit_ids))
    shown = [int(n) for n in re.findall(r"(\d+)/100", capsys.readouterr().out)]
    assert len(shown) > 1
    assert shown == sorted(shown)
    assert shown[0] < shown[-1] == 100
    explainer(n_clusters=(3, 2)).fit(digit_model, vectors(digit_ids))
    assert capsys.readouterr().out == ""

"""Rules of a network for records with fields and several bags, whose weights are known."""

import copy

import keras
import numpy as np
import pytest
import tensorflow as tf
from digit_networks import explainer as new_explainer
from digit_networks import vectors
from random_networks import make_data, quick_explainer
from record_networks import (
    MEANINGS,
    churn_model,
    churns,
    fit_and_name,
    flattened,
    random_customers,
    read,
    values_at,
)

from keras_mmil.layers import BagLayer
from keras_mmil.rules.fitting.search import Search, choose

CLAUSES = {
    "items": {
        "hot ← returned, product.kind = 'electronics'.",
        "cold ← product.kind ≠ 'electronics'.",
        "cold ← not returned.",
    },
    "orders": {
        "bad ← some items are hot, days_late > 3.",
        "good ← no items are hot.",
        "good ← days_late ≤ 3 or missing.",
    },
    "visits": {
        "by phone ← channel = 'phone'.",
        "otherwise ← channel ≠ 'phone'.",
    },
    "record": {
        "positive ← some orders are bad, at most one of the visits is by phone, plan ≠ 'gold'.",
        "negative ← no orders are bad.",
        "negative ← at least 2 visits are by phone.",
        "negative ← plan = 'gold'.",
    },
}


def clauses(explainer):
    """The clauses of each kind of records, without those of what makes no difference."""
    return {
        level.word: {level.rules.clause(rule) for rule in level.rules}
        for level in explainer.levels_
        if level.rules.n_needed
    }


def test_rules_are_those_of_the_weights(churn_explainer):
    assert clauses(churn_explainer) == CLAUSES
    assert churn_explainer.fidelity_ == 1.0
    text = churn_explainer.rules_.text()
    for level in churn_explainer.levels_:
        for rule in level.rules:
            if level.rules.needed[rule.conclusion]:
                assert rule.precision == 1.0
                assert level.rules.clause(rule) in text
    assert not any(churn_explainer.levels_[1].needed[0])  # of the tags


@pytest.mark.slow
def test_rules_hold_for_other_customers(churn_explainer):
    others = random_customers(150, seed=5, missing=0.4)
    x = read(others)
    truth = [churns(customer) for customer in others]
    assert any(truth)
    np.testing.assert_array_equal(churn_explainer.predict(x), truth)
    assert churn_explainer.evaluate(x, np.array(truth)) == {
        "fidelity": 1.0,
        "accuracy": 1.0,
        "fidelity_majority": 1 - np.mean(truth),
        "accuracy_majority": 1 - np.mean(truth),
    }
    for level in churn_explainer.describe(x):
        path = churn_explainer.clusters_[level.level].path
        if path in MEANINGS:
            holds, name, _ = MEANINGS[path]
            share = np.mean([holds(part) for part in parts_at(others, path)])
            assert level.sizes[level.names.index(name)] == pytest.approx(share)


def parts_at(customers, path):
    return flattened(values_at(customers, path.split(".")))


@pytest.mark.slow
def test_each_record_once_gives_the_same_rules(churn_explainer, customers):
    plain = fit_and_name(churn_model(compress=False), customers)
    assert clauses(plain) == clauses(churn_explainer)
    grids = [{p.n_clusters: p.fidelity for p in fit.grid_} for fit in (plain, churn_explainer)]
    assert grids[0] == grids[1]
    x = read(customers)
    np.testing.assert_array_equal(plain.predict(x), churn_explainer.predict(x))
    customers, x = customers[:50], read(customers[:50])
    # Labels are of the records at their places, even if equal ones are computed once.
    for fit in (plain, churn_explainer):
        for clusters, labels in zip(fit.clusters_, fit.labels(x), strict=True):
            parts = values_at(customers, clusters.path.split("."))
            assert labels.to_list() == like(parts, labels)
            if clusters.path in MEANINGS:
                holds, name, _ = MEANINGS[clusters.path]
                found = [clusters.names[label] == name for label in labels.flat_values.numpy()]
                assert found == [holds(part) for part in flattened(parts)]
    x = read(customers[:10])
    assert explained(plain, x) == explained(churn_explainer, x)


def explained(fit, x):
    """The lines of explanations but those on tags, which make no difference."""
    lines = (line for each in fit.explain(x) for line in str(each).splitlines())
    return [line for line in lines if "product.tags" not in line]


def like(parts, labels):
    """Labels, one after the other, in bags as parts are."""
    remaining = iter(labels.flat_values.numpy().tolist())

    def nested(part):
        return [nested(each) for each in part] if isinstance(part, list) else next(remaining)

    return nested(parts)


@pytest.mark.slow
def test_instances_by_centroids(customers):
    """Innermost records have no rules then; those that hold bags have, on their fields, too."""
    fit = fit_and_name(churn_model(), customers, instances="centroids")
    expected = {word: rules for word, rules in CLAUSES.items() if word != "visits"}
    assert clauses(fit) == expected
    assert [level.word for level in fit.levels_] == list(expected)
    assert fit.fidelity_ == 1.0
    truth = [churns(customer) for customer in customers]
    np.testing.assert_array_equal(fit.predict(read(customers)), truth)


def test_instances_by_fields_need_fields(digit_model, digit_ids):
    with pytest.raises(ValueError, match="computed from fields alone, for instances='fields'"):
        new_explainer(instances="fields").fit(digit_model, vectors(digit_ids))


@pytest.mark.slow
def test_batches_and_streams_are_read_alike(churn_explainer, customers):
    """What is equal in a batch is computed once; rules do not depend on what else is in it."""
    x, some = read(customers[:30]), copy.copy(churn_explainer).set_params(batch_size=11)
    expected = churn_explainer.predict(x)
    np.testing.assert_array_equal(some.predict(x), expected)
    stream = tf.data.Dataset.from_tensor_slices(x).batch(20)
    np.testing.assert_array_equal(churn_explainer.predict(stream), expected)
    assert str(some.describe(x)) == str(churn_explainer.describe(x))


@pytest.mark.slow
def test_numbers_of_clusters_are_chosen_one_by_one(monkeypatch):
    """No other number of one bag-layer is better; and not all combinations are tried."""
    grown, rate = {}, Search.rate

    def kept(search, *arguments):
        best = rate(search, *arguments)
        grown.update((point.n_clusters, point) for point in search.trees)
        return best

    monkeypatch.setattr(Search, "rate", kept)
    x, x_valid = make_data(60), make_data(60, seed=1)
    inputs = keras.Input((None, 2), ragged=True)
    names = ("max", "mean", "sum")
    parts = [BagLayer(3, aggregation=name, name=name)(inputs) for name in names]
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()(parts)))
    arguments = {"target": (0, float(np.median(model(x)))), "max_clusters": 5, "n_init": 1}
    fit = quick_explainer(**arguments).fit(model, x, x_valid)
    tried = dict(grown)
    assert len(tried) < 4**3
    assert [point.n_clusters for point in fit.grid_] == list(tried)  # each once
    (chosen,) = (point for point in fit.grid_ if point.n_clusters == fit.n_clusters_)
    assert chosen.fidelity == fit.fidelity_
    assert chosen.n_leaves == sum(level.tree.n_leaves for level in fit.levels_)
    assert chosen.n_leaves < tried[fit.n_clusters_].n_leaves  # pruned
    best = choose(tried.values())
    for layer in range(3):
        for k in range(2, 6):
            ks = (*best.n_clusters[:layer], k, *best.n_clusters[layer + 1 :])
            assert choose([tried[ks], best]) == best
    fixed = quick_explainer(**arguments, n_clusters=fit.n_clusters_).fit(model, x, x_valid)
    assert fixed.fidelity_ == fit.fidelity_
    assert fixed.rules_.text() == fit.rules_.text()
    one_thread = quick_explainer(**arguments, n_jobs=1).fit(model, x, x_valid)
    assert one_thread.grid_ == fit.grid_
    assert one_thread.rules_.text() == fit.rules_.text()


def test_few_combinations_are_tried(churn_explainer):
    """2 or 3 clusters of tags, which make no difference, and 2 of all others: not the product."""
    tried = {point.n_clusters for point in churn_explainer.grid_}
    assert churn_explainer.n_clusters_ == (2, 2, 2, 2)
    assert tried <= {(2, 2, 2, 2), (3, 2, 2, 2)}

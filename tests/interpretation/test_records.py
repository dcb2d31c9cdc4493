"""Rules of a network for records with fields and several bags, whose weights are known."""

import numpy as np
import pytest
from digit_networks import explainer as new_explainer
from digit_networks import vectors
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
        "positive ← some orders are bad, at most 1 visits are by phone, plan ≠ 'gold'.",
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
    assert all(rule.precision == 1.0 for rule in churn_explainer.rules_)
    needed = [
        level.rules.clause(rule)
        for level in churn_explainer.levels_
        for rule in level.rules
        if level.rules.needed[rule.conclusion]
    ]
    text = str(churn_explainer.rules_)
    assert all(clause in text for clause in needed)
    assert "tags" not in text.replace("by their product.tags: none is needed", "")


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


def test_each_record_once_gives_the_same_rules(churn_explainer, customers):
    plain = fit_and_name(churn_model(compress=False), customers)
    assert clauses(plain) == clauses(churn_explainer)
    assert plain.grid_ == churn_explainer.grid_
    x = read(customers)
    np.testing.assert_array_equal(plain.predict(x), churn_explainer.predict(x))
    # And with each record at its place, its label can be compared with what it stands for.
    for clusters, labels in zip(plain.clusters_, plain.labels(x), strict=True):
        if clusters.path not in MEANINGS:
            continue
        holds, name, _ = MEANINGS[clusters.path]
        found = [clusters.names[label] == name for label in labels.flat_values.numpy()]
        assert found == [holds(part) for part in parts_at(customers, clusters.path)]
        assert labels.to_list() == like(values_at(customers, clusters.path.split(".")), labels)


def like(parts, labels):
    """Labels, one after the other, in bags as parts are."""
    remaining = iter(labels.flat_values.numpy().tolist())

    def nested(part):
        return [nested(each) for each in part] if isinstance(part, list) else next(remaining)

    return nested(parts)


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


def test_few_combinations_are_tried(churn_explainer):
    """2 or 3 clusters of tags, which make no difference, and 2 of all others: not the product."""
    tried = {point.n_clusters for point in churn_explainer.grid_}
    assert churn_explainer.n_clusters_ == (2, 2, 2, 2)
    assert tried <= {(2, 2, 2, 2), (3, 2, 2, 2)}

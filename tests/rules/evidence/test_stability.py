"""Stability: refits on bootstrap samples, and how their rules are compared."""

import copy
import itertools
import json
from collections import Counter

import numpy as np
import pytest
from digit_networks import explainer, random_ids, vectors
from record_networks import churn_model, fit_and_name

from keras_mmil import Explainer, ragged
from keras_mmil.rules.evidence.stability import Refitter, match


@pytest.mark.parametrize(("n_ours", "n_theirs"), [(4, 4), (4, 3), (3, 4)])
def test_matching_is_the_best_of_all_permutations(n_ours, n_theirs):
    rng = np.random.default_rng(n_ours * n_theirs)
    ours, theirs = rng.integers(0, n_ours, 60), rng.integers(0, n_theirs, 60)
    weights = rng.random(60)

    def matched(found):
        return weights[np.asarray(found)[theirs] == ours].sum()

    found = match(ours, theirs, weights, n_ours, n_theirs)
    numbers = [*range(n_ours), *[-1] * max(n_theirs - n_ours, 0)]
    best = max(map(matched, itertools.permutations(numbers, n_theirs)))
    np.testing.assert_allclose(matched(found), best)
    assert len(set(found[found >= 0])) == min(n_ours, n_theirs)


@pytest.mark.parametrize("max_rows", [100_000, 150])
def test_rules_that_are_certain_come_up_each_time(digit_model, digit_ids, max_rows):
    valid = vectors(random_ids(60, seed=1))
    fit = explainer(n_clusters=(3, 2), max_rows=max_rows).fit(
        digit_model, vectors(digit_ids), valid
    )
    found = fit.stability(n=4)
    assert (found.dice, found.agreement, found.n) == (1, 1, 4)
    clauses = [rule for level in fit.levels_ for rule in level.rules.lines()]
    assert len(found.rules) == len(clauses)
    assert all(rule.share == 1 for rule in found.rules)
    assert all(rule.clause in fit.rules_.text() for rule in found.rules)
    assert json.loads(json.dumps(found.to_dict()))["rules"][0]["share"] == 1
    assert "4 refits" in str(found)


@pytest.mark.slow
def test_rules_of_few_top_bags_differ(digit_model, digit_ids):
    x = vectors(digit_ids)
    fit = explainer(n_clusters=(4, 3)).fit(digit_model, x[:12], x[12:60])
    found = fit.stability(n=6)
    assert 0 < found.dice < 1
    assert 0.5 < found.agreement < 1
    np.testing.assert_allclose(found.dice, np.mean(found.dices))
    assert found == fit.stability(n=6)
    assert found != fit.stability(n=6, random_state=1)
    common = sum(rule.share for rule in found.rules) * found.n
    assert common <= found.n * len(found.rules)
    assert {rule.share * 6 for rule in found.rules} <= set(range(7))


@pytest.mark.slow
def test_rows_of_a_sample_counted_by_loops(digit_model, digit_ids):
    fit = explainer(n_clusters=(3, 2)).fit(digit_model, vectors(digit_ids), vectors(digit_ids)[:5])
    refits = Refitter(fit.levels_, fit._task, 0)
    chosen = np.random.default_rng(0).integers(0, 120, 120)
    instances, sub_bags = refits._rows_of(chosen)
    values = vectors(digit_ids).to_list()
    expected = Counter(tuple(row) for i in chosen for bag in values[i] for row in bag)
    # ρ is the input itself where that is positive.
    seen = Counter()
    for row, weight in zip(instances.rows, instances.weights, strict=True):
        seen[tuple(row)] += weight
    rho = Counter()
    for row, n in expected.items():
        rho[tuple(np.maximum(np.float32(row), 0))] += n
    assert seen == rho
    assert sub_bags.weights.sum() == sum(len(values[i]) for i in chosen)


@pytest.mark.slow
def test_of_records(customers):
    fit = fit_and_name(churn_model(), customers)
    found = fit.stability(n=3)
    assert 0.9 < found.agreement <= 1
    assert 0.3 < found.dice <= 1
    assert any("hot" in rule.clause for rule in found.rules)


@pytest.mark.slow
def test_data_are_neither_copied_nor_saved(digit_model, digit_ids, tmp_path):
    x, valid = vectors(digit_ids), vectors(random_ids(60, seed=1))
    fit = explainer(n_clusters=(3, 2)).fit(digit_model, x, valid)
    expected = fit.stability(n=2)
    fit.save(tmp_path)
    for other in (Explainer.load(tmp_path, digit_model), copy.deepcopy(fit)):
        with pytest.raises(ValueError, match="Expected x, the data of `fit`"):
            other.stability(n=2)
        assert other.stability(x, n=2, x_valid=valid) == expected
    with pytest.raises(ValueError, match="n=0"):
        fit.stability(n=0)


def test_clusters_that_a_sample_lacks(digit_model):
    """Of two distinct rows, most samples of two top-bags hold one."""
    x = ragged.from_nested_lists([[[[0.0, 0, 0, 1]]], [[[0.0, 0, 1, 0]]]], inner_shape=(4,))
    fit = explainer(n_clusters=(2, 2)).fit(digit_model, x, x)
    found = fit.stability(n=8)
    assert 0 < found.dice < 1
    assert min(found.agreements) == 0.5

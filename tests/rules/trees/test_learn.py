"""Rules of trees, with their figures."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nested_rows import grid_vectors, random_bags

from keras_mmil.rules.trees.features import COUNT, FREQUENCY, OCCURRENCE, Bag, Space
from keras_mmil.rules.trees.learn import learn_rules, simplify
from keras_mmil.rules.trees.rule_set import RuleSet
from keras_mmil.rules.trees.tree import Examples, Tree, grow


def space_of(feature, k):
    """What is known of bags of k clusters."""
    return Space((Bag(0, feature, tuple(f"u{i + 1}" for i in range(k))),))


@pytest.mark.slow
@given(
    st.sampled_from([OCCURRENCE, FREQUENCY, COUNT]),
    st.integers(1, 5),
    st.integers(2, 4),
    st.integers(0, 10**6),
)
def test_simplified_rules_are_the_tree(feature, k, n_classes, seed):
    rng = np.random.default_rng(seed)
    bags = random_bags(rng, feature, 80, k)
    labels, weights = rng.integers(0, n_classes, 80), rng.random(80) + 0.1
    examples = Examples(bags, labels, weights)
    tree, space = grow(examples), space_of(feature, k)
    rules = learn_rules(tree, space, level=0, examples=examples)
    names = tuple(map(str, range(n_classes)))
    rule_set = RuleSet(rules, space.columns, names, (True,) * n_classes)
    new = np.concatenate([bags, random_bags(rng, feature, 300, k), grid_vectors(feature, k, 4)])
    expected = tree.predict(new.astype(np.float32))
    for rule in rules:  # whatever matches agrees, not only the first
        assert (expected[rule.matches(new)] == rule.conclusion).all()
    np.testing.assert_array_equal(rule_set.predict(new), expected)
    assert len(rules) <= tree.n_leaves


def test_paper_rules_of_mnist():
    """Rules 1-5 of "A Semi-Synthetic Dataset", from the tree of a 7 (u1) and no 3 (u3, u5, u6)."""
    bags = np.array(list(itertools.product([0, 1], repeat=6)), np.float32)
    positive = (bags[:, 0] == 1) & (bags[:, [2, 4, 5]] == 0).all(axis=1)
    labels, weights = np.where(positive, 0, 1), np.ones(len(bags))
    examples = Examples(bags, labels, weights)
    rules = learn_rules(grow(examples), space_of(OCCURRENCE, 6), level=0, examples=examples)
    columns = space_of(OCCURRENCE, 6).columns
    assert {rule.clause(columns, ("v1", "v2")) for rule in rules} == {
        "v1 ← o_u1=1, o_u3=0, o_u5=0, o_u6=0.",
        "v2 ← o_u1=0.",
        "v2 ← o_u3=1.",
        "v2 ← o_u5=1.",
        "v2 ← o_u6=1.",
    }


def test_figures_of_rules_are_those_of_a_loop_over_bags():
    """Bags have weights and noisy labels; rules overlap."""
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 4, (200, 3))
    labels = np.where(rng.random(200) < 0.2, rng.integers(0, 3, 200), counts.argmax(axis=1))
    weights = rng.integers(1, 5, 200).astype(float)
    bags = counts.astype(np.float32)
    examples = Examples(bags, labels, weights)
    tree = grow(examples, ccp_alpha=0.01)
    rules = learn_rules(tree, space_of(COUNT, 3), level=0, examples=examples)
    assert len(rules) > 3
    for rule in rules:
        matched = right = of_class = 0.0
        for bag, label, weight in zip(counts.tolist(), labels, weights, strict=True):
            of_class += weight * (label == rule.conclusion)
            if all(c.low < bag[c.column] <= c.high for c in rule.conditions):
                matched += weight
                right += weight * (label == rule.conclusion)
        found = rule.precision, rule.support, rule.coverage
        expected = right / matched, matched / weights.sum(), right / of_class
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert 0 < rule.coverage <= 1


def test_a_rule_that_matches_no_training_bag_has_figures():
    """Of a tree that was pruned on further data."""
    tree = Tree(
        feature=np.array([0, -1, -1], np.int32),
        threshold=np.array([0.5, 0.0, 0.0]),
        children=np.array([[1, 2], [-1, -1], [-1, -1]], np.int32),
        label=np.array([0, 0, 1], np.int32),
        n_features=1,
    )
    examples = Examples(np.zeros((2, 1), np.float32), np.zeros(2, int), np.ones(2))
    always, never = learn_rules(tree, space_of(OCCURRENCE, 1), level=0, examples=examples)
    assert (always.support, always.precision, always.coverage) == (1.0, 1.0, 1.0)
    assert (never.support, never.precision, never.coverage) == (0.0, 0.0, 0.0)


def test_simplify_knows_that_frequencies_sum_to_one():
    """f1 > 0.6 implies f2 ≤ 0.5: no bag is in the second leaf, and the first needs no f2."""
    tree = Tree(
        feature=np.array([0, -1, 1, -1, -1]),
        threshold=np.array([0.6, 0, 0.5, 0, 0]),
        children=np.array([[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]]),
        label=np.array([2, 2, 0, 0, 1]),
        n_features=2,
    )
    boxes = simplify(tree.boxes(), FREQUENCY.feasible)
    np.testing.assert_array_equal(boxes.labels, [0, 2])
    inf = np.inf
    expected = [[[0.6, -inf], [inf, inf]], [[-inf, -inf], [0.6, inf]]]
    np.testing.assert_array_equal(boxes.bounds, expected)

"""Features, trees and rules: pure NumPy, compared with loops and by property."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from keras_mmil.interpretation.fitting.search import merge, tally
from keras_mmil.interpretation.network.nesting import concatenate, expand, multiplicities
from keras_mmil.interpretation.rules import features
from keras_mmil.interpretation.rules.features import (
    COUNT,
    FREQUENCY,
    OCCURRENCE,
    WEIGHT,
    bag_features,
)
from keras_mmil.interpretation.rules.level import Level
from keras_mmil.interpretation.rules.rule_book import RuleBook
from keras_mmil.interpretation.rules.rules import Condition, Rule, RuleSet, learn_rules
from keras_mmil.interpretation.rules.simplify import simplify
from keras_mmil.interpretation.rules.tree import Tree, grow
from keras_mmil.layers._bags import Grouping


def nesting_of(bags, n_rows, weights=None):
    """A `Grouping` of lists of rows."""
    splits = np.cumsum([0, *map(len, bags)])
    members = np.array([row for bag in bags for row in bag], np.int64)
    weights = np.ones(len(members)) if weights is None else np.concatenate(weights)
    return Grouping(members, splits, weights.astype(np.float32), n_rows)


# Nested bags --------------------------------------------------------------------------------------


def test_multiplicities_count_every_occurrence():
    # Rows 0-2; sub-bags {0, 0, 1}, {}, {2}; top-bags {sub 0 twice, sub 2}, {sub 1, sub 2}.
    lower = nesting_of([[0, 1], [], [2]], 3, [[2, 1], [], [1]])
    upper = nesting_of([[0, 2], [1, 2]], 3, [[2, 1], [1, 1]])
    rows, sub_bags, top_bags = multiplicities([lower, upper])
    np.testing.assert_array_equal(rows, [4, 2, 2])
    np.testing.assert_array_equal(sub_bags, [2, 1, 2])
    np.testing.assert_array_equal(top_bags, [1, 1])
    np.testing.assert_array_equal(lower.is_empty, [False, True, False])


def test_expand_repeats_what_bags_share():
    lower = nesting_of([[0, 1], [], [2]], 3)
    upper = nesting_of([[0, 2, 0], [1, 2]], 3, [[1, 1, 3], [1, 1]])
    instances, sub_bags = expand([lower, upper])
    np.testing.assert_array_equal(sub_bags.rows, [0, 2, 0, 1, 2])
    np.testing.assert_array_equal(sub_bags.row_splits, [0, 3, 5])
    np.testing.assert_array_equal(instances.rows, [0, 1, 2, 0, 1, 2])
    np.testing.assert_array_equal(instances.row_splits, [0, 2, 3, 5, 5, 6])
    np.testing.assert_array_equal(instances.weights, np.ones(6))
    np.testing.assert_array_equal(instances.total_weights, [1, 1, 1, 3, 3, 1])


def test_concatenate_shifts_rows_and_members():
    first, second = nesting_of([[0, 1], []], 2), nesting_of([[1], [0, 0]], 3)
    both = concatenate([first, second])
    np.testing.assert_array_equal(both.members, [0, 1, 3, 2, 2])
    np.testing.assert_array_equal(both.row_splits, [0, 2, 2, 3, 5])
    assert both.n_rows == 5
    np.testing.assert_array_equal(both.bag_ids, [0, 0, 2, 3, 3])


# Features ---------------------------------------------------------------------------------------

BAGS, LABELS = [[0, 1, 2], [], [3, 3, 1], [2]], np.array([0, 2, 0, 1])
WEIGHTS = [[1, 2, 0.5], [], [1, 1, 1], [0]]


@pytest.mark.parametrize("feature", [OCCURRENCE, FREQUENCY, COUNT, WEIGHT])
def test_features_as_a_loop_computes_them(feature):
    expected = np.zeros((4, 3))
    for i, (bag, weights) in enumerate(zip(BAGS, WEIGHTS, strict=True)):
        for row, weight in zip(bag, weights, strict=True):
            expected[i, LABELS[row]] += weight
    if feature is OCCURRENCE:
        expected = expected > 0
    elif feature is FREQUENCY:
        expected = expected / np.maximum(expected.sum(axis=1, keepdims=True), 1e-9)
    found = bag_features(feature, LABELS, 3, nesting_of(BAGS, 4, list(map(np.array, WEIGHTS))))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == np.float32


def test_unknown_feature():
    with pytest.raises(ValueError, match="Received: features='presence'"):
        features.get("presence")


def grid_vectors(feature, k, steps=8):
    """Many feature vectors of bags, the empty bag among them."""
    if feature is OCCURRENCE:
        return np.array(list(itertools.product([0, 1], repeat=k)), float)
    counts = np.array(list(itertools.product(range(steps + 1), repeat=k)), float)
    if feature is FREQUENCY:
        counts = counts[(counts.sum(axis=1) == steps) | (counts.sum(axis=1) == 0)] / steps
    return counts


@settings(max_examples=60)
@given(st.sampled_from([OCCURRENCE, FREQUENCY, COUNT]), st.data())
def test_a_box_that_holds_a_vector_is_feasible(feature, data):
    bounds = st.sampled_from([-np.inf, -0.5, 0.0, 0.25, 0.3, 0.5, 0.75, 1.0, 2.5, np.inf])
    low = np.array([data.draw(bounds) for _ in range(3)])
    high = np.array([data.draw(bounds) for _ in range(3)])
    vectors = grid_vectors(feature, 3)
    if ((vectors > low) & (vectors <= high)).all(axis=1).any():
        assert feature.feasible(low, high)


@pytest.mark.parametrize(
    ("feature", "low", "high"),
    [
        (OCCURRENCE, [0.5, -np.inf], [0.5, np.inf]),
        (OCCURRENCE, [0.1, -np.inf], [0.9, np.inf]),
        (FREQUENCY, [0.6, 0.6], [np.inf, np.inf]),
        (FREQUENCY, [0.1, -np.inf], [0.4, 0.4]),
        (FREQUENCY, [0.3, -np.inf], [0.3, np.inf]),
        (COUNT, [-np.inf, -np.inf], [-0.5, np.inf]),
        (COUNT, [2.5, -np.inf], [1.5, np.inf]),
    ],
)
def test_boxes_without_any_bag(feature, low, high):
    assert not feature.feasible(np.array(low), np.array(high))


# Trees ------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([None, 1, 3]))
def test_tree_predicts_as_sklearn_does(seed, n_features, max_depth):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 5, (60, n_features)).astype(np.float32) / 4
    y, weights = rng.integers(3, 6, 60), rng.random(60) + 0.1
    tree = grow(x, y, weights, max_depth=max_depth)
    reference = DecisionTreeClassifier(max_depth=max_depth, random_state=0)
    reference.fit(x, y, sample_weight=weights)
    new = rng.random((200, n_features)).astype(np.float32)
    np.testing.assert_array_equal(tree.predict(new), reference.predict(new))
    assert tree.n_leaves <= reference.get_n_leaves()

    boxes = tree.boxes()
    inside = (new[:, None] > boxes.bounds[:, 0]) & (new[:, None] <= boxes.bounds[:, 1])
    inside = inside.all(axis=2)  # (vectors, boxes)
    assert (inside.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(boxes.labels[inside.argmax(axis=1)], tree.predict(new))


def test_tree_of_one_class_is_one_leaf():
    tree = grow(np.eye(3, dtype=np.float32), np.array([2, 2, 2]), np.ones(3))
    assert tree.n_leaves == 1
    np.testing.assert_array_equal(tree.predict(np.zeros((2, 3), np.float32)), [2, 2])


def test_splits_that_change_no_class_are_left_out():
    x = np.array([[0], [0], [0], [1], [1], [1]], np.float32)
    y = np.array([0, 0, 1, 0, 0, 0])
    assert DecisionTreeClassifier().fit(x, y).get_n_leaves() == 2
    assert grow(x, y, np.ones(6)).n_leaves == 1


def test_tally_merges_equal_examples():
    x = np.array([[0, 1], [1, 0], [0, 1], [0, 1]], np.float32)
    bags, labels, weights = tally(*merge(x), np.array([1, 0, 1, 0]), np.array([1.0, 2, 3, 4]))
    found = {(*bag, label): w for bag, label, w in zip(bags.tolist(), labels, weights, strict=True)}
    assert found == {(0, 1, 1): 4, (1, 0, 0): 2, (0, 1, 0): 4}


# Rules ------------------------------------------------------------------------------------------


def random_bags(rng, feature, n, k):
    """Feature vectors of random bags, the empty bag among them."""
    counts = rng.poisson(0.8, (n, k)) * rng.integers(0, 2, (n, k))
    counts[0] = 0
    bags = [np.repeat(np.arange(k), row) for row in counts]
    return bag_features(feature, np.arange(k), k, nesting_of(bags, k))


@settings(max_examples=60)
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
    tree = grow(bags, labels, weights)
    rules = learn_rules(tree, feature, 0, bags, labels, weights)
    names = tuple(map(str, range(n_classes)))
    rule_set = RuleSet(rules, tuple(map(str, range(k))), names, (True,) * n_classes)
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
    rules = learn_rules(grow(bags, labels, weights), OCCURRENCE, 0, bags, labels, weights)
    names = tuple(f"u{i}" for i in range(1, 7))
    assert {rule.clause(names, ("v1", "v2")) for rule in rules} == {
        "v1 ← o_u1=1, o_u3=0, o_u5=0, o_u6=0.",
        "v2 ← o_u1=0.",
        "v2 ← o_u3=1.",
        "v2 ← o_u5=1.",
        "v2 ← o_u6=1.",
    }


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


def test_figures_of_rules_are_those_of_a_loop_over_bags():
    """Bags have weights and noisy labels; rules overlap."""
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 4, (200, 3))
    labels = np.where(rng.random(200) < 0.2, rng.integers(0, 3, 200), counts.argmax(axis=1))
    weights = rng.integers(1, 5, 200).astype(float)
    bags = counts.astype(np.float32)
    tree = grow(bags, labels, weights, ccp_alpha=0.01)
    rules = learn_rules(tree, COUNT, 0, bags, labels, weights)
    assert len(rules) > 3
    for rule in rules:
        matched = right = of_class = 0.0
        for bag, label, weight in zip(counts.tolist(), labels, weights, strict=True):
            of_class += weight * (label == rule.conclusion)
            if all(c.low < bag[c.cluster] <= c.high for c in rule.conditions):
                matched += weight
                right += weight * (label == rule.conclusion)
        found = rule.precision, rule.support, rule.coverage
        expected = right / matched, matched / weights.sum(), right / of_class
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert 0 < rule.coverage <= 1


def test_support_and_precision():
    bags = np.array([[0], [0], [1], [1]], np.float32)
    labels, weights = np.array([0, 1, 1, 0]), np.array([3.0, 1.0, 4.0, 2.0])
    rules = learn_rules(grow(bags, labels, weights), OCCURRENCE, 0, bags, labels, weights)
    assert [(r.conclusion, r.support, r.precision, r.coverage) for r in rules] == [
        (0, pytest.approx(0.4), pytest.approx(0.75), pytest.approx(3 / 5)),
        (1, pytest.approx(0.6), pytest.approx(4 / 6), pytest.approx(4 / 5)),
    ]


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Condition("occurrence", 0, low=0.5), "o_u1=1"),
        (Condition("occurrence", 1, high=0.5), "o_u2=0"),
        (Condition("frequency", 1, low=0.125), "f_u2 > 12.5 %"),
        (Condition("frequency", 1, high=0.0603), "f_u2 ≤ 6.03 %"),
        (Condition("frequency", 0, low=0.0277, high=0.1259), "f_u1 ∈ (2.77, 12.59] %"),
        (Condition("count", 0, low=2.5), "c_u1 ≥ 3"),
        (Condition("count", 0, high=2.5), "c_u1 ≤ 2"),
        (Condition("count", 0, high=0.5), "c_u1 ≤ 0"),
        (Condition("count", 0, low=2.0, high=4.5), "c_u1 ∈ [3, 4]"),
        (Condition("count", 0, low=0.5, high=1.5), "c_u1 = 1"),
        (Condition("weight", 0, low=0.5, high=1.5), "c_u1 ∈ (0.5, 1.5]"),
        (Condition("weight", 0, low=0.75), "c_u1 > 0.75"),
    ],
)
def test_text_of_conditions(condition, text):
    assert condition.text(("u1", "u2")) == text
    assert Condition.from_dict(condition.to_dict()) == condition


def test_bounds_are_compared_as_the_tree_compares_them():
    """A float64 threshold between two neighbouring float32 must not be rounded to either."""
    below = np.float32(0.3)
    above = np.nextafter(below, np.float32(1))
    middle = (float(below) + float(above)) / 2
    bags = np.array([[below], [above]])
    np.testing.assert_array_equal(Condition("weight", 0, low=middle).holds(bags), [False, True])


def test_rule_set_text_and_need():
    conditions = (Condition("occurrence", 0, low=0.5),)
    rules = (Rule(0, 0, conditions, 0.25, 1.0, 0.4), Rule(0, 1, (), 0.75, 0.5, 1.0))
    rule_set = RuleSet(rules, ("u1", "u2"), ("v1", "v2"), (True, False))
    assert rule_set.needed_members == (True, False)
    needed = (
        "  1  v1 ← o_u1=1.  # precision 100.0 %, support  25.0 %, coverage of the class  40.0 %"
    )
    assert str(rule_set).splitlines() == [
        needed,
        "# Not needed, and left out: 1 rule. See text(all=True).",
    ]
    assert rule_set.text(all=True).splitlines() == [
        needed,
        "  2  v2.           # precision  50.0 %, support  75.0 %, coverage of the class 100.0 %, "
        "not needed",
    ]
    assert Rule.from_dict(rules[0].to_dict()) == rules[0]


@pytest.fixture
def book():
    """Of three clusters of instances one is needed, of two of sub-bags one."""
    rules = (
        Rule(0, 0, (Condition("occurrence", 0, low=0.5),), 0.25, 1.0, 0.4),
        Rule(0, 1, (Condition("occurrence", 1, high=0.5),), 0.75, 0.5, 1.0),
    )
    on_v1 = Condition("occurrence", 0, low=0.5), Condition("occurrence", 0, high=0.5)
    top_rules = Rule(1, 1, on_v1[:1], 0.5, 1.0, 1.0), Rule(1, 0, on_v1[1:], 0.5, 1.0, 1.0)

    def level(words, sizes, rules):
        return Level(*words, None, np.zeros((len(sizes), 2)), np.array(sizes), None, None, rules)

    def make(top_rules=top_rules):
        top = RuleSet(top_rules, ("v1", "v2"), ("negative", "positive"), (True, True))
        lower = RuleSet(rules, ("u1", "u2", "u3"), ("v1", "v2"), top.needed_members)
        words = ("instance", "sub-bag"), ("sub-bag", "top-bag")
        return RuleBook(
            (level(words[0], [0.6, 0.3004, 0.0996], lower), level(words[1], [0.25, 0.75], top))
        )

    return make


def test_a_book_of_rules_shows_what_is_needed(book):
    rules = book()
    assert rules.constant is None
    assert (
        str(rules)
        == """\
sub-bags, by their instances: u1 60.0 %
  1  v1 ← o_u1=1.  # precision 100.0 %, support  25.0 %, coverage of the class  40.0 %

top-bags, by their sub-bags: v1 25.0 %
  1  positive ← o_v1=1.  # precision 100.0 %, support  50.0 %, coverage of the class 100.0 %
  2  negative ← o_v1=0.  # precision 100.0 %, support  50.0 %, coverage of the class 100.0 %

# Not needed, and left out: 1 rule, 3 clusters. See text(all=True)."""
    )
    lower = rules.text(all=True).split("\n\n")[0]
    assert (
        lower
        == """\
sub-bags, by their instances: u1 60.0 %, u2 30.0 % (not needed), u3 10.0 % (not needed)
  1  v1 ← o_u1=1.  # precision 100.0 %, support  25.0 %, coverage of the class  40.0 %
  2  v2 ← o_u2=0.  # precision  50.0 %, support  75.0 %, coverage of the class 100.0 %, \
not needed"""
    )
    assert "left out" not in rules.text(all=True)
    assert rules.levels[0].text(all=True) == lower
    assert str(rules.levels[0]).splitlines()[-1] == (
        "# Not needed, and left out: 1 rule, 2 clusters. See text(all=True)."
    )
    record = next(rules.records())
    assert (record["precision"], record["support"], record["coverage"]) == (1.0, 0.25, 0.4)


def test_constant_rules_are_called_so(book):
    rules = book((Rule(1, 0, (), 1.0, 0.8, 1.0),))
    assert rules.constant == "negative"
    assert (
        str(rules)
        == """\
# CONSTANT: the rules put every top-bag into one class, 'negative'.

top-bags, by their sub-bags: none is needed
  1  negative.  # precision  80.0 %, support 100.0 %, coverage of the class 100.0 %

# Not needed, and left out: 2 rules, 5 clusters. See text(all=True)."""
    )
    assert rules.text(all=True).startswith("# CONSTANT: the rules put every top-bag")
    assert str(rules.levels[-1]).startswith("# CONSTANT: the rules put every top-bag")
    two = Rule(1, 0, (Condition("count", 0, high=2.5),), 0.5, 0.8, 0.5)
    three = Rule(1, 0, (Condition("count", 0, low=1.5),), 0.5, 0.8, 0.5)
    assert book((two, three)).constant == "negative"  # of several rules, all the same


def test_rule_set_refuses_what_is_no_bag():
    rules = (Rule(0, 0, (Condition("occurrence", 0, low=0.5),), 1.0, 1.0, 1.0),)
    with pytest.raises(ValueError, match=r"no bag has: \[0.0\]"):
        RuleSet(rules, ("u1",), ("v1",), (True,)).predict(np.zeros((1, 1)))

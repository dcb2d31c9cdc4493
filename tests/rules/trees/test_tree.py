"""Trees, compared with scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from keras_mmil.rules.trees.columns import ALL, MISSING
from keras_mmil.rules.trees.tree import Examples, Tree, grow


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([None, 1, 3]))
def test_tree_predicts_as_sklearn_does(seed, n_features, max_depth):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 5, (60, n_features)).astype(np.float32) / 4
    y, weights = rng.integers(3, 6, 60), rng.random(60) + 0.1
    tree = grow(Examples(x, y, weights), max_depth=max_depth)
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


def test_a_tree_may_only_test_some_features():
    rng = np.random.default_rng(0)
    x, y = rng.random((200, 9)).astype(np.float32), rng.integers(0, 3, 200)
    columns = np.array([1, 4, 8])
    tree = grow(Examples(x, y, np.ones(200)), columns=columns, max_depth=4)
    assert set(tree.feature) <= {-1, *columns}
    reference = DecisionTreeClassifier(max_depth=4, random_state=0).fit(x[:, columns], y)
    np.testing.assert_array_equal(tree.predict(x), reference.predict(x[:, columns]))


def test_tree_of_one_class_is_one_leaf():
    tree = grow(Examples(np.eye(3, dtype=np.float32), np.array([2, 2, 2]), np.ones(3)))
    assert tree.n_leaves == 1
    np.testing.assert_array_equal(tree.predict(np.zeros((2, 3), np.float32)), [2, 2])


def test_splits_that_change_no_class_are_left_out():
    x = np.array([[0], [0], [0], [1], [1], [1]], np.float32)
    y = np.array([0, 0, 1, 0, 0, 0])
    assert DecisionTreeClassifier().fit(x, y).get_n_leaves() == 2
    assert grow(Examples(x, y, np.ones(6))).n_leaves == 1


def test_boxes_know_the_splits_of_their_bounds():
    random = np.random.default_rng(0)
    bags = random.integers(0, 8, (300, 3)).astype(np.float32)
    labels = (bags.sum(axis=1) % 3).astype(int)
    tree = grow(Examples(bags, labels, np.ones(300)), max_depth=6)
    boxes = iter(zip(tree.boxes().bounds, tree.boxes().depths, tree.boxes().labels, strict=True))
    found = {}

    def walk(node, depth, low, high):
        if tree.feature[node] < 0:
            found[node] = (low, high)
            return
        at, feature = tree.threshold[node], tree.feature[node]
        walk(tree.children[node, 0], depth + 1, low, high | {feature: (at, depth)})
        walk(tree.children[node, 1], depth + 1, low | {feature: (at, depth)}, high)

    walk(0, 0, {}, {})
    for leaf in sorted(found):
        bounds, depths, label = next(boxes)
        assert label == tree.label[leaf]
        for side in (0, 1):
            for feature in range(3):
                at, depth = found[leaf][side].get(feature, ((-np.inf, np.inf)[side], 0))
                assert (bounds[side, feature], depths[side, feature]) == (at, depth)


def test_trees_are_checked():
    feature, threshold = np.array([0, -1, 1, -1, -1]), np.zeros(5)
    children = np.array([[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]])
    label = np.array([0, 1, 2, 1, 0])
    Tree(feature, threshold, children, label, 2).check(3)
    with pytest.raises(ValueError, match="features beyond 1"):
        Tree(feature, threshold, children, label, 1).check(3)
    with pytest.raises(ValueError, match="labels beyond 2"):
        Tree(feature, threshold, children, label, 2).check(2)
    for wrong in ([[1, 2], [-1, -1], [1, 3], [-1, -1], [-1, -1]], children - 1, children + 1):
        with pytest.raises(ValueError, match="parent"):
            Tree(feature, threshold, np.array(wrong), label, 2).check(3)


def digits_of(number):
    """How many significant digits a number has, written as short as it can be told from others."""
    text = np.format_float_scientific(number, trim="-").split("e")[0]
    return len(text.replace("-", "").replace(".", "").rstrip("0")) or 1


@given(st.integers(0, 10**6), st.sampled_from([0, 1, 3]), st.sampled_from([1.0, 40.0, 1e5]))
def test_thresholds_on_what_is_measured_are_round(seed, decimals, scale):
    """They part the examples as before, by numbers of as few digits as between two values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=scale, size=(40, 2)).round(decimals).astype(np.float32)
    x[rng.random(40) < 0.1, 0] = MISSING
    examples = Examples(x, rng.integers(0, 2, 40), np.ones(40))
    exact, half = grow(examples), grow(examples, is_measured=np.array([True, False]))
    np.testing.assert_array_equal(half.predict(x), exact.predict(x))
    np.testing.assert_array_equal(half.feature, exact.feature)
    values = np.unique(x[:, 1].astype(float))
    for threshold, near in zip(
        half.threshold[half.feature == 1], exact.threshold[exact.feature == 1], strict=True
    ):
        gap = values[values > near].min() - values[values <= near].max()
        assert abs(threshold - near) <= gap / 4
    for threshold in half.threshold[half.feature == 0]:
        values = np.unique(x[:, 0].astype(float))
        low, high = values[values <= threshold].max(), values[values > threshold].min()
        if low > MISSING / 2:
            assert float(np.float32(threshold)) == threshold
            assert digits_of(np.float32(threshold)) <= min(
                digits_of(low), digits_of((low + high) / 2)
            )


def test_thresholds_between_whole_numbers_are_whole():
    for low in range(12):
        x = np.array([[low], [low + 1]], np.float32)
        tree = grow(Examples(x, np.array([0, 1]), np.ones(2)), is_measured=np.array([True]))
        assert low <= tree.threshold[0] < low + 1
        assert tree.threshold[0] == int(tree.threshold[0])


@pytest.mark.parametrize("seed", range(5))
def test_presence_is_preferred_to_shares(seed):
    """Scikit-learn chooses any of features that split alike."""
    n = np.random.default_rng(seed).integers(0, 4, (60, 2))
    n = n[n.sum(axis=1) > 0]
    labels = (n[:, 1] > 0).astype(int)
    shares = np.float32(n / n.sum(axis=1, keepdims=True))
    examples = Examples(shares, labels, np.ones(len(n)))
    tree = grow(examples, is_share=np.ones(2, bool), seed=seed)
    assert (tree.feature[0], tree.threshold[0]) == (1, 0)
    np.testing.assert_array_equal(tree.predict(shares), labels)
    alone = grow(Examples(shares[:, :1], labels, np.ones(len(n))), is_share=np.ones(1, bool))
    assert alone.threshold[0] == ALL
    np.testing.assert_array_equal(alone.predict(shares[:, :1]), labels)

"""Features of bags, and all that is known of records, compared with loops and by property."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nested_rows import grid_vectors, nesting_of

from keras_mmil.rules.trees import features
from keras_mmil.rules.trees.columns import MISSING
from keras_mmil.rules.trees.features import (
    COUNT,
    FREQUENCY,
    OCCURRENCE,
    WEIGHT,
    Bag,
    Space,
    bag_features,
)
from keras_mmil.rules.trees.fields import Field
from keras_mmil.rules.trees.learn import learn_rules
from keras_mmil.rules.trees.rule_set import RuleSet
from keras_mmil.rules.trees.tree import Examples, grow

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


def bag(level, feature, k, path=""):
    return Bag(level, feature, tuple(f"{'uvw'[level]}{i + 1}" for i in range(k)), path)


# Parts of records, each with all that may be known of it, or enough of that.
PARTS = {
    "occurrence": (bag(0, OCCURRENCE, 2), grid_vectors(OCCURRENCE, 2)),
    "frequency": (bag(1, FREQUENCY, 2), grid_vectors(FREQUENCY, 2, 20)),
    "count": (bag(2, COUNT, 2), grid_vectors(COUNT, 2, 5)),
    "number": (Field("n", "number"), np.array([[MISSING], *np.arange(-3, 6, 0.5)[:, None]])),
    "boolean": (Field("b", "boolean"), np.array([[MISSING], [0], [1]])),
    # Missing, the first category, the second, or one that is not known.
    "category": (Field("c", "category", ("x", "y")), np.array([*np.eye(3), np.zeros(3)])),
}
BOUNDS = {
    "occurrence": (-np.inf, 0.5, np.inf),
    "frequency": (-np.inf, 0.0, 0.11, 0.37, 0.52, 0.83, np.inf),  # no two of them add up to 1
    "count": (-np.inf, 0.5, 1.5, 3.5, np.inf),
    "number": (-np.inf, MISSING / 2, -1.25, 0.25, 3.25, np.inf),
    "boolean": (-np.inf, 0.5, np.inf),
    "category": (-np.inf, 0.5, np.inf),
}


def space_of(names):
    parts = [PARTS[name][0] for name in names]
    bags = tuple(part for part in parts if isinstance(part, Bag))
    return Space(bags, tuple(part for part in parts if isinstance(part, Field)))


def all_records(names):
    """The vectors of all records: every part is as it is, whatever the others are."""
    grids = [PARTS[name][1] for name in names]
    return np.array([np.concatenate(parts) for parts in itertools.product(*grids)])


NAMES = st.lists(st.sampled_from(list(PARTS)), min_size=1, max_size=3, unique=True).map(
    lambda names: sorted(names, key=list(PARTS).index)  # bags first
)


@given(NAMES, st.integers(0, 10**6))
def test_feasible_boxes_are_those_that_hold_a_record(names, seed):
    rng = np.random.default_rng(seed)
    records, space = all_records(names), space_of(names)
    bounds = [BOUNDS[name] for name in names for _ in range(PARTS[name][1].shape[1])]
    picked = np.array([rng.choice(each, (40, 2)) for each in bounds])  # (columns, boxes, 2)
    low, high = picked.min(axis=2).T, picked.max(axis=2).T
    holds = [
        ((records > a) & (records <= b)).all(axis=1).any() for a, b in zip(low, high, strict=True)
    ]
    np.testing.assert_array_equal(space.feasible(low, high), holds)


ABOVE = [
    "number of orders with price > 9",
    "number of orders (paid, price > 2.5)",
    "number of orders with price > -1e+06",
    "mean of price",
    "number of orders (paid, price > 12)",
    "number of orders with price > 2.5",
    "number of items with price > 2.5",
]


@given(st.integers(0, 10**6))
def test_fewer_members_are_above_higher_edges(seed):
    rng = np.random.default_rng(seed)
    space = Space((), tuple(Field(name, "statistic") for name in ABOVE))
    grid = np.array(list(itertools.product(range(3), repeat=len(ABOVE))))
    with_price = grid[:, 2] >= grid[:, 5]
    records = grid[with_price & (grid[:, 5] >= grid[:, 0]) & (grid[:, 1] >= grid[:, 4])]
    picked = rng.choice([-np.inf, 0.5, 1.5, np.inf], (len(ABOVE), 30, 2))
    low, high = picked.min(axis=2).T, picked.max(axis=2).T
    holds = [
        ((records > a) & (records <= b)).all(axis=1).any() for a, b in zip(low, high, strict=True)
    ]
    np.testing.assert_array_equal(space.feasible(low, high), holds)


@pytest.mark.slow
@given(NAMES, st.integers(0, 10**6))
def test_rules_are_the_tree_on_all_records(names, seed):
    """Also where a tree splits by parts of several kinds."""
    rng = np.random.default_rng(seed)
    records, space = all_records(names), space_of(names)
    some = records[rng.integers(len(records), size=60)].astype(np.float32)
    labels = rng.integers(0, 3, 60)
    examples = Examples(some, labels, np.ones(60))
    tree = grow(examples)
    rules = learn_rules(tree, space, level=0, examples=examples)
    rule_set = RuleSet(rules, space.columns, ("a", "b", "c"), (True,) * 3)
    records = records.astype(np.float32)
    np.testing.assert_array_equal(rule_set.predict(records), tree.predict(records))
    for rule in rules:
        assert (tree.predict(records[rule.matches(records)]) == rule.conclusion).all()
        assert rule.clause(space.columns, ("a", "b", "c"))


@pytest.mark.parametrize("feature", [OCCURRENCE, FREQUENCY, COUNT, WEIGHT])
def test_what_is_known_of_records_is_that_of_a_loop(feature):
    """Two bags, of bag-layers 0 and 2, and two fields."""
    rng = np.random.default_rng(0)
    n, n_rows = 30, 8
    labels = [rng.integers(0, k, n_rows) for k in (3, 9, 2)]
    bags = [[rng.integers(0, n_rows, rng.integers(4)).tolist() for _ in range(n)] for _ in labels]
    weights = [[rng.integers(1, 3, len(one)).astype(float) for one in each] for each in bags]
    nestings = [nesting_of(each, n_rows, w) for each, w in zip(bags, weights, strict=True)]
    fields = (Field("price", "number"), Field("kind", "category", ("toys",)))
    prices = rng.normal(size=n).astype(np.float32)
    kinds = rng.choice([b"toys", b"books", b"\0"], n).astype(object)
    space = Space((bag(0, feature, 3, "items"), bag(2, feature, 2, "visits")), fields)
    found = space.matrix(labels, nestings, [prices, kinds])
    names = [(column.name, column.value) for column in space.columns]
    assert [(each.names, at) for each, at in space.of_bags] == [
        (("u1", "u2", "u3"), slice(0, 3)),
        (("w1", "w2"), slice(3, 5)),
    ]
    for i, row in enumerate(found):
        expected = {("price", None): prices[i]}
        expected |= {("kind", None): kinds[i] == b"\0", ("kind", "toys"): kinds[i] == b"toys"}
        for layer, symbol, k in ((0, "u", 3), (2, "w", 2)):
            total = weights[layer][i].sum()
            for cluster in range(k):
                pairs = zip(bags[layer][i], weights[layer][i], strict=True)
                amount = sum(w for member, w in pairs if labels[layer][member] == cluster)
                expected[f"{symbol}{cluster + 1}", None] = {
                    "occurrence": amount > 0,
                    "frequency": amount / total if total else 0,
                }.get(feature.value, amount)
        np.testing.assert_allclose(row, [expected[name] for name in names], rtol=1e-6)

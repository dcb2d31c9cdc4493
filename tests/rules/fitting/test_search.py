"""The choice among combinations, and what trees learn from."""

import itertools
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from nested_rows import PARENTS, TOP, nestings_of, random_tree

import keras_mmil
from keras_mmil.layers import BagLayer
from keras_mmil.rules.fitting.label import LabelledBags
from keras_mmil.rules.fitting.options import ONE_STANDARD_ERROR
from keras_mmil.rules.fitting.plan import Plan
from keras_mmil.rules.fitting.prune import prune
from keras_mmil.rules.fitting.search import (
    Climber,
    GridPoint,
    Labelled,
    ascend,
    choose,
    coarse,
    merge,
    neighbours,
    refine,
    tally,
)
from keras_mmil.rules.network.nesting import Nesting, multiplicities
from keras_mmil.rules.trees.features import COUNT, FREQUENCY, OCCURRENCE
from keras_mmil.rules.trees.fields import Field
from keras_mmil.rules.trees.tree import Examples, grow

TO_50 = tuple(range(2, 51))


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


def test_choice_within_one_standard_error():
    """Of 400 top-bags, that of 0.9 is 0.015: fidelities of 0.885 and more are as good."""
    grid = [
        GridPoint((8, 4), 0.9, 3),
        GridPoint((4, 3), 0.8851, 9),
        GridPoint((3, 4), 0.8851, 8),
        GridPoint((2, 2), 0.8849, 2),
    ]
    assert choose(grid, ONE_STANDARD_ERROR, 400).n_clusters == (3, 4)
    assert choose(grid, ONE_STANDARD_ERROR, 390).n_clusters == (2, 2)
    assert choose(grid, ONE_STANDARD_ERROR, 10**9).n_clusters == (8, 4)
    assert choose([*grid, GridPoint((9, 9), 1.0, 1)], ONE_STANDARD_ERROR, 9).n_clusters == (9, 9)


def test_few_combinations_are_all_tried():
    for options in ([tuple(range(2, 11))] * 2, [(7,), (3,)], [tuple(range(2, 300))]):
        assert coarse(options) == options


def test_of_many_combinations_some_are_tried():
    first, second = coarse([TO_50, TO_50])
    assert first == second == (2, 3, 5, 8, 13, 20, 32, 50)
    assert coarse([TO_50, (2, 3, 4), TO_50])[1] == (2, 3, 4)
    gaps = (2, 9, 10, 11, 12, 13, 14, 15, 16, 40, 41)  # of numbers that the data allow
    found = coarse([gaps] * 3)[0]
    assert set(found) < set(gaps)
    assert (found[0], found[-1]) == (2, 41)


@pytest.mark.parametrize(
    ("best", "tried", "expected"),
    [
        (8, {2, 5, 8, 13, 50}, (6, 8, 10)),
        (8, {2, 7, 8, 10, 50}, (8, 9)),
        (8, {2, 6, 8, 9}, (7, 8)),
        (8, {7, 8, 9}, None),
        (2, {2, 5}, (2, 3)),
        (50, {2, 30, 50}, (40, 50)),
        (2, {2}, None),
    ],
)
def test_neighbours_of_the_best(best, tried, expected):
    assert neighbours((best,), [TO_50], [tried]) == (expected and [expected])


def test_levels_are_refined_together():
    found = neighbours((8, 3), [TO_50, TO_50], [{5, 8, 13}, {2, 3, 4}])
    assert found == [(6, 8, 10), (3,)]


@pytest.mark.parametrize("peak", [(2, 2), (17, 31), (50, 3), (23, 50)])
@pytest.mark.parametrize(("order", "most"), [(refine, 110), (ascend, 300)])
def test_climbs_to_a_single_peak(order, most, peak):
    """With fidelity that falls off on all sides, on a logarithmic scale, the best is found."""
    grid, steps = {}, order([TO_50, TO_50])
    combinations = next(steps)
    while combinations:
        assert not set(combinations) & set(grid)
        for ks in combinations:
            grid[ks] = -np.hypot(*np.log(np.array(ks) / peak))
        combinations = steps.send(max(grid, key=grid.get))
    assert max(grid, key=grid.get) == peak
    assert len(grid) < most  # of 2,401


@pytest.mark.slow
@pytest.mark.nightly  # above, the same search without a network
def test_an_explainer_with_many_clusters():
    """Points of nine places; of which some make a bag positive: more clusters say more."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(9, 2)) * 8
    which = rng.integers(0, 9, (150, 6, 4))
    x = places[which] + rng.normal(size=(150, 6, 4, 2)) * 0.3
    y = ((which == 3).any(axis=2) & ~(which == 5).any(axis=2)).any(axis=1).astype(int)
    bags = tf.RaggedTensor.from_tensor(x.astype("float32"), ragged_rank=2)
    inputs = keras.Input((None, None, 2), ragged=True)
    hidden = BagLayer(16)(BagLayer(16)(inputs))
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(hidden))
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy")
    model.fit(bags, y, epochs=15, verbose=0)
    # Rows that are drawn with one seed of five show too little of the few negative top-bags.
    arguments = {"max_rows": 500, "n_init": 1, "random_state": 1, "verbose": 0}
    explainer = keras_mmil.Explainer(max_clusters=24, **arguments)
    explainer.fit(model, bags[:100], bags[100:])
    tried = {point.n_clusters for point in explainer.grid_}
    assert 49 < len(tried) < 200  # of 529
    best = max(point.fidelity for point in explainer.grid_)
    assert explainer.fidelity_ == best == explainer.fidelity(bags[100:])
    again = keras_mmil.Explainer(n_clusters=explainer.n_clusters_, **arguments)
    again.fit(model, bags[:100], bags[100:])
    assert again.rules_.text() == explainer.rules_.text()


def test_tally_merges_equal_examples():
    x = np.array([[0, 1], [1, 0], [0, 1], [0, 1]], np.float32)
    found = tally(*merge(x), np.array([1, 0, 1, 0]), np.array([1.0, 2, 3, 4]))
    triples = zip(found.bags.tolist(), found.labels, found.weights, strict=True)
    found = {(*bag, label): weight for bag, label, weight in triples}
    assert found == {(0, 1, 1): 4, (1, 0, 0): 2, (0, 1, 0): 4}


N_MANY = (40, 30, 25, 60, 20, 80)  # rows
KS = (2, 3)
FEATURES = (OCCURRENCE, COUNT, FREQUENCY, OCCURRENCE, COUNT)
PRICE, KIND, AGE = (
    Field("price", "number"),
    Field("kind", "category", ("a",)),
    Field("age", "number"),
)
FIELDS = ((), (PRICE,), (KIND,), (), (), (AGE,))
HAS_TREE = (False, True, True, True, False, True)
pruned = partial(grow, ccp_alpha=1e-3, seed=3)


def random_data(seed):
    """The bags of a tree as lists, and the same labelled."""
    rng = np.random.default_rng(seed)
    bags = random_tree(rng, N_MANY)
    values = tuple(
        tuple(
            rng.choice([b"a", b"b", b"\0"], n).astype(object)
            if field.kind == "category"
            else rng.integers(0, 5, n).astype(np.float32)
            for field in fields
        )
        for fields, n in zip(FIELDS, N_MANY, strict=True)
    )
    labels = tuple({k: rng.integers(0, k, n) for k in KS} for n in N_MANY[:-1])
    classes = rng.integers(0, 2, N_MANY[-1])
    return bags, LabelledBags(tuple(nestings_of(bags, N_MANY)), labels, classes, values)


def by_loops(bags, data, labels, ks, record):
    """What is known of all records of a kind, row by row."""
    rows = []
    for row in range(N_MANY[record]):
        known = []
        for layer in [i for i, parent in enumerate(PARENTS) if parent == record]:
            amounts = [0.0] * ks[layer]
            for member, weight in bags[layer][row]:
                amounts[labels[layer][member]] += weight
            if FEATURES[layer] is OCCURRENCE:
                amounts = [float(amount > 0) for amount in amounts]
            elif FEATURES[layer] is FREQUENCY:
                amounts = [amount / (sum(amounts) or 1) for amount in amounts]
            known += amounts
        for field, raw in zip(FIELDS[record], data.values[record], strict=True):
            is_kind = field.kind == "category"
            known += [raw[row] == b"\0", raw[row] == b"a"] if is_kind else [raw[row]]
        rows.append(known)
    return np.array(rows, np.float32)


@pytest.mark.parametrize("alpha", [0.0, 0.01])
def test_pruned_trees_agree_as_much_but_for_what_each_leaf_may_cost(alpha):
    (_, train), (_, held_out) = random_data(0), random_data(1)
    together, ks = LabelledBags.join([train, held_out]), (2, 3, 2, 3, 2)
    np.testing.assert_array_equal(together.classes, [*train.classes, *held_out.classes])
    weights = multiplicities(train.nestings, PARENTS)
    plan = Plan(PARENTS, FEATURES, FIELDS, ("",) * TOP, ("",) * TOP, HAS_TREE, weights)
    _, trees = Climber(plan, Labelled(train, held_out), pruned).rate(ks)
    rated = Climber(plan, Labelled(train, together), pruned)  # on all that pruning looks at
    shorter = prune(plan, together, held_out, trees, ks, alpha)
    before, after = (rated.point(ks, each) for each in (trees, shorter))
    n_less = before.n_leaves - after.n_leaves
    assert n_less > 0
    assert after.fidelity >= before.fidelity - alpha * n_less - 0.005 - 1e-9
    for index, tree in enumerate(shorter):  # nothing is left that may be left out
        for split in np.flatnonzero(tree.sizes() > 1):
            for option in tree.without(int(split)):
                trees = [*shorter[:index], option, *shorter[index + 1 :]]
                cost = alpha * (tree.n_leaves - option.n_leaves)
                assert rated.point(ks, trees).fidelity < after.fidelity - cost
    for tree, names in zip(shorter, (3, 2, 3, 2), strict=True):
        tree.check(names)


@pytest.mark.parametrize(
    ("n_rare", "n_rare_held_out", "n_wrong", "is_kept"),
    [
        (3, 0, 20, False),
        (3, 2, 20, True),  # rules would agree less on validation data
        (3, 0, 0, True),  # rules agree on all, and would no longer do so
        (9, 0, 20, True),  # over half a per cent
    ],
)
def test_conditions_on_few_records_are_left_out(n_rare, n_rare_held_out, n_wrong, is_kept):
    """One number decides; of the few records for which another holds, the opposite is true."""
    rng = np.random.default_rng(0)

    def data(n, n_few):
        decides, rare = np.arange(n) % 2, np.arange(n) >= n - n_few
        classes = decides ^ rare
        classes[rng.permutation(n - n_few)[: n_wrong * n // 1000]] ^= 1
        nesting = Nesting(np.arange(n), np.arange(n + 1), np.ones(n), n)
        values = ((), (decides.astype(np.float32), rare.astype(np.float32)))
        return LabelledBags((nesting,), ({1: np.zeros(n, int)},), classes, values)

    train, held_out = data(700, n_rare), data(300, n_rare_held_out)
    fields = (Field("decides", "number"), Field("rare", "number"))
    plan = Plan((1,), (OCCURRENCE,), ((), fields), ("",), ("",), (False, True), (np.ones(700),) * 2)
    _, trees = Climber(plan, Labelled(train, held_out), partial(grow, ccp_alpha=0.0)).rate((1,))
    assert set(trees[0].feature) == {-1, 1, 2}
    (tree,) = prune(plan, LabelledBags.join([train, held_out]), held_out, trees, (1,), alpha=0.0)
    assert set(tree.feature) == ({-1, 1, 2} if is_kept else {-1, 1})


def test_of_many_fields_those_that_tell_most_are_tested():
    """One of 300 numbers decides, together with the members; the others are noise."""
    rng, n = np.random.default_rng(0), 700
    numbers, cluster = rng.random((300, 2 * n)).astype(np.float32), rng.integers(0, 2, 2 * n)
    classes = (numbers[123] > 0.5) | (cluster == 1)
    fields = tuple(Field(f"n{i}", "number") for i in range(300))
    parts = []
    for at in (slice(n), slice(n, None)):
        nesting = Nesting(np.arange(n), np.arange(n + 1), np.ones(n), n)
        values = ((), tuple(each[at] for each in numbers))
        parts.append(LabelledBags((nesting,), ({2: cluster[at]},), classes[at].astype(int), values))
    plan = Plan((1,), (OCCURRENCE,), ((), fields), ("",), ("",), (False, True), (np.ones(n),) * 2)
    tested = []

    def watched(examples, columns, **arguments):
        tested.append(columns)
        return pruned(examples, columns=columns, **arguments)

    point, (tree,) = Climber(plan, Labelled(*parts), watched).rate((2,))
    assert point.fidelity > 0.98
    assert set(tree.feature) == {-1, 2 + 123, *tree.feature[tree.feature < 2]}
    (columns,) = tested
    assert columns[:2].tolist() == [0, 1]
    assert 2 + 123 in columns
    assert len(columns) == 2 + 64


@pytest.mark.slow
def test_trees_are_those_of_each_combination_on_its_own():
    """Whatever was grown before: nothing that is remembered is of another combination."""
    (bags, train), (held_out_bags, held_out) = random_data(0), random_data(1)
    weights = multiplicities(train.nestings, PARENTS)
    plan = Plan(PARENTS, FEATURES, FIELDS, ("",) * TOP, ("",) * TOP, HAS_TREE, weights)
    climber = Climber(plan, Labelled(train, held_out), pruned)
    rng, fidelities = np.random.default_rng(0), set()
    order = rng.permutation(list(itertools.product(KS, repeat=TOP))).tolist()
    for n, ks in enumerate(map(tuple, order)):
        if n % 5 == 0:
            climber = climber.branch()
        point, trees = climber.rate(ks)
        labels = [known[k] for known, k in zip(train.labels, ks, strict=True)]
        held_out_labels = [known[k] for known, k in zip(held_out.labels, ks, strict=True)]
        n_leaves = 0
        for record, tree in zip((1, 2, 3, TOP), trees, strict=True):
            known = by_loops(bags, train, labels, ks, record)
            held_out_known = by_loops(held_out_bags, held_out, held_out_labels, ks, record)
            is_there = weights[record] > 0
            truth = train.classes if record == TOP else train.labels[record][ks[record]]
            examples = Examples(known[is_there], truth[is_there], weights[record][is_there])
            of_fields = [f.kind == "number" for f in FIELDS[record] for _ in f.columns]
            is_measured = np.array([False] * (known.shape[1] - len(of_fields)) + of_fields)
            expected = pruned(examples, is_measured=is_measured)
            for name in ("feature", "threshold", "children", "label"):
                np.testing.assert_array_equal(getattr(tree, name), getattr(expected, name))
            n_leaves += expected.n_leaves
            predicted = expected.predict(held_out_known)
            if record < TOP:
                labels[record], held_out_labels[record] = expected.predict(known), predicted
        agreeing = sum(map(int.__eq__, predicted.tolist(), held_out.classes.tolist()))
        assert point == GridPoint(ks, agreeing / len(predicted), n_leaves)
        fidelities.add(point.fidelity)
    assert len(fidelities) > 5

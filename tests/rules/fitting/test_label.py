"""Labelled bags: some of them, several together, and with further labels."""

import numpy as np
import pytest
from nested_rows import N_ROWS, PARENTS, TOP, nestings_of, random_tree

from keras_mmil.rules.fitting.label import LabelledBags
from keras_mmil.rules.network.nesting import multiplicities

HAS_FIELD = (True, False, True, True, False, True)


def random_labelled(seed):
    """The bags of a tree as lists, and the same labelled; values tell rows apart."""
    rng = np.random.default_rng(seed)
    bags = random_tree(rng)
    return bags, LabelledBags(
        nestings=tuple(nestings_of(bags)),
        labels=tuple({k: rng.integers(0, k, n) for k in (2, 3)} for n in N_ROWS[:-1]),
        classes=rng.integers(0, 3, N_ROWS[-1]),
        values=tuple(
            (rng.permutation(n).astype(np.float32),) if here else ()
            for here, n in zip(HAS_FIELD, N_ROWS, strict=True)
        ),
    )


def unfolded(bags, data, record, row):
    """A record with its labels and values, and with the members of each of its bags: a tuple."""
    of_row = () if record == TOP else tuple(data.labels[record][k][row] for k in (2, 3))
    values = tuple(raw[row] for raw in data.values[record])
    inside = tuple(
        tuple((weight, unfolded(bags, data, layer, member)) for member, weight in bags[layer][row])
        for layer in range(TOP)
        if PARENTS[layer] == record
    )
    return of_row, values, inside


def lists_of(data):
    """The bags as lists of pairs (row, weight)."""
    return [
        [
            list(zip(n.members[a:b].tolist(), n.weights[a:b].tolist(), strict=True))
            for a, b in zip(n.row_splits[:-1], n.row_splits[1:], strict=True)
        ]
        for n in data.nestings
    ]


def top_bags(bags, data, chosen):
    return [(data.classes[i], unfolded(bags, data, TOP, i)) for i in chosen]


@pytest.mark.parametrize("chosen", [[], [3], [0, 2, 7], [6, 1, 1, 4], list(range(8))])
@pytest.mark.parametrize("seed", range(5))
def test_some_top_bags_with_all_that_is_in_them(seed, chosen):
    bags, data = random_labelled(seed)
    some = data.some(np.array(chosen, int), PARENTS)
    assert top_bags(lists_of(some), some, range(len(chosen))) == top_bags(bags, data, chosen)
    # Rows that are in none of them are left out, and those that are in several are there once.
    reached = {TOP: set(chosen)}
    for layer in reversed(range(TOP)):
        around = reached[PARENTS[layer]]
        reached[layer] = {row for i in around for row, _ in bags[layer][i]}
    n_rows = [len(reached[layer]) for layer in range(TOP)]
    assert [nesting.n_rows for nesting in some.nestings] == n_rows
    assert [len(labels[2]) for labels in some.labels] == n_rows
    for count in multiplicities(some.nestings, PARENTS):
        assert (count > 0).all()


def test_several_together():
    (bags, data), (other_bags, other) = random_labelled(0), random_labelled(1)
    both = LabelledBags.join([data, other])
    expected = top_bags(bags, data, range(8)) + top_bags(other_bags, other, range(8))
    assert top_bags(lists_of(both), both, range(16)) == expected


def test_further_labels():
    _, data = random_labelled(0)
    more = LabelledBags(data.nestings, tuple({4: x[2] + 2} for x in data.labels), data.classes, ())
    found = data.with_labels_of(more)
    for labels, ours in zip(found.labels, data.labels, strict=True):
        assert list(labels) == [2, 3, 4]
        np.testing.assert_array_equal(labels[4], ours[2] + 2)
    np.testing.assert_array_equal(found.targets(1, (4,) * TOP), data.labels[1][2] + 2)
    np.testing.assert_array_equal(found.targets(TOP, (4,) * TOP), data.classes)

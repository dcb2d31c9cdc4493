"""Bags as multisets: sums that do not depend on the order of members."""

import itertools

import numpy as np

from keras_mmil._support import multisets


def test_weights_of_equal_members_are_summed_in_one_order():
    """Floats whose sum, in float64 and as float32, depends on the order."""
    given = np.float32([1, 2.0**-24, 2.0**-53, 2.0**-53])
    orders = list(itertools.permutations(range(4)))
    in_order = {np.float32(sum(map(float, given[list(order)]))) for order in orders}
    assert len(in_order) == 2
    found = set()
    for order in orders:
        kept, weights, splits = multisets.merge_equal(
            np.zeros(4, int), given[list(order)], np.array([0, 4])
        )
        assert (len(kept), splits.tolist()) == (1, [0, 1])
        found.add(weights[0])
    assert len(found) == 1


def test_keys_tell_all_sequences_apart():
    """Also one that is another with something behind it, however their lengths are halved."""
    pairs = list(itertools.product((0, 1), (0.5, 1.0)))
    sequences = [each for n in range(6) for each in itertools.product(pairs, repeat=n)]
    twice = [*sequences, *reversed(sequences)]
    members, weights = np.array([pair for each in twice for pair in each]).T
    splits = np.append(0, np.cumsum([len(each) for each in twice]))
    keys = multisets.keys_of(members.astype(int), weights.astype(np.float32), splits)
    n = len(sequences)
    assert sorted(keys[:n]) == list(range(n))
    np.testing.assert_array_equal(keys[:n], keys[n:][::-1])

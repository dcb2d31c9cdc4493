"""Records for training, validation and test: disjoint, whole, and of the right kinds."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mmil.cli.splitting import at_random, by_group, by_time


def is_division(split, n):
    return sorted(np.concatenate(split).tolist()) == list(range(n))


@given(st.lists(st.integers(0, 4), min_size=10, max_size=200), st.integers(0, 2**32 - 1))
def test_classes_have_equal_shares(classes, seed):
    classes = np.unique(classes, return_inverse=True)[1]
    split = at_random(classes, seed)
    assert is_division(split, len(classes))
    counts = Counter(classes.tolist())
    for name, n in counts.items():
        train, valid, test = (int((classes[part] == name).sum()) for part in split)
        assert train >= 1
        assert abs(test - (n - 1) / 5) < 1
        assert abs(valid - (n - 1 - test) / 5) < 1


def test_a_division_depends_on_the_seed():
    classes = np.zeros(100, int)
    a, b, c = (at_random(classes, seed) for seed in (0, 0, 1))
    assert [part.tolist() for part in a] == [part.tolist() for part in b]
    assert a.test.tolist() != c.test.tolist()
    sizes = [len(part) for part in at_random(np.zeros(1000, int), 0)]
    np.testing.assert_allclose(sizes, [640, 160, 200], atol=1)


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 12), min_size=30, max_size=200),
    st.booleans(),
    st.integers(0, 100),
)
def test_no_group_is_in_two_parts(groups, is_number, seed):
    groups = np.array([*groups, 0, 1, 2])
    classes = None if is_number else np.arange(len(groups)) % 2
    split = by_group(groups, classes, seed)
    assert is_division(split, len(groups))
    train, valid, test = (set(groups[part].tolist()) for part in split)
    assert not train & valid
    assert not train & test
    assert not valid & test
    assert train


def test_groups_are_shared_out():
    groups = np.repeat(np.arange(100), 10)
    for classes in (None, np.arange(1000) % 3):
        sizes = [len(part) for part in by_group(groups, classes, 0)]
        np.testing.assert_allclose(sizes, [640, 160, 200], atol=10)
    with pytest.raises(ValueError, match="at least 3 different values, one for each part"):
        by_group(np.array([0, 1] * 10), None, 0)


def test_the_latest_are_for_test():
    times = np.random.default_rng(0).permutation(1000).astype(float)
    split, first_of_valid, first_of_test = by_time(times)
    assert is_division(split, 1000)
    assert [len(part) for part in split] == [640, 160, 200]
    train, valid, test = (times[part] for part in split)
    assert train.max() < first_of_valid == valid.min()
    assert valid.max() < first_of_test == test.min()


@given(st.lists(st.integers(0, 6), min_size=3, max_size=60))
def test_records_of_one_time_stay_together(times):
    times = np.array([*times, 7, 8, 9], float)
    (train, valid, test), _, _ = by_time(times)
    assert times[train].max() < times[valid].min()
    assert times[valid].max() < times[test].min()
    assert is_division((train, valid, test), len(times))


@pytest.mark.parametrize("times", [[1, 1, 1], [1, 1, 2], [5]])
def test_too_few_times(times):
    with pytest.raises(ValueError, match="at least 3 different times"):
        by_time(np.array(times, float))

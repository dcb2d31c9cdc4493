"""Row splits, differences of nested bags, and pieces put together, against loops over lists."""

import itertools
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mmil import ragged
from keras_mmil._support.rows import (
    bags_of_members,
    first_difference,
    members_of,
    path_to,
    positions_in_bags,
    rebatch,
    row_splits,
)

BAGS = st.lists(st.lists(st.lists(st.just(0), max_size=3), max_size=3), min_size=1, max_size=4)


def make(x):
    return ragged.from_nested_lists(x, depth=2, dtype="int64")


@given(st.lists(st.integers(0, 4), min_size=1), st.data())
def test_members_of_bags(lengths, data):
    members = iter(range(sum(lengths)))
    bags = [[next(members) for _ in range(n)] for n in lengths]
    chosen = data.draw(st.lists(st.integers(0, len(bags) - 1), min_size=1))
    found, splits = members_of(row_splits(lengths), np.array(chosen))
    assert found.tolist() == [member for bag in chosen for member in bags[bag]]
    assert splits.tolist() == row_splits([len(bags[bag]) for bag in chosen]).tolist()
    places = [(bag, i) for bag, n in enumerate(lengths) for i in range(n)]
    splits = row_splits(lengths)
    both = zip(bags_of_members(splits).tolist(), positions_in_bags(splits).tolist(), strict=True)
    assert list(both) == places


@given(BAGS)
def test_paths(x):
    paths = [
        f"[{i}][{j}][{k}]"
        for i, bag in enumerate(x)
        for j, sub_bag in enumerate(bag)
        for k in range(len(sub_bag))
    ]
    lengths = ragged.nested_lengths(make(x))
    assert [path_to(i, lengths) for i in range(len(paths))] == paths


@given(BAGS, BAGS)
def test_first_difference(one, other):
    found = first_difference(make(one), make(other))
    if len(one) != len(other):
        # Top-bags that both have come first.
        differing = [
            i for i, (a, b) in enumerate(zip(one, other, strict=False)) if len(a) != len(b)
        ]
        expected = min([*differing, min(len(one), len(other))])
        assert found.top_bag == expected
        assert (found.sizes == (None, None)) == (not differing)
        return
    pairs = list(enumerate(zip(one, other, strict=True)))
    outer = [(i, len(a), len(b)) for i, (a, b) in pairs if len(a) != len(b)]
    inner = [
        (i, len(p), len(q))
        for i, (a, b) in pairs
        for p, q in zip(a, b, strict=False)
        if len(p) != len(q)
    ]
    expected = next(iter(outer + inner), None) if outer or inner else None
    if expected is None:
        assert found is None
    else:
        assert (found.top_bag, *found.sizes) == expected


@pytest.mark.parametrize("levels", [1, 2, None])
def test_only_some_levels_are_compared(levels):
    one, other = make([[[0], [0, 0]]]), make([[[0, 0], [0]]])
    assert (first_difference(one, other, levels) is None) == (levels == 1)
    outer = ragged.from_nested_lists([[0, 0]], depth=1)
    assert first_difference(one, outer, levels) is None


SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@given(lengths=st.lists(st.integers(0, 7), max_size=9), sizes=SIZES)
def test_groups_are_of_the_wanted_sizes(lengths, sizes):
    whole = list(range(sum(lengths)))
    bounds = itertools.accumulate([0, *lengths])
    pieces = [whole[a:b] for a, b in itertools.pairwise(bounds)]
    wanted = sizes[0] if len(sizes) == 1 else itertools.cycle(sizes)
    groups = list(rebatch(pieces, wanted, len, operator.getitem))
    assert all(all(parts) for parts in groups)  # none is empty
    found = [sum(map(len, parts)) for parts in groups]
    assert [n for parts in groups for part in parts for n in part] == whole
    expected = list(itertools.islice(itertools.cycle(sizes), len(found)))
    assert found[:-1] == expected[:-1]
    assert not found or 0 < found[-1] <= expected[-1]


def test_a_stream_is_not_read_ahead():
    read = []
    pieces = (read.append(i) or [i] for i in range(9))
    groups = rebatch(pieces, 2, len, operator.getitem)
    assert next(groups) == [[0], [1]]
    assert read == [0, 1]

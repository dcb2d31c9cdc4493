"""Pieces of any sizes put together, against the whole."""

import itertools
import operator

from hypothesis import given
from hypothesis import strategies as st

from keras_mmil._support.regrouped import regrouped

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@given(lengths=st.lists(st.integers(0, 7), max_size=9), sizes=SIZES)
def test_groups_are_of_the_wanted_sizes(lengths, sizes):
    whole = list(range(sum(lengths)))
    bounds = itertools.accumulate([0, *lengths])
    pieces = [whole[a:b] for a, b in itertools.pairwise(bounds)]
    wanted = sizes[0] if len(sizes) == 1 else itertools.cycle(sizes)
    groups = list(regrouped(pieces, wanted, len, operator.getitem))
    assert all(all(parts) for parts in groups)  # none is empty
    found = [sum(map(len, parts)) for parts in groups]
    assert [n for parts in groups for part in parts for n in part] == whole
    expected = list(itertools.islice(itertools.cycle(sizes), len(found)))
    assert found[:-1] == expected[:-1]
    assert not found or 0 < found[-1] <= expected[-1]


def test_a_stream_is_not_read_ahead():
    read = []
    pieces = (read.append(i) or [i] for i in range(9))
    groups = regrouped(pieces, 2, len, operator.getitem)
    assert next(groups) == [[0], [1]]
    assert read == [0, 1]

"""Pairs of parameters: some in every run of the tests, all of them at night."""

import pytest

__all__ = ["pairs"]


def pairs(firsts, seconds, each=1):
    """All pairs, for `parametrize`, of which only some are not `nightly`.

    Args:
        firsts, seconds: the values; each of them is in some pair of every run.
        each: with how many pairs of every run for each value of the longer one.
    """
    firsts, seconds = list(firsts), list(seconds)
    n = min(len(firsts), len(seconds))
    return [
        pytest.param(a, b, marks=[] if (j - i) % n < each else [pytest.mark.nightly])
        for i, a in enumerate(firsts)
        for j, b in enumerate(seconds)
    ]

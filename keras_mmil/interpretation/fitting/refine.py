"""Numbers of clusters to try where there are too many combinations to try all."""

import math
from collections.abc import Container, Sequence

import numpy as np

__all__ = ["around", "coarse"]

_MANY = 400  # combinations
_COARSE = 8  # numbers a level


def coarse(options: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The numbers of clusters to begin with.

    Args:
        options: the numbers that may be tried, ascending, for each level.

    Returns:
        The same if there are few combinations; otherwise some of each level, in about equal ratios,
        with the first and the last.
    """
    if math.prod(map(len, options)) <= _MANY:
        return list(options)
    return [_spread(numbers) if len(numbers) > _COARSE else numbers for numbers in options]


def around(
    best: Sequence[int], options: Sequence[Sequence[int]], tried: Sequence[Container[int]]
) -> list[Sequence[int]] | None:
    """The numbers of clusters to try next: halfway from the best ones to those tried beside them.

    Args:
        best: number of clusters of each level.
        options: the numbers that may be tried, ascending, for each level.
        tried: those that have been, for each level.

    Returns:
        Numbers for each level, the best one among them; or None if there are no others.
    """
    wanted: list[Sequence[int]] = []
    for k, numbers, known in zip(best, options, tried, strict=True):
        here = numbers.index(k)
        beside = [i for i, number in enumerate(numbers) if number in known and i != here]
        below = max((i for i in beside if i < here), default=here)
        above = min((i for i in beside if i > here), default=here)
        places = {(below + here) // 2 if below < here - 1 else here, here, (above + here) // 2}
        wanted.append(tuple(numbers[i] for i in sorted(places)))
    return wanted if any(len(numbers) > 1 for numbers in wanted) else None


def _spread(numbers: Sequence[int]) -> tuple[int, ...]:
    wanted = np.geomspace(numbers[0], numbers[-1], _COARSE)
    nearest = np.abs(np.subtract.outer(wanted, numbers)).argmin(axis=1)
    return tuple(numbers[i] for i in sorted(set(nearest)))

"""A stream of pieces of any sizes, cut and put together to pieces of given sizes."""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import TypeVar

__all__ = ["regrouped"]

T = TypeVar("T")


def regrouped(
    pieces: Iterable[T],
    sizes: int | Iterator[int],
    n_of: Callable[[T], int],
    part_of: Callable[[T, slice], T],
) -> Iterator[list[T]]:
    """Parts of pieces that are together of given sizes, in their order; the last may be smaller.

    Args:
        pieces: of any sizes, also empty.
        sizes: one for all, or each, without an end.
        n_of: the size of a piece.
        part_of: what a slice selects of a piece; its stop may be beyond the end.
    """
    sizes = repeat(sizes) if isinstance(sizes, int) else sizes
    parts: list[T] = []
    n, size = 0, next(sizes)
    for piece in pieces:
        start = 0
        while start < n_of(piece):
            parts.append(part_of(piece, slice(start, start + size - n)))
            start += n_of(parts[-1])
            n += n_of(parts[-1])
            if n == size:
                yield parts
                parts, n, size = [], 0, next(sizes)
    if parts:
        yield parts

"""Sizes of nested bags that should agree."""

import numpy as np

__all__ = ["first_difference"]


def first_difference(a, b):
    """Find where two structures of nested bags differ in size.

    Args:
        a, b: row splits of each, from the top-bags inwards: integer arrays `[bags + 1]`. Only the
            levels that both have are compared.

    Returns:
        The first top-bag that differs, on the outermost level that does, with the sizes of the two
        bags that differ in it; None where there is none.
    """
    for level, (ours, theirs) in enumerate(zip(a, b, strict=False)):
        if np.array_equal(ours, theirs):
            continue
        # The levels above agree, hence there are as many bags, or top-bags are missing.
        n = min(len(ours), len(theirs)) - 1
        sizes = [np.diff(splits)[:n] for splits in (ours, theirs)]
        differ = np.flatnonzero(sizes[0] != sizes[1])
        if not differ.size:
            return n, None, None
        top_bag = bag = differ[0]
        for splits in reversed(a[:level]):
            top_bag = np.searchsorted(splits, top_bag, side="right") - 1
        return int(top_bag), int(sizes[0][bag]), int(sizes[1][bag])
    return None

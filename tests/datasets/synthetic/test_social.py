"""Made-up social networks have the structure that they claim."""

import numpy as np
import pytest

from keras_mmil.datasets import synthetic


def test_networks():
    first, again, other = (synthetic.load_networks(40, seed=seed) for seed in (0, 0, 1))
    assert (first.edges != again.edges).nnz == 0
    assert first.sizes.tolist() != other.sizes.tolist()
    assert (len(first), first.n_classes) == (40, 2)
    assert first.labels.tolist() == [0, 1] * 20
    assert 10 <= first.sizes.min() <= first.sizes.max() <= 30
    bags = first.bags()
    assert bags.row_lengths().numpy().tolist() == first.sizes.tolist()
    starts = np.cumsum(first.sizes) - first.sizes
    for start, size, label in zip(starts, first.sizes, first.labels, strict=True):
        own = first.edges[start : start + size]
        assert own.nnz == first.edges[start : start + size, start : start + size].nnz
        if label:  # a tree
            assert own.nnz == 2 * (size - 1)
        else:  # one of them knows all
            assert first.degrees[start] == size - 1
    for arguments in ({"n_graphs": 1}, {"sizes": (3, 9)}, {"sizes": (9, 8)}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            synthetic.load_networks(**arguments)

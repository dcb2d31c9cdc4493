"""Made-up citations, clouds, floras and social networks."""

import numpy as np
import pytest

from keras_mmil.builders import clouds
from keras_mmil.datasets import synthetic


def test_citations():
    first, again, other = (synthetic.load_citations(seed=seed) for seed in (0, 0, 1))
    assert first.words.to_list() == again.words.to_list() != other.words.to_list()
    assert (first.edges != again.edges).nnz == 0
    assert np.bincount(first.labels).tolist() == [134, 133, 133]
    starts, ends = first.edges.nonzero()
    assert 0.7 < (first.labels[starts] == first.labels[ends]).mean() < 0.9
    for kind in ("random", "transductive", "temporal"):
        parts = first.split(kind)
        assert [len(part) for part in parts] == [80, 80, 240]
        assert len(np.unique(np.concatenate(parts))) == 400
    owners = np.repeat(first.labels, first.words.row_lengths())
    special = first.words.values.numpy() < 30
    assert (first.words.values.numpy()[special] // 10 == owners[special]).all()
    assert 0.25 < special.mean() < 0.42
    with pytest.raises(ValueError, match="n_papers=59"):
        synthetic.load_citations(n_papers=59)


def test_clouds():
    x, y = synthetic.load_clouds(80, 50, seed=3)
    assert x.shape == (80, 50, 3)
    assert np.bincount(y).tolist() == [20] * len(synthetic.clouds.SHAPES)
    np.testing.assert_allclose(x, clouds.normalise(x), atol=1e-5)
    np.testing.assert_array_equal(x, synthetic.load_clouds(80, 50, seed=3)[0])
    assert not np.array_equal(x, synthetic.load_clouds(80, 50, seed=4)[0])


def test_flora():
    made = synthetic.load_flora(seed=2)
    assert made.presence.shape == (300, 40)
    assert 0.05 < made.presence.mean() < 0.6
    np.testing.assert_array_equal(made.presence, synthetic.load_flora(seed=2).presence)
    near = made.hamming_distances()[np.arange(299), np.arange(1, 300)]
    assert near.mean() < made.hamming_distances().mean()  # neighbours are alike


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

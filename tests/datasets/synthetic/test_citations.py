"""Made-up citation networks have the structure that they claim."""

import numpy as np
import pytest

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

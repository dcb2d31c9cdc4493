"""Bags drawn until they have their labels."""

import numpy as np
import pytest

from keras_mmil.datasets import _sampling, mnist


@pytest.mark.slow
def test_labels_that_cannot_be_had(monkeypatch):
    monkeypatch.setattr(_sampling, "_CANDIDATES", 10)
    with pytest.raises(
        ValueError, match=r"1 top-bags .*Received: a top-bag of 200 members for label 0"
    ):
        mnist.load_mmil(2, 0, 0, bag_size=(200, 200), sub_bag_size=(3, 3), source="digits")


def test_drawing_keeps_what_fits(monkeypatch):
    monkeypatch.setattr(_sampling, "_CANDIDATES", 1)
    lengths = [np.array([2, 1, 3])]
    drawn = iter([[1, 2, 3, 4, 5, 6], [9, 7]])
    x = _sampling.sample_until(
        lengths,
        draw=lambda n: np.array(next(drawn)),
        label_of=lambda x: np.array([sum(bag) % 2 for bag in x.to_list()]),
        wanted=np.array([0, 1, 1]),
    )
    assert x.to_list() == [[9, 7], [3], [4, 5, 6]]

"""Made-up reviews follow their rule."""

import re
from collections import Counter

import numpy as np
import pytest

from keras_mmil.datasets import synthetic

THINGS = {"plot", "acting", "music", "story", "ending", "cast", "camera work", "dialogue"}
PRAISE = {"good", "great", "wonderful", "funny", "clever", "moving"}
BLAME = {"bad", "awful", "boring", "poor", "stupid", "weak"}


def opinion(sentence):
    """1 for praise, -1 for blame, 0 for neither: of words, and not of how they came about."""
    words = set(re.findall(r"\w+", sentence))
    value = len(words & PRAISE) - len(words & BLAME)
    assert abs(value) <= 1
    return -value if words & {"not", "never"} else value


def test_opinions():
    for (texts, y), n in zip(synthetic.load_reviews(301, 60, 1), (301, 60, 1), strict=True):
        assert (len(texts), y.shape, y.dtype, y.sum()) == (n, (n,), np.int64, n // 2)
        sums = [sum(map(opinion, re.findall(r"[^.!]+", one))) for one in texts]
        assert [int(total > 0) for total in sums] == y.tolist()
        assert 0 not in sums
        sizes = Counter(len(re.findall(r"[.!](?: |$)", one)) for one in texts)
        assert n < 60 or sorted(sizes) == [1, 2, 3, 4, 5, 6, 7]
        assert n == 1 or len(set(np.flatnonzero(y) % 2)) == 2, "in random order"
    (texts, _), *_ = synthetic.load_reviews(300, 0, 0)
    every = " ".join(texts)
    for word in THINGS | PRAISE | BLAME | {"not", "never", "friends", "songs"}:
        assert f" {word}" in every


def test_opinions_are_the_same_for_the_same_seed():
    first, again = synthetic.load_reviews(5, 3, 9), synthetic.load_reviews(40, 3, 9)
    for (texts, y), (texts_again, y_again) in zip(first[1:], again[1:], strict=True):
        assert texts == texts_again
        assert y.tolist() == y_again.tolist()
    assert len({*first[0][0], *first[1][0], *first[2][0]}) > 10, "the sets differ"
    assert synthetic.load_reviews(5, 3, 9, seed=1)[2][0] != first[2][0]
    (texts, _), *_ = synthetic.load_reviews(50, 0, 0, n_sentences=(2, 2))
    assert {len(re.findall(r"[.!](?: |$)", one)) for one in texts} == {2}


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({"n_train": -1}, "n_train=-1"),
        ({"n_test": 2.5}, "n_test=2.5"),
        ({"n_sentences": (0, 3)}, "n_sentences=(0, 3)"),
        ({"n_sentences": (3, 2)}, "n_sentences=(3, 2)"),
        ({"n_sentences": 3}, "n_sentences=3"),
    ],
)
def test_bad_arguments(arguments, received):
    with pytest.raises(ValueError, match=re.escape(f"Received: {received}")):
        synthetic.load_reviews(**arguments)

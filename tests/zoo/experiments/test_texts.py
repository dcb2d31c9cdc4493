"""What the rules about reviews are learned from."""

import numpy as np
import pytest

from keras_mmil import zoo
from keras_mmil.builders.corpus import Corpus
from keras_mmil.datasets import imdb

N_LABELLED, N_TEST, N_UNLABELLED = 40, 10, 100


@pytest.fixture
def reviews(tmp_path, monkeypatch):
    """Reviews of one word each, which no other has."""
    n = N_LABELLED + N_TEST + N_UNLABELLED
    corpus = Corpus.from_texts(
        [f"word{i}" for i in range(n)], splitter="core", min_count=1, verbose=0
    )
    labels = np.repeat(np.int8([0, 1, 0, 1, -1]), [20, 20, 5, 5, N_UNLABELLED])
    is_test = np.arange(n) // N_TEST == N_LABELLED // N_TEST
    found = imdb.Reviews(corpus, labels, is_test, tmp_path)
    monkeypatch.setattr(imdb, "prepare", lambda limit: found)
    monkeypatch.setattr(imdb.Reviews, "word_vectors", lambda self: np.zeros((n + 2, 3), "float32"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("key", ["imdb", "imdb-mil"])
def test_rules_learn_from_reviews_without_labels_too(key, reviews):
    data = zoo.registry[key].load(seed=1)
    rule_data = data.for_rules()
    assert data.for_testing_rules() is data.test
    fitted, chosen_on, train, valid = (
        set(words_of(x, reviews))
        for x in (rule_data.x, rule_data.x_valid, data.train.x, data.valid.x)
    )
    assert len(fitted) == len(words_of(rule_data.x, reviews)) == 36 + 36
    assert len(chosen_on) == len(words_of(rule_data.x_valid, reviews)) == 4 + 20
    assert train < fitted
    assert valid < chosen_on
    unlabelled = {f"word{i}" for i in range(N_LABELLED + N_TEST, 150)}
    assert fitted - train < unlabelled
    assert chosen_on - valid < unlabelled
    assert not fitted & chosen_on
    assert rule_data.x.ragged_rank == data.train.x.ragged_rank
    again = zoo.registry[key].load(seed=1, unlabelled=True).for_rules()
    assert words_of(again.x, reviews) == words_of(rule_data.x, reviews)


def words_of(x, reviews):
    """The word of each review."""
    middle = x.flat_values[:, 1].numpy()
    return [reviews.corpus.vocabulary[i] for i in middle]

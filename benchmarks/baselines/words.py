"""Classifiers that know a paper's own words, or those of all papers around it, as one bag."""

from functools import partial

import scipy.sparse as sparse
import tensorflow as tf
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, MultinomialNB
from sklearn.preprocessing import binarize, normalize

from keras_mmil.datasets import citations

__all__ = ["BAG_MODELS", "MODELS", "features", "fit_bags", "fit_words"]


def features(network):
    """Words of each paper as a CSR array [papers, words]: 0 and 1, or their weights."""
    words = network.words
    weights = tf.ones_like(words, tf.float32) if network.weights is None else network.weights
    parts = (weights.values.numpy(), words.values.numpy(), words.row_splits.numpy())
    return sparse.csr_array(parts, shape=(int(words.nrows()), network.n_words))


def _naive_bayes(network):
    # Words are a set, or have weights.
    return BernoulliNB() if network.weights is None else MultinomialNB()


def _logistic_regression(network):
    return LogisticRegression(max_iter=1000)


MODELS = {"naive-bayes": _naive_bayes, "logistic-regression": _logistic_regression}


def fit_words(name, network, parts, kind, seed):
    """Test accuracy of a classifier trained on the training papers.

    Args:
        name: one of `MODELS`, with scikit-learn's defaults.
        network: `Citations`.
        parts: papers for training, validation and test.
        kind, seed: not used; for all models alike.
    """
    x, y = features(network), network.labels
    train, _, test = parts
    return MODELS[name](network).fit(x[train], y[train]).score(x[test], y[test])


# What is left of the bag of all words around a paper: which there are, all that a maximum over them
# can see; or the share of each, all that a mean can see.
BAG_MODELS = {
    "logistic-regression-set": binarize,
    "logistic-regression-mean": partial(normalize, norm="l1"),
}


def fit_bags(name, network, parts, kind, seed):
    """Test accuracy of logistic regression on the bags of words that MIL networks read.

    Its penalty is the best on validation papers.

    Args:
        name: one of `BAG_MODELS`.
        network: `Citations`.
        parts: papers for training, validation and test.
        kind: of the split, which says what papers are in bags.
        seed: not used; for all models alike.
    """
    pairs = []
    for papers, seen in zip(parts, citations.visible(kind, parts), strict=True):
        bags = network.word_bags(papers, seen, depth=1)
        arrays = (bags.counts.values, bags.bags.values, bags.bags.row_splits)
        counts = sparse.csr_array(
            tuple(part.numpy() for part in arrays), shape=(len(papers), network.n_words)
        )
        pairs.append((BAG_MODELS[name](counts), network.labels[papers]))
    train, valid, test = pairs
    models = [
        LogisticRegression(C=10.0**power, max_iter=2000).fit(*train) for power in range(-2, 4)
    ]
    return max(models, key=lambda model: model.score(*valid)).score(*test)

"""Classifiers that know a paper's own words, and no citations."""

import scipy.sparse as sparse
import tensorflow as tf
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, MultinomialNB

__all__ = ["MODELS", "features", "fit_words"]


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

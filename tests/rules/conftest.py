"""An explainer of a network whose rules are known, which many tests look at."""

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from digit_networks import explainer, plain_model, random_ids, truth, vectors
from record_networks import churn_model, fit_and_name, random_customers

from keras_mmil import Explainer


@pytest.fixture(scope="session")
def digit_model():
    return plain_model()


@pytest.fixture(scope="session")
def digit_ids():
    return random_ids(120)


@pytest.fixture(scope="session")
def digit_explainer(digit_model, digit_ids):
    return explainer().fit(digit_model, vectors(digit_ids), vectors(random_ids(60, seed=1)))


@pytest.fixture(scope="session")
def customers():
    return random_customers(200)


@pytest.fixture(scope="session")
def churn_explainer(customers):
    """Of records with fields and two branches of bags; clusters are called by their meanings."""
    keras.utils.set_random_seed(0)  # this may come before the seeds of the first test
    return fit_and_name(churn_model(), customers)


class Rough(NamedTuple):
    """Rules, network and truth that differ, each from each.

    Attributes:
        explainer: of a single split, which agrees with the network on some 70 to 90 %.
        x: top-bags that it has not seen.
        y: true labels, of which some are wrong.
        network: the network's classes.
        rules: those of the rules.
        ask: the network's classes of other top-bags.
    """

    explainer: Explainer
    x: tf.RaggedTensor
    y: np.ndarray
    network: np.ndarray
    rules: np.ndarray
    ask: Callable[[tf.RaggedTensor], np.ndarray]


@pytest.fixture(scope="session")
def rough():
    model = plain_model("mean")
    rng = np.random.default_rng(2)
    model.set_weights([w + rng.normal(0, 0.2, w.shape) for w in model.get_weights()])
    ids = random_ids(150, seed=6)
    x, y = vectors(ids), truth(ids)
    y = np.where(np.random.default_rng(0).random(150) < 0.15, 1 - y, y)
    outputs = model.predict(x, verbose=0)[:, 0]
    threshold = float(np.median(outputs))
    fit = explainer(n_clusters=(3, 2), max_depth=2, target=(0, threshold))
    fit.fit(model, vectors(random_ids(120)), vectors(random_ids(60, seed=1)))

    def network(x):
        return (model.predict(x, verbose=0)[:, 0] > threshold).astype(int)

    rules = np.array([each.label for each in fit.explain(x)])
    found = Rough(fit, x, y, network(x), rules, network)
    shares = [float(np.mean(a == b)) for a, b in pairs_of(found)]
    assert min(shares) > 0.6
    assert max(shares) < 0.95
    assert len(set(shares)) == 3
    return found


def pairs_of(found):
    """Rules, network and truth, two by two."""
    return (found.rules, found.network), (found.rules, found.y), (found.network, found.y)

"""The experiment "A Semi-Synthetic Dataset"."""

from keras_mmil.datasets import mnist
from keras_mmil.zoo.experiments.experiment import Data, Experiment, at_most
from keras_mmil.zoo.experiments.truth_table import rules_match
from keras_mmil.zoo.mnist import mnist_mmil

__all__ = ["digit_experiment", "matches_generating_rule"]


def _load_mnist(seed=0, limit=None, source="mnist", unlabelled=False):
    sizes = at_most(limit, n_train=5000, n_valid=1000, n_test=5000)
    return Data(*mnist.load_mmil(**sizes, source=source, seed=seed, instance_labels=True))


def digit_experiment(entry):
    """The `Experiment` of an `Entry`."""
    return Experiment(
        **vars(entry),
        build=mnist_mmil,
        load=_load_mnist,
        batch_size=20,
        check_rules=matches_generating_rule,
    )


def matches_generating_rule(explainer, x, digits, largest_bag=6):
    """Whether rules are logically the ones that the data were made by, decided by truth table.

    Every cluster of instances stands for the digit that most of it are. A sub-bag then has to be
    positive iff it holds a 7 and no 3, on every set of clusters that a sub-bag can hold; each
    cluster of sub-bags has to stand for positive or for negative ones only; and a top-bag has to be
    positive iff it holds a positive sub-bag.

    Args:
        explainer: a fitted `Explainer` with two levels that speak of occurrences.
        x: top-bags on which to find the majority digits.
        digits: their true digits, ragged like `x`.
        largest_bag: the greatest number of instances in a sub-bag, and of sub-bags.

    Returns:
        bool.
    """
    majority = explainer.describe(x, instance_labels=digits)[0].majority  # (clusters,)
    rules = [lambda has: has(7) & ~has(3), lambda has: has(True)]
    return rules_match(explainer, majority, rules, largest_bag)

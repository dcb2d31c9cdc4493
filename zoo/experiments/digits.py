"""The experiment "A Semi-Synthetic Dataset"."""

import tensorflow as tf

from keras_mmil._support.types import Tensors
from keras_mmil.datasets import mnist
from keras_mmil.interpretation import Explainer
from keras_mmil.zoo.experiments.catalogue import Entry
from keras_mmil.zoo.experiments.experiment import Data, Experiment, Part, at_most
from keras_mmil.zoo.experiments.truth_table import GeneratingRule, rules_match
from keras_mmil.zoo.mnist import mnist_mmil

__all__ = ["digit_experiment", "matches_generating_rule"]


def digit_experiment(entry: Entry) -> Experiment:
    """The `Experiment` of an `Entry`."""
    return Experiment(
        **vars(entry),
        build=mnist_mmil,
        load=_load,
        batch_size=20,
        check_rules=matches_generating_rule,
    )


def _load(
    *, seed: int = 0, limit: int | None = None, source: str = "mnist", unlabelled: bool = False
) -> Data:
    parts = mnist.load_mmil(
        n_train=at_most(limit, 5000),
        n_valid=at_most(limit, 1000),
        n_test=at_most(limit, 5000),
        source=source,
        seed=seed,
        instance_labels=True,
    )
    train, valid, test = (Part(*part) for part in parts)
    return Data(train=train, valid=valid, test=test)


def matches_generating_rule(
    explainer: Explainer, x: Tensors, digits: tf.RaggedTensor, largest_bag: int = 6
) -> bool:
    """Whether rules are logically equal to the rule that generated the data.

    This is decided by truth table. Each cluster of instances stands for the digit that most of its
    members are. A sub-bag then has to be positive iff it holds a 7 and no 3, for every set of
    clusters that a sub-bag can hold; each cluster of sub-bags has to stand for positive or for
    negative ones only; and a top-bag has to be positive iff it holds a positive sub-bag.

    Args:
        explainer: a fitted `Explainer` with two levels, whose rules are about occurrences.
        x: top-bags in which to find the majority digits.
        digits: their true digits, ragged like `x`.
        largest_bag: the greatest number of instances in a sub-bag, and of sub-bags in a top-bag.
    """
    majority = explainer.describe(x, instance_labels=digits)[0].majority  # (clusters,)
    rules: list[GeneratingRule] = [lambda has: has(7) & ~has(3), lambda has: has(True)]
    return rules_match(explainer, majority, rules, largest_bag)

"""The whole idea on pictures: train on bags of bags of digits, read the network as rules."""

import dataclasses

import numpy as np

from keras_mmil import ragged
from keras_mmil._support.formatting import percent, share
from keras_mmil.cli.options import RunOptions
from keras_mmil.cli.run import run
from keras_mmil.interpretation import Explainer
from keras_mmil.interpretation.readout.description import LevelDescription
from keras_mmil.zoo.experiments.registry import registry

__all__ = ["demo_of_digits", "digits_of_clusters"]

# About two minutes of training on two cores.
_EPOCHS = 25
_TOP_BAGS = 2000


def demo_of_digits(options: RunOptions) -> None:
    """Run the MNIST experiment on scikit-learn's digits, and explain one top-bag.

    Args:
        options: as for `run`. The folder of an earlier demo is replaced, unless it is to be
            resumed.
    """
    print("Bags of bags of digits. The outer bag is positive iff one in it holds a 7 and no 3;")
    print("nobody tells the network which digit is which, nor which inner bag is positive.")
    print("This takes about four minutes on two cores.\n")
    experiment = dataclasses.replace(
        registry["mnist"], epochs=_EPOCHS, paper={}, explainer={"metric": "sensitivity"}
    )
    limit = _TOP_BAGS if options.limit is None else options.limit
    options = dataclasses.replace(
        options,
        source="digits",
        folds=0,
        limit=limit,
        out=options.out or "runs/demo-digits",
        replace=True,
    )
    explainer, (x, y, digits), _ = run(experiment, options)
    # For type checkers: the options ask for rules, and the labels of digits are known.
    assert explainer is not None
    assert digits is not None
    _print_in_digits(explainer, explainer.describe(x, digits)[0])
    positive = int(y.argmax())
    print("\nWhy the first positive top-bag of the test set is positive. What it holds, which the")
    print(f"network was never told: {digits[positive].to_list()}\n")
    print(explainer.explain(ragged.take(x, [positive]))[0])


def digits_of_clusters(described: LevelDescription) -> list[tuple[tuple[str, ...], float]]:
    """For each cluster the digits most of whose images are in it, and their share of it."""
    table = described.known_table  # (clusters, digits)
    home = np.where(table.any(axis=0), table.argmax(axis=0), -1)
    found = []
    for cluster, of_digits in enumerate(table):
        here = home == cluster
        names = tuple(described.label_names[digit] for digit in np.flatnonzero(here))
        found.append((names, share(of_digits[here].sum(), of_digits.sum())))
    return found


def _print_in_digits(explainer: Explainer, described: LevelDescription) -> None:
    """Say what the clusters turned out to be, and the rules with the digits for their names."""
    found = digits_of_clusters(described)
    print("\nWhat the clusters of images turned out to hold, by the true digits:")
    for name, (digits, of_it) in zip(described.names, found, strict=True):
        what = "no digit of which the most are here"
        if digits:
            what = f"a {' or '.join(digits)} ({percent(of_it)} of its images)"
        print(f"  {name}: holds {what}")
    names = {
        cluster: f"digit {' or '.join(digits)}"
        for cluster, (digits, _) in enumerate(found)
        if digits
    }
    explainer.rename(0, names)
    print("With these names, the rules are:")
    for sentence in explainer.rules_.in_words():
        print(f"  {sentence}")

"""The whole idea in some minutes: train on digits, read the network as rules."""

import argparse
import dataclasses

from keras_mmil.cli.run import run
from keras_mmil.zoo import registry

__all__ = ["demo"]

# About two minutes of training on two cores.
_EPOCHS = 25
_TOP_BAGS = 2000


def demo(options):
    """Run the MNIST experiment on scikit-learn's digits, and explain one top-bag.

    Args:
        options: parsed arguments, as for `run`. The folder of an earlier demo is replaced, unless
            it is to be resumed.
    """
    print("Bags of bags of digits. The outer bag is positive iff one in it holds a 7 and no 3;")
    print("nobody tells the network which digit is which, nor which inner bag is positive.\n")
    experiment = dataclasses.replace(
        registry["mnist"], epochs=_EPOCHS, paper={}, explainer={"metric": "sensitivity"}
    )
    limit = _TOP_BAGS if options.limit is None else options.limit
    settings = argparse.Namespace(**{**vars(options), "source": "digits", "limit": limit})
    explainer, (x, y, digits), _ = run(experiment, settings)
    positive = int(y.argmax())
    print("\nWhy the first positive top-bag of the test set is positive. What it holds, which the")
    print(f"network was never told: {digits[positive].to_list()}\n")
    print(explainer.explain(x[positive : positive + 1])[0])

"""The whole idea in some minutes: train on digits, read the network as rules."""

import dataclasses

from keras_mmil import ragged
from keras_mmil.cli.options import RunOptions
from keras_mmil.cli.run import run
from keras_mmil.zoo import registry

__all__ = ["demo"]

# About two minutes of training on two cores.
_EPOCHS = 25
_TOP_BAGS = 2000


def demo(options: RunOptions) -> None:
    """Run the MNIST experiment on scikit-learn's digits, and explain one top-bag.

    Args:
        options: as for `run`. The folder of an earlier demo is replaced, unless it is to be
            resumed.
    """
    print("Bags of bags of digits. The outer bag is positive iff one in it holds a 7 and no 3;")
    print("nobody tells the network which digit is which, nor which inner bag is positive.\n")
    experiment = dataclasses.replace(
        registry["mnist"], epochs=_EPOCHS, paper={}, explainer={"metric": "sensitivity"}
    )
    limit = _TOP_BAGS if options.limit is None else options.limit
    options = dataclasses.replace(
        options,
        source="digits",
        folds=0,
        limit=limit,
        out=options.out or "runs/demo",
        replace=True,
    )
    explainer, (x, y, digits), _ = run(experiment, options)
    # For type checkers: the options ask for rules, and the labels of digits are known.
    assert explainer is not None
    assert digits is not None
    positive = int(y.argmax())
    print("\nWhy the first positive top-bag of the test set is positive. What it holds, which the")
    print(f"network was never told: {digits[positive].to_list()}\n")
    print(explainer.explain(ragged.take(x, [positive]))[0])

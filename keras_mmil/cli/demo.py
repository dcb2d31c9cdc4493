"""The whole idea in some minutes: train on digits, read the network as rules."""

import argparse
import dataclasses
import shutil
from pathlib import Path

from keras_mmil.cli.run import run
from keras_mmil.zoo import registry

__all__ = ["demo"]

# About two minutes of training on two cores.
_EPOCHS = 30
_TOP_BAGS = 2000


def demo(options):
    """Run the MNIST experiment on scikit-learn's digits, and explain one top-bag.

    Args:
        options: parsed arguments, as for `run`. The folder of an earlier demo is replaced, unless
            it is to be resumed.
    """
    print(
        "Bags of bags of digits. A bag of bags is positive iff one of its bags holds a 7 and no 3;"
    )
    print("nobody tells the network which digit is which, nor which bag is positive.\n")
    folder = Path(options.out)
    if not options.resume and (folder / "settings.json").exists():
        shutil.rmtree(folder)
    experiment = dataclasses.replace(registry["mnist"], epochs=_EPOCHS, paper={})
    limit = _TOP_BAGS if options.limit is None else options.limit
    settings = argparse.Namespace(**{**vars(options), "source": "digits", "limit": limit})
    explainer, (x, y, _), _ = run(experiment, settings)
    positive = int(y.argmax())
    print(f"\nWhy top-bag {positive} of the test set is {explainer.classes_[1]}:\n")
    print(explainer.explain(x[positive : positive + 1])[0])

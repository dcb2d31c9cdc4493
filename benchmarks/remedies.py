"""What each part of the defaults brings: `python benchmarks/remedies.py`.

The log loss of `NestedClassifier()` on training records, each predicted by what it was not fitted
to, with all parts and without each: the models that are pooled, and the statistics of bags that
they read. Goes to `benchmarks/results/by_default.json`.
"""

import argparse
import os
import warnings
from functools import partial
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from by_default import DATA, OURS, Ours
from records import write
from sklearn.model_selection import RepeatedStratifiedKFold

from keras_mmil.estimators import trials
from keras_mmil.records import network, patterns

STATISTICS = {
    "patterns": partial(mock.patch.object, patterns.Contents, "patterns", return_value=[]),
    "pairs of facts": partial(mock.patch.object, patterns.Contents, "pairs", return_value=[]),
    "numbers above edges": partial(mock.patch.object, network, "_between", return_value=[]),
    "rare words and categories": partial(mock.patch.object, network, "_MOST_COUNTED", 64),
    "distances of members": partial(mock.patch.object, network, "_MANY_NUMBERS", 10**9),
}
MODELS = {
    "networks": ("network with statistics", "network"),
    "networks that read statistics": ("network with statistics",),
    "linear model": ("linear",),
    "regression with a kernel": ("kernel",),
    "forest": ("forest",),
    "boosting": ("boosting",),
}
ABOUT = {"metric": "valid_log_loss", "runs": 1, "chosen_on": "out-of-fold losses"}


def main():
    """Fit, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA), metavar="NAME")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.data:
        losses = [(variant, round(loss, 4)) for variant, loss in measured(name)]
        print(name, dict(losses), flush=True)
        if not options.dry:
            rows = [{"experiment": name, "model": x, **ABOUT, "mean": loss} for x, loss in losses]
            write("by_default", rows, ("experiment", "model", "metric"))


def measured(name):
    """The losses with all, and without each part, on the training part of the first fold."""
    records, target = DATA[name]()
    labels = np.array([str(each[target]) for each in records])
    splits = RepeatedStratifiedKFold(n_splits=5, n_repeats=1, random_state=0)
    train, _ = next(splits.split(labels, labels))
    some = [records[i] for i in train], labels[train]
    found, loss_without = fitted(target, some)
    names = [trial.model for trial in found[2:-1]]
    yield OURS, found[-1].loss
    for variant, models in MODELS.items():
        left_out = [names.index(model) for model in models if model in names]
        yield f"{OURS} without {variant}", loss_without(left_out)
    for variant, patched in STATISTICS.items():
        with patched():
            yield f"{OURS} without {variant}", fitted(target, some)[0][-1].loss


def fitted(target, data):
    """The trials of a fit, and a function: their loss without some."""
    with mock.patch.object(trials, "weights_of", wraps=trials.weights_of) as pooling:
        model = Ours(OURS, target, 0)
        model.fit(*data)
    (labels, predictions, y, weights), _ = pooling.call_args

    def without(left_out):
        some = [x for i, x in enumerate(predictions) if i not in left_out]
        shares = trials.weights_of(labels, some, y, weights)
        pooled = trials.pooled(labels, some, shares)
        return trials.trial_of("", labels, pooled, y, weights, 1.0).loss

    return model.trials, without


if __name__ == "__main__":
    main()

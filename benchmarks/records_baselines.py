"""Accuracy of gradient boosting on flat records: `python benchmarks/records_baselines.py`.

Same records for training and test, and the same seeds, as `keras-mmil run mutagenesis` and so on;
what is for validation there is for training here. Results go to
`benchmarks/results/<experiment>.json`, beside ours.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from baselines.flat_records import boosting
from records import write

from keras_mmil import ragged, zoo
from keras_mmil._support.formatting import majority
from keras_mmil.cli.results import summary

# The seeds of each experiment: there are ten folds.
SEEDS = {
    "mutagenesis-first-100": 5,
    "mutagenesis-folds": 10,
    "recipes": 3,
    "mutag": 3,
    "mutagenicity": 3,
    "nci1": 3,
    "churn-with-orders": 3,
    "churn-some-without": 3,
}


def main():
    """Train and test on what the command line says, print a line each, and record them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", nargs="+", choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--limit", type=int, help="records in each part, at most; not recorded")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    for key in options.experiments:
        records = measure(zoo.registry[key], SEEDS[key], options.limit)
        if not options.dry and options.limit is None:
            write(zoo.registry[key].name, records, ("model", "variant", "metric"))


def measure(experiment, seeds, limit=None):
    """The records of boosting, and of naming the most frequent class."""
    accuracies, shares = {}, {}
    for seed in range(seeds):
        data = experiment.load(seed=seed, limit=limit)
        train = ragged.concat([data.train[:2], data.valid[:2]])
        accuracies[seed] = boosting(train, data.test[:2], seed)
        shares[seed] = majority(data.test.y)
    about = {"experiment": experiment.name, "model": "boosting", "variant": experiment.split}
    records = [
        {**about, "metric": metric, **summary(values)}
        for metric, values in (("test_accuracy", accuracies), ("test_accuracy_majority", shares))
    ]
    mean, std = records[0]["mean"], records[0]["std"]
    print(f"{experiment.key:24} {mean:.2%} ± {std:.2%}, majority {records[1]['mean']:.2%}")
    return records


if __name__ == "__main__":
    main()

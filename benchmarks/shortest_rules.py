"""How short rules about Michalski's 20 trains can be, and how short those of the defaults are.

`python benchmarks/shortest_rules.py` enumerates rules, and counts the conditions in those of
`NestedClassifier()`, fitted to all trains. Results go to `benchmarks/results/trains.json`.

Enumerated are rules about one cluster of cars, of up to three conjunctions of up to three
conditions, of which a train has some car or none; and about two clusters of one conjunction each.
As in the printed rules, bounds on both sides of a number are one condition, and each rule counts.
Ours may also count cars, and can be shorter.
"""

import argparse
import itertools
import os
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from records import write

from keras_mmil import NestedClassifier
from keras_mmil.datasets import trains
from keras_mmil.records import link

_LONGEST = 3  # conditions in a conjunction
_NUMBERS = ("position", "wheels", "load_num")
_CATEGORIES = ("shape", "len", "sides", "roof", "load_shape")


def main():
    """Enumerate, count, print, and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="fits of ours")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    records = link(*trains.load())
    found = {
        "conditions": {"shortest by enumeration": [shortest(records.to_pylist())]},
        "rule_accuracy": {},
    }
    fits = [fitted(records, seed) for seed in range(options.seeds)]
    for metric, values in zip(found, zip(*fits, strict=True), strict=True):
        found[metric]["keras-mmil"] = values
    entries = [
        {
            "experiment": "trains",
            "model": model,
            "metric": metric,
            "mean": float(np.mean(values)),
            "std": float(np.std(values)),
            "runs": len(values),
            "each": values,
        }
        for metric, of_models in found.items()
        for model, values in of_models.items()
    ]
    print(*entries, sep="\n")
    if not options.dry:
        write("trains", entries, key=("model", "metric"))


def fitted(records, seed):
    """The number of conditions in the rules of a fit, and their accuracy on the same records."""
    model = NestedClassifier(random_state=seed, verbose=0).fit(records, trains.TARGET)
    n = sum(level.rules.n_conditions for level in model.explainer_.levels_)
    truth = records.field(trains.TARGET).to_pylist()
    return n, float(np.mean(model.predict(records, by="rules") == truth))


def shortest(records):
    """The least number of conditions in rules that are right about all trains.

    Args:
        records: trains with `cars` and their `direction`.
    """
    n, everything = len(records), (1 << len(records)) - 1
    east = sum(1 << i for i, record in enumerate(records) if record["direction"] == "east")
    wanted = (east, everything - east)
    sizes = conjunctions(records)
    sets = np.array(list(sizes), np.int64)
    lengths = np.array(list(sizes.values()))
    best = 10 * n
    for i, j in itertools.combinations_with_replacement(range(len(sets)), 2):
        # Some car of one cluster, none of the other: three rules with four conditions.
        pair = (sets[i] & ~sets[j] & everything, sets[j] & ~sets[i] & everything)
        if any(each in wanted for each in pair):
            best = min(best, lengths[i] + lengths[j] + 4)
        # A cluster of three conjunctions, some of which may be equal: two rules, a condition each.
        n_more = np.where(i == j, lengths[i], lengths[i] + lengths[j])
        if n_more + 2 < best:
            unions = sets[i] | sets[j] | sets
            is_right = (unions == wanted[0]) | (unions == wanted[1])
            if is_right.any():
                best = min(best, n_more + lengths[is_right].min() + 2)
    return int(best)


def conjunctions(records):
    """The trains that have a car of which some conditions hold, as bits: the fewest conditions."""
    cars = [(i, car) for i, record in enumerate(records) for car in record["cars"]]
    holds = {}  # by the field, and what is asked of it
    for name in _NUMBERS:
        values = np.array([car[name] for _, car in cars])
        known = np.unique(values)
        for low, high in itertools.combinations_with_replacement(known, 2):
            holds[name, (low, high)] = (low <= values) & (values <= high)
    for name in _CATEGORIES:
        values = np.array([str(car[name]) for _, car in cars])
        for value in np.unique(values):
            holds[name, (value, True)], holds[name, (value, False)] = (
                values == value,
                values != value,
            )
    masks = list(holds.values())
    bits = np.array([1 << i for i, _ in cars], np.int64)
    found = {}
    for size in range(1, _LONGEST + 1):
        for chosen in itertools.combinations(masks, size):
            trains_with = int(np.bitwise_or.reduce(bits[np.logical_and.reduce(chosen)], initial=0))
            found.setdefault(trains_with, size)
    return found


if __name__ == "__main__":
    main()

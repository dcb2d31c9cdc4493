"""What symbols cost, and what they make readable: `python benchmarks/symbols.py`.

Networks for records (`records_model`, without statistics) are trained on 80 % of the records until
the validation loss (10 %) no longer falls, and then get symbols by `rules.symbolize`. Both are
read by an `Explainer`. Accuracy, fidelity and numbers of conditions are those of test records
(10 %), means over seeds. The pretrained network for bags of bags of digits (MNIST) gets four
symbols of digits and two of sub-bags. Results go to `benchmarks/results/symbols.json`.

`symbolize` was written while looking at Mutagenicity, tickets and sensors.
"""

import argparse
import os
import time
from functools import partial

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import nested_sets
import numpy as np
from evidence import faithfulness
from records import write
from sklearn.model_selection import train_test_split

from keras_mmil import Explainer, datasets
from keras_mmil.layers import BagLayer
from keras_mmil.records import Schema
from keras_mmil.rules import symbolize
from keras_mmil.training.stopping import EarlyStopping
from keras_mmil.zoo import load, records_model

SETS = {
    "churn": nested_sets.churn,
    "tickets": nested_sets.tickets,
    "sensors": nested_sets.sensors,
    "mutagenesis": lambda _: nested_sets.mutagenesis(),
    "MUTAG": lambda _: nested_sets.molecules("MUTAG"),
    "Mutagenicity": lambda _: nested_sets.molecules("Mutagenicity"),
    "NCI1": lambda _: nested_sets.molecules("NCI1"),
    "recipes": lambda _: nested_sets.recipes(),
}
MNIST = "MNIST"
_REFITS = 20
_MANY = 1000  # records, from which on batches are larger


def main():
    """Train, read, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*SETS, MNIST]
    parser.add_argument("--sets", nargs="+", choices=names, default=names)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--symbols", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--evidence", action="store_true", help="stability, deletion and others")
    options = parser.parse_args()
    records = []
    for name in options.sets:
        seeds = range(1 if name == MNIST else options.seeds)
        found = [dict(measured(name, seed, options.symbols, options.evidence)) for seed in seeds]
        for model in found[0]:
            for metric in found[0][model]:
                values = [each[model][metric] for each in found]
                records.append(
                    {
                        "experiment": f"symbols {name}",
                        "model": model,
                        "metric": metric,
                        "mean": round(float(np.mean(values)), 4),
                        "std": round(float(np.std(values)), 4),
                        "runs": len(values),
                    }
                )
    if not options.dry:
        write("symbols", records, ("experiment", "model", "metric"))


def measured(name, seed, numbers, with_evidence):
    """Figures of the network and of those with so many symbols, and of the rules of all."""
    keras.utils.set_random_seed(seed)
    makers, parts = digits() if name == MNIST else of_records(*SETS[name](seed), seed, numbers)
    for kind, make in makers.items():
        started = time.perf_counter()
        model = make()
        seconds = time.perf_counter() - started
        found = figures(model, *parts, with_evidence) | {"fit_seconds": seconds}
        shown = ", ".join(f"{metric} {value:.3f}" for metric, value in found.items())
        print(f"{name}, seed {seed}, {kind}: {shown}", flush=True)
        yield kind, found


def of_records(records, target, seed, numbers):
    """Functions that make networks for records, by their names; and training, valid, test data."""
    labels = [each[target] for each in records]
    train, rest = train_test_split(records, test_size=0.2, random_state=seed, stratify=labels)
    valid, test = train_test_split(
        rest, test_size=0.5, random_state=seed, stratify=[each[target] for each in rest]
    )
    schema = Schema.infer(train)
    parts = [schema.read(part, target=target) for part in (train, valid, test)]
    fitting = {"validation_data": parts[1], "batch_size": 64 if len(labels) > _MANY else 32}
    model = records_model(schema, target, seed=seed)

    def fit():
        stop = EarlyStopping(12, 0.003)
        model.fit(*parts[0], epochs=80, callbacks=[stop], verbose=0, **fitting)
        return model

    def with_symbols(k):
        return symbolize(model, *parts[0], k=k, random_state=seed, verbose=0, **fitting)

    return {"network": fit} | {f"{k} symbols": partial(with_symbols, k) for k in numbers}, parts


def digits():
    """The same for bags of bags of digits."""
    parts = datasets.mnist.load_mmil()
    model = load("mnist").model
    of_digits, of_sub_bags = (x.name for x in model.layers if isinstance(x, BagLayer))
    k = {of_digits: 4, of_sub_bags: 2}
    fitting = {"validation_data": parts[1], "batch_size": 20, "verbose": 0}
    return {
        "network": lambda: model,
        "4 and 2 symbols": lambda: symbolize(model, *parts[0], k=k, **fitting),
    }, parts


def figures(model, train, valid, test, with_evidence):
    """Of a network and its rules, on test records."""
    started = time.perf_counter()
    explainer = Explainer(verbose=0).fit(model, train[0], valid[0])
    seconds = time.perf_counter() - started
    rules = explainer.evaluate(*test)
    found = {
        "accuracy": model.evaluate(*test, verbose=0)[1],
        "rules_accuracy": rules["accuracy"],
        "majority": rules["accuracy_majority"],
        "fidelity": rules["fidelity"],
        "conditions": sum(level.rules.n_conditions for level in explainer.levels_),
        "rules_seconds": seconds,
    }
    if with_evidence:
        found["stability: Dice"] = explainer.stability(n=_REFITS).dice
        found |= faithfulness(explainer, test[0])
    return found


if __name__ == "__main__":
    main()

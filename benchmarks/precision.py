"""MNIST bags in half precision, and with several steps in one execution.

`python benchmarks/precision.py` trains the paper's network on bags of bags of images, with the same
data, order and initial weights under each setting, for several seeds. Results go to
`benchmarks/results/precision.json`.
"""

import argparse
import json
import os
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from records import write

from keras_mmil import datasets, zoo
from keras_mmil.batches import feed

# The policy, and how many steps are in one execution.
SETTINGS = {
    "float32": ("float32", 1),
    "mixed_bfloat16": ("mixed_bfloat16", 1),
    "mixed_float16": ("mixed_float16", 1),
    "8 steps an execution": ("float32", 8),
}
BATCH = 20


def main():
    """Measure what the command line says, print a line each, and record it."""
    options = parse(sys.argv[1:])
    found = {setting: [] for setting in options.settings}
    for seed in range(options.seeds):
        for setting in options.settings:
            found[setting].append(trained(*SETTINGS[setting], seed, options))
            print(setting, seed, json.dumps(found[setting][-1]), flush=True)
    records = [record(setting, runs, options) for setting, runs in found.items()]
    for each in records:
        print(json.dumps(each))
    if not options.dry:
        write("precision", records, key=("variant", "metric"))


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", choices=SETTINGS, nargs="+", default=[*SETTINGS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--bags", type=int, default=1_500, help="top-bags to train on")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    return parser.parse_args(arguments)


def trained(policy, n_steps, seed, options):
    """The accuracy on test data after a training, its last loss, and seconds of an epoch."""
    (x, y), _, test = datasets.mnist.load_mmil(options.bags, n_test=2_000, seed=seed)
    keras.utils.set_random_seed(seed)
    keras.config.set_dtype_policy(policy)
    model = zoo.mnist_mmil()
    arguments = model.get_compile_config()
    model.compile_from_config(arguments | {"steps_per_execution": n_steps})
    started = time.perf_counter()
    fed = feed(x, y, batch_size=BATCH, seed=seed)
    losses = model.fit(**fed, epochs=options.epochs, verbose=0).history["loss"]
    seconds = time.perf_counter() - started
    assert np.isfinite(losses).all()
    accuracy = model.evaluate(*test, verbose=0, return_dict=True)["accuracy"]
    return {"accuracy": accuracy, "loss": losses[-1], "epoch_seconds": seconds / options.epochs}


def record(setting, runs, options):
    """The record of a setting."""
    accuracies = [run["accuracy"] for run in runs]
    return {
        "experiment": "precision",
        "model": "mmil",
        "variant": setting,
        "metric": "test_accuracy",
        "mean": round(statistics.mean(accuracies), 4),
        "std": round(statistics.stdev(accuracies), 4) if len(runs) > 1 else 0.0,
        "runs": len(runs),
        "loss": round(statistics.mean(run["loss"] for run in runs), 4),
        "epoch_seconds": round(statistics.median(run["epoch_seconds"] for run in runs), 2),
        "epochs": options.epochs,
        "top_bags": options.bags,
    }


if __name__ == "__main__":
    main()

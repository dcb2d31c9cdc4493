"""Accuracy of averaged networks for point clouds: `python benchmarks/averaged_clouds.py RUN …`.

Each RUN is the folder of a `keras-mmil run modelnet` with rotations of 100 points. What a network
for single rotations says about an object is the mean of its log-probabilities over the object's
rotations; a network for bags of rotations sees all of them at once. The last line is about the mean
of the probabilities of all networks. Nothing is chosen here.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import scipy.special
from records import write

from keras_mmil import zoo
from keras_mmil._support.archives import load_network
from keras_mmil.cli.run_folder import read_settings

BAGS = "modelnet-P100"  # whose test top-bags are the objects
# Experiments whose networks have seen rotations of 100 points.
OF_ROTATIONS = {
    BAGS,
    "modelnet-P100-resampled",
    "modelnet-P100-resampled-wide",
    "modelnet-mil-P100-rotations",
    "modelnet-mil-P100-rotations-resampled",
}


def main():
    """Evaluate the networks that the command line names, and record them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, help="folders with model.keras")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    records = measure(options.runs)
    if not options.dry:
        write("modelnet", records, ("model", "variant", "metric"))


def measure(runs):
    """Records of each network for single rotations, and of the mean of all networks."""
    settings = [read_settings(run) for run in runs]
    if len({(each["source"], each["limit"]) for each in settings}) != 1:
        raise SystemExit("Expected runs on the same data. Received: runs that differ in it")
    experiments = [zoo.registry[each["experiment"]] for each in settings]
    for run, experiment in zip(runs, experiments, strict=True):
        if experiment.key not in OF_ROTATIONS:
            raise SystemExit(f"Expected rotations of 100 points. Received: {run}, {experiment.key}")
    first = settings[0]
    test = zoo.registry[BAGS].load(seed=0, source=first["source"], limit=first["limit"]).test
    probabilities, records = [], []
    for run, experiment in zip(runs, experiments, strict=True):
        probabilities.append(of_objects(load_network(run / "model.keras"), test.x))
        if experiment.model == "mil":
            variant = f"{experiment.split}, averaged over rotations"
            records.append(record("mil", variant, probabilities[-1], test.y, experiment))
    if len(runs) > 1:
        keys = ", ".join(each.key.removeprefix("modelnet-") for each in experiments)
        mean = np.mean(probabilities, axis=0)
        records.append(record("ensemble", keys, mean, test.y, zoo.registry[BAGS]))
    return records


def of_objects(model, bags):
    """Probabilities of the classes of objects, [objects, classes], by a network of either kind."""
    if len(model.input_shape) == len(bags.shape):
        return model.predict(bags, verbose=0)
    found = np.log(np.maximum(model.predict(bags.values, verbose=0), 1e-12))
    starts = bags.row_splits.numpy()[:-1]
    means = np.add.reduceat(found, starts) / bags.row_lengths().numpy()[:, None]
    return scipy.special.softmax(means, axis=1)


def record(model, variant, probabilities, labels, experiment):
    """The record of probabilities [objects, classes], printed too."""
    accuracy = float((probabilities.argmax(axis=1) == labels).mean())
    print(f"{model:9} {variant:50} {accuracy:.2%}", flush=True)
    return {
        "experiment": "modelnet",
        "model": model,
        "variant": variant,
        "metric": "test_accuracy",
        "mean": round(accuracy, 6),
        "runs": 1,
        "chosen_on": experiment.chosen_on,
    }


if __name__ == "__main__":
    main()

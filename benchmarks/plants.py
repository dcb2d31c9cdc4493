"""How other models rank overlooked species: `python benchmarks/plants.py`.

Same floras and seeds as `keras-mmil run plants --split P5` and so on. Results go to
`benchmarks/results/plants.json`, beside ours. Printed besides, also for the networks in the
folders of runs: how well each quarter of the regions is ranked, that of fewest species first.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from baselines.plants import MODELS
from records import write

from keras_mmil import zoo
from keras_mmil.cli.results import summary
from keras_mmil.cli.run_folder import read_settings
from keras_mmil.datasets import plants
from keras_mmil.metrics import held_out_labels, held_out_precision


def main():
    """Rank what the command line says, print a line each, and record them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--percents", nargs="+", type=int, default=[5, 10, 15, 20, 25, 30])
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument(
        "--runs", nargs="+", type=Path, default=[], help="print how their networks rank, too"
    )
    options = parser.parse_args()
    whole = plants.load()
    for percent in options.percents:
        for model in options.models:
            record = measure(model, whole, percent, options.seeds)
            if not options.dry:
                write("plants", [record], ("model", "variant", "metric"))
    for run in options.runs:
        _, _, labels, scores = read_run(run)
        figure, quarters = rank(labels, scores)
        print(f"{run.name:25} {figure:.4f}           {quarters}", flush=True)


def measure(model, whole, percent, seeds):
    """The record of one model and share of overlooked presences."""
    values, quarters = {}, []
    for seed in range(seeds):
        seen = whole.incomplete(percent, seed)
        scores = MODELS[model](seen, seed)
        labels = held_out_labels(seen.presence, whole.presence)
        values[seed], by_richness = rank(labels, scores)
        quarters.append(by_richness)
    found = summary(values) | {"quarters": np.mean(quarters, axis=0).round(4).tolist()}
    line = f"{found['mean']:.4f} ± {found['std']:.4f}  {found['quarters']}"
    print(f"P{percent:<3} {model:20} {line}", flush=True)
    return {
        "experiment": "plants",
        "model": model,
        "variant": f"P{percent}",
        "metric": "map",
        **found,
        "paper": None,
    }


def read_run(folder):
    """What the network in the folder of a run sees.

    Returns:
        settings, flora, labels, scores: those of the run; the flora as the network knows it; 0
        (absent), 1 (seen) and 2 (overlooked), and probabilities, both [regions, species].
    """
    settings = read_settings(folder)
    experiment = zoo.registry[settings["experiment"]]
    data = experiment.load(seed=settings["seed"], source=settings["source"])
    model = keras.models.load_model(folder / "model.keras")
    x, labels, _ = data.test
    scores = model.predict(x, batch_size=64, verbose=0)
    return settings, data.build_arguments["dataset"], labels, scores


def rank(labels, scores):
    """The mAP of scores, and that of the quarters of the regions, of fewest species seen first."""
    each = held_out_precision(labels, scores)
    order = np.argsort((labels == 1).sum(axis=1), kind="stable")
    quarters = [round(float(np.nanmean(part)), 4) for part in np.array_split(each[order], 4)]
    return round(float(np.nanmean(each)), 6), quarters


if __name__ == "__main__":
    main()

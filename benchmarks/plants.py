"""How other models rank overlooked species: `python benchmarks/plants.py`.

Same floras and seeds as `keras-mmil run plants --split P5` and so on. Results go to
`benchmarks/results/plants.json`, beside ours.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from baselines.plants import MODELS
from records import write

from keras_mmil.cli.results import summary
from keras_mmil.datasets import plants


def main():
    """Rank what the command line says, print a line each, and record them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--percents", nargs="+", type=int, default=[5, 10, 15, 20, 25, 30])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    whole = plants.load()
    for percent in options.percents:
        for model in options.models:
            record = measure(model, whole, percent, options.seeds)
            if not options.dry:
                write("plants", [record], ("model", "variant", "metric"))


def measure(model, whole, percent, seeds):
    """The record of one model and share of overlooked presences."""
    values = {}
    for seed in range(seeds):
        seen = whole.incomplete(percent, seed)
        scores = MODELS[model](seen, seed)
        each = plants.mean_average_precision(scores, seen.presence, whole.presence)
        values[str(seed)] = round(float(np.nanmean(each)), 6)
    found = summary(values)
    print(f"P{percent:<3} {model:20} {found['mean']:.4f} ± {found['std']:.4f}", flush=True)
    return {
        "experiment": "plants",
        "model": model,
        "variant": f"P{percent}",
        "metric": "map",
        **found,
        "paper": None,
    }


if __name__ == "__main__":
    main()

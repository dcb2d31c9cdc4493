"""Accuracy of other models on citation networks: `python benchmarks/citations.py`.

Same splits, seeds and inductive protocol as `keras-mmil run cora --split ...`. Results go to
`benchmarks/results/<network>.json`, beside ours.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from baselines import graph_networks, words
from records import write

from keras_mmil.cli.results import summary
from keras_mmil.datasets import citations

FIT = {
    **dict.fromkeys(words.MODELS, words.fit_words),
    **dict.fromkeys(words.BAG_MODELS, words.fit_bags),
    **dict.fromkeys(graph_networks.MODELS, graph_networks.fit_graph_network),
}
# What the settings were chosen on.
CHOSEN_ON = {
    **dict.fromkeys(words.MODELS, "nothing: scikit-learn's"),
    **dict.fromkeys(words.BAG_MODELS, "validation papers of each run"),
    **dict.fromkeys(graph_networks.MODELS, "nothing: those of its paper"),
}
# The paper's figures: random splits of Cora and CiteSeer, and the transductive ones.
PAPER = {
    "naive-bayes": {("cora", "random"): 0.738, ("citeseer", "random"): 0.716},
    "logistic-regression": {("cora", "random"): 0.765, ("citeseer", "random"): 0.711},
    "gcn": {
        ("cora", "random"): 0.837,
        ("citeseer", "random"): 0.736,
        ("cora", "transductive"): 0.815,
        ("citeseer", "transductive"): 0.703,
    },
    "graphsage-mean": {("cora", "random"): 0.834, ("citeseer", "random"): 0.736},
    "graphsage-max": {("cora", "random"): 0.834, ("citeseer", "random"): 0.733},
    "gat": {
        ("cora", "random"): 0.820,
        ("citeseer", "random"): 0.687,
        ("cora", "transductive"): 0.830,
        ("citeseer", "transductive"): 0.725,
    },
}


def main():
    """Train and test what the command line says, print a line each, and record them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--networks", nargs="+", choices=citations.NAMES, default=["cora", "citeseer"]
    )
    parser.add_argument("--splits", nargs="+", default=["random", "transductive", "scarce"])
    parser.add_argument("--models", nargs="+", choices=FIT, default=list(FIT))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    for name in options.networks:
        network = citations.load(name)
        for split in options.splits:
            for model in options.models:
                record = measure(name, network, split, model, options.seeds)
                if not options.dry:
                    write(name, [record], ("model", "variant", "metric"))


def measure(name, network, split, model, seeds):
    """The record of one model."""
    values = {
        seed: FIT[model](model, network, network.split(split, seed), split, seed)
        for seed in range(seeds)
    }
    found = summary(values)
    print(f"{name:9} {split:13} {model:20} {found['mean']:.2%} ± {found['std']:.2%}", flush=True)
    return {
        "experiment": name,
        "model": model,
        "variant": split,
        "metric": "test_accuracy",
        **found,
        "chosen_on": CHOSEN_ON[model],
        "paper": PAPER.get(model, {}).get((name, split)),
    }


if __name__ == "__main__":
    main()

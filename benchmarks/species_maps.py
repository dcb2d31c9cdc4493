"""Maps of one species, true and as models see it: `python benchmarks/species_maps.py --run FOLDER`.

FOLDER is that of `keras-mmil run plants --split P5`; the other models see the same flora. Every
model has the threshold at which its F1 is highest, over all regions. Prints the figures, and draws
the maps, `benchmarks/plots/species.png`.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from baselines.plants import factorisation, gaussian_process, naive_hamming
from plants import read_run
from sklearn.metrics import accuracy_score, precision_recall_curve

from keras_mmil import zoo
from keras_mmil.rules import plot_maps

PICTURE = Path(__file__).parent / "plots" / "species.png"


def main():
    """Draw what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="folder with model.keras")
    parser.add_argument("--species", default="Vicia sativa")
    parser.add_argument("--out", type=Path, default=PICTURE, help="the picture")
    options = parser.parse_args()
    draw(options.run, options.species, options.out)


def draw(run, name, out):
    """Draw maps of the species of a name as the network of a run and other models see it."""
    settings, seen, labels, of_network = read_run(run)
    if name not in seen.species:
        raise SystemExit(f"Expected a species of the flora. Received: {name!r}")
    species, seed = seen.species.index(name), settings["seed"]
    scores = {
        zoo.registry[settings["experiment"]].model.upper(): of_network[:, species],
        "naive Hamming": naive_hamming(seen, seed)[:, species],
        "factorisation": factorisation(seen, seed)[:, species],
        # The only one for which all species would take minutes.
        "Gaussian process": gaussian_process(seen, seed, [species])[:, 0],
    }
    truth = labels[:, species] > 0
    drawn = {f"{name}: {truth.sum():,} of {len(truth):,} regions": truth}
    for model, score in scores.items():
        threshold, f1 = best_threshold(score, truth)
        predicted = score >= threshold
        accuracy = accuracy_score(truth, predicted)
        title = f"{model}, above {threshold:.2f}: F1 {f1:.1%}"
        print(f"{title}, right {accuracy:.1%}", flush=True)
        drawn[title] = predicted
    plot_maps(seen.coordinates, drawn, out, columns=3)


def best_threshold(scores, truth):
    """The lowest score that counts as present where F1 is highest, and that F1."""
    precision, recall, thresholds = precision_recall_curve(truth, scores)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    best = int(f1[:-1].argmax())
    return float(thresholds[best]), float(f1[best])


if __name__ == "__main__":
    main()

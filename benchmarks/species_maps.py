"""Maps of one species, true and as models see it: `python benchmarks/species_maps.py --run FOLDER`.

FOLDER is that of `keras-mmil run plants --split P5`. Every model has the threshold at which its F1
is highest, over all regions. Writes `benchmarks/plots/species.png`, and prints the figures.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from baselines.plants import factorisation, gaussian_process, naive_hamming
from sklearn.metrics import accuracy_score, precision_recall_curve

from keras_mmil.datasets import plants
from keras_mmil.interpretation import plot_maps

PICTURE = Path(__file__).parent / "plots" / "species.png"


def main():
    """Draw what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="folder with model.keras")
    parser.add_argument("--species", default="Vicia sativa")
    parser.add_argument("--percent", type=int, default=5, help="of the presences, overlooked")
    parser.add_argument("--seed", type=int, default=0, help="that of the run")
    options = parser.parse_args()
    whole = plants.load()
    seen = whole.incomplete(options.percent, options.seed)
    species = whole.species.index(options.species)
    model = keras.models.load_model(options.run / "model.keras")
    scores = {
        "MMIL": model.predict(seen.similar_regions(cache=True), batch_size=64, verbose=0),
        "naive Hamming": naive_hamming(seen, options.seed),
        "factorisation": factorisation(seen, options.seed),
    }
    scores = {name: of_all[:, species] for name, of_all in scores.items()}
    # The only one for which all species would take minutes.
    scores["Gaussian process"] = gaussian_process(seen, options.seed, [species])[:, 0]
    truth = whole.presence[:, species]
    drawn = {f"{options.species}: {truth.sum():,} of {len(truth):,} regions": truth}
    for name, score in scores.items():
        threshold, f1 = best_threshold(score, truth)
        predicted = score >= threshold
        accuracy = accuracy_score(truth, predicted)
        title = f"{name}, above {threshold:.2f}: F1 {f1:.1%}, right {accuracy:.1%}"
        print(title, flush=True)
        drawn[title] = predicted
    plot_maps(whole.coordinates, drawn, PICTURE, columns=3)


def best_threshold(scores, truth):
    """The lowest score that counts as present where F1 is highest, and that F1."""
    precision, recall, thresholds = precision_recall_curve(truth, scores)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    best = int(f1[:-1].argmax())
    return float(thresholds[best]), float(f1[best])


if __name__ == "__main__":
    main()

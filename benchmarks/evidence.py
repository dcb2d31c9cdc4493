"""Evidence about rules: coverage of intervals, stability, tolerance, deletion, counterfactuals.

`python benchmarks/evidence.py coverage` draws 1,000 test sets for rules of known fidelity.
`python benchmarks/evidence.py mnist MODEL...` and `mutagenicity MODEL` read trained networks, of
which the latter was trained on the first seven tenths of the shuffled molecules. Results go to
`benchmarks/results/evidence.json`.
"""

import argparse
import time

import keras
import numpy as np
import tensorflow as tf
from records import write

from keras_mmil import Explainer, datasets, ragged
from keras_mmil.interpretation.evidence.interval import interval
from keras_mmil.records import Schema

_DRAWS = 1000
_COUNTERFACTUALS = 100  # top-bags
_DELETIONS = 1000  # top-bags


def main():
    """Measure, print, and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("coverage", "mnist", "mutagenicity"))
    parser.add_argument("models", nargs="*", help="trained networks, .keras")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    if options.what == "coverage":
        found = coverage()
    else:
        load = {"mnist": mnist, "mutagenicity": mutagenicity}[options.what]
        found = [measured(keras.models.load_model(path), *load()) for path in options.models]
        found = [table(options.what, name, [f[name] for f in found]) for name in found[0]]
    for each in found:
        print(each)
    if not options.dry:
        write("evidence", found, key=("experiment", "model", "metric"))


def coverage():
    """How often the interval of a share contains the true one, of random test sets."""
    rng = np.random.default_rng(0)
    found = []
    for share in (0.5, 0.9, 0.98):
        for n in (50, 400):
            counts = rng.binomial(n, share, _DRAWS)
            ends = {k: interval(int(k), n) for k in np.unique(counts)}
            inside = [ends[k].low <= share <= ends[k].high for k in counts]
            mean, model = float(np.mean(inside)), f"share {share}, {n} top-bags"
            found.append(entry("coverage", model, "coverage", mean, 0.0, _DRAWS))
    return found


def mnist():
    """The data of the MNIST experiment."""
    parts = datasets.mnist.load_mmil()
    return *(x for x, _ in parts), parts[-1][1], {}


def mutagenicity():
    """Molecules: seven tenths, one tenth, two tenths."""
    records = datasets.molecules.load("Mutagenicity")
    target = datasets.molecules.TARGET
    x, y = Schema.infer(records).read(records, target=target)
    n = len(y)
    parts = np.split(np.random.default_rng(0).permutation(n), [int(0.7 * n), int(0.8 * n)])
    return *(ragged.take(x, part) for part in parts), y[parts[-1]], {"max_clusters": 8}


def measured(model, x, x_valid, x_test, y_test, arguments):
    """Figures of one network, by name."""
    found = {}
    for tolerance in (0.0, "one_standard_error"):
        start = time.perf_counter()
        fit = Explainer(tolerance=tolerance, verbose=0, **arguments).fit(model, x, x_valid)
        seconds = time.perf_counter() - start
        certificate = fit.certify(x_test, y_test)
        name = "one standard error" if tolerance else "highest fidelity"
        found |= {
            f"{name}: fidelity": certificate.fidelity.estimate,
            f"{name}: fidelity, low": certificate.fidelity.low,
            f"{name}: fidelity, high": certificate.fidelity.high,
            f"{name}: rule accuracy": certificate.accuracy.estimate,
            f"{name}: clusters": sum(fit.n_clusters_),
            f"{name}: instance clusters": fit.n_clusters_[0],
            f"{name}: rules": sum(level.rules.n_needed for level in fit.levels_),
        }
        print(fit.n_clusters_, certificate, sep="\n", flush=True)
        if not tolerance:
            default, fit_seconds = fit, seconds
    start = time.perf_counter()
    stability = default.stability(n=20)
    found["stability: ratio of time to one fit"] = (time.perf_counter() - start) / fit_seconds
    print(stability, flush=True)
    found |= {"stability: Dice": stability.dice, "stability: agreement": stability.agreement}
    some = ragged.take(x_test, slice(_DELETIONS))
    for innermost in (False, True):
        test = default.deletion(some, innermost)
        found[f"deletion{': innermost' if innermost else ''}"] = test.share
        print(test, flush=True)
    changes = []
    for i in range(_COUNTERFACTUALS):
        one, donors = (ragged.take(x_test, slice(*ends)) for ends in ((i, i + 1), (200, 220)))
        changes.append(default.counterfactual(one, donors))
    print(changes[0], flush=True)
    sizes = [change.size for change in changes if change.found]
    found |= {
        "counterfactuals: found": float(np.mean([change.found for change in changes])),
        "counterfactuals: exact": float(np.mean([change.exact for change in changes])),
        "counterfactuals: members": float(np.mean(sizes)),
        "counterfactuals: the network agrees": float(
            np.mean([change.network_agrees for change in changes if change.found])
        ),
    }
    return found


def table(experiment, name, values):
    """One figure of several networks as a record."""
    return entry(experiment, "rules", name, np.mean(values), np.std(values), len(values))


def entry(experiment, model, metric, mean, std, runs):
    """A record."""
    return {
        "experiment": experiment,
        "model": model,
        "variant": "",
        "metric": metric,
        "mean": round(float(mean), 4),
        "std": round(float(std), 4),
        "runs": runs,
    }


if __name__ == "__main__":
    tf.config.threading.set_intra_op_parallelism_threads(2)
    main()

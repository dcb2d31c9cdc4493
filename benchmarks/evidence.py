"""Evidence about rules: coverage of intervals, stability, tolerance, deletion, counterfactuals.

`python benchmarks/evidence.py coverage` draws 1,000 test sets for rules of known fidelity.
`python benchmarks/evidence.py runs FOLDER...` reads finished runs of one experiment, or on the same
records, which `keras-mmil run` or `train` has written, and averages over their networks. Results go
to `benchmarks/results/evidence.json`.
"""

import argparse
import time

import numpy as np
import tensorflow as tf
from records import write

from keras_mmil import Explainer, ragged
from keras_mmil.cli.finished_run import any_run
from keras_mmil.rules.evidence.certificate import interval

_DRAWS = 1000
_COUNTERFACTUALS = 100  # top-bags
_DELETIONS = 1000  # top-bags
_MAX_CLUSTERS = 8  # to search among, where a run was given the numbers


def main():
    """Measure, print, and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("coverage", "runs"))
    parser.add_argument("folders", nargs="*", help="of finished runs of one experiment")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    if (options.what == "runs") != bool(options.folders):
        parser.error("expected folders for `runs`, and none for `coverage`")
    found = coverage() if options.what == "coverage" else of_runs(options.folders)
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


def of_runs(folders):
    """Figures of finished runs of one experiment, as records."""
    runs = [any_run(folder) for folder in folders]
    (experiment,) = {run.key for run in runs}
    found = [measured(run) for run in runs]
    return [
        entry(experiment, "rules", name, np.mean(values), np.std(values), len(values))
        for name, values in ((name, [figures[name] for figures in found]) for name in found[0])
    ]


def measured(run):
    """Figures of one network, by name."""
    x, x_valid = run.for_rules()
    x_test, y_test, _ = run.for_testing_rules()
    arguments = run.explainer.get_params() | {"verbose": 0}
    if arguments["n_clusters"] is not None:
        arguments |= {"n_clusters": None, "max_clusters": _MAX_CLUSTERS}
    found = {}
    for tolerance in (0.0, "one_standard_error"):
        start = time.perf_counter()
        explainer = Explainer(**arguments | {"tolerance": tolerance})
        fit = explainer.fit(run.model, x, x_valid)
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
    return found | faithfulness(default, x_test)


def faithfulness(explainer, x):
    """Whether what rules say of new top-bags holds of the network, by name."""
    found = {}
    some = ragged.take(x, slice(_DELETIONS))
    for innermost in (False, True):
        test = explainer.deletion(some, innermost)
        found[f"deletion{': innermost' if innermost else ''}"] = test.share
        print(test, flush=True)
    changes = []
    for i in range(_COUNTERFACTUALS):
        one, donors = (ragged.take(x, slice(*ends)) for ends in ((i, i + 1), (200, 220)))
        changes.append(explainer.counterfactual(one, donors))
    print(changes[0], flush=True)
    sizes = [change.size for change in changes if change.found]
    return found | {
        "counterfactuals: found": float(np.mean([change.found for change in changes])),
        "counterfactuals: exact": float(np.mean([change.exact for change in changes])),
        "counterfactuals: members": float(np.mean(sizes)),
        "counterfactuals: the network agrees": float(
            np.mean([change.network_agrees for change in changes if change.found])
        ),
    }


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

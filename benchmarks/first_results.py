"""What a newcomer waits for: `python benchmarks/first_results.py --before COMMIT`.

Fits, rules, a report, the command on own data, the demo and an explanation, each in a fresh
process: seconds and processor seconds, now and at an earlier commit, in turn. Beside the fits
stand those of one network, with `effort="low"`, and a random forest on aggregates, with the making
of these. Results go to `benchmarks/results/first_results.json`.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from subprocess import DEVNULL

import nested_sets
import numpy as np
from competitors.aggregates import LEARNERS, Aggregates
from records import write

HERE = Path(__file__).resolve().parents[1]
_SCRIPT = Path(__file__).resolve()


def churn():
    """1,500 customers of the README, and 1,500 others for a test."""
    (train, target), (test, _) = nested_sets.churn(0), nested_sets.churn(1)
    return train, test, target


def mutag():
    """Nine tenths of the molecules of MUTAG, and the others."""
    return apart(*nested_sets.molecules("MUTAG"), 18)


def musk1():
    """The 92 bags of Musk1, whose members have 166 numbers: 82, and 10 others."""
    return apart(*nested_sets.instances("musk1"), 10)


def mutagenicity():
    """1,500 molecules, and 400 others."""
    return apart(*few(*nested_sets.molecules("Mutagenicity"), 1900), 400)


def apart(records, target, n):
    """All but n random records, and these."""
    records = shuffled(records)
    return records[n:], records[:n], target


def shuffled(records):
    """The records in a random order."""
    return [records[i] for i in np.random.default_rng(0).permutation(len(records))]


DATA = {"churn": churn, "mutag": mutag, "musk1": musk1, "mutagenicity": mutagenicity}
WITH_RULES = "churn", "mutagenicity"


def joined(train, test, target):
    """All records."""
    return train + test, target


SEEDED = {
    "churn": nested_sets.churn,
    "mutag": lambda: joined(*mutag()),
    "mutagenesis": nested_sets.mutagenesis,
    "mutagenicity": lambda: few(*nested_sets.molecules("Mutagenicity")),
    "recipes": lambda: few(*nested_sets.recipes(), 2500),
}


def few(records, target, n=1500):
    """So many random records."""
    return shuffled(records)[:n], target


# Measured in a process of their own -------------------------------------------------------------


def fit(name, **arguments):
    """Fit the default classifier; of some data also learn rules, and write a report."""
    import keras

    from keras_mmil import NestedClassifier

    class FirstEpoch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 0:
                found["first_epoch_seconds"] = time.perf_counter() - started

    train, test, target = DATA[name]()
    classifier = NestedClassifier(random_state=0, **arguments)
    found, started = {}, time.perf_counter()
    found["fit"] = timed(lambda: classifier.fit(train, target, callbacks=[FirstEpoch()]))
    found["accuracy"] = classifier.score(test, target)
    found["epochs"] = len(classifier.history_["loss"])
    found["val_loss"] = min(classifier.history_["val_loss"])
    if name in WITH_RULES:
        found["rules"] = timed(lambda: classifier.explainer_)
        found["fidelity"] = classifier.explainer_.fidelity_
        found["report"] = timed(lambda: classifier.report(test[:500], target))
    return found


def rules(n=3000):
    """Learn rules of the pretrained network for reviews, from half of n reviews."""
    from keras_mmil import Explainer, zoo
    from keras_mmil.datasets import imdb

    labelled = (each for each in imdb.read_archive(imdb.find_archive(), n) if each[1] != "unsup")
    texts = defaultdict(list)
    for part, _, _, text in labelled:
        texts[part].append(text.decode())
    train, test = (np.array(texts[part]) for part in ("train", "test"))
    model, explainer = zoo.load("imdb").model, Explainer(random_state=0, verbose=0)
    found = {"rules": timed(lambda: explainer.fit(model, train))}
    return found | {"fidelity": explainer.fidelity_, "test_fidelity": explainer.fidelity(test)}


def seeds(name, n):
    """Fits with several seeds, each on a random, stratified three quarters of the records."""
    from sklearn.model_selection import train_test_split

    from keras_mmil import NestedClassifier

    records, target = SEEDED[name]()
    labels = [each[target] for each in records]
    found = defaultdict(list)
    for seed in range(n):
        train, test = train_test_split(records, random_state=seed, stratify=labels)
        classifier = NestedClassifier(random_state=seed, verbose=0).fit(train, target)
        found["val_loss"].append(min(classifier.history_["val_loss"]))
        found["accuracy"].append(classifier.score(test, target))
        found["epochs"].append(len(classifier.history_["loss"]))
        print(name, seed, *(each[-1] for each in found.values()), file=sys.stderr, flush=True)
    return {key: [float(np.mean(x)), float(np.std(x))] for key, x in found.items()}


def forest(name):
    """A random forest on aggregates of all fields."""
    train, test, target = DATA[name]()
    flat, model = Aggregates(target), LEARNERS["random forest"](0)

    def learn():
        model.fit(flat.fit(train).transform(train), [each[target] for each in train])

    found = {"fit": timed(learn)}
    return found | {"accuracy": model.score(flat.transform(test), [each[target] for each in test])}


def timed(call):
    """Seconds and processor seconds of a call."""
    wall, processor = time.perf_counter(), time.process_time()
    call()
    return {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - processor}


# Whole commands ---------------------------------------------------------------------------------

EXPLAIN = "from keras_mmil import zoo; print(zoo.load('imdb').explain(['A charming comedy.'])[0])"


def commands(folder):
    """The commands to measure, by name; `folder` is a new one."""
    main = [sys.executable, "-m", "keras_mmil_cli"]
    data = Path(folder) / "customers.jsonl"
    train, _, target = churn()
    data.write_text("".join(json.dumps(each, default=str) + "\n" for each in train[:1200]))
    return {
        "own data": [*main, "train", str(data), "--target", target, "--out", f"{folder}/run"],
        "demo": [*main, "demo", "--out", f"{folder}/demo"],
        "explain imdb": [sys.executable, "-c", EXPLAIN],
        "import": [sys.executable, "-c", "import keras_mmil"],
    }


def run(command, tree):
    """Seconds and processor seconds of a process that uses the checkout in a folder, and output."""
    environment = os.environ | {"PYTHONPATH": str(tree), "TF_CPP_MIN_LOG_LEVEL": "3"}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    result = subprocess.run(  # `python -m` prefers the folder that it runs in
        command, cwd=tree, env=environment, check=True, stdout=subprocess.PIPE, stderr=DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.perf_counter() - started, "cpu": cpu}, result.stdout.decode()


def main():
    """Measure, print, and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", metavar="COMMIT", help="to compare with")
    parser.add_argument("--only", nargs="+", help="names of what to measure")
    parser.add_argument("--seeds", type=int, metavar="N", help="instead: losses of N seeds")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args()
    if options.part:
        kind, *arguments = options.part.split()
        if kind == "seeds":
            print(json.dumps(seeds(arguments[0], int(arguments[1]))))
        else:
            low = partial(fit, effort="low")
            kinds = {"fit": fit, "low": low, "forest": forest, "imdb": rules}
            print(json.dumps(kinds[kind](*arguments)))
        return
    with tempfile.TemporaryDirectory() as folder:
        trees = {"now": HERE}
        if options.before is not None:
            trees["before"] = Path(folder) / "before"
            git("worktree", "add", "--detach", trees["before"], options.before)
        try:
            if options.seeds:
                records = list(measured_seeds(trees, options))
            else:
                fits = measured_fits(trees, options)
                records = [*fits, *measured_commands(trees, options, folder)]
        finally:
            if options.before is not None:
                git("worktree", "remove", "--force", trees["before"])
    if not options.dry:
        write("first_results", records, ("experiment", "model", "metric"))


def git(*arguments):
    """Run git in the checkout."""
    subprocess.run(["git", *map(str, arguments)], cwd=HERE, check=True, capture_output=True)


def measured_fits(trees, options):
    """Records of fits, and of random forests."""
    alone = [f"{kind} {name}" for name in DATA for kind in ("low", "forest")]
    both = [*(f"fit {name}" for name in DATA), "imdb"]
    for part, version in [*itertools.product(both, trees), *itertools.product(alone, ["now"])]:
        if wanted(part, options):
            command = [sys.executable, str(_SCRIPT), "--part", part]
            found = json.loads(run(command, trees[version])[1].splitlines()[-1])
            yield from entries(part, version, found)


def measured_seeds(trees, options):
    """Records of validation losses and accuracies over seeds."""
    for name in SEEDED:
        for version, tree in trees.items():
            if not wanted(name, options):
                continue
            command = [sys.executable, str(_SCRIPT), "--part", f"seeds {name} {options.seeds}"]
            found = json.loads(run(command, tree)[1].splitlines()[-1])
            print(name, version, found, flush=True)
            for metric, (mean, std) in found.items():
                yield {
                    "experiment": f"seeds {name}",
                    "model": version,
                    "metric": metric,
                    "mean": round(mean, 4),
                    "std": round(std, 4),
                    "runs": options.seeds,
                }


def measured_commands(trees, options, folder):
    """Records of whole commands."""
    for version, tree in trees.items():
        own = Path(folder) / f"of-{version}"
        own.mkdir()
        for name, command in commands(own).items():
            if wanted(name, options):
                yield from entries(name, version, {"process": run(command, tree)[0]})


def wanted(name, options):
    """Whether something is to be measured."""
    return options.only is None or any(name.startswith(each) for each in options.only)


def entries(name, version, found):
    """Records of what was found, which are printed."""
    figures = {key: x for key, x in found.items() if not isinstance(x, dict)}
    result = []
    for part, seconds in found.items():
        if isinstance(seconds, dict):
            print(
                f"{name}, {part}, {version}: {seconds['seconds']:.1f} s, {seconds['cpu']:.1f} s "
                f"of processor time {figures}",
                flush=True,
            )
            result.append(
                {
                    "experiment": name,
                    "model": version,
                    "metric": f"{part}_seconds",
                    "mean": round(seconds["seconds"], 2),
                    "processor_seconds": round(seconds["cpu"], 2),
                    **figures,
                }
            )
    return result


if __name__ == "__main__":
    main()

"""Defaults on data that nobody tuned on: `python benchmarks/by_default.py`.

`NestedClassifier()` and flat learners on aggregates, in repeated stratified cross-validation with
the same folds. Each fold is kept in `--folds`, so that a run can be continued. Accuracy, AUC and
processor seconds go to `benchmarks/results/by_default.json`.
"""

import argparse
import json
import os
import time
import warnings
from collections import defaultdict
from functools import partial
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from competitors.aggregates import LEARNERS, Aggregates
from records import write
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold

OURS = "keras-mmil"


def instances(name):
    """Bags of vectors as records."""
    data = np.load(Path(os.environ["KERAS_MMIL_DATA"], "mil", f"{name}.npz"))
    ends = np.cumsum(data["sizes"])
    names = [f"n{i}" for i in range(data["values"].shape[1])]
    bags = zip(ends - data["sizes"], ends, data["labels"], strict=True)
    return [
        {
            "label": str(label),
            "members": [dict(zip(names, x.tolist(), strict=True)) for x in data["values"][a:b]],
        }
        for a, b, label in bags
    ], "label"


def molecules(name):
    """Molecules as bags of atoms with their bonds."""
    from keras_mmil.datasets import molecules

    return molecules.load(name), "label"


def mutagenesis():
    """188 molecules."""
    from keras_mmil.datasets import mutagenesis

    return mutagenesis.load(), "mutagenic"


def recipes():
    """2,500 recipes of 20 cuisines."""
    from keras_mmil.datasets import recipes

    return recipes.load(), "cuisine"


def churn():
    """1,500 customers."""
    from keras_mmil.datasets.synthetic.churn import TARGET, load_churn
    from keras_mmil.records import link

    tables, top, keys = load_churn(1500)
    return link(tables, top, keys).to_pylist(), TARGET


def tickets():
    """1,200 tickets, 5 % of the labels flipped."""
    from keras_mmil.datasets.synthetic.tickets import TARGET, load_tickets

    return load_tickets(), TARGET


def sensors():
    """1,000 machines, 5 % of the labels flipped."""
    from keras_mmil.datasets.synthetic.sensors import TARGET, load_sensors

    return load_sensors(), TARGET


DATA = {
    "musk1": partial(instances, "musk1"),
    "musk2": partial(instances, "musk2"),
    "elephant": partial(instances, "elephant"),
    "mutagenesis": mutagenesis,
    "MUTAG": partial(molecules, "MUTAG"),
    "tickets": tickets,
    "sensors": sensors,
    "churn": churn,
    "recipes": recipes,
    "Mutagenicity": partial(molecules, "Mutagenicity"),
    "NCI1": partial(molecules, "NCI1"),
}


class Flat:
    """A flat learner on aggregates."""

    def __init__(self, name, target, seed):
        self._aggregates, self._model = Aggregates(target), LEARNERS[name](seed)

    def fit(self, records, labels):
        """Choose the aggregates and fit the learner."""
        self._model.fit(self._aggregates.fit(records).transform(records), labels)
        self.classes_ = self._model.classes_

    def predict_proba(self, records):
        """Probabilities of the classes."""
        return self._model.predict_proba(self._aggregates.transform(records))


class Ours:
    """The default classifier."""

    def __init__(self, name, target, seed):
        from keras_mmil import NestedClassifier

        self._model, self._target = NestedClassifier(random_state=seed, verbose=0), target

    def fit(self, records, labels):
        """Fit it on the records themselves."""
        self._model.fit(records, self._target)
        self.classes_ = self._model.classes_

    def predict_proba(self, records):
        """Probabilities of the classes."""
        return self._model.predict_proba(records)


def main():
    """Run the folds that are missing, print and record the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA), metavar="NAME")
    parser.add_argument("--learners", nargs="+", default=[*LEARNERS, OURS], metavar="NAME")
    parser.add_argument("--folds", default="by_default.jsonl", metavar="FILE", help="of all folds")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    path = Path(options.folds)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for name in options.data:
        done += run(name, options, {(r["data"], r["learner"], r["fold"]) for r in done}, path)
    records = list(summary(done))
    for record in records:
        print(json.dumps(record), flush=True)
    if not options.dry:
        write("by_default", records, ("experiment", "model", "metric"))


def run(name, options, known, path):
    """The folds of one data set, which are added to a file."""
    records, target = DATA[name]()
    labels = np.array([str(each[target]) for each in records])
    splits = RepeatedStratifiedKFold(n_splits=5, n_repeats=options.repeats, random_state=0)
    for fold, (train, test) in enumerate(splits.split(labels, labels)):
        for learner in options.learners:
            if (name, learner, fold) in known:
                continue
            kind = Ours if learner == OURS else Flat
            row = {"data": name, "learner": learner, "fold": fold}
            row |= figures(kind(learner, target, fold), records, labels, train, test)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            yield row


def figures(model, records, labels, train, test):
    """Accuracy, AUC, majority share and processor seconds of one fold."""
    started = time.process_time()
    model.fit([records[i] for i in train], labels[train])
    seconds = time.process_time() - started
    proba = model.predict_proba([records[i] for i in test])
    classes = np.array(list(map(str, model.classes_)))
    truth = labels[test]
    if len(classes) == 2:
        auc = roc_auc_score(truth == classes[1], proba[:, 1])
    else:
        proba = proba / proba.sum(axis=1, keepdims=True)
        auc = roc_auc_score(truth, proba, multi_class="ovr", labels=classes)
    return {
        "accuracy": float(np.mean(classes[proba.argmax(axis=1)] == truth)),
        "auc": float(auc),
        "seconds": seconds,
        "majority": float(np.unique(truth, return_counts=True)[1].max() / len(truth)),
    }


def summary(rows):
    """Records of means and standard deviations over folds."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["data"], row["learner"]].append(row)
    for (name, learner), some in groups.items():
        majority = round(float(np.mean([row["majority"] for row in some])), 4)
        for metric in ("accuracy", "auc", "seconds"):
            values = [row[metric] for row in some]
            yield {
                "experiment": name,
                "model": learner,
                "metric": metric,
                "mean": round(float(np.mean(values)), 4),
                "std": round(float(np.std(values, ddof=1)), 4) if len(values) > 1 else None,
                "runs": len(values),
                "majority": majority,
            }


if __name__ == "__main__":
    main()

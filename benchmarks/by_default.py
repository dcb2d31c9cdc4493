"""Defaults on data that nobody tuned on: `python benchmarks/by_default.py`.

`NestedClassifier()` and flat learners on aggregates, in repeated stratified cross-validation with
the same folds. Each fold is kept in `--folds`, so that a run can be continued. Accuracy, AUC and
processor seconds go to `benchmarks/results/by_default.json`, with accuracy, fidelity, number of
conditions and processor seconds of the rules; and where the labels follow a hidden rule, the share
of new records, without noise, on which our rules say the same. Molecules also come with what is up
to two bonds from each atom. Where numbers are to be predicted, R² of `NestedRegressor()` and of
flat learners. Learners of linked tables run where `--learners YDF Khiops getML` says so: see
`competitors/relational.py`.
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

import nested_sets
import numpy as np
from competitors import relational
from competitors.aggregates import LEARNERS, REGRESSORS, Aggregates
from records import write
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

OURS = "keras-mmil"
METRICS = {
    "test_r2": "r2",
    "test_accuracy": "accuracy",
    "test_accuracy_majority": "majority",
    "auc": "auc",
    "processor_seconds": "seconds",
    "rules_test_accuracy": "rules_accuracy",
    "rules_fidelity": "fidelity",
    "rules_conditions": "conditions",
    "rules_processor_seconds": "rules_seconds",
    "rules_agreement_with_hidden_rule": "agreement",
}


DATA = {
    "musk1": partial(nested_sets.instances, "musk1"),
    "musk2": partial(nested_sets.instances, "musk2"),
    "elephant": partial(nested_sets.instances, "elephant"),
    "mutagenesis": nested_sets.mutagenesis,
    "MUTAG": partial(nested_sets.molecules, "MUTAG"),
    "tickets": nested_sets.tickets,
    "sensors": nested_sets.sensors,
    "churn": nested_sets.churn,
    "recipes": nested_sets.recipes,
    "Mutagenicity": partial(nested_sets.molecules, "Mutagenicity"),
    "NCI1": partial(nested_sets.molecules, "NCI1"),
    **{
        f"{name}, two bonds": partial(nested_sets.molecules, name, 2)
        for name in ("MUTAG", "Mutagenicity", "NCI1")
    },
}
NUMBERS = {
    "mutagenesis: logp": partial(nested_sets.mutagenesis, "logp"),
    "mutagenesis: lumo": partial(nested_sets.mutagenesis, "lumo"),
    "spending": nested_sets.spending,
}
# New records whose labels are as the hidden rule says.
BY_HIDDEN_RULE = {
    "tickets": partial(nested_sets.tickets, seed=1, share_flipped=0.0),
    "sensors": partial(nested_sets.sensors, seed=1, share_flipped=0.0),
    "churn": partial(nested_sets.churn, seed=1),
}


class Flat:
    """A flat learner on aggregates."""

    def __init__(self, model, target):
        self._aggregates, self._model = Aggregates(target), model

    def fit(self, records, labels):
        """Choose the aggregates and fit the learner."""
        self._model.fit(self._aggregates.fit(records).transform(records), labels)

    @property
    def classes_(self):
        """Of the labels."""
        return self._model.classes_

    def predict_proba(self, records):
        """Probabilities of the classes."""
        return self._model.predict_proba(self._aggregates.transform(records))

    def predict(self, records):
        """Classes, or numbers."""
        return self._model.predict(self._aggregates.transform(records))


class Ours:
    """The default classifier."""

    def __init__(self, name, target, seed):
        from keras_mmil import NestedClassifier

        self._model, self._target = NestedClassifier(random_state=seed, verbose=0), target

    def fit(self, records, labels):
        """Fit it on the records themselves."""
        self._model.fit(records, self._target)
        # Labels 0 and 1 are booleans to it; in the order of their names as the others.
        self.classes_ = np.unique(labels)

    def predict_proba(self, records):
        """Probabilities of the classes."""
        return self._model.predict_proba(records)

    @property
    def trials(self):
        """How each part fares on records that it was not fitted to."""
        return self._model.trials_

    def agreement(self, records):
        """The share of records on which the rules agree with the labels."""
        truth = [record[self._target] for record in records]
        return float(np.mean(self._model.predict(records, by="rules") == truth))

    def rules(self, records, truth):
        """How the rules fare."""
        started = time.process_time()
        explainer = self._model.explainer_
        seconds = time.process_time() - started
        # In the same order as the labels, see `fit`.
        places = {label: i for i, label in enumerate(self._model.classes_.tolist())}
        by_rules = [places[x] for x in self._model.predict(records, by="rules").tolist()]
        by_model = self.predict_proba(records).argmax(axis=1)
        return {
            "rules_accuracy": float(np.mean(self.classes_[by_rules] == truth)),
            "fidelity": float(np.mean(by_rules == by_model)),
            "conditions": sum(level.rules.n_conditions for level in explainer.levels_),
            "rules_seconds": seconds,
        }


def main(arguments=None):
    """Run the folds that are missing, print and record the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*DATA, *NUMBERS]
    learners = [*LEARNERS, "ridge", OURS, *relational.LEARNERS]
    parser.add_argument("--data", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument(
        "--learners", nargs="+", choices=learners, default=learners[:-3], metavar="NAME"
    )
    parser.add_argument("--folds", default="by_default.jsonl", metavar="FILE", help="of all folds")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    path = Path(options.folds)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for name in options.data:
        known = {(r["data"], r["learner"], r["fold"]) for r in done}
        done += (run if name in DATA else run_on_numbers)(name, options, known, path)
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
    for learner, fold, (train, test) in missing(name, splits.split(labels, labels), options, known):
        if learner == OURS:
            model = Ours(learner, target, fold)
        elif learner in LEARNERS:
            model = Flat(LEARNERS[learner](fold), target)
        elif learner in relational.LEARNERS:
            model = relational.LEARNERS[learner](target, fold)
        else:
            continue
        found = figures(model, records, labels, train, test)
        if learner == "getML":  # whose engine is no process of ours
            del found["seconds"]
        if learner == OURS and name in BY_HIDDEN_RULE:
            found["agreement"] = model.agreement(BY_HIDDEN_RULE[name]()[0])
        yield kept(path, {"data": name, "learner": learner, "fold": fold, **found})


def run_on_numbers(name, options, known, path):
    """The same where numbers are to be predicted."""
    from keras_mmil import NestedRegressor

    records, target = NUMBERS[name]()
    y = np.array([record[target] for record in records])
    splits = RepeatedKFold(n_splits=5, n_repeats=options.repeats, random_state=0)
    for learner, fold, (train, test) in missing(name, splits.split(y), options, known):
        if learner == OURS:
            model = NestedRegressor(random_state=fold, verbose=0)
        elif learner in REGRESSORS:
            model = Flat(REGRESSORS[learner](fold), target)
        else:
            continue
        some, others = ([records[i] for i in part] for part in (train, test))
        seconds = seconds_of_fit(model, some, target if learner == OURS else y[train])
        found = {"r2": float(r2_score(y[test], model.predict(others))), "seconds": seconds}
        yield kept(path, {"data": name, "learner": learner, "fold": fold, **found})


def missing(name, splits, options, known):
    """The learners, folds and parts that are not known."""
    for fold, parts in enumerate(splits):
        for learner in options.learners:
            if (name, learner, fold) not in known:
                yield learner, fold, parts


def kept(path, row):
    """The row, which is added to a file."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    return row


def seconds_of_fit(model, records, labels):
    """Fit a model: processor seconds, with those of processes that it has started."""
    started = sum(os.times()[:4])
    model.fit(records, labels)
    return sum(os.times()[:4]) - started


def figures(model, records, labels, train, test):
    """Accuracy, AUC, majority share and processor seconds of one fold."""
    seconds = seconds_of_fit(model, [records[i] for i in train], labels[train])
    proba = model.predict_proba([records[i] for i in test])
    classes = np.array(list(map(str, model.classes_)))
    truth = labels[test]
    if len(classes) == 2:
        auc = roc_auc_score(truth == classes[1], proba[:, 1])
    else:
        proba = proba / proba.sum(axis=1, keepdims=True)
        auc = roc_auc_score(truth, proba, multi_class="ovr", labels=classes)
    found = {
        "accuracy": float(np.mean(classes[proba.argmax(axis=1)] == truth)),
        "auc": float(auc),
        "seconds": seconds,
        "majority": float(np.unique(truth, return_counts=True)[1].max() / len(truth)),
    }
    if isinstance(model, Ours):
        found |= model.rules([records[i] for i in test], truth)
    return found


def summary(rows):
    """Records of means and standard deviations over folds."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["data"], row["learner"]].append(row)
    for (name, learner), some in groups.items():
        for metric, key in METRICS.items():
            values = [row[key] for row in some if key in row]
            if not values:
                continue
            record = {
                "experiment": name,
                "model": learner,
                "metric": metric,
                "mean": round(float(np.mean(values)), 4),
                "runs": len(values),
                "chosen_on": "out-of-fold losses of the training parts",
            }
            if len(values) > 1:
                record["std"] = round(float(np.std(values, ddof=1)), 4)
            yield record


if __name__ == "__main__":
    main()

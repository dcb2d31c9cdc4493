"""How good classes and probabilities are, class by class, for tables and pictures."""

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.metrics import confusion_matrix, roc_auc_score

from keras_mmil._support.types import Array, Bools, Config, Floats, Ints
from keras_mmil.rules.evidence.certificate import interval

__all__ = ["auc", "by_class", "calibration", "share_of"]

_N_BINS = 10


def share_of(is_so: Bools, is_exact: bool) -> Config:
    """The share of cases that are so, for JSON; with its interval at 95 % if that is exact."""
    share = interval(int(is_so.sum()), len(is_so)).to_dict()
    return share if is_exact else share | {"low": None, "high": None}


def by_class(
    truth: Ints, said: Mapping[str, Ints], classes: Sequence[str], is_exact: bool
) -> Config:
    """Confusion, recall and precision of each class, for JSON.

    Args:
        truth: true classes, int [top-bags].
        said: the classes by several judges, by their names.
        classes: names of the classes.
        is_exact: whether intervals are right.
    """
    labels = range(len(classes))
    return {
        "classes": list(classes),
        "n": [int((truth == label).sum()) for label in labels],
        "confusion": {
            name: confusion_matrix(truth, by, labels=labels).tolist() for name, by in said.items()
        },
        "recall": {
            name: [share_of((by == label)[truth == label], is_exact) for label in labels]
            for name, by in said.items()
        },
        "precision": {
            name: [share_of((truth == label)[by == label], is_exact) for label in labels]
            for name, by in said.items()
        },
    }


def auc(truth: Ints, probabilities: Floats) -> float | None:
    """Area under the ROC curve; of more than two classes the mean of each against the rest.

    None where all top-bags are of one class.
    """
    columns = range(1, 2) if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    areas = [
        roc_auc_score(truth == label, probabilities[:, label])
        for label in columns
        if 0 < (truth == label).sum() < len(truth)
    ]
    return float(np.mean(areas)) if areas else None


def calibration(
    truth: Ints, probabilities: Floats, classes: Sequence[str], is_exact: bool
) -> Config:
    """How often what has a probability is so, for JSON: of two classes, of the second one.

    Of more classes, it is the probability of the likeliest, and how often that is right. `error` is
    the mean difference of both, weighted by the numbers of top-bags.
    """
    if probabilities.shape[1] == 2:
        what, likely, is_so = f"probability of {classes[1]}", probabilities[:, 1], truth == 1
    else:
        what, likely = "probability of the likeliest class", probabilities.max(axis=1)
        is_so = truth == probabilities.argmax(axis=1)
    edges = np.linspace(0, 1, _N_BINS + 1)
    at = np.clip(np.digitize(likely, edges) - 1, 0, _N_BINS - 1)
    bins, error = [], 0.0
    for i in np.unique(at):
        here: Array = at == i
        observed = share_of(is_so[here], is_exact)
        mean = float(likely[here].mean())
        error += abs(mean - observed["estimate"]) * float(here.mean())
        bins.append({"from": edges[i], "to": edges[i + 1], "mean": mean, "observed": observed})
    return {"of": what, "bins": bins, "error": error}

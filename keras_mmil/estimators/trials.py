"""What may decide: a network of many members, models of statistics, or all; and how each fares.

Members are trained on all records but a part each. So each record is judged by the member that has
not seen it, and no record is lost to validation. The trees of a forest are fitted to samples, and
each record is judged by the trees that have not seen it. Boosted trees and a linear model are
fitted in folds.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax
from sklearn import ensemble, linear_model, metrics
from sklearn.exceptions import ConvergenceWarning
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Array, Floats, Ints
from keras_mmil.layers.forest import Forest
from keras_mmil.layers.kernel import KernelRegression
from keras_mmil.layers.pool import LEAST
from keras_mmil.records.network import Labels

__all__ = [
    "EFFORTS",
    "Effort",
    "Trial",
    "boosting_of",
    "columns_of_boosting",
    "condition_of",
    "constant",
    "diagnosis",
    "distinct_columns",
    "folds_of",
    "forest_of",
    "halves",
    "kernel_of",
    "linear_of",
    "pooled",
    "rows",
    "table",
    "targets",
    "trial_of",
    "weights_of",
]

N_FOLDS = 5
"""Of boosted trees and of a linear model, which are judged by those of other folds."""

_MOST_SAMPLES = 20_000  # records for each tree, and for a linear model
_CERTAIN = 2.0  # standard errors by which what is better than the majority is better
_MOST_COLUMNS = 1_000  # of boosting, times trees in a round
_ROUNDS, _LEAST_ROUNDS, _LEARNED = 100, 20, 8.0  # of boosting; the last by all rounds
_PENALTIES = (1.0, 6.0, 40.0, 250.0)  # of squared weights of a linear model
_OF_KERNEL = (0.02, 0.1, 0.5, 2.5)  # of a regression with a kernel
_ITERATIONS = 100
_WORTH_THREADS = 1_000_000  # numbers in the features
_LEAK = 0.05  # share of the majority's loss that is left where one condition is suspicious
_MOST_IN_KERNEL, _JITTER = 500, 1e-5  # records; and what is added for numerical reasons
_RARE = 0.2  # share of the records
_SELDOM = 0.1  # recall of a rare class, below which nearly all are taken for others
_NEVER = -10.0  # logit of what does not occur
# Weight of the squared distance of the pool's weights from equal ones, over the number of records.
# Of five folds of 150 molecules, the test loss is .295 instead of .311; of 1,000 records, the same.
_CAUTION = 10.0


@dataclass(frozen=True)
class Effort:
    """How much is tried.

    Attributes:
        members: networks side by side, of which half read statistics of bags; 1 for one that reads
            none, and is trained on all but a tenth.
        trees: of the forest; 0 for none.
    """

    members: int
    trees: int


EFFORTS = {"low": Effort(1, 0), "auto": Effort(10, 400), "high": Effort(20, 1000)}


@dataclass(frozen=True)
class Trial:
    """How well something decides on records that it was not trained on.

    Attributes:
        model: "majority" ("mean" for numbers), "one condition", "network with statistics",
            "network", "linear", "forest", "boosting", or "all" together.
        loss: log loss, of numbers the mean squared error.
        score: accuracy (of several labels the share of right ones), of numbers R², None where all
            are equal.
        auc: area under the ROC curve, of more classes the mean of one against the rest; None where
            it is undefined, and for numbers.
        weight: with which it decides: see `layers.Pool`.
        gain: by how much the loss is lower than that of the majority or mean.
        error: standard error of the gain.
        of: the field or statistic of the one condition.
        rarest, recall, precision: of classes, the share of the rarest, of which share is found, and
            which share of what is taken for it is it; None where there is none.
        rare_class: index of the rarest class; None where there are no classes.
    """

    model: str
    loss: float
    score: float | None
    auc: float | None
    weight: float
    gain: float = 0.0
    error: float = 0.0
    of: str = ""
    rarest: float | None = None
    recall: float | None = None
    precision: float | None = None
    rare_class: int | None = None

    @property
    def misses_rare_class(self) -> bool:
        """Whether the rarest class is rare, and nearly all of it is taken for others."""
        return self.rarest is not None and self.rarest < _RARE and (self.recall or 0.0) < _SELDOM


def folds_of(y: Array, n_folds: int, seed: int) -> Ints:
    """The fold of each record: random, stratified by class or number, of equal sizes."""
    order = np.random.default_rng(seed).permutation(len(y))
    if y.ndim == 1:
        order = order[np.argsort(y[order], kind="stable")]
    folds = np.empty(len(y), int)
    folds[order] = np.arange(len(y)) % n_folds
    return folds


def halves(outputs: Array, folds: Ints | None) -> list[Array]:
    """Predictions [records, n] by each half of the members, of their outputs [records, members, n].

    With folds, those of the member that left a record out; else the mean of all.
    """
    n = outputs.shape[1]
    parts = [outputs] if n == 1 else [outputs[:, : n // 2], outputs[:, n // 2 :]]
    if folds is None:
        return [part.mean(axis=1) for part in parts]
    return [part[np.arange(len(folds)), folds] for part in parts]


def distinct_columns(features: Array) -> Ints:
    """The numbers of the columns that vary, without those that equal an earlier one.

    Of statistics of bags, half are such: whether there are any members makes many of them missing.
    """
    is_varying = np.ptp(features, axis=0) > 0
    first = {column.tobytes(): i for i, column in reversed(list(enumerate(features.T.copy())))}
    return np.array(sorted(i for i in first.values() if is_varying[i]) or [0])


def forest_of(
    labels: Labels,
    features: Array,
    columns: Ints,
    y: Array,
    weights: Floats,
    n_trees: int,
    seed: int,
) -> tuple[Forest, Array]:
    """A forest, half of random and half of extremely random trees, and its out-of-bag predictions.

    Args:
        labels: what is predicted.
        features: `distinct_columns` of them, [records, columns].
        columns: the numbers of these columns, which the layer reads.
        y: labels, [records] or [records, n].
        weights: of the records.
        n_trees: of both halves.
        seed: of the forest.

    Returns:
        The layer, and predictions [records, n] as those of a network.
    """
    goal, models = targets(labels, y), []
    goal = goal[:, 0] if goal.shape[1] == 1 else goal
    for kind in (ensemble.RandomForestRegressor, ensemble.ExtraTreesRegressor):
        # Of columns of zeros and ones, the variance is Gini's impurity: these are classifiers, too.
        model = kind(
            n_trees // 2,
            max_features=1 / 3 if labels.kind == "numbers" else "sqrt",
            max_samples=min(1.0, _MOST_SAMPLES / len(y)),
            min_samples_leaf=max(1, len(y) // 5_000),
            bootstrap=True,
            oob_score=True,
            random_state=seed,
        )
        models.append(model.fit(features, goal, weights))
    predictions = [model.oob_prediction_.reshape(len(y), -1) for model in models]
    return Forest.of(*models, columns=columns, name="forest"), np.mean(predictions, axis=0)


def columns_of_boosting(labels: Labels, columns: Ints, fewer: Ints) -> Ints:
    """All columns, or fewer where these would take long."""
    n_trees = labels.n if labels.activation == "softmax" else 1  # a round
    return columns if len(columns) * n_trees <= _MOST_COLUMNS else fewer


def boosting_of(
    labels: Labels,
    features: Array,
    columns: Ints,
    y: Array,
    weights: Floats,
    n_folds: int,
    seed: int,
) -> tuple[Forest, Array] | None:
    """Boosted trees, and predictions for each record by trees fitted to the other folds.

    Takes and returns the same as `forest_of`, without predictions if there are no folds; None for
    several labels.
    """
    if labels.kind == "labels":
        return None
    n_rounds = max(_ROUNDS // max(labels.n // 2, 1), _LEAST_ROUNDS)
    kind = ensemble.HistGradientBoostingClassifier
    if labels.kind == "numbers":
        kind = ensemble.HistGradientBoostingRegressor

    def fitted(weights: Floats) -> Any:
        model = kind(
            learning_rate=_LEARNED / n_rounds,
            max_iter=n_rounds,
            max_leaf_nodes=8,
            min_samples_leaf=5,
            l2_regularization=1.0,
            early_stopping=False,
            random_state=seed,
        )
        some = weights > 0
        # scikit-learn takes seconds to find weighted quantiles.
        is_equal = np.ptp(weights[some]) == 0
        return model.fit(features[some], y.reshape(-1)[some], None if is_equal else weights[some])

    # Threads take longer for small data, and far longer where others compute, too.
    with threadpool_limits(1 if features.size < _WORTH_THREADS else None, "openmp"):
        layer = Forest.of(fitted(weights), columns=columns, name="boosting")
        predictions = np.zeros([len(y) if n_folds else 0, layer.n_outputs], np.float32)
        folds = folds_of(y, n_folds, seed + 1) if n_folds else None
        for fold in range(n_folds):
            is_held_out = folds == fold
            model = fitted(weights * ~is_held_out)
            predictions[is_held_out] = Forest.of(model)(features[is_held_out])
    return layer, predictions


def linear_of(
    labels: Labels,
    features: Array,
    columns: Ints,
    y: Array,
    weights: Floats,
    n_features: int,
    seed: int,
) -> tuple[keras.layers.Dense, Array]:
    """A logistic or linear regression, and predictions for each record by those of other folds.

    Takes and returns the same as `forest_of`, and the number of features before `distinct_columns`
    were chosen. How strongly weights are penalised is chosen by the loss of such predictions.
    """
    mean, scale = _moments(features)
    x = (features - mean) / scale
    kernel, bias, predictions = _penalized(labels, x, y, weights, _PENALTIES, seed)
    layer = keras.layers.Dense(
        kernel.shape[1], labels.activation, trainable=False, dtype="float32", name="linear"
    )
    layer.build((None, n_features))
    of_all = np.zeros((n_features, kernel.shape[1]), np.float32)
    of_all[columns] = kernel / scale[:, None]
    layer.set_weights([of_all, bias - (mean @ of_all[columns])])
    return layer, predictions


def kernel_of(
    labels: Labels,
    features: Array,
    columns: Ints,
    y: Array,
    weights: Floats,
    n_features: int,
    seed: int,
) -> tuple[keras.layers.Layer, Array] | None:
    """A regression with a Gaussian kernel; takes and returns the same as `linear_of`.

    None where there are no columns, or many records.
    """
    if not len(columns) or len(features) > _MOST_IN_KERNEL:
        return None
    mean, scale = _moments(features)
    width = float(np.sqrt(features.shape[1]))
    layer = KernelRegression(
        len(features), len(columns), targets(labels, y).shape[1], labels.activation, name="kernel"
    )
    layer.build((None, n_features))
    centers = ((features - mean) / (scale * width)).astype(np.float32)
    similar = layer.similarities(centers, centers).numpy().astype(float)
    # Regression on these rows, penalised, is that with the kernel.
    root = np.linalg.cholesky(similar + _JITTER * np.eye(len(similar)))
    kernel, bias, predictions = _penalized(labels, root, y, weights, _OF_KERNEL, seed)
    of_records = np.linalg.solve(root.T, kernel)
    layer.set_weights([columns, mean, scale * width, centers, of_records, bias])
    return layer, predictions


def _moments(features: Array) -> tuple[Array, Array]:
    scale = features.std(axis=0)
    return features.mean(axis=0), np.where(scale > 0, scale, 1)


def _penalized(
    labels: Labels, x: Array, y: Array, weights: Floats, penalties: Sequence[float], seed: int
) -> tuple[Array, Array, Array]:
    """The kernel and the bias of a regression, and predictions for each record by other folds."""
    goal = targets(labels, y)
    folds = folds_of(y, N_FOLDS, seed + 2)

    def unseen(penalty: float, n_folds: int) -> Array:
        found = np.tile(goal.mean(axis=0), (len(goal), 1))
        for fold in range(n_folds):
            at = folds == fold
            if at.any() and weights[~at].any():
                kernel, bias = _regression(labels, x, y, weights * ~at, penalty)
                found[at] = _activated(labels, x[at] @ kernel + bias)
        return found

    is_small = x.size < _WORTH_THREADS
    n_tried = N_FOLDS if is_small else 1  # of many numbers, one fold tells enough
    is_tried = folds < n_tried
    with threadpool_limits(1 if is_small else None):
        tried = {penalty: unseen(penalty, n_tried) for penalty in penalties}
        losses = {
            penalty: np.sum((losses_of(labels, found, goal) * weights)[is_tried])
            for penalty, found in tried.items()
        }
        best = min(losses, key=losses.__getitem__)
        predictions = tried[best] if n_tried == N_FOLDS else unseen(best, N_FOLDS)
        return *_regression(labels, x, y, weights, best), predictions


def _regression(
    labels: Labels, x: Array, y: Array, weights: Floats, penalty: float
) -> tuple[Array, Array]:
    """The kernel and the bias of a regression with a penalty, for a layer."""
    some = np.flatnonzero(weights)
    some = some[:: -(-len(some) // _MOST_SAMPLES)]
    x, weights = x[some], weights[some]
    if labels.kind == "numbers":
        model = linear_model.Ridge(penalty, solver="cholesky")
        model.fit(x, y[some].reshape(len(x), -1), weights)
        return np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)
    columns = [y[some]] if labels.kind == "classes" else list(y[some].reshape(len(x), -1).T)
    pairs = [_logistic(x, column, weights, penalty, labels) for column in columns]
    return np.hstack([kernel for kernel, _ in pairs]), np.hstack([bias for _, bias in pairs])


def _logistic(
    x: Array, y: Array, weights: Floats, penalty: float, labels: Labels
) -> tuple[Array, Array]:
    """The kernel and the bias for classes, of which some may be missing, or for one label."""
    classes, y = np.unique(y.astype(int), return_inverse=True)
    n = labels.n if labels.activation == "softmax" else 1
    kernel, bias = np.zeros((x.shape[1], n)), np.full(n, _NEVER)
    if len(classes) == 1:
        bias[classes[0] if n > 1 else 0] = -_NEVER if n > 1 or classes[0] else _NEVER
        return kernel, bias
    model = linear_model.LogisticRegression(C=1 / penalty, max_iter=_ITERATIONS, tol=1e-3)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model.fit(x, y, weights)  # stopping early is a penalty, too
    if n == 1:
        return model.coef_.T, model.intercept_
    if len(classes) == 2:  # the second against the first
        kernel[:, classes[1]], bias[classes] = model.coef_[0], [0, model.intercept_[0]]
    else:
        kernel[:, classes], bias[classes] = model.coef_.T, model.intercept_
    return kernel, bias


def _activated(labels: Labels, x: Array) -> Array:
    """The outputs of a layer, in NumPy."""
    if labels.activation == "linear":
        return x
    return expit(x) if labels.activation == "sigmoid" else softmax(x, axis=1)


def condition_of(
    labels: Labels,
    features: Array,
    y: Array,
    weights: Floats,
    folds: Ints | None,
    new: Array | None,
    seed: int,
) -> tuple[int, Array]:
    """The one condition, a threshold of a feature, that tells the labels apart best.

    Args:
        labels, y, weights, seed: as in `forest_of`.
        features: [records, features].
        folds: of the records, each of which is judged by the condition of the others; or None.
        new: features of the records that are judged, without folds.

    Returns:
        The column of the feature; and predictions [records, n] for those that are judged.
    """
    goal, doubt = targets(labels, y), 0.0 if labels.kind == "numbers" else 1 / (len(y) + 2)

    def fitted(weights: Floats) -> DecisionTreeRegressor:
        least = min(5, len(y) // 10 + 1)
        model = DecisionTreeRegressor(max_depth=1, min_samples_leaf=least, random_state=seed)
        return model.fit(features, goal, weights)

    def predicted(model: DecisionTreeRegressor, x: Array) -> Array:
        found = model.predict(x).reshape(len(x), -1)
        return found * (1 - 2 * doubt) + doubt

    model = fitted(weights)
    if folds is None:
        judged = predicted(model, features if new is None else new)
    else:
        judged = np.zeros(goal.shape)
        for fold in np.unique(folds):
            at = folds == fold
            judged[at] = predicted(fitted(weights * ~at), features[at])
    return max(int(model.tree_.feature[0]), 0), judged


def targets(labels: Labels, y: Array) -> Array:
    """Labels as a network with these outputs should predict them, float32 [records, n]."""
    if labels.activation == "softmax":
        return np.eye(labels.n, dtype=np.float32)[y]
    return y.reshape(len(y), -1).astype(np.float32)


def weights_of(
    labels: Labels, predictions: Sequence[Array], y: Array, weights: Floats
) -> tuple[float, ...]:
    """The weights of a `Pool` of predictions [records, n], of which its loss is least."""
    equal = np.full(len(predictions), 1 / len(predictions))
    goal = targets(labels, y)
    scale = float(np.var(goal)) or 1.0 if labels.kind == "numbers" else 1.0
    caution = _CAUTION / np.count_nonzero(weights)

    def cost(shares: Array) -> float:
        if labels.kind == "numbers":
            shares = shares / max(shares.sum(), 1e-9)
        losses = losses_of(labels, pooled(labels, predictions, shares), goal)
        loss = float(np.average(losses, weights=weights)) / scale
        return loss + caution * float(np.sum((shares - equal) ** 2))

    found = minimize(cost, equal, bounds=[(0.0, 5.0)] * len(predictions), method="L-BFGS-B").x
    if labels.kind == "numbers":
        found = found / max(found.sum(), 1e-9)
    return tuple(np.round(found, 3).tolist())


def pooled(labels: Labels, predictions: Sequence[Array], shares: Sequence[float] | Array) -> Array:
    """What a `Pool` makes of predictions [records, n], in NumPy."""
    pairs = list(zip(shares, predictions, strict=True))
    if labels.kind == "numbers":
        return np.sum([share * x for share, x in pairs], axis=0)
    of_each = [(share, np.clip(x, LEAST, 1 - LEAST)) for share, x in pairs]
    if labels.activation == "softmax":
        product = np.exp(np.sum([share * np.log(x) for share, x in of_each], axis=0))
        return product / product.sum(axis=1, keepdims=True)
    return expit(np.sum([share * logit(x) for share, x in of_each], axis=0))


def losses_of(labels: Labels, predicted: Array, goal: Array) -> Array:
    """Log loss, or squared error, of each prediction for `targets`, both [records, n]."""
    if labels.kind == "numbers":
        return np.square(predicted - goal).mean(axis=1)
    likely = np.log(np.clip(predicted, 1e-7, 1.0))
    unlikely = np.log(np.clip(1 - predicted, 1e-7, 1.0))
    if labels.activation == "softmax":
        return -(goal * likely).sum(axis=1)
    return -(goal * likely + (1 - goal) * unlikely).mean(axis=1)


def trial_of(
    model: str, labels: Labels, predicted: Array, y: Array, weights: Floats, share: float
) -> Trial:
    """How well predictions [records, n] are."""
    goal = targets(labels, y)
    losses, of_constant = (
        losses_of(labels, x, goal) for x in (predicted, constant(labels, y, weights))
    )
    gains = of_constant - losses
    loss, gain = (float(np.average(x, weights=weights)) for x in (losses, gains))
    variance = float(np.average((gains - gain) ** 2, weights=weights))
    n_effective = weights.sum() ** 2 / np.square(weights).sum()
    evidence = gain, float((variance / n_effective) ** 0.5)
    if labels.kind == "numbers":
        r2 = gain / (loss + gain) if loss + gain else None
        return Trial(model, loss, r2, None, share, *evidence)
    if labels.activation == "softmax":
        right = predicted.argmax(axis=1) == y
    else:
        right = ((predicted > 0.5) == (goal > 0.5)).mean(axis=1)
    columns = [
        metrics.roc_auc_score(goal[:, i], predicted[:, i], sample_weight=weights)
        for i in range(goal.shape[1])
        if 0 < goal[weights > 0, i].mean() < 1
    ]
    auc = float(np.mean(columns)) if columns else None
    score = float(np.average(right, weights=weights))
    found = Trial(model, loss, score, auc, share, *evidence)
    return found if labels.kind == "labels" else _with_rarest(found, predicted, y, weights)


def _with_rarest(trial: Trial, predicted: Array, y: Array, weights: Floats) -> Trial:
    """A trial with share, recall and precision of the rarest class."""
    n = max(predicted.shape[1], 2)
    classes = predicted.argmax(axis=1) if predicted.shape[1] > 1 else predicted[:, 0] > 0.5
    shares = np.bincount(y, weights, minlength=n) / weights.sum()
    rarest = int(shares.argmin())
    is_it, is_taken = y == rarest, classes == rarest
    both, all_, taken = (float(weights[at].sum()) for at in (is_it & is_taken, is_it, is_taken))
    return replace(
        trial,
        rarest=float(shares[rarest]),
        recall=both / all_ if all_ else None,
        precision=both / taken if taken else None,
        rare_class=rarest,
    )


def constant(labels: Labels, y: Array, weights: Floats) -> Array:
    """The mean label, for each record: the prediction of who knows nothing else."""
    goal = targets(labels, y)
    return np.broadcast_to(np.average(goal, axis=0, weights=weights), goal.shape)


def rows(trials: Sequence[Trial], is_number: bool) -> list[dict[str, str]]:
    """What was tried, a row for each, by what the columns say.

    Recall and precision are shown where a class is rare.
    """
    is_rare = any(each.rarest is not None and each.rarest < _RARE for each in trials)
    found = []
    for each in trials:
        score = math.nan if each.score is None else each.score
        row = {"": each.model}
        if is_number:
            row |= {"squared error": f"{each.loss:.4g}", "R²": f"{score:.3f}"}
        else:
            row |= {"log loss": f"{each.loss:.4g}", "accuracy": percent(score)}
            row["AUC"] = "" if each.auc is None else f"{each.auc:.3f}"
        if is_rare:
            row["recall"], row["precision"] = (
                "" if x is None else percent(x) for x in (each.recall, each.precision)
            )
        found.append(row | {"weight": f"{each.weight:.2f}"})
    return found


def table(trials: Sequence[Trial], is_number: bool) -> str:
    """`rows` line by line; and what a user should know of it."""
    if not trials:
        return "No records were held out, so how good this is remains unknown."
    found = rows(trials, is_number)
    cells = [list(found[0]), *(list(row.values()) for row in found)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in pairs)
        for pairs in (enumerate(zip(row, widths, strict=True)) for row in cells)
    ]
    return "\n".join([*map(str.rstrip, lines), *diagnosis(trials)])


def diagnosis(trials: Sequence[Trial]) -> list[str]:
    """What a user should know, and can do about it: nothing if the result is as it should be."""
    if not trials:
        return []
    worst, found = trials[0], []
    if trials[-1].gain <= _CERTAIN * trials[-1].error:
        found.append(
            f"No better than the {worst.model}: the fields say nothing about the target, there are "
            "too few records, or what tells them apart was left out. See which fields are used: "
            "print(schema_)."
        )
    for each in trials:
        if each.of and each.loss < _LEAK * worst.loss:
            found.append(
                f"{each.of!r} alone tells nearly all records apart. If it is only known once the "
                "target is, leave its field out: schema.drop(FIELD), or --drop FIELD."
            )
    best = trials[-1]
    if best.misses_rare_class and best.rarest and not found:
        found.append(
            f"The rarest class, {percent(best.rarest)} of the records, is hardly ever predicted. "
            "Rank records by its probability: of two classes, the rules say where it is above "
            f"{percent(best.rarest)}. Or weigh it: class_weight='balanced', or --class-weight "
            "balanced."
        )
    return found

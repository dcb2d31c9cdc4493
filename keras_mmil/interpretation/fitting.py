"""From what a network computes on training and validation data to the levels of an explainer."""

import warnings
from dataclasses import dataclass

import numpy as np

from keras_mmil.interpretation import options, parallel
from keras_mmil.interpretation.clustering import (
    RowSample,
    count_distinct,
    fit_centroids,
    nearest_of_each,
)
from keras_mmil.interpretation.features import bag_features
from keras_mmil.interpretation.level import Level, level_symbol, level_word
from keras_mmil.interpretation.nesting import concatenate, multiplicities
from keras_mmil.interpretation.rules import RuleSet, learn_rules
from keras_mmil.interpretation.search import LabelledBags, choose, explore, merge, tally

__all__ = ["Fitted", "fit"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What fitting yields.

    Attributes:
        levels: tuple of `Level`, from the instances upwards.
        classes: names of the classes of top-bags.
        grid: tuple of `GridPoint`, all combinations that were tried.
        n_clusters: the combination that was chosen, a tuple.
        fidelity: of that one.
    """

    levels: tuple
    classes: tuple
    grid: tuple
    n_clusters: tuple
    fidelity: float


def fit(aggregations, target, train, validation, settings, on_step):
    """Fit an explainer: algorithm 3 of the paper.

    Args:
        aggregations: names of the aggregations of each bag-layer, a tuple of sets.
        target: the `Target`.
        train: function that returns an iterator over `Observation`s of the training data. It is
            called again where these have too many rows to keep.
        validation: the same for the validation data.
        settings: `Settings`.
        on_step: called without arguments after each step.

    Returns:
        `Fitted`.
    """
    if target.function is None:  # otherwise only its labels tell how many classes there are
        options.class_names(settings.class_names, target.n_classes())
    samples, kept = _draw(train(), settings)
    ks = _possible(settings, samples)
    centroids = _clusterings(samples, ks, settings, on_step)
    del samples
    nestings, labels, classes = _label(train() if kept is None else kept, centroids, target)
    del kept
    held_out_nestings, held_out_labels, held_out_classes = _label(validation(), centroids, target)
    member_weights = [nesting.weights for nesting in nestings]
    features = options.level_features(settings.features, aggregations, member_weights)
    weights = multiplicities(nestings)
    n_classes = target.n_classes(classes, held_out_classes)
    names = options.class_names(settings.class_names, n_classes)
    data = LabelledBags(nestings, (*labels, {n_classes: classes}))
    held_out = LabelledBags(held_out_nestings, (*held_out_labels, {n_classes: held_out_classes}))

    tasks = [(data, held_out, features, weights, k, settings.tree) for k in ks[0]]
    explored = parallel.run(explore, tasks, settings.n_jobs, on_step)
    trees = {point: trees for pairs in explored for point, trees in pairs}
    best = choose(tuple(trees), settings.tolerance)
    levels = _levels(data, features, weights, centroids, trees[best], best, names)
    _warn_of_collapse(levels)
    return Fitted(levels, names, tuple(trees), best.n_clusters, best.fidelity)


def _draw(observations, settings):
    """Rows to cluster, at most so many for each level, and the observations if they are few."""
    samples, kept = [], []
    for batch in observations:
        if not samples:
            n_levels = len(batch.nestings)
            seeds = np.random.SeedSequence(settings.seed).spawn(n_levels)
            samples = [RowSample(settings.max_rows, seed) for seed in seeds]
        weights = _clustered_weights(batch.nestings, multiplicities(batch.nestings))
        for sample, rows, weight in zip(samples, batch.representations, weights, strict=True):
            sample.add(rows, weight)
        if kept is not None:
            kept.append(batch)
        if any(sample.n_seen > settings.max_rows for sample in samples):
            kept = None  # too many: the network has to compute them again
    return [sample.draw() for sample in samples], kept


def _clustered_weights(nestings, weights):
    """The weights of rows in clustering: that of an empty bag, a learned vector, is left out."""
    not_empty = [1.0, *(~nesting.is_empty for nesting in nestings[:-1])]
    return [w * n for w, n in zip(weights[:-1], not_empty, strict=True)]


def _possible(settings, samples):
    """The numbers of clusters to try that the data allow."""
    possible = []
    for level, (rows, _) in enumerate(samples):
        wanted, symbol = settings.options[level], level_symbol(level)
        if not len(rows) or (settings.fixed and wanted[0] > len(rows)):
            raise ValueError(
                f"Expected at least {wanted[0]} rows to cluster at level {symbol!r}. "
                f"Received: {len(rows)}, n_clusters={wanted[0]}"
            )
        distinct = count_distinct(rows, wanted[-1])
        if distinct < wanted[-1]:
            warnings.warn(
                f"Level {symbol!r} has only {distinct} distinct points, so that it cannot have "
                f"{wanted[-1]} clusters.",
                stacklevel=5,
            )
        possible.append(tuple(k for k in wanted if k <= distinct) or (distinct,))
    return possible


def _clusterings(samples, ks, settings, on_step):
    """For each level, a dict from k to centroids."""
    keys = [(level, k) for level, options_here in enumerate(ks) for k in options_here]
    results = parallel.run(
        lambda level, k: fit_centroids(*samples[level], k, **settings.clustering),
        keys,
        settings.n_jobs,
        on_step,
    )
    centroids = [{} for _ in ks]
    for (level, k), result in zip(keys, results, strict=True):
        centroids[level][k] = result
    return centroids


def _label(observations, centroids, target):
    """Label each batch by all centroids, and keep nothing else of it but its classes."""
    nestings, labels, classes = [], [], []
    for batch in observations:
        pairs = zip(batch.representations, centroids, strict=True)
        labels.append([nearest_of_each(rows, each) for rows, each in pairs])
        nestings.append(batch.nestings)
        classes.append(target.labels(batch.outputs))
    joined = tuple(
        {k: np.concatenate([batch[level][k] for batch in labels]) for k in cs}
        for level, cs in enumerate(centroids)
    )
    nestings = tuple(map(concatenate, zip(*nestings, strict=True)))
    return nestings, joined, np.concatenate(classes)


def _levels(data, features, weights, centroids, trees, best, class_names):
    """The levels of one combination, with their rules."""
    n_levels = len(features)
    counts = (*best.n_clusters, len(class_names))
    names = [
        *(tuple(f"{level_symbol(i)}{c + 1}" for c in range(k)) for i, k in enumerate(counts[:-1])),
        class_names,
    ]
    examples, labels = [], data.labels[0][counts[0]]
    for i, tree in enumerate(trees):  # what each tree has learned from
        bags = bag_features(features[i], labels, counts[i], data.nestings[i])
        examples.append(tally(*merge(bags), data.labels[i + 1][counts[i + 1]], weights[i + 1]))
        labels = tree.predict(bags)
    clustered = _clustered_weights(data.nestings, weights)
    needed, levels = (True,) * counts[-1], []
    for i in reversed(range(n_levels)):
        rules = learn_rules(trees[i], features[i], i, *examples[i])
        rules = RuleSet(rules, names[i], names[i + 1], needed)
        k = counts[i]
        sizes = np.bincount(data.labels[i][k], clustered[i], minlength=k) / clustered[i].sum()
        words = level_word(i, n_levels), level_word(i + 1, n_levels)
        levels.insert(0, Level(*words, centroids[i][k], sizes, features[i], trees[i], rules))
        needed = rules.needed_members
    return tuple(levels)


def _warn_of_collapse(levels):
    for level in levels:
        if level.tree.n_leaves == 1:
            warnings.warn(
                f"The rules put every {level.bag_word} into one class, "
                f"{level.rules.names[level.tree.label[0]]!r}.",
                stacklevel=4,
            )

"""From what a network computes on training and validation data to the levels of an explainer."""

import warnings
from dataclasses import dataclass

import numpy as np

from keras_mmil._support.agreement import majority
from keras_mmil.interpretation.fitting import options, parallel
from keras_mmil.interpretation.fitting.clustering import (
    RowSample,
    count_distinct,
    fit_centroids,
    nearest_of_each,
)
from keras_mmil.interpretation.fitting.progress import Progress
from keras_mmil.interpretation.fitting.refine import around, coarse
from keras_mmil.interpretation.fitting.search import LabelledBags, choose, explore, merge, tally
from keras_mmil.interpretation.network import sensitivity
from keras_mmil.interpretation.network.nesting import clustered_weights, concatenate, multiplicities
from keras_mmil.interpretation.rules.features import bag_features
from keras_mmil.interpretation.rules.level import Level, level_symbol, level_word
from keras_mmil.interpretation.rules.rules import RuleSet, learn_rules

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
        majority: share of the network's most frequent class of the validation data, the fidelity
            that naming it for all would have.
    """

    levels: tuple
    classes: tuple
    grid: tuple
    n_clusters: tuple
    fidelity: float
    majority: float


def fit(task, verbose=0):
    """Fit an explainer: algorithm 3 of the paper.

    Args:
        task: a `Task`.
        verbose: 1 for a progress bar, 0 for none.

    Returns:
        `Fitted`.
    """
    network, target, settings, x = task.network, task.target, task.settings, task.x
    progress = Progress(verbose)

    def in_batches(part):
        progress.expect(part.n_batches)
        return part.batches(), progress.step

    projections = (None,) * len(network.layers)
    if settings.metric == "sensitivity":
        some = sensitivity.draw(x, settings.seed)
        projections = sensitivity.projections(network, target, *in_batches(some))

    def observe(part):
        batches = network.batches(*in_batches(part))
        return (batch.projected(projections) for batch in batches)

    samples, kept = _draw(observe(x), settings)
    possible = _possible(settings, samples)
    centroids = [{} for _ in possible]
    train, held_out = _Labelled(centroids, target), _Labelled(centroids, target)
    trees, ks = {}, coarse(possible)
    while ks is not None:
        new = [
            tuple(k for k in wanted if k not in known)
            for wanted, known in zip(ks, centroids, strict=True)
        ]
        progress.expect(sum(map(len, new)) + len(ks[0]))
        if any(new):
            for known, more in zip(
                centroids, _clusterings(samples, new, settings, progress.step), strict=True
            ):
                known.update(more)
            train.add(observe(x) if kept is None else kept, new)
            held_out.add(observe(task.x_valid), new)
        n_classes = target.n_classes(train.classes, held_out.classes)
        names = options.class_names(settings.class_names, n_classes)
        features = _features(settings, network, train)
        weights = multiplicities(train.nestings)
        both = train.bags(ks, n_classes), held_out.bags(ks, n_classes)
        tasks = [(*both, features, weights, k, settings.tree) for k in ks[0]]
        with warnings.catch_warnings():  # here and not in a task: filters are those of all threads
            # Equal bags are merged: of many clusters, there may be hardly more that differ.
            warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
            for pairs in parallel.run(explore, tasks, settings.n_jobs, progress.step):
                trees.update(pairs)
        best = choose(tuple(trees), settings.tolerance)
        ks = around(best.n_clusters, possible, centroids)
    data = train.bags([(k,) for k in best.n_clusters], n_classes)
    levels = _levels(data, features, weights, projections, centroids, trees[best], best, names)
    _warn_of_collapse(levels)
    progress.finish()
    figures = best.fidelity, majority(held_out.classes)
    return Fitted(levels, names, tuple(trees), best.n_clusters, *figures)


class _Labelled:
    """Nested bags whose rows are labelled by more and more centroids.

    Args:
        centroids: for each level, a dict from k to centroids, which may grow.
        target: the `Target`.

    Attributes:
        nestings: a `Grouping` for each level, from the instances upwards.
        classes: the network's classes of the top-bags.
    """

    def __init__(self, centroids, target):
        self.nestings, self.classes = None, None
        self._centroids, self._target = centroids, target
        self._labels = [{} for _ in centroids]

    def add(self, observations, ks):
        """Label by the centroids of further numbers of clusters, a tuple for each level."""
        pairs = zip(self._centroids, ks, strict=True)
        chosen = [{k: known[k] for k in wanted} for known, wanted in pairs]
        self.nestings, labels, self.classes = _label(observations, chosen, self._target)
        for known, more in zip(self._labels, labels, strict=True):
            known.update(more)

    def bags(self, ks, n_classes):
        """`LabelledBags` with the labels of some numbers of clusters only."""
        pairs = zip(self._labels, ks, strict=True)
        labels = [{k: known[k] for k in wanted} for known, wanted in pairs]
        return LabelledBags(self.nestings, (*labels, {n_classes: self.classes}))


def _features(settings, network, train):
    member_weights = [nesting.weights for nesting in train.nestings]
    return options.level_features(settings.features, network.aggregations, member_weights)


def _draw(observations, settings):
    """Rows to cluster, at most so many for each level, and the observations if they are few."""
    samples, kept = [], []
    for batch in observations:
        if not samples:
            n_levels = len(batch.nestings)
            seeds = np.random.SeedSequence(settings.seed).spawn(n_levels)
            samples = [RowSample(settings.max_rows, seed) for seed in seeds]
        weights = clustered_weights(batch.nestings)
        for sample, rows, weight in zip(samples, batch.representations, weights, strict=True):
            sample.add(rows, weight)
        if kept is not None:
            kept.append(batch)
        if any(sample.n_seen > settings.max_rows for sample in samples):
            kept = None  # too many: the network has to compute them again
    return [sample.draw() for sample in samples], kept


def _possible(settings, samples):
    """The numbers of clusters to try that the data allow."""
    settings.check_rows([len(rows) for rows, _ in samples])
    possible = []
    for level, (rows, _) in enumerate(samples):
        wanted = settings.options[level]
        distinct = count_distinct(rows, wanted[-1])
        if distinct < wanted[-1]:
            warnings.warn(
                f"Level {level_symbol(level)!r} has only {distinct} distinct points, so that it "
                f"cannot have {wanted[-1]} clusters.",
                stacklevel=4,
            )
        few = wanted[: max(distinct + 1 - wanted[0], 0)]
        possible.append(tuple(few) or (distinct,))
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


def _levels(data, features, weights, projections, centroids, trees, best, class_names):
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
    clustered = clustered_weights(data.nestings)
    needed, levels = (True,) * counts[-1], []
    for i in reversed(range(n_levels)):
        rules = learn_rules(trees[i], features[i], i, *examples[i])
        rules = RuleSet(rules, names[i], names[i + 1], needed)
        k = counts[i]
        sizes = np.bincount(data.labels[i][k], clustered[i], minlength=k) / clustered[i].sum()
        words = level_word(i, n_levels), level_word(i + 1, n_levels)
        clusters = projections[i], centroids[i][k], sizes
        levels.insert(0, Level(*words, *clusters, features[i], trees[i], rules))
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

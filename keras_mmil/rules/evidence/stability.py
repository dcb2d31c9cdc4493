"""How much rules depend on the sample that they were fitted on: refits on bootstrap samples."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment

from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Array, Config, Ints
from keras_mmil.rules.explain.reading import classify
from keras_mmil.rules.fitting import parallel
from keras_mmil.rules.fitting.cluster import (
    Centroids,
    RowSample,
    WeightedRows,
    count_distinct,
    fit_centroids,
    nearest,
)
from keras_mmil.rules.fitting.label import LabelledBags, label
from keras_mmil.rules.fitting.levels import make_levels
from keras_mmil.rules.fitting.plan import MEASURED, Plan, make_plan
from keras_mmil.rules.fitting.progress import Progress
from keras_mmil.rules.fitting.search import Labelled, Search
from keras_mmil.rules.fitting.task import Task
from keras_mmil.rules.network.capture import Observation
from keras_mmil.rules.network.nesting import (
    Nesting,
    clustered_weights,
    concatenate,
    multiplicities,
    take_bags,
)
from keras_mmil.rules.network.sources import Source
from keras_mmil.rules.trees.level import Level, all_clusters

__all__ = ["RuleStability", "Stability", "stability"]

# A rule whose clusters have the numbers of the original ones: level, conclusion, and conditions.
_Key: TypeAlias = tuple[int, int, frozenset[tuple[object, ...]]]

# For these, only the sides on which they are bounded are compared, as any sample moves the bounds.
_CONTINUOUS = (*MEASURED, "frequency", "weight")


@dataclass(frozen=True)
class RuleStability:
    """How often a rule recurs.

    Attributes:
        level: index of its level.
        number: of the rule, from 1, as in the printed rules.
        clause: the rule as text.
        share: of the refits that have it, too.
    """

    level: int
    number: int
    clause: str
    share: float


@dataclass(frozen=True)
class Stability:
    """How much rules depend on their sample.

    Attributes:
        dice: mean of `dices`.
        agreement: mean of `agreements`.
        dices: for each refit, the Dice coefficient of its rules and the original ones: twice the
            number of common rules divided by the number of both.
        agreements: for each refit, the share of validation top-bags that it classifies as the
            original rules do.
        rules: the original rules that are used in decisions, from the instances upwards.
    """

    dice: float
    agreement: float
    dices: tuple[float, ...]
    agreements: tuple[float, ...]
    rules: tuple[RuleStability, ...]

    @property
    def n(self) -> int:
        """Number of refits."""
        return len(self.dices)

    def text(self) -> str:
        """The figures, and a line for each rule."""
        lines = [
            f"{self.n} refits on bootstrap samples",
            f"the same rules (Dice): {percent(self.dice)}, at least {percent(min(self.dices))}",
            f"the same predictions: {percent(self.agreement)}, at least "
            f"{percent(min(self.agreements))}",
            *(f"{percent(r.share, width=5)}  {r.clause}" for r in self.rules),
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> Config:
        """For JSON."""
        return vars(self) | {"rules": [vars(rule) for rule in self.rules]}


def stability(levels: Sequence[Level], task: Task, *, n: int, seed: int, verbose: int) -> Stability:
    """Refit rules n times on bootstrap samples of the data of `task`, and compare.

    The numbers of clusters, and the directions in which rows are clustered, are those of the
    original rules. Clusters of a refit are matched with the original ones so that as many rows as
    possible are in matching clusters.
    """
    refits = Refitter(levels, task, verbose)
    original = _keys(levels, {})
    dices, agreements = [], []
    counts = dict.fromkeys(original, 0)
    for refit in refits.run(n, seed):
        keys = set(_keys(refit.levels, _matches(levels, refit)))
        common = keys & counts.keys()
        dices.append(2 * len(common) / (len(keys) + len(counts)))
        agreements.append(float(np.mean(refit.predicted == refits.predicted)))
        for key in common:
            counts[key] += 1
    rules = [
        RuleStability(
            level=index,
            number=number,
            clause=levels[index].rules.clause(levels[index].rules.rules[number - 1]),
            share=counts[key] / n,
        )
        for key, (index, number) in original.items()
    ]
    return Stability(
        dice=float(np.mean(dices)),
        agreement=float(np.mean(agreements)),
        dices=tuple(dices),
        agreements=tuple(agreements),
        rules=tuple(rules),
    )


def match(ours: Ints, theirs: Ints, weights: Array, n_ours: int, n_theirs: int) -> Ints:
    """For each of their clusters the matching one of ours, int [n_theirs]; -1 where none is left.

    As much weight as possible is of rows in clusters that match.
    """
    pairs = np.bincount(theirs * n_ours + ours, weights, minlength=n_theirs * n_ours)
    rows, columns = linear_sum_assignment(pairs.reshape(n_theirs, n_ours), maximize=True)
    result = np.full(n_theirs, -1)
    result[rows] = columns
    return result


def _matches(levels: Sequence[Level], refit: "_Refit") -> dict[int, Ints]:
    """For each bag-layer, the original cluster of each cluster of a refit."""
    matches = {}
    for ours, theirs in zip(all_clusters(levels), all_clusters(refit.levels), strict=True):
        known, labels, weights = refit.rows[ours.level]
        matches[ours.level] = match(known, labels, weights, ours.n_clusters, theirs.n_clusters)
    return matches


def _keys(levels: Sequence[Level], matches: dict[int, Ints]) -> dict[_Key, tuple[int, int]]:
    """The rules that are used in decisions, and for each the index of its level and its number."""
    keys: dict[_Key, tuple[int, int]] = {}
    for index, level in enumerate(levels):
        columns = level.rules.columns
        clusters = {
            at.start + i: (bag.level, int(number))
            for bag, at in level.space.of_bags
            for i, number in enumerate(matches.get(bag.level, np.arange(at.stop - at.start)))
        }
        names = matches.get(level.record)
        for number, rule in enumerate(level.rules, 1):
            if not level.rules.needed[rule.conclusion]:
                continue
            conditions = []
            for each in rule.conditions:
                bounds = np.array([each.low, each.high])
                if columns[each.column].feature in _CONTINUOUS:
                    bounds = np.isfinite(bounds)
                what = clusters.get(each.column, each.column)
                conditions.append((what, *bounds.tolist()))
            conclusion = rule.conclusion if names is None else int(names[rule.conclusion])
            keys[level.record, conclusion, frozenset(conditions)] = index, number
    return keys


# Refits -----------------------------------------------------------------------------------------


class _Refit(NamedTuple):
    """Rules that were fitted on a bootstrap sample, and their classes of the validation top-bags.

    `rows` are some training rows of each bag-layer: their nearest original clusters, their nearest
    ones of the refit, and their weights.
    """

    levels: tuple[Level, ...]
    predicted: Ints
    rows: tuple[tuple[Ints, Ints, Array], ...]


class Refitter:
    """Fits rules again, with the original numbers of clusters. The network runs once for all.

    `predicted` are the classes of the validation top-bags by the original rules, int [top-bags].
    """

    def __init__(self, levels: Sequence[Level], task: Task, verbose: int) -> None:
        self._levels, self._task, self._progress = levels, task, Progress(verbose)
        self._clusters = all_clusters(levels)
        self.predicted = classify(levels, task.target, self._observe(task.x_valid))[0]
        self._n_top_bags = 0
        self._samples, self._nestings, self._kept = self._capture()

    def run(self, n: int, seed: int) -> Iterator[_Refit]:
        """Refit n times."""
        n_top_bags = self._n_top_bags
        spawned = np.random.SeedSequence(seed).spawn(n)
        sampled = [
            np.random.default_rng(each).integers(0, n_top_bags, n_top_bags) for each in spawned
        ]
        self._progress.expect(n * (len(self._clusters) + 1))
        centroids = self._cluster([self._rows_of(chosen) for chosen in sampled])
        train = label(self._train_observations(), centroids, self._task.target)
        held_out = label(self._observe(self._task.x_valid), centroids, self._task.target)
        views = [(_view(train, centroids, r), _view(held_out, centroids, r)) for r in range(n)]
        plan = make_plan(self._task.network, self._task.options, views[0][0])
        for r, (chosen, (ours, theirs)) in enumerate(zip(sampled, views, strict=True)):
            of_refit = [of_layer[r] for of_layer in centroids]
            yield self._refit(ours.some(chosen, plan.parents), theirs, plan, of_refit)
        self._progress.finish()

    def _refit(
        self, train: LabelledBags, held_out: LabelledBags, plan: Plan, centroids: Sequence[Array]
    ) -> _Refit:
        """The trees and rules of one sample, labelled by its centroids."""
        plan = replace(
            plan, weights=multiplicities(train.nestings, plan.parents, len(train.classes))
        )
        data, task = Labelled(train, held_out), self._task
        search = Search(plan, data, task.options, task.seed, Progress(verbose=0))
        ks = search.rate([tuple(map(len, centroids))])
        trees = search.trees if self._task.network.is_chain else search.prune()
        (grown,) = trees.values()
        levels = make_levels(
            train,
            plan,
            projections=[clusters.projection for clusters in self._clusters],
            centroids=centroids,
            trees=grown,
            class_names=self._levels[-1].rules.names,
        )
        of_records = dict(zip(plan.records, grown, strict=True))
        labels = plan.predict(held_out, of_records, held_out.nearest(ks), ks)
        rows = tuple(
            (nearest(s.rows, c.centroids), nearest(s.rows, points), s.weights)
            for s, c, points in zip(self._samples, self._clusters, centroids, strict=True)
        )
        self._progress.step()
        return _Refit(levels, labels[-1], rows)

    def _capture(self) -> tuple[list[WeightedRows], tuple[Nesting, ...], list[Observation] | None]:
        """Rows of each level with their numbers as values, all bags, and observations if few."""
        network, options = self._task.network, self._task.options
        levels = range(len(self._clusters))
        samples = [RowSample(options.max_rows, self._task.seed, level) for level in levels]
        nestings, kept = [], []
        is_small = True
        for number, batch in enumerate(self._observe(self._task.x)):
            weights = clustered_weights(batch.nestings, network.parents, network.has_fields)
            for i, (sample, weight) in enumerate(zip(samples, weights, strict=True)):
                numbers = sample.n_seen + np.arange(len(weight))
                sample.add(number, batch.representations[i], weight, (numbers,))
            nestings.append(batch.nestings)
            self._n_top_bags += batch.n_top_bags
            is_small &= all(sample.n_seen <= options.max_rows for sample in samples)
            kept.append(batch)
            if not is_small:
                kept.clear()
        joined = tuple(map(concatenate, zip(*nestings, strict=True)))
        return [sample.rows() for sample in samples], joined, kept if is_small else None

    def _rows_of(self, chosen: Ints) -> list[WeightedRows]:
        """The rows of each level that are in some top-bags, weighted by how often they are."""
        network = self._task.network
        top = len(self._nestings)
        nestings = [
            take_bags(nesting, chosen) if parent == top else nesting
            for nesting, parent in zip(self._nestings, network.parents, strict=True)
        ]
        weights = clustered_weights(nestings, network.parents, network.has_fields)
        result = []
        for sample, weight in zip(self._samples, weights, strict=True):
            (numbers,) = sample.values
            counts = weight[numbers]
            result.append(WeightedRows(sample.rows[counts > 0], counts[counts > 0]))
        return result

    def _cluster(self, samples: Sequence[Sequence[WeightedRows]]) -> tuple[Centroids, ...]:
        """The centroids of each level, by the number of the refit."""
        options = self._task.options
        books = self._task.network.codebooks
        layers = [i for i, book in enumerate(books) if book is None]
        keys = [(i, r) for r in range(len(samples)) for i in layers]
        tasks = [
            partial(
                fit_centroids,
                samples[r][i],
                count_distinct(samples[r][i].rows, self._clusters[i].n_clusters) or 1,
                seed=self._task.seed,
                n_init=options.n_init,
            )
            for i, r in keys
        ]
        centroids: tuple[Centroids, ...] = tuple({} for _ in self._clusters)
        results = parallel.run(tasks, options.n_jobs, self._progress.step)
        for (i, r), of_refit in zip(keys, results, strict=True):
            centroids[i][r] = of_refit
        for book, known, clusters in zip(books, centroids, self._clusters, strict=True):
            if book is not None:  # symbols are the network's own
                known.update(dict.fromkeys(range(len(samples)), clusters.centroids))
        return centroids

    def _train_observations(self) -> Iterator[Observation]:
        yield from self._observe(self._task.x) if self._kept is None else self._kept

    def _observe(self, source: Source) -> Iterator[Observation]:
        projections = [clusters.projection for clusters in self._clusters]
        batches = self._task.network.batches(source.batches())
        return (batch.projected(projections) for batch in batches)


def _view(data: LabelledBags, centroids: Sequence[Centroids], refit: int) -> LabelledBags:
    """Bags with the labels of one refit, by its numbers of clusters."""
    pairs = zip(data.labels, centroids, strict=True)
    labels = tuple({len(points[refit]): known[refit]} for known, points in pairs)
    return replace(data, labels=labels, _matrices={})

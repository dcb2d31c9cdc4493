"""Rules fitted again, on bootstrap samples of the top-bags: the network runs once for all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.fitting import parallel
from keras_mmil.interpretation.fitting.cluster import (
    Centroids,
    RowSample,
    WeightedRows,
    count_distinct,
    fit_centroids,
    nearest,
)
from keras_mmil.interpretation.fitting.label import LabelledBags, label
from keras_mmil.interpretation.fitting.levels import make_levels
from keras_mmil.interpretation.fitting.plan import Plan, make_plan
from keras_mmil.interpretation.fitting.progress import Progress
from keras_mmil.interpretation.fitting.search import Labelled, Search
from keras_mmil.interpretation.fitting.task import Task
from keras_mmil.interpretation.network.capture import Observation
from keras_mmil.interpretation.network.nesting import (
    Nesting,
    clustered_weights,
    concatenate,
    multiplicities,
    take_bags,
)
from keras_mmil.interpretation.network.sources import Source
from keras_mmil.interpretation.readout.reading import classify
from keras_mmil.interpretation.rules.level import Level, all_clusters

__all__ = ["Refit", "Refitter"]


@dataclass(frozen=True, eq=False)
class Refit:
    """Rules that were fitted on a bootstrap sample.

    Attributes:
        levels: from the instances upwards.
        predicted: their classes of the validation top-bags, int [top-bags].
        rows: for each bag-layer, some rows of the training data: their nearest original clusters,
            their nearest ones of the refit, and their weights, [rows] each.
    """

    levels: tuple[Level, ...]
    predicted: Ints
    rows: tuple[tuple[Ints, Ints, Array], ...]


class Refitter:
    """Fits rules again.

    Args:
        levels: the original ones, from the instances upwards, whose numbers of clusters are kept.
        task: with the data that they were fitted on.
        verbose: 1 for a progress bar, 0 for none.

    Attributes:
        predicted: classes of the validation top-bags by the original rules, int [top-bags].
    """

    def __init__(self, levels: Sequence[Level], task: Task, verbose: int) -> None:
        self._levels, self._task, self._progress = levels, task, Progress(verbose)
        self._clusters = all_clusters(levels)
        self.predicted = classify(levels, task.target, self._observe(task.x_valid))[0]
        self._n_top_bags = 0
        self._samples, self._nestings, self._kept = self._capture()

    def run(self, n: int, seed: int) -> Iterator[Refit]:
        """Refit n times.

        Args:
            n: number of refits.
            seed: of the samples of top-bags.
        """
        n_top_bags = self._n_top_bags
        spawned = np.random.SeedSequence(seed).spawn(n)
        drawn = [
            np.random.default_rng(each).integers(0, n_top_bags, n_top_bags) for each in spawned
        ]
        self._progress.expect(n * (len(self._clusters) + 1))
        samples = [self._rows_of(chosen) for chosen in drawn]
        found = self._cluster(samples)
        train = label(self._train_observations(), found, self._task.target)
        held_out = label(self._observe(self._task.x_valid), found, self._task.target)
        views = [(_view(train, found, r), _view(held_out, found, r)) for r in range(n)]
        plan = make_plan(self._task.network, self._task.options, views[0][0])
        for r, (chosen, (ours, theirs)) in enumerate(zip(drawn, views, strict=True)):
            centroids = [of_layer[r] for of_layer in found]
            yield self._refit(ours.some(chosen, plan.parents), theirs, plan, centroids)
        self._progress.finish()

    def _refit(
        self,
        train: LabelledBags,
        held_out: LabelledBags,
        plan: Plan,
        centroids: Sequence[Array],
    ) -> Refit:
        """The trees and rules of one sample, labelled by its centroids."""
        plan = replace(
            plan, weights=multiplicities(train.nestings, plan.parents, len(train.classes))
        )
        search = Search(plan, self._task.options, self._task.seed, Progress(verbose=0))
        ks = search.rate(Labelled(train, held_out), [tuple(map(len, centroids))])
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
        return Refit(levels, labels[-1], rows)

    def _capture(
        self,
    ) -> tuple[list[WeightedRows], tuple[Nesting, ...], list[Observation] | None]:
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
        """The rows of each level that are in some top-bags, and how often they are."""
        network = self._task.network
        top = len(self._nestings)
        nestings = [
            take_bags(nesting, chosen) if parent == top else nesting
            for nesting, parent in zip(self._nestings, network.parents, strict=True)
        ]
        weights = clustered_weights(nestings, network.parents, network.has_fields)
        found = []
        for sample, weight in zip(self._samples, weights, strict=True):
            (numbers,) = sample.values
            drawn = weight[numbers]
            found.append(WeightedRows(sample.rows[drawn > 0], drawn[drawn > 0]))
        return found

    def _cluster(self, samples: Sequence[Sequence[WeightedRows]]) -> tuple[Centroids, ...]:
        """The centroids of each level, by the number of the refit."""
        options = self._task.options
        keys = [(i, r) for r in range(len(samples)) for i in range(len(self._clusters))]
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
        results = parallel.run(tasks, options.n_jobs, self._progress.step)
        found: tuple[Centroids, ...] = tuple({} for _ in self._clusters)
        for (i, r), result in zip(keys, results, strict=True):
            found[i][r] = result
        return found

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

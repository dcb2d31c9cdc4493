"""From what a network computes on training and validation data to the levels of an explainer."""

import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from keras_mmil._support.formatting import majority
from keras_mmil._support.types import Array
from keras_mmil.interpretation.fitting import options, refine
from keras_mmil.interpretation.fitting.cluster import Centroids, cluster, count_distinct
from keras_mmil.interpretation.fitting.combinations import Combinations, Labelled
from keras_mmil.interpretation.fitting.definitions import definable, with_definitions
from keras_mmil.interpretation.fitting.fitted import Fitted
from keras_mmil.interpretation.fitting.label import LabelledBags, Labelling, label
from keras_mmil.interpretation.fitting.levels import make_levels
from keras_mmil.interpretation.fitting.plan import Plan, make_plan
from keras_mmil.interpretation.fitting.preparation import Task, check_rows
from keras_mmil.interpretation.fitting.progress import Progress
from keras_mmil.interpretation.fitting.sample import Sampled, Sampling, WeightedRows
from keras_mmil.interpretation.fitting.search import GridPoint, Trees
from keras_mmil.interpretation.network import sensitivity
from keras_mmil.interpretation.network.fingerprints import Hashing
from keras_mmil.interpretation.network.passes import Source, Step
from keras_mmil.interpretation.rules.level import Level, level_symbol, unseen

__all__ = ["Fitter"]

# Warnings in what `Fitter.fit` calls point to the line that calls `Explainer.fit`.
_STACK_LEVEL = 4

T = TypeVar("T")


class Fitter:
    """Fits an explainer: algorithm 3 of the paper, for any number of levels.

    Args:
        task: what there is to fit.
        verbose: 1 for a progress bar, 0 for none.

    Attributes:
        task: the same, with the top-bags that were drawn of many.
    """

    def __init__(self, task: Task, verbose: int = 0) -> None:
        self._progress = Progress(verbose)
        self.task = task = task.drawn(self._progress)
        self._network, self._target, self._settings = task.network, task.target, task.settings
        self._x, self._x_valid = task.x, task.x_valid
        # Of the top-bags of each of the two, once they have been read.
        self._prints: dict[Source, npt.NDArray[np.uint64]] = {}
        self._projections: Sequence[Array | None] = [None] * len(self._network.layers)

    def fit(self) -> Fitted:
        """Cluster, label and evaluate, first coarsely, then finer around the best combination."""
        if self._settings.metric == "sensitivity":
            self._projections = self._directions()
        sampled = self._sample(self._x)
        samples = sampled.rows()
        possible = self._possible(samples)
        centroids: Sequence[Centroids] = [{} for _ in possible]
        data: Labelled | None = None
        trees: dict[GridPoint, Trees] = {}
        numbers = refine.coarse(possible) if self._network.is_chain else possible
        while True:
            new = _untried(numbers, centroids)
            self._progress.expect(sum(map(len, new)))
            found = self._cluster(samples, new)
            centroids = _joined(centroids, found)
            data = self._label(found, sampled, data)
            names = self._class_names(data)
            combinations = Combinations(data, self._settings, self._progress)
            if not self._network.is_chain:
                trees = combinations.ascend(possible)
                pruned = combinations.prune(trees)
                trees |= pruned
                levels_of = {
                    point: self._levels(data, centroids, point, pruned[point], names)
                    for point in combinations.best_of(pruned)
                }
                best = min(levels_of, key=lambda point: _n_conditions(levels_of[point]))
                levels = levels_of[best]
                break
            trees |= combinations.all(numbers)
            best = combinations.choose(trees)
            finer = refine.around(best.n_clusters, possible, centroids)
            if finer is None:
                levels = self._levels(data, centroids, best, trees[best], names)
                break
            numbers = finer
        # Pruned are those trees of records that make no difference.
        _warn_of_collapse(levels if self._network.is_chain else levels[-1:])
        levels = self._define(levels, samples, data.plan)
        _warn_of_unseen(levels)
        self._progress.finish()
        return Fitted(
            levels=levels,
            classes=names,
            # Pruned trees come after those that they were made of, and take their place.
            grid=tuple({point.n_clusters: point for point in trees}.values()),
            n_clusters=best.n_clusters,
            fidelity=best.fidelity,
            majority=majority(data.held_out.classes),
            fidelity_by_instances=combinations.by_instances(possible, best),
            used=np.sort(np.concatenate(list(self._prints.values()))),
        )

    def _levels(
        self,
        data: Labelled,
        centroids: Sequence[Centroids],
        point: GridPoint,
        trees: Trees,
        class_names: tuple[str, ...],
    ) -> tuple[Level, ...]:
        """The levels of one combination, with its rules."""
        return make_levels(
            data.train,
            data.plan,
            projections=self._projections,
            centroids=[known[k] for known, k in zip(centroids, point.n_clusters, strict=True)],
            trees=trees,
            class_names=class_names,
        )

    # The steps of `fit`, in their order.

    def _directions(self) -> tuple[Array, ...]:
        """The directions in which representations make a difference to the network's output."""
        some = sensitivity.draw(self._x, self._settings.seed)
        squares = self._run(some, sensitivity.Gradients(self._target))
        return sensitivity.projections(self._network, chain.from_iterable(squares))

    def _sample(self, source: Source) -> Sampled:
        """Rows of each level, and all observations if they are here and few."""
        settings = self._settings
        step = Sampling(
            settings.max_rows, settings.seed, self._projections, keeps=not source.in_blocks
        )
        return reduce(Sampled.merge, self._hashed(source, step))

    def _possible(self, samples: Sequence[WeightedRows]) -> list[Sequence[int]]:
        """The numbers of clusters of each level to try that the data allow."""
        check_rows(self._network, [len(sample.rows) for sample in samples])
        possible: list[Sequence[int]] = []
        for level, (sample, wanted) in enumerate(zip(samples, self._settings.options, strict=True)):
            # One cluster, which no rule tests, stands for the rows of a level that has none.
            distinct = count_distinct(sample.rows, wanted[-1]) or 1
            if len(sample.rows) and distinct < wanted[-1]:
                warnings.warn(
                    f"Level {level_symbol(level)!r} has only {distinct} distinct points, so that "
                    f"it cannot have {wanted[-1]} clusters.",
                    stacklevel=_STACK_LEVEL,
                )
            few = wanted[: max(distinct + 1 - wanted[0], 0)]
            possible.append(tuple(few) or (distinct,))
        return possible

    def _cluster(
        self, samples: Sequence[WeightedRows], new: Sequence[Sequence[int]]
    ) -> tuple[Centroids, ...]:
        """Cluster the rows of each level into further numbers of clusters."""
        settings = self._settings
        return cluster(
            samples,
            new,
            seed=settings.seed,
            n_init=settings.n_init,
            n_jobs=settings.n_jobs,
            on_done=self._progress.step,
        )

    def _label(
        self,
        found: Sequence[Centroids],
        sampled: Sampled,
        known: Labelled | None,
    ) -> Labelled:
        """Label training and validation data by further centroids, if there are any."""
        if known is not None and not any(found):
            return known
        step = Labelling(found, self._target, self._projections)
        if sampled.kept is None:
            train = LabelledBags.join(list(self._hashed(self._x, step)))
        else:
            train = label(sampled.kept, found, self._target)
        held_out = LabelledBags.join(list(self._hashed(self._x_valid, step)))
        if known is None:
            return Labelled(train, held_out, make_plan(self._network, self._settings, train))
        train = known.train.with_labels_of(train)
        return Labelled(train, known.held_out.with_labels_of(held_out), known.plan)

    def _define(
        self, levels: tuple[Level, ...], samples: Sequence[WeightedRows], plan: Plan
    ) -> tuple[Level, ...]:
        """Define the clusters that no rule decides, by the fields of their rows."""
        fields = definable(self._network, plan)
        if not fields:
            return levels
        return with_definitions(
            levels,
            fields,
            samples,
            self._sample(self._x_valid).rows(),
            ccp_alpha=self._settings.ccp_alpha,
            seed=self._settings.seed,
        )

    def _class_names(self, data: Labelled) -> tuple[str, ...]:
        n_classes = self._target.n_classes(data.train.classes, data.held_out.classes)
        is_function = self._target.function is not None  # which may return others, too
        return options.class_names(self._settings.class_names, n_classes, or_more=is_function)

    # What the steps share.

    def _run(self, source: Source, step: Step[T]) -> Iterator[T]:
        """The results of a step on some top-bags, with progress."""
        self._progress.expect(source.n_batches)
        return source.run(step, self._network, self._progress.step)

    def _hashed(self, source: Source, step: Step[T]) -> Iterator[T]:
        """The same; the hashes of the top-bags are kept when they are first read."""
        if source in self._prints:
            yield from self._run(source, step)
            return
        prints: list[npt.NDArray[np.uint64]] = []
        for result, hashes in self._run(source, Hashing(step)):
            prints += hashes
            yield result
        self._prints[source] = np.concatenate(prints)


def _untried(
    numbers: Sequence[Sequence[int]], centroids: Sequence[Collection[int]]
) -> list[tuple[int, ...]]:
    pairs = zip(numbers, centroids, strict=True)
    return [tuple(k for k in wanted if k not in known) for wanted, known in pairs]


def _joined(known: Sequence[Centroids], found: Iterable[Centroids]) -> list[Centroids]:
    return [ours | theirs for ours, theirs in zip(known, found, strict=True)]


def _n_conditions(levels: Sequence[Level]) -> tuple[int, int]:
    """The number of conditions in all rules that are needed, and of these rules."""
    sets = [level.rules for level in levels]
    return sum(rules.n_conditions for rules in sets), sum(rules.n_needed for rules in sets)


def _warn_of_unseen(levels: Sequence[Level]) -> None:
    if names := unseen(levels):
        warnings.warn(
            f"No training record has {', '.join(map(repr, names))}: left out of the rules.",
            stacklevel=_STACK_LEVEL,
        )


def _warn_of_collapse(levels: Sequence[Level]) -> None:
    for level in levels:
        if level.tree.n_leaves == 1:
            warnings.warn(
                f"The rules put every {level.word} into one class, "
                f"{level.rules.names[level.tree.label[0]]!r}.",
                stacklevel=_STACK_LEVEL,
            )

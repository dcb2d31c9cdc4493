"""From what a network computes on training and validation data to the levels of an explainer."""

import itertools
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from keras_mmil._support.agreement import majority
from keras_mmil._support.types import Array, Tensors
from keras_mmil.interpretation.fitting import options, parallel, refine
from keras_mmil.interpretation.fitting.cluster import Centroids, cluster, count_distinct
from keras_mmil.interpretation.fitting.fitted import Fitted
from keras_mmil.interpretation.fitting.label import LabelledBags, label
from keras_mmil.interpretation.fitting.levels import make_levels
from keras_mmil.interpretation.fitting.plan import Plan, make_plan
from keras_mmil.interpretation.fitting.preparation import Task
from keras_mmil.interpretation.fitting.progress import Progress
from keras_mmil.interpretation.fitting.prune import prune
from keras_mmil.interpretation.fitting.sample import WeightedRows, sample_rows
from keras_mmil.interpretation.fitting.search import Climber, GridPoint, Trees, choose
from keras_mmil.interpretation.network import sensitivity
from keras_mmil.interpretation.network.capture import Observation
from keras_mmil.interpretation.network.data import Source
from keras_mmil.interpretation.rules.level import Level, level_symbol
from keras_mmil.interpretation.rules.tree import grow

__all__ = ["Fitter"]

# Warnings in what `Fitter.fit` calls point to the line that calls `Explainer.fit`.
_STACK_LEVEL = 4

_N_PRUNED = 8  # combinations
_Result = TypeVar("_Result")


class Fitter:
    """Fits an explainer: algorithm 3 of the paper, for any number of levels.

    Args:
        task: what there is to fit.
        verbose: 1 for a progress bar, 0 for none.
    """

    def __init__(self, task: Task, verbose: int = 0) -> None:
        self._network, self._target, self._settings = task.network, task.target, task.settings
        self._x, self._x_valid = task.x, task.x_valid
        self._progress = Progress(verbose)
        self._projections: Sequence[Array | None] = [None] * len(self._network.layers)

    def fit(self) -> Fitted:
        """Cluster, label and evaluate, first coarsely, then finer around the best combination."""
        if self._settings.metric == "sensitivity":
            self._projections = self._directions()
        samples, kept = self._sample()
        possible = self._possible(samples)
        centroids: Sequence[Centroids] = [{} for _ in possible]
        data: _Labelled | None = None
        trees: dict[GridPoint, Trees] = {}
        numbers = refine.coarse(possible) if self._network.is_chain else possible
        while True:
            new = _untried(numbers, centroids)
            self._progress.expect(sum(map(len, new)))
            found = self._cluster(samples, new)
            centroids = _joined(centroids, found)
            data = self._label(found, kept, data)
            names = self._class_names(data)
            if not self._network.is_chain:
                trees = self._climb(data, data.plan, possible)
                pruned = self._prune(data, data.plan, trees)
                trees |= pruned
                levels_of = {
                    point: self._levels(data, centroids, point, pruned[point], names)
                    for point in _best(pruned, self._settings.tolerance)
                }
                best = min(levels_of, key=lambda point: _n_conditions(levels_of[point]))
                break
            trees |= self._evaluate(data, numbers)
            best = choose(trees, self._settings.tolerance)
            finer = refine.around(best.n_clusters, possible, centroids)
            if finer is None:
                break
            numbers = finer
        levels = self._levels(data, centroids, best, trees[best], names)
        _warn_of_collapse(levels)
        self._progress.finish()
        return Fitted(
            levels=levels,
            classes=names,
            grid=tuple(trees),
            n_clusters=best.n_clusters,
            fidelity=best.fidelity,
            majority=majority(data.held_out.classes),
            fidelity_by_instances=self._by_instances(data, possible, best),
        )

    def _levels(
        self,
        data: "_Labelled",
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
        return sensitivity.projections(self._network, self._target, *self._in_batches(some))

    def _sample(self) -> tuple[list[WeightedRows], list[Observation] | None]:
        """Rows of each level to cluster, and all observations if they are few."""
        return sample_rows(
            self._observe(self._x),
            self._network,
            self._settings.max_rows,
            self._settings.seed,
        )

    def _possible(self, samples: Sequence[WeightedRows]) -> list[Sequence[int]]:
        """The numbers of clusters of each level to try that the data allow."""
        self._settings.check_rows([len(sample.rows) for sample in samples])
        possible: list[Sequence[int]] = []
        for level, (sample, wanted) in enumerate(zip(samples, self._settings.options, strict=True)):
            distinct = count_distinct(sample.rows, wanted[-1])
            if distinct < wanted[-1]:
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
        kept: list[Observation] | None,
        known: "_Labelled | None",
    ) -> "_Labelled":
        """Label training and validation data by further centroids, if there are any."""
        if known is not None and not any(found):
            return known
        train = label(self._observe(self._x) if kept is None else kept, found, self._target)
        held_out = label(self._observe(self._x_valid), found, self._target)
        if known is None:
            return _Labelled(train, held_out, make_plan(self._network, self._settings, train))
        train = known.train.with_labels_of(train)
        return _Labelled(train, known.held_out.with_labels_of(held_out), known.plan)

    def _class_names(self, data: "_Labelled") -> tuple[str, ...]:
        n_classes = self._target.n_classes(data.train.classes, data.held_out.classes)
        return options.class_names(self._settings.class_names, n_classes)

    def _evaluate(
        self, data: "_Labelled", numbers: Sequence[Sequence[int]]
    ) -> dict[GridPoint, Trees]:
        """Grow the trees of all combinations of some numbers of clusters, and rate them."""
        self._progress.expect(len(numbers[0]))
        climber = self._climber(data, data.plan)

        def rate_all(n_instance_clusters: int) -> list[tuple[GridPoint, Trees]]:
            own = climber.branch()
            rest = itertools.product(*numbers[1:])
            return [own.rate((n_instance_clusters, *ks)) for ks in rest]

        results = self._run([partial(rate_all, k) for k in numbers[0]])
        return {point: trees for pairs in results for point, trees in pairs}

    def _climb(
        self, data: "_Labelled", plan: Plan, possible: Sequence[Sequence[int]]
    ) -> dict[GridPoint, Trees]:
        """Rate combinations by coordinate ascent, which takes few of them.

        All bag-layers begin with the same number of clusters, the best one. Then each in turn gets
        its best number, the others being as they are, until nothing changes.
        """
        climber = self._climber(data, plan)
        tried: dict[tuple[int, ...], tuple[GridPoint, Trees]] = {}

        def rate(wanted: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
            new = list(dict.fromkeys(ks for ks in wanted if ks not in tried))
            self._progress.expect(len(new))
            if tried:
                climber.rate(best)  # most of the trees of the others are among these
            pairs = self._run([partial(climber.branch().rate, ks) for ks in new])
            tried.update(zip(new, pairs, strict=True))
            points = (point for point, _ in tried.values())
            return choose(points, self._settings.tolerance).n_clusters

        best: tuple[int, ...] = ()
        longest = max(possible, key=len)
        best = rate(
            tuple(min(max(k, numbers[0]), numbers[-1]) for numbers in possible) for k in longest
        )
        while True:
            before = best
            for layer in reversed(range(len(possible))):
                best = rate((*best[:layer], k, *best[layer + 1 :]) for k in possible[layer])
            if best == before:
                return dict(tried.values())

    def _prune(
        self, data: "_Labelled", plan: Plan, trees: dict[GridPoint, Trees]
    ) -> dict[GridPoint, Trees]:
        """Prune the trees of the best combinations, and leave out those of the others."""
        together = data.train.joined(data.held_out)
        climber = self._climber(data, plan)
        best = sorted(trees, key=lambda point: (-point.fidelity, point.n_leaves))[:_N_PRUNED]
        self._progress.expect(len(best))
        alpha = self._settings.ccp_alpha
        found = self._run(
            [partial(prune, plan, together, trees[each], each.n_clusters, alpha) for each in best]
        )
        pairs = zip(best, found, strict=True)
        return {climber.point(point.n_clusters, pruned): pruned for point, pruned in pairs}

    def _by_instances(
        self, data: "_Labelled", possible: Sequence[Sequence[int]], best: GridPoint
    ) -> dict[str, float]:
        """The fidelity that was reached, and the one with the other labels of instances."""
        other = data.plan.by_centroids()
        if other.has_tree == data.plan.has_tree:
            return {"centroids": best.fidelity}
        found = choose(self._climb(data, other, possible), self._settings.tolerance)
        return {"fields": best.fidelity, "centroids": found.fidelity}

    def _climber(self, data: "_Labelled", plan: Plan) -> Climber:
        settings = self._settings
        return Climber(
            plan,
            data.train,
            data.held_out,
            partial(
                grow,
                max_depth=settings.max_depth,
                ccp_alpha=settings.ccp_alpha,
                seed=settings.seed,
            ),
        )

    # What the steps share.

    def _run(self, tasks: Sequence[Callable[[], _Result]]) -> list[_Result]:
        """Results of functions that grow trees, which run side by side."""
        with warnings.catch_warnings():  # here and not in a task: filters are those of all threads
            # Equal bags are merged: of many clusters, there may be hardly more that differ.
            warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
            return parallel.run(tasks, self._settings.n_jobs, self._progress.step)

    def _in_batches(self, source: Source) -> tuple[Iterator[Tensors], Callable[[], None]]:
        """The batches of some top-bags, and what to call after each, for the progress bar."""
        self._progress.expect(source.n_batches)
        return source.batches(), self._progress.step

    def _observe(self, source: Source) -> Iterator[Observation]:
        """What the network computes on some top-bags, in the directions that matter."""
        batches = self._network.batches(*self._in_batches(source))
        return (batch.projected(self._projections) for batch in batches)


@dataclass(frozen=True, eq=False)
class _Labelled:
    """The training and the validation data, labelled, and what to grow on them."""

    train: LabelledBags
    held_out: LabelledBags
    plan: Plan


def _untried(
    numbers: Sequence[Sequence[int]], centroids: Sequence[Collection[int]]
) -> list[tuple[int, ...]]:
    pairs = zip(numbers, centroids, strict=True)
    return [tuple(k for k in wanted if k not in known) for wanted, known in pairs]


def _joined(known: Sequence[Centroids], found: Iterable[Centroids]) -> list[Centroids]:
    return [ours | theirs for ours, theirs in zip(known, found, strict=True)]


def _best(grid: Iterable[GridPoint], tolerance: float) -> list[GridPoint]:
    """The combinations of the highest fidelity, or at most so much below."""
    grid = tuple(grid)
    least = max(point.fidelity for point in grid) - tolerance - 1e-12
    return [point for point in grid if point.fidelity >= least]


def _n_conditions(levels: Sequence[Level]) -> tuple[int, int]:
    """The number of conditions in all rules that are needed, and of these rules."""
    rules = [
        rule for level in levels for rule in level.rules if level.rules.needed[rule.conclusion]
    ]
    return sum(len(rule.conditions) for rule in rules), len(rules)


def _warn_of_collapse(levels: Sequence[Level]) -> None:
    for level in levels:
        if level.tree.n_leaves == 1:
            warnings.warn(
                f"The rules put every {level.word} into one class, "
                f"{level.rules.names[level.tree.label[0]]!r}.",
                stacklevel=_STACK_LEVEL,
            )

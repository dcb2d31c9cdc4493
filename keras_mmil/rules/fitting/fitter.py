"""From what a network computes on training and validation data to the levels of an explainer."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from keras_mmil._support.formatting import majority
from keras_mmil._support.types import Array
from keras_mmil.rules.fitting.cluster import (
    Centroids,
    Sampled,
    Sampling,
    WeightedRows,
    cluster,
    count_distinct,
    in_use,
)
from keras_mmil.rules.fitting.label import LabelledBags, Labelling, label
from keras_mmil.rules.fitting.levels import definable, make_levels, with_definitions
from keras_mmil.rules.fitting.options import class_names
from keras_mmil.rules.fitting.plan import Plan, Trees, make_plan
from keras_mmil.rules.fitting.progress import Progress
from keras_mmil.rules.fitting.search import (
    Combination,
    GridPoint,
    Labelled,
    Search,
    ascend,
    refine,
)
from keras_mmil.rules.fitting.task import Task, check_rows
from keras_mmil.rules.network import sensitivity
from keras_mmil.rules.network.fingerprints import Hashing
from keras_mmil.rules.network.sources import InMemory, Source, Step
from keras_mmil.rules.trees.level import Level, level_symbol, unseen

__all__ = ["Fitted", "Fitter"]

_KEPT = 2**29  # bytes of what the network computed on data in memory
# Warnings in what `Fitter.fit` calls point to the line that calls `Explainer.fit`.
_STACK_LEVEL = 4

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Fitted:
    """What fitting found.

    Attributes:
        levels: clusters and rules, from the instances upwards.
        classes: names of the classes of top-bags.
        grid: all combinations that were tried.
        n_clusters: the combination that was chosen.
        fidelity: of that one.
        majority: share of the network's most frequent class of the validation data: the fidelity of
            rules that predict it for every top-bag.
        fidelity_by_instances: the fidelity where instances are labelled by "fields", and, for as
            many clusters, where they are labelled by "centroids", as far as these differ.
        used: hashes of the top-bags that rules were fitted and chosen on, uint64 [top-bags].
    """

    levels: tuple[Level, ...]
    classes: tuple[str, ...]
    grid: tuple[GridPoint, ...]
    n_clusters: tuple[int, ...]
    fidelity: float
    majority: float
    fidelity_by_instances: Mapping[str, float]
    used: npt.NDArray[np.uint64]


class Fitter:
    """Fits an explainer: algorithm 3 of the paper, for any number of levels.

    Args:
        task: what to fit.
        verbose: 1 for a progress bar, 0 for none.

    Attributes:
        task: the same, with the top-bags that were sampled.
    """

    def __init__(self, task: Task, verbose: int = 0) -> None:
        self._progress = Progress(verbose)
        self.task = task = task.sampled(self._progress)
        self._network, self._target, self._options = task.network, task.target, task.options
        self._x, self._x_valid = task.x, task.x_valid
        # Hashes of the top-bags of each of the two, once they have been read.
        self._hashes: dict[Source, npt.NDArray[np.uint64]] = {}
        self._projections: Sequence[Array | None] = [None] * len(self._network.layers)
        self._centroids: list[Centroids] = [{} for _ in self._network.layers]
        self._symbols: dict[int, Array] = {}  # in use, by the index of their bag-layer

    def fit(self) -> Fitted:
        """Sample and cluster rows, label them, and search the best numbers of clusters."""
        if self._options.metric == "sensitivity":
            self._projections = self._directions()
        sampled = self._sample(self._x)
        rows = sampled.rows()
        numbers = self._possible(rows)
        order = refine(numbers) if self._network.is_chain else ascend(numbers)
        combinations = next(order)
        data = self._label(self._cluster(rows, combinations), sampled, None)
        plan = make_plan(self._network, self._options, data.train)
        search = Search(plan, data, self._options, self.task.seed, self._progress)
        while combinations := order.send(search.rate(combinations)):
            data = self._label(self._cluster(rows, combinations), sampled, data)
            search.relabel(data)
        names = self._class_names(data)
        if self._network.is_chain:
            best = search.best
            levels = self._levels(data, plan, best, search.trees[best], names)
            _warn_of_collapse(levels)
        else:
            pruned = search.prune()
            levels_of = {
                point: self._levels(data, plan, point, pruned[point], names)
                for point in search.best_of(pruned)
            }
            best = min(levels_of, key=lambda point: _n_conditions(levels_of[point]))
            levels = levels_of[best]
            _warn_of_collapse(levels[-1:])  # trees below that make no difference are pruned
        levels = self._define(levels, rows, plan)
        _warn_of_unseen(levels)
        by_instances = search.by_instances(best)
        self._progress.finish()
        return Fitted(
            levels=levels,
            classes=names,
            grid=search.grid(),
            n_clusters=best.n_clusters,
            fidelity=best.fidelity,
            majority=majority(data.held_out.classes),
            fidelity_by_instances=by_instances,
            used=np.sort(np.concatenate(list(self._hashes.values()))),
        )

    # The steps of `fit`, in their order.

    def _directions(self) -> tuple[Array, ...]:
        """The directions in which representations make a difference to the network's output."""
        some = sensitivity.sample(self._x, self.task.seed)
        squares = self._run(some, sensitivity.Gradients(self._target))
        return sensitivity.projections(self._network, chain.from_iterable(squares))

    def _sample(self, source: Source) -> Sampled:
        """Rows of each level, and all observations if they are here and few."""
        step = Sampling(
            self._options.max_rows,
            self.task.seed,
            self._projections,
            keeps=not source.in_blocks,
            n_bytes=_KEPT if isinstance(source, InMemory) else 0,
        )
        return reduce(Sampled.merge, self._hashed(source, step))

    def _possible(self, samples: Sequence[WeightedRows]) -> list[Sequence[int]]:
        """The numbers of clusters of each level to try that the data allow."""
        check_rows(self._network, [len(sample.rows) for sample in samples])
        possible: list[Sequence[int]] = []
        parts = zip(samples, self.task.numbers, self._network.codebooks, strict=True)
        for level, (sample, wanted, codebook) in enumerate(parts):
            if codebook is not None:  # the network's own clusters
                projection = self._projections[level]
                symbols = codebook if projection is None else codebook @ projection
                self._symbols[level] = in_use(symbols, sample)
                possible.append((len(self._symbols[level]),))
                continue
            # One cluster, which no rule tests, stands for the rows of a level that has none.
            distinct = count_distinct(sample.rows, wanted[-1]) or 1
            if len(sample.rows) and distinct < wanted[0]:
                warnings.warn(
                    f"Level {level_symbol(level)!r} has only {distinct} distinct points, so that "
                    f"it cannot have {wanted[0]} clusters.",
                    stacklevel=_STACK_LEVEL,
                )
            few = wanted[: max(distinct + 1 - wanted[0], 0)]
            possible.append(tuple(few) or (distinct,))
        return possible

    def _cluster(
        self, samples: Sequence[WeightedRows], combinations: Sequence[Combination]
    ) -> tuple[Centroids, ...]:
        """The centroids for further numbers of clusters, or the symbols; they are kept, too."""
        wanted = zip(zip(*combinations, strict=True), self._centroids, strict=False)
        new = [sorted(set(numbers) - known.keys()) for numbers, known in wanted]
        to_fit = [() if i in self._symbols else ks for i, ks in enumerate(new)]
        self._progress.expect(sum(map(len, to_fit)))
        centroids = cluster(
            samples,
            to_fit,
            seed=self.task.seed,
            n_init=self._options.n_init,
            n_jobs=self._options.n_jobs,
            on_done=self._progress.step,
        )
        for i, symbols in self._symbols.items():
            centroids[i].update(dict.fromkeys(new[i], symbols))
        for known, more in zip(self._centroids, centroids, strict=True):
            known.update(more)
        return centroids

    def _label(
        self, centroids: Sequence[Centroids], sampled: Sampled, known: Labelled | None
    ) -> Labelled:
        """Label training and validation data by further centroids, if there are any."""
        if known is not None and not any(centroids):
            return known
        step = Labelling(centroids, self._target, self._projections)
        if sampled.kept is None:
            train = LabelledBags.join(list(self._hashed(self._x, step)))
        else:
            train = label(sampled.kept, centroids, self._target)
        held_out = LabelledBags.join(list(self._hashed(self._x_valid, step)))
        if known is None:
            return Labelled(train, held_out)
        return Labelled(known.train.with_labels_of(train), known.held_out.with_labels_of(held_out))

    def _levels(
        self, data: Labelled, plan: Plan, point: GridPoint, trees: Trees, names: tuple[str, ...]
    ) -> tuple[Level, ...]:
        """The levels of one combination, with its rules."""
        pairs = zip(self._centroids, point.n_clusters, strict=True)
        return make_levels(
            data.train,
            plan,
            projections=self._projections,
            centroids=[known[k] for known, k in pairs],
            trees=trees,
            class_names=names,
        )

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
            ccp_alpha=self._options.ccp_alpha,
            seed=self.task.seed,
        )

    def _class_names(self, data: Labelled) -> tuple[str, ...]:
        n_classes = self._target.n_classes(data.train.classes, data.held_out.classes)
        is_function = self._target.function is not None  # which may return others, too
        return class_names(self._options.class_names, n_classes, or_more=is_function)

    # What the steps share.

    def _run(self, source: Source, step: Step[T]) -> Iterator[T]:
        """The results of a step on some top-bags, with progress."""
        self._progress.expect(source.n_batches)
        return source.run(step, self._network, self._progress.step)

    def _hashed(self, source: Source, step: Step[T]) -> Iterator[T]:
        """The same; the hashes of the top-bags are kept when they are first read."""
        if source in self._hashes:
            yield from self._run(source, step)
            return
        parts: list[npt.NDArray[np.uint64]] = []
        for result, hashes in self._run(source, Hashing(step)):
            parts += hashes
            yield result
        self._hashes[source] = np.concatenate(parts)


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

"""Combinations of numbers of clusters, with the trees of each, rated by fidelity."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from keras_mmil.interpretation.fitting import parallel
from keras_mmil.interpretation.fitting.label import LabelledBags
from keras_mmil.interpretation.fitting.options import Settings
from keras_mmil.interpretation.fitting.plan import Plan
from keras_mmil.interpretation.fitting.progress import Progress
from keras_mmil.interpretation.fitting.prune import prune
from keras_mmil.interpretation.fitting.search import Climber, GridPoint, Trees, best_of, choose
from keras_mmil.interpretation.rules.tree import grow

__all__ = ["Combinations", "Labelled"]

_N_PRUNED = 8  # combinations

_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class Labelled:
    """The training and the validation data, labelled, and what to grow on them."""

    train: LabelledBags
    held_out: LabelledBags
    plan: Plan


class Combinations:
    """Rates combinations of numbers of clusters.

    Args:
        data: labelled by all these numbers of clusters.
        settings: how to fit.
        progress: shows it.
    """

    def __init__(self, data: Labelled, settings: Settings, progress: Progress) -> None:
        self._data, self._settings, self._progress = data, settings, progress

    def all(self, numbers: Sequence[Sequence[int]]) -> dict[GridPoint, Trees]:
        """Rate all combinations of some numbers of clusters, given for each bag-layer."""
        self._progress.expect(len(numbers[0]))
        climber = self._climber(self._data.plan)

        def rate_all(n_instance_clusters: int) -> list[tuple[GridPoint, Trees]]:
            own = climber.branch()
            rest = itertools.product(*numbers[1:])
            return [own.rate((n_instance_clusters, *ks)) for ks in rest]

        results = self._run([partial(rate_all, k) for k in numbers[0]])
        return {point: trees for pairs in results for point, trees in pairs}

    def ascend(
        self, possible: Sequence[Sequence[int]], plan: Plan | None = None
    ) -> dict[GridPoint, Trees]:
        """Rate combinations by coordinate ascent, which takes few of them.

        All bag-layers begin with the same number of clusters, the best one. Then each in turn gets
        its best number, the others being as they are, until nothing changes.

        Args:
            possible: the numbers of clusters of each bag-layer.
            plan: which trees there are; None for those of the data.
        """
        climber = self._climber(plan or self._data.plan)
        tried: dict[tuple[int, ...], tuple[GridPoint, Trees]] = {}

        def rate(wanted: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
            new = list(dict.fromkeys(ks for ks in wanted if ks not in tried))
            self._progress.expect(len(new))
            if tried:
                climber.rate(best)  # most of the trees of the others are among these
            pairs = self._run([partial(climber.branch().rate, ks) for ks in new])
            tried.update(zip(new, pairs, strict=True))
            points = (point for point, _ in tried.values())
            return self.choose(points).n_clusters

        best: tuple[int, ...] = ()
        longest = max(possible, key=len, default=(1,))  # without bag-layers, one of none
        best = rate(
            tuple(min(max(k, numbers[0]), numbers[-1]) for numbers in possible) for k in longest
        )
        while True:
            before = best
            for layer in reversed(range(len(possible))):
                best = rate((*best[:layer], k, *best[layer + 1 :]) for k in possible[layer])
            if best == before:
                return dict(tried.values())

    def prune(self, trees: Mapping[GridPoint, Trees]) -> dict[GridPoint, Trees]:
        """The best of some combinations with pruned trees."""
        plan, together = self._data.plan, LabelledBags.join([self._data.train, self._data.held_out])
        climber = self._climber(plan)
        best = sorted(trees, key=lambda point: (-point.fidelity, point.n_leaves))[:_N_PRUNED]
        self._progress.expect(len(best))
        alpha = self._settings.ccp_alpha
        found = self._run(
            [partial(prune, plan, together, trees[each], each.n_clusters, alpha) for each in best]
        )
        pairs = zip(best, found, strict=True)
        return {climber.point(point.n_clusters, pruned): pruned for point, pruned in pairs}

    def by_instances(self, possible: Sequence[Sequence[int]], best: GridPoint) -> dict[str, float]:
        """The fidelity that was reached, and the one with the other labels of instances."""
        other = self._data.plan.by_centroids()
        if other.has_tree == self._data.plan.has_tree:
            return {"centroids": best.fidelity}
        found = self.choose(self.ascend(possible, other))
        return {"fields": best.fidelity, "centroids": found.fidelity}

    def choose(self, grid: Iterable[GridPoint]) -> GridPoint:
        """The best of some combinations, see `search.choose`."""
        return choose(grid, self._settings.tolerance, len(self._data.held_out.classes))

    def best_of(self, grid: Iterable[GridPoint]) -> list[GridPoint]:
        """Those that are good enough to be chosen, see `search.best_of`."""
        return best_of(grid, self._settings.tolerance, len(self._data.held_out.classes))

    def _climber(self, plan: Plan) -> Climber:
        settings = self._settings
        return Climber(
            plan,
            self._data.train,
            self._data.held_out,
            partial(
                grow,
                max_depth=settings.max_depth,
                ccp_alpha=settings.ccp_alpha,
                seed=settings.seed,
            ),
        )

    def _run(self, tasks: Sequence[Callable[[], _Result]]) -> list[_Result]:
        """Results of functions that grow trees, which run side by side."""
        with warnings.catch_warnings():  # here and not in a task: filters are those of all threads
            # Equal bags are merged: of many clusters, there may be hardly more that differ.
            warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
            return parallel.run(tasks, self._settings.n_jobs, self._progress.step)

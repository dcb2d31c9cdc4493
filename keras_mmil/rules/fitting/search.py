"""The search for the numbers of clusters with the highest fidelity."""

import itertools
import math
import warnings
from collections.abc import Callable, Container, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import ExtraTreesClassifier

from keras_mmil._support.types import Array, Ints
from keras_mmil.rules.fitting import parallel
from keras_mmil.rules.fitting.label import LabelledBags
from keras_mmil.rules.fitting.options import ONE_STANDARD_ERROR, Options, Tolerance
from keras_mmil.rules.fitting.plan import Plan, Trees
from keras_mmil.rules.fitting.progress import Progress
from keras_mmil.rules.fitting.prune import prune, sample
from keras_mmil.rules.trees.tree import Examples, Tree, grow

__all__ = [
    "Climber",
    "Combination",
    "GridPoint",
    "Labelled",
    "Search",
    "ascend",
    "best_of",
    "choose",
    "coarse",
    "merge",
    "neighbours",
    "refine",
    "tally",
]

_MANY = 400  # combinations: more are not all tried
_COARSE = 8  # numbers of clusters a level to begin with
_N_PRUNED = 8  # combinations
_MOST_OF_FIELDS = 64  # columns of the fields of a kind of records that trees may test
_WORTH = 200_000  # numbers that are known of the records, from which on that saves time
_SCREENING = 20, 4_000  # random trees which choose these, and the most examples for them

# The number of clusters of each bag-layer, from the instances upwards.
Combination: TypeAlias = tuple[int, ...]
# Yields combinations to try, is sent the best one so far, and ends with no combinations.
Order: TypeAlias = Generator[list[Combination], Combination, None]

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class GridPoint:
    """One combination of numbers of clusters.

    Attributes:
        n_clusters: k of each bag-layer, from the instances upwards.
        fidelity: fraction of the validation top-bags on which rules and network agree.
        n_leaves: of all trees.
    """

    n_clusters: tuple[int, ...]
    fidelity: float
    n_leaves: int


def merge(bags: Array) -> tuple[Array, Ints]:
    """The distinct feature vectors of bags [n, k], and the index of each bag's among them [n].

    They are in the order of their hashes, since NumPy sorts rows slowly.
    """
    _, first, index = np.unique(_hashes(bags), return_index=True, return_inverse=True)
    distinct = bags[first]
    if not np.array_equal(distinct[index], bags):  # different ones of equal hash
        distinct, index = np.unique(bags, axis=0, return_inverse=True)
    return distinct, index.reshape(-1)


def _hashes(rows: Array) -> npt.NDArray[np.uint64]:
    """A hash of each row [n, k], float32."""
    random = np.random.default_rng(0)
    factors = np.asarray(random.integers(2**63, size=rows.shape[1], dtype=np.uint64))
    bits = np.ascontiguousarray(rows, np.float32).view(np.uint32)
    hashes = np.zeros(len(rows), np.uint64)
    for i in range(bits.shape[1]):
        hashes += bits[:, i] * (factors[i] | np.uint64(1))
    return hashes


def tally(distinct: Array, index: Ints, labels: Ints, weights: Array) -> Examples:
    """Examples for a tree, each once, of what `merge` returned, and labels and weights [n]."""
    n_labels = labels.max(initial=0) + 1
    weights = np.bincount(index * n_labels + labels, weights)
    present = np.flatnonzero(weights)
    return Examples(distinct[present // n_labels], present % n_labels, weights[present])


@dataclass(frozen=True, eq=False)
class _Grown:
    """A tree, and how it labels the training and the validation data."""

    tree: Tree
    train: Ints
    held_out: Ints


@dataclass(frozen=True, eq=False)
class Labelled:
    """The training and the validation data, labelled by the same centroids."""

    train: LabelledBags
    held_out: LabelledBags


@dataclass(eq=False)
class Climber:
    """Grows the trees of combinations of numbers of clusters, from below, and rates them.

    Rows that no tree labels have the labels of the nearest centroids; those above have the labels
    that the trees below predict: on validation data, as fidelity is of the rules as a whole, and on
    training data, too, so that a tree learns from what it will be given.

    Attributes:
        plan: which trees there are.
        data: the training and validation data.
        grow: `tree.grow` with all arguments but the examples and what columns are.
        seed: of the trees that screen columns.
    """

    plan: Plan
    data: Labelled
    grow: Callable[..., Tree]
    seed: int = 0
    # Of each kind of records the last tree, with the numbers of clusters that it depends on; all
    # trees of records that hold no bags, which depend on one number only, shared by all branches;
    # and what is known of records, merged, which does not depend on their own number of clusters.
    _last: dict[int, tuple[tuple[int, ...], _Grown]] = field(default_factory=dict)
    _inmost: dict[tuple[int, ...], _Grown] = field(default_factory=dict)
    _known: dict[int, tuple[tuple[int, ...], "_Known"]] = field(default_factory=dict)
    _screened: dict[int, Ints] = field(default_factory=dict)

    def rate(self, n_clusters: Combination) -> tuple[GridPoint, Trees]:
        """One combination, with its trees."""
        train, held_out = (
            self.data.train.nearest(n_clusters),
            self.data.held_out.nearest(n_clusters),
        )
        *inner, top = self.plan.records
        trees: list[Tree] = []
        for record in inner:
            grown = self._grown(record, n_clusters, train, held_out)
            trees.append(grown.tree)
            train[record], held_out[record] = grown.train, grown.held_out
        grown = self._grown(top, n_clusters, train, held_out)
        trees.append(grown.tree)
        fidelity = float(np.mean(grown.held_out == self.data.held_out.classes))
        n_leaves = sum(tree.n_leaves for tree in trees)
        return GridPoint(n_clusters, fidelity, n_leaves), tuple(trees)

    def point(self, n_clusters: Combination, trees: Trees) -> GridPoint:
        """One combination with other trees, rated on the validation data."""
        of_records = dict(zip(self.plan.records, trees, strict=True))
        nearest = self.data.held_out.nearest(n_clusters)
        labels = self.plan.predict(self.data.held_out, of_records, nearest, n_clusters)
        fidelity = float(np.mean(labels[-1] == self.data.held_out.classes))
        return GridPoint(n_clusters, fidelity, sum(tree.n_leaves for tree in trees))

    def branch(self) -> "Climber":
        """Another one, for another thread, which remembers what this one remembers now."""
        return replace(self, _last=dict(self._last), _known=dict(self._known))

    def _grown(
        self, record: int, ks: tuple[int, ...], train: Sequence[Ints], held_out: Sequence[Ints]
    ) -> _Grown:
        inside = self.plan.inside(record)
        key = tuple(ks[i] for i in inside if i < len(ks))
        if record in self._last and self._last[record][0] == key:
            return self._last[record][1]
        if (record, *key) in self._inmost:
            return self._inmost[record, *key]
        below = tuple(ks[i] for i in inside[:-1])
        if record not in self._known or self._known[record][0] != below:
            bags = self.plan.matrix(self.data.train, record, train, ks)
            held_out_bags = self.plan.matrix(self.data.held_out, record, held_out, ks)
            self._known[record] = below, _Known(held_out_bags, *merge(bags))
        known = self._known[record][1]
        labels = self.data.train.targets(record, ks)
        weights = self.plan.weights[record]
        examples = tally(known.distinct, known.index, labels, weights)
        columns = self._columns(record, known, ks)
        tree = self.grow(examples, columns=columns, **self.plan.masks(record, ks))
        train_labels = tree.predict(known.distinct)[known.index]
        grown = _Grown(tree, train_labels, tree.predict(known.held_out))
        self._last[record] = key, grown
        if inside == [record]:
            self._inmost[record, *key] = grown
        return grown

    def _columns(self, record: int, known: "_Known", ks: Combination) -> Ints | None:
        """The columns that trees may test: of very many about fields, those that tell most.

        Records may have a thousand statistics, and the search grows a hundred trees. So a few
        random trees screen the columns, once for each kind of records: for top-bags by their
        classes, for others by most clusters.

        Returns:
            Indices of all columns about clusters and of some about fields; None for all.
        """
        n_columns = known.distinct.shape[1]
        n_of_fields = sum(len(each.columns) for each in self.plan.fields[record])
        if n_of_fields <= _MOST_OF_FIELDS or known.distinct.size < _WORTH:
            return None
        first = n_columns - n_of_fields
        if record not in self._screened:
            most = tuple(map(max, self.data.train.labels))
            labels = self.data.train.targets(record, most)
            examples = tally(known.distinct, known.index, labels, self.plan.weights[record])
            n_trees, n_examples = _SCREENING
            order = np.random.default_rng(self.seed).permutation(len(examples.labels))
            some = order[:n_examples]
            forest = ExtraTreesClassifier(
                n_trees, max_features=None, min_weight_fraction_leaf=2e-3, random_state=self.seed
            ).fit(examples.bags[some], examples.labels[some], examples.weights[some])
            gains = forest.feature_importances_[first:]
            best = np.argsort(-gains, kind="stable")[:_MOST_OF_FIELDS]
            self._screened[record] = np.sort(best)
        return np.concatenate([np.arange(first), first + self._screened[record]])


@dataclass(frozen=True, eq=False)
class _Known:
    """What is known of the records of one kind.

    Attributes:
        held_out: of the validation data.
        distinct, index: see `merge`, of the training data.
    """

    held_out: Array
    distinct: Array
    index: Ints


class Search:
    """Grows and rates the trees of combinations, side by side.

    Attributes:
        plan: which trees there are.
        trees: those of each combination that was rated.
    """

    def __init__(
        self, plan: Plan, data: Labelled, options: Options, seed: int, progress: Progress
    ) -> None:
        self.plan, self.trees = plan, dict[GridPoint, Trees]()
        self._options, self._seed, self._progress = options, seed, progress
        own_grow = partial(
            grow, max_depth=options.max_depth, ccp_alpha=options.ccp_alpha, seed=seed
        )
        self._climber = Climber(plan, data, own_grow, seed)

    def relabel(self, data: Labelled) -> None:
        """Go on with the same data, which have further labels."""
        self._climber.data = data

    def rate(self, combinations: Sequence[Combination]) -> Combination:
        """Rate combinations that have not been rated before; return the best one so far."""
        climber = self._climber
        # What is known after this one is part of what the others need.
        climber.rate(self.best.n_clusters if self.trees else combinations[0])
        groups = [list(group) for _, group in itertools.groupby(combinations, lambda ks: ks[:1])]
        if len(groups) == 1:
            groups = [[ks] for ks in groups[0]]

        def rate_group(group: list[Combination]) -> list[tuple[GridPoint, Trees]]:
            own = climber.branch()
            return [own.rate(ks) for ks in group]

        for pairs in self._run([partial(rate_group, group) for group in groups]):
            self.trees.update(pairs)
        return self.best.n_clusters

    def prune(self) -> dict[GridPoint, Trees]:
        """The best combinations with pruned trees, which are put in the place of theirs."""
        climber, alpha = self._climber, self._options.ccp_alpha
        joined = LabelledBags.join([climber.data.train, climber.data.held_out])
        together = sample(joined, self.plan.parents)
        held_out = sample(climber.data.held_out, self.plan.parents)
        best = sorted(self.trees, key=lambda point: (-point.fidelity, point.n_leaves))[:_N_PRUNED]
        tasks = [
            partial(prune, self.plan, together, held_out, self.trees[each], each.n_clusters, alpha)
            for each in best
        ]
        pruned = {
            climber.point(point.n_clusters, trees): trees
            # Pruning is done in Python, which threads only slow down.
            for point, trees in zip(best, self._run(tasks, n_jobs=1), strict=True)
        }
        self.trees |= pruned
        return pruned

    @property
    def best(self) -> GridPoint:
        """The best combination so far, see `choose`."""
        return choose(self.trees, self._options.tolerance, self._n_held_out)

    def best_of(self, grid: Iterable[GridPoint]) -> list[GridPoint]:
        """Those that are good enough to be chosen, see the function `best_of`."""
        return best_of(grid, self._options.tolerance, self._n_held_out)

    def grid(self) -> tuple[GridPoint, ...]:
        """Each combination once, with the figures of the pruned trees where there are some."""
        return tuple({point.n_clusters: point for point in self.trees}.values())

    def by_instances(self, best: GridPoint) -> dict[str, float]:
        """The fidelity that was reached, and that with the other labels of instances.

        The latter is of the same numbers of clusters, without pruning.
        """
        other = self.plan.by_centroids()
        if other.has_tree == self.plan.has_tree:
            return {"centroids": best.fidelity}
        climber = replace(self._climber, plan=other, _last={}, _inmost={}, _known={})
        return {"fields": best.fidelity, "centroids": climber.rate(best.n_clusters)[0].fidelity}

    @property
    def _n_held_out(self) -> int:
        return len(self._climber.data.held_out.classes)

    def _run(
        self, tasks: Sequence[Callable[[], _Result]], n_jobs: int | None = None
    ) -> list[_Result]:
        """Results of functions that grow trees, which run side by side."""
        self._progress.expect(len(tasks))
        with warnings.catch_warnings():  # here and not in a task: filters are those of all threads
            # Equal bags are merged: of many clusters, there may be hardly more that differ.
            warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
            return parallel.run(tasks, n_jobs or self._options.n_jobs, self._progress.step)


def refine(numbers: Sequence[Sequence[int]]) -> Order:
    """All combinations if they are few; otherwise some, then those halfway around the best ones.

    Args:
        numbers: the numbers of clusters that may be tried, ascending, for each level.
    """
    tried: list[set[int]] = [set() for _ in numbers]
    known: set[Combination] = set()
    wanted: Sequence[Sequence[int]] | None = coarse(numbers)
    while wanted is not None:
        combinations = [ks for ks in itertools.product(*wanted) if ks not in known]
        known.update(combinations)
        for of_level, new in zip(tried, wanted, strict=True):
            of_level.update(new)
        best = yield combinations
        wanted = neighbours(best, numbers, tried)
    yield []


def ascend(numbers: Sequence[Sequence[int]]) -> Order:
    """Coordinate ascent, which takes few combinations.

    All bag-layers begin with the same number of clusters, the best one. Then each in turn gets its
    best number, the others being as they are, until nothing changes.

    Args:
        numbers: same as in `refine`.
    """
    tried: dict[Combination, None] = {}

    def new(wanted: Iterable[Combination]) -> list[Combination]:
        found = list(dict.fromkeys(ks for ks in wanted if ks not in tried))
        tried.update(dict.fromkeys(found))
        return found

    longest = max(numbers, key=len, default=(1,))  # without bag-layers, one of none
    best = yield new(tuple(min(max(k, ks[0]), ks[-1]) for ks in numbers) for k in longest)
    before: Combination | None = None
    while best != before:
        before = best
        for layer in reversed(range(len(numbers))):
            if wanted := new((*best[:layer], k, *best[layer + 1 :]) for k in numbers[layer]):
                best = yield wanted
    yield []


def best_of(
    grid: Iterable[GridPoint], tolerance: Tolerance = 0.0, n_top_bags: int = 0
) -> list[GridPoint]:
    """The combinations of the highest fidelity, or at most `tolerance` below.

    The standard error depends on `n_top_bags`, the number of validation top-bags.
    """
    grid = tuple(grid)
    highest = max(point.fidelity for point in grid)
    if tolerance == ONE_STANDARD_ERROR:
        tolerance = math.sqrt(highest * (1 - highest) / n_top_bags)
    return [point for point in grid if point.fidelity >= highest - tolerance - 1e-12]


def choose(grid: Iterable[GridPoint], tolerance: Tolerance = 0.0, n_top_bags: int = 0) -> GridPoint:
    """The best combination: the highest fidelity; of equal ones the fewest clusters, then leaves.

    With a number as tolerance, the fewest leaves, then clusters, among those whose fidelity is at
    most that much below the highest. Within one standard error, the fewest clusters, then leaves.
    """
    by_leaves = tolerance not in (0.0, ONE_STANDARD_ERROR)

    def preference(point: GridPoint) -> tuple[int, int, float, tuple[int, ...]]:
        size = sum(point.n_clusters)
        simplicity = (point.n_leaves, size) if by_leaves else (size, point.n_leaves)
        return (*simplicity, -point.fidelity, point.n_clusters)

    return min(best_of(grid, tolerance, n_top_bags), key=preference)


def coarse(options: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The numbers of clusters to begin with, of those that may be tried at each level.

    All of them if there are few combinations; otherwise some of each level, in about equal ratios,
    with the first and the last.
    """
    if math.prod(map(len, options)) <= _MANY:
        return list(options)
    return [_spread(numbers) if len(numbers) > _COARSE else numbers for numbers in options]


def neighbours(
    best: Sequence[int], options: Sequence[Sequence[int]], tried: Sequence[Container[int]]
) -> list[Sequence[int]] | None:
    """The numbers of clusters to try next: halfway from the best ones to those tried beside them.

    Args:
        best: number of clusters of each level.
        options: the numbers that may be tried, ascending, for each level.
        tried: those that have been, for each level.

    Returns:
        Numbers for each level, the best one among them; None if there are no others.
    """
    wanted: list[Sequence[int]] = []
    for k, numbers, known in zip(best, options, tried, strict=True):
        here = numbers.index(k)
        beside = [i for i, number in enumerate(numbers) if number in known and i != here]
        below = max((i for i in beside if i < here), default=here)
        above = min((i for i in beside if i > here), default=here)
        places = {(below + here) // 2 if below < here - 1 else here, here, (above + here) // 2}
        wanted.append(tuple(numbers[i] for i in sorted(places)))
    return wanted if any(len(numbers) > 1 for numbers in wanted) else None


def _spread(numbers: Sequence[int]) -> tuple[int, ...]:
    wanted = np.geomspace(numbers[0], numbers[-1], _COARSE)
    nearest = np.abs(np.subtract.outer(wanted, numbers)).argmin(axis=1)
    return tuple(numbers[i] for i in sorted(set(nearest)))

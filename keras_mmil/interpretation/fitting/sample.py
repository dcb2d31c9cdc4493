"""Rows to cluster: at most so many of each level, drawn at random."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from keras_mmil._support.types import Array, Tensors
from keras_mmil.interpretation.network.capture import Network, Observation
from keras_mmil.interpretation.network.nesting import clustered_weights

__all__ = ["RowSample", "Sampled", "Sampling", "WeightedRows"]


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows of one level.

    Attributes:
        rows: float32 [n, units].
        weights: how often each occurs, > 0, [n].
        values: raw values of their fields, [n] each.
    """

    rows: Array
    weights: Array
    values: tuple[Array, ...] = ()


class RowSample:
    """A random sample of rows that come in batches, each of them as likely as any other.

    Every row gets a random score, which follows from the seed and from its place: the level, the
    number of its batch, and its index there. The rows of the lowest scores are the sample. So it
    does not depend on which batches came together, and samples of blocks can be merged.

    Args:
        size: number of rows to draw.
        seed: of the choice.
        level: index of the level whose rows they are.

    Attributes:
        n_seen: number of rows that came.
    """

    def __init__(self, size: int, seed: int, level: int = 0) -> None:
        self.size, self.n_seen = size, 0
        self._seed, self._level = seed, level
        self._parts: list[tuple[Array, ...]] = []  # random scores, rows, weights, values
        self._n_held = 0

    def add(self, number: int, rows: Array, weights: Array, values: Sequence[Array] = ()) -> None:
        """Let the rows [n, units] of a batch come, of weights [n]. Those of weight 0 are not drawn.

        Args:
            number: of the batch.
            rows, weights: the rows.
            values: raw values of their fields, [n] each.
        """
        self.n_seen += len(rows)
        place = np.random.SeedSequence(self._seed, spawn_key=(self._level, number))
        random_scores = np.random.default_rng(place).random(len(rows))
        drawn = weights > 0
        self._hold(tuple(x[drawn] for x in (random_scores, rows, weights, *values)))

    def merge(self, other: "RowSample") -> None:
        """Take in a sample of later batches, of the same size, seed and level."""
        self.n_seen += other.n_seen
        for part in other._parts:
            self._hold(part)

    def draw(self) -> WeightedRows:
        """The sample: at most `size` rows in the order in which they came."""
        _, rows, weights, *values = self._keep_lowest()
        return WeightedRows(rows, weights, tuple(values))

    def _hold(self, part: tuple[Array, ...]) -> None:
        self._parts.append(part)
        self._n_held += len(part[0])
        if self._n_held > 2 * self.size:
            self._keep_lowest()

    def _keep_lowest(self) -> tuple[Array, ...]:
        held = tuple(map(np.concatenate, zip(*self._parts, strict=True)))
        random_scores = held[0]
        if len(random_scores) > self.size:
            kept = np.sort(np.argpartition(random_scores, self.size - 1)[: self.size])
            held = tuple(x[kept] for x in held)
        self._parts, self._n_held = [held], len(held[0])
        return held


@dataclass(eq=False)
class Sampled:
    """What `Sampling` yields.

    Attributes:
        samples: rows of each level, from the instances upwards.
        kept: the observations themselves; None if some level has more rows than are drawn, or they
            were not to be kept: the network then computes them again.
    """

    samples: list[RowSample]
    kept: list[Observation] | None

    def merge(self, other: "Sampled") -> "Sampled":
        """Take in what later batches yielded, without keeping observations."""
        for ours, theirs in zip(self.samples, other.samples, strict=True):
            ours.merge(theirs)
        self.kept = None
        return self

    def rows(self) -> list[WeightedRows]:
        """The rows of each level, from the instances upwards."""
        return [sample.draw() for sample in self.samples]


@dataclass(frozen=True, eq=False)
class Sampling:
    """Draw rows of each level to cluster: a `Step`.

    Attributes:
        size: greatest number of rows of a level.
        seed: decides which.
        projections: directions in which rows are clustered, if there are any.
        keeps: whether to keep the observations, if they are few.
    """

    size: int
    seed: int
    projections: Sequence[Array | None]
    keeps: bool = False

    def __call__(self, network: Network, batches: Iterable[Tensors], first: int) -> Sampled:
        """The rows that are drawn of some batches."""
        samples = [RowSample(self.size, self.seed, i) for i in range(len(network.layers))]
        found = Sampled(samples, [] if self.keeps else None)
        observations = network.observe(batches, self.projections)
        for number, batch in enumerate(observations, first):
            weights = clustered_weights(batch.nestings, network.parents, network.has_fields)
            for i, (sample, weight) in enumerate(zip(samples, weights, strict=True)):
                sample.add(number, batch.representations[i], weight, batch.values_of(i))
            if any(sample.n_seen > self.size for sample in samples):
                found.kept = None
            if found.kept is not None:
                found.kept.append(batch)
        return found

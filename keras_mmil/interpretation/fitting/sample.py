"""Rows to cluster: at most so many of each level, drawn at random."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from keras_mmil._support.types import Array, Seed
from keras_mmil.interpretation.network.capture import Network, Observation
from keras_mmil.interpretation.network.nesting import clustered_weights

__all__ = ["RowSample", "WeightedRows", "sample_rows"]


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

    Args:
        size: number of rows to draw.
        seed: of the choice.

    Attributes:
        n_seen: number of rows that came.
    """

    def __init__(self, size: int, seed: Seed) -> None:
        self.size, self.n_seen = size, 0
        self._rng = np.random.default_rng(seed)
        self._parts: list[tuple[Array, ...]] = []  # random scores, rows, weights, values
        self._n_held = 0

    def add(self, rows: Array, weights: Array, values: Sequence[Array] = ()) -> None:
        """Let rows [n, units] come, of weights [n]. Those of weight 0 are not drawn.

        Args:
            rows, weights: the rows.
            values: raw values of their fields, [n] each.
        """
        self.n_seen += len(rows)
        # Every row gets a random score; those of the lowest scores are the sample.
        random_scores = self._rng.random(len(rows))
        drawn = weights > 0
        self._parts.append(tuple(x[drawn] for x in (random_scores, rows, weights, *values)))
        self._n_held += int(drawn.sum())
        if self._n_held > 2 * self.size:
            self._keep_lowest()

    def draw(self) -> WeightedRows:
        """The sample: at most `size` rows in the order in which they came."""
        _, rows, weights, *values = self._keep_lowest()
        return WeightedRows(rows, weights, tuple(values))

    def _keep_lowest(self) -> tuple[Array, ...]:
        held = tuple(map(np.concatenate, zip(*self._parts, strict=True)))
        random_scores = held[0]
        if len(random_scores) > self.size:
            kept = np.sort(np.argpartition(random_scores, self.size - 1)[: self.size])
            held = tuple(x[kept] for x in held)
        self._parts, self._n_held = [held], len(held[0])
        return held


def sample_rows(
    observations: Iterable[Observation], network: Network, size: int, seed: int
) -> tuple[list[WeightedRows], list[Observation] | None]:
    """Draw rows of each level to cluster.

    Args:
        observations: what the network computes on the training data.
        network: the network.
        size: greatest number of rows of a level.
        seed: decides which.

    Returns:
        The rows of each level, from the instances upwards; and the observations themselves, or
        None if some level has more than `size` rows: the network then computes them again.
    """
    samples: list[RowSample] = []
    kept: list[Observation] | None = []
    for batch in observations:
        if not samples:
            seeds = np.random.SeedSequence(seed).spawn(len(batch.nestings))
            samples = [RowSample(size, each) for each in seeds]
        weights = clustered_weights(batch.nestings, network.parents, network.has_fields)
        for i, (sample, weight) in enumerate(zip(samples, weights, strict=True)):
            sample.add(batch.representations[i], weight, batch.values_of(i))
        if any(sample.n_seen > size for sample in samples):
            kept = None
        if kept is not None:
            kept.append(batch)
    return [sample.draw() for sample in samples], kept

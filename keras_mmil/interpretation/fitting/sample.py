"""Rows to cluster: at most so many of each level, drawn at random."""

from collections.abc import Iterable
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
    """

    rows: Array
    weights: Array


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
        self._parts: list[tuple[Array, Array, Array]] = []  # rows, weights, random scores
        self._n_held = 0

    def add(self, rows: Array, weights: Array) -> None:
        """Let rows [n, units] come, of weights [n]. Those of weight 0 are not drawn."""
        self.n_seen += len(rows)
        # Every row gets a random score; those of the lowest scores are the sample.
        random_scores = self._rng.random(len(rows))
        drawn = weights > 0
        self._parts.append((rows[drawn], weights[drawn], random_scores[drawn]))
        self._n_held += int(drawn.sum())
        if self._n_held > 2 * self.size:
            self._keep_lowest()

    def draw(self) -> WeightedRows:
        """The sample: at most `size` rows in the order in which they came."""
        rows, weights, _ = self._keep_lowest()
        return WeightedRows(rows, weights)

    def _keep_lowest(self) -> tuple[Array, Array, Array]:
        rows, weights, random_scores = map(np.concatenate, zip(*self._parts, strict=True))
        if len(random_scores) > self.size:
            kept = np.sort(np.argpartition(random_scores, self.size - 1)[: self.size])
            rows, weights, random_scores = rows[kept], weights[kept], random_scores[kept]
        self._parts, self._n_held = [(rows, weights, random_scores)], len(random_scores)
        return self._parts[0]


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
        for sample, rows, weight in zip(samples, batch.representations, weights, strict=True):
            sample.add(rows, weight)
        if any(sample.n_seen > size for sample in samples):
            kept = None
        if kept is not None:
            kept.append(batch)
    return [sample.draw() for sample in samples], kept

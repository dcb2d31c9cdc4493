"""What pictures need of an `Explainer`, which is built above them."""

from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from keras_mmil.interpretation.fitting.search import GridPoint
from keras_mmil.interpretation.network.sources import Source, TopBags
from keras_mmil.interpretation.readout.explanation import Explanation
from keras_mmil.interpretation.readout.reading import Reading
from keras_mmil.interpretation.rules.level import Clusters, Level

__all__ = ["FittedExplainer"]


class FittedExplainer(Protocol):
    """A fitted `Explainer`, which describes these attributes and methods."""

    levels_: tuple[Level, ...]
    n_clusters_: tuple[int, ...]
    grid_: tuple[GridPoint, ...]
    fidelity_: float
    majority_: float

    @property
    def clusters_(self) -> tuple[Clusters, ...]:
        """The clusters of the rows of each bag-layer."""

    def labels(self, x: TopBags) -> tuple[tf.RaggedTensor, ...]:
        """The labels by the rules of all instances, sub-bags and so on."""

    def explain(self, x: TopBags) -> Sequence[Explanation]:
        """Why each top-bag got its class."""

    def top_bags(self, x: TopBags) -> Source:
        """Top-bags, checked, which can be read several times."""

    def read(self, data: Source) -> Reading:
        """The labels of everything in some top-bags, by rules and network."""

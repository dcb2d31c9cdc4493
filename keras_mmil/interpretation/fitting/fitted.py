"""What fitting yields."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_mmil.interpretation.fitting.search import GridPoint
from keras_mmil.interpretation.rules.level import Level

__all__ = ["Fitted"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What fitting yields.

    Attributes:
        levels: clusters and rules, from the instances upwards.
        classes: names of the classes of top-bags.
        grid: all combinations that were tried.
        n_clusters: the combination that was chosen.
        fidelity: of that one.
        majority: share of the network's most frequent class of the validation data: the fidelity of
            rules that predict it for every top-bag.
        fidelity_by_instances: the best fidelity where instances are labelled by "fields", and where
            they are labelled by "centroids", as far as these differ.
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

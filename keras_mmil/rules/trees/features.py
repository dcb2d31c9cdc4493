"""What a tree knows of a record: the clusters in each of its bags, and its fields, side by side."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from keras_mmil._support.types import Array, Ints
from keras_mmil.rules.trees.columns import Column
from keras_mmil.rules.trees.fields import Field

if TYPE_CHECKING:
    from keras_mmil.rules.network.nesting import Nesting

__all__ = [
    "COUNT",
    "FREQUENCY",
    "OCCURRENCE",
    "WEIGHT",
    "Bag",
    "Feature",
    "Space",
    "bag_features",
    "get",
]

# Frequencies are rounded to float32 one by one, so that their sum is 1 up to this.
_ROUNDING = 1e-6
# The name of the number of members above an edge, such as "number of orders with price > 5".
_ABOVE = re.compile(r"(number of .*) > (-?[0-9.]+(?:e[-+]?[0-9]+)?)(\)?)")


class Feature(Enum):
    """A number for each cluster: how much of it is in a bag. "weight" is a count with fractions."""

    OCCURRENCE = "occurrence"
    FREQUENCY = "frequency"
    COUNT = "count"
    WEIGHT = "weight"

    def of_weights(self, weights: Array) -> Array:
        """The features of bags by the summed weights of each cluster in each, [bags, k]."""
        return _OF_WEIGHTS[self](weights)

    def feasible(self, low: Array, high: Array) -> Array:
        """Whether boxes `(low, high]`, each [..., k], hold the features of any bag: bool [...].

        True where rounding makes it doubtful.
        """
        return _FEASIBLE[self](low, high)


def bag_features(feature: Feature, labels: Ints, n_clusters: int, nesting: "Nesting") -> Array:
    """Describe bags by the labels of their members, int [rows]: float32 [bags, n_clusters].

    Empty bags are zeros.
    """
    cells = nesting.bag_ids * n_clusters + labels[nesting.members]
    weights = np.bincount(cells, nesting.weights, minlength=nesting.n_bags * n_clusters)
    weights = weights.astype(float)  # without members, NumPy returns ints
    return feature.of_weights(weights.reshape(-1, n_clusters)).astype(np.float32)


def _occurrences(weights: Array) -> Array:
    return weights > 0


def _frequencies(weights: Array) -> Array:
    totals = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)


def _weights(weights: Array) -> Array:
    return weights


def _some_occurrences(low: Array, high: Array) -> Array:
    """Every vector of zeros and ones is that of a bag."""
    return np.all(((low < 0) & (high >= 0)) | ((low < 1) & (high >= 1)), axis=-1)


def _some_frequencies(low: Array, high: Array) -> Array:
    """Frequencies are non-negative and sum to 1; those of an empty bag are all 0."""
    holds_zero = ((low < 0) & (high >= 0)).all(axis=-1)
    proper = ((low < high) & (low < 1) & (high >= 0)).all(axis=-1)
    least, most = np.maximum(low, 0).sum(axis=-1), np.minimum(high, 1).sum(axis=-1)
    return holds_zero | proper & (least <= 1 + _ROUNDING) & (most >= 1 - _ROUNDING)


def _some_weights(low: Array, high: Array) -> Array:
    """Every vector of non-negative numbers is that of a bag."""
    return np.all((low < high) & (high >= 0), axis=-1)


OCCURRENCE, FREQUENCY, COUNT, WEIGHT = Feature
_OF_WEIGHTS: Mapping[Feature, Callable[[Array], Array]] = {
    OCCURRENCE: _occurrences,
    FREQUENCY: _frequencies,
    COUNT: _weights,
    WEIGHT: _weights,
}
_FEASIBLE: Mapping[Feature, Callable[[Array, Array], Array]] = {
    OCCURRENCE: _some_occurrences,
    FREQUENCY: _some_frequencies,
    COUNT: _some_weights,
    WEIGHT: _some_weights,
}


def get(name: str) -> Feature:
    """The `Feature` of this name.

    Raises:
        ValueError: if there is none.
    """
    names = sorted(feature.value for feature in Feature)
    if name not in names:
        raise ValueError(f"Expected one of {names}. Received: features={name!r}")
    return Feature(name)


# Records ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bag:
    """One of the bags in a record: which clusters its members may be in.

    Attributes:
        level: index of the bag-layer of its members.
        feature: which number is known of each cluster.
        names: of the clusters.
        members: what its members are called in rules; empty where they have no name.
    """

    level: int
    feature: Feature
    names: tuple[str, ...]
    members: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """One for each cluster."""
        return tuple(Column(self.feature.value, name, self.members) for name in self.names)

    def feasible(self, low: Array, high: Array) -> Array:
        """See `Feature`."""
        return self.feature.feasible(low, high)


SomeBag = TypeVar("SomeBag", bound=Bag, covariant=True)


@dataclass(frozen=True)
class Space(Generic[SomeBag]):
    """What a tree knows of a record: its bags, then its fields."""

    bags: tuple[SomeBag, ...] = ()
    fields: tuple[Field, ...] = ()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All columns."""
        return tuple(column for part in self._parts for column in part.columns)

    @property
    def of_bags(self) -> Iterator[tuple[SomeBag, slice]]:
        """The bags, each with the slice of the columns that are about it."""
        return zip(self.bags, self._slices, strict=False)

    @property
    def of_fields(self) -> Iterator[tuple[Field, slice]]:
        """The fields, each with the slice of the columns that are about it."""
        return zip(self.fields, self._slices[len(self.bags) :], strict=True)

    def matrix(
        self, labels: Sequence[Ints], nestings: Sequence["Nesting"], values: Sequence[Array]
    ) -> Array:
        """What is known of some records: float32 [records, columns].

        Takes the labels of the rows of each bag-layer, how these are in bags, one for each
        record, and the raw values of the fields, [records] each.
        """
        of_fields = [field.matrix(raw) for field, raw in zip(self.fields, values, strict=True)]
        return self.joined(labels, nestings, of_fields)

    def joined(
        self, labels: Sequence[Ints], nestings: Sequence["Nesting"], of_fields: Sequence[Array]
    ) -> Array:
        """Same as `matrix`, but takes the matrices of the fields, which do not depend on labels."""
        parts = [
            bag_features(bag.feature, labels[bag.level], len(bag.names), nestings[bag.level])
            for bag in self.bags
        ]
        parts += of_fields
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def feasible(self, low: Array, high: Array) -> Array:
        """Whether boxes `(low, high]`, each [..., columns], hold any record: bool [...].

        True where it is doubtful.
        """
        is_bounded = np.isfinite(low) | np.isfinite(high)
        bounded = np.flatnonzero(is_bounded.reshape(-1, len(self.columns)).any(axis=0))
        holds: list[Array] = [np.ones(low.shape[:-1], bool)]
        for part in np.unique(self._part_of[bounded]).tolist():  # few of a thousand
            at = self._slices[part]
            holds.append(self._parts[part].feasible(low[..., at], high[..., at]))
        for chain in self._falling:
            if np.isin(chain, bounded).sum() < 2:
                continue
            least = np.maximum.accumulate(low[..., chain[::-1]], axis=-1)[..., ::-1]
            holds.append(np.all(least < high[..., chain], axis=-1))
        return np.logical_and.reduce(holds)

    @cached_property
    def _falling(self) -> list[Ints]:
        """Columns each of which is at most the one before: members above higher and higher edges.

        So that a rule need not say "no orders with price > 5, no orders with price > 9".
        """
        chains: dict[tuple[str, str], list[tuple[float, int]]] = {}
        for field, at in self.of_fields:
            if field.kind == "statistic" and (found := _ABOVE.fullmatch(field.name)):
                before, edge, after = found.groups()
                chains.setdefault((before, after), []).append((float(edge), at.start))
        return [
            np.array([column for _, column in sorted(chain)])
            for chain in chains.values()
            if len(chain) > 1
        ]

    @cached_property
    def _parts(self) -> tuple[Bag | Field, ...]:
        return (*self.bags, *self.fields)

    @cached_property
    def _part_of(self) -> Ints:
        """The index of the part that each column belongs to."""
        return np.repeat(np.arange(len(self._parts)), [len(part.columns) for part in self._parts])

    @cached_property
    def _slices(self) -> list[slice]:
        sizes = [len(part.columns) for part in self._parts]
        return [slice(start, stop) for start, stop in pairwise(np.cumsum([0, *sizes]).tolist())]

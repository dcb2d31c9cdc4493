"""All that is known of a kind of record, side by side, for a tree to split."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np

from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.rules.columns import Column
from keras_mmil.interpretation.rules.features import Feature, Members, bag_features
from keras_mmil.interpretation.rules.fields import Field

__all__ = ["Bag", "Space"]


@dataclass(frozen=True)
class Bag:
    """One of the bags in a record: what of the clusters of its members is known.

    Attributes:
        level: index of the bag-layer of its members.
        feature: what is known of them.
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
        return tuple(Column(self.feature.name, name, self.members) for name in self.names)

    def matrix(self, labels: Ints, nesting: Members) -> Array:
        """What is known of bags whose rows have these labels: float32 [bags, clusters]."""
        return bag_features(self.feature, labels, len(self.names), nesting)

    def feasible(self, low: Array, high: Array) -> Array:
        """See `Feature`."""
        return self.feature.feasible(low, high)


SomeBag = TypeVar("SomeBag", bound=Bag, covariant=True)


@dataclass(frozen=True)
class Space(Generic[SomeBag]):
    """What a tree knows of a kind of record: its bags, then its fields.

    Attributes:
        bags: the bags in it.
        fields: its fields.
    """

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

    def matrix(
        self,
        labels: Sequence[Ints],
        nestings: Sequence[Members],
        values: Sequence[Array],
    ) -> Array:
        """What is known of some records.

        Args:
            labels: of the rows of each bag-layer.
            nestings: how these are in bags, one for each record, for each bag-layer.
            values: raw values of the fields, [records] each.

        Returns:
            float32 [records, columns].
        """
        of_fields = [field.matrix(raw) for field, raw in zip(self.fields, values, strict=True)]
        return self.joined(labels, nestings, of_fields)

    def joined(
        self, labels: Sequence[Ints], nestings: Sequence[Members], of_fields: Sequence[Array]
    ) -> Array:
        """The same, given the matrices of the fields, which do not depend on labels."""
        parts = [bag.matrix(labels[bag.level], nestings[bag.level]) for bag in self.bags]
        parts += of_fields
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def feasible(self, low: Array, high: Array) -> Array:
        """Whether boxes `(low, high]`, each [..., columns], hold any record at all: bool [...].

        True where it is doubtful.
        """
        holds = [
            part.feasible(low[..., at], high[..., at])
            for part, at in zip(self._parts, self._slices, strict=True)
        ]
        return holds[0] if len(holds) == 1 else np.logical_and.reduce(holds)

    @property
    def _parts(self) -> tuple[Bag | Field, ...]:
        return (*self.bags, *self.fields)

    @cached_property
    def _slices(self) -> list[slice]:
        sizes = [len(part.columns) for part in self._parts]
        return [slice(start, stop) for start, stop in pairwise(np.cumsum([0, *sizes]).tolist())]

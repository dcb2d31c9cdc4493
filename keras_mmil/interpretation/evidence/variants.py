"""One top-bag in many variants, without some members or with others, labelled by the rules."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from keras_mmil._support.rows import bags_of_members
from keras_mmil._support.types import Array, Bools, Ints
from keras_mmil.interpretation.evidence.edits import Member
from keras_mmil.interpretation.network.nesting import Nesting, Occurrences, expand
from keras_mmil.interpretation.readout.reading import Reading
from keras_mmil.interpretation.rules.level import Level
from keras_mmil.layers.grouping import Grouping

__all__ = ["Edit", "Variants"]

_AT_ONCE = 256  # variants


@dataclass(frozen=True)
class Edit:
    """A member that is removed, or added.

    Attributes:
        layer: index of the bag-layer whose row it is.
        label: its cluster.
        is_added: whether it is added to the top-bag, not removed.
        member: where it is, in the top-bag, or in the donors.
    """

    layer: int
    label: int
    is_added: bool
    member: Member


@dataclass(frozen=True, eq=False)
class _Kind:
    """Members of one bag that are alike to the rules: of one cluster and weight.

    Attributes:
        layer, label, is_added: see `Edit`.
        weight: of each.
        members: their indices among the occurrences of the rows of the layer.
    """

    layer: int
    label: int
    is_added: bool
    weight: float
    members: tuple[int, ...]


class Variants:
    """Labels variants of a top-bag by the rules. The network need not run for that.

    Args:
        levels: from the instances upwards.
        reading: the top-bag.
        donors: top-bags whose members may be added; None for none.
        layers: indices of the bag-layers whose rows may be removed, or added to the top-bag.

    Attributes:
        label: the class by the rules.
        available: number of members of each kind.
        is_added: whether each kind is added, not removed.
    """

    def __init__(
        self,
        levels: Sequence[Level],
        reading: Reading,
        donors: Reading | None,
        layers: Sequence[int],
    ) -> None:
        self._levels, self._reading = levels, reading
        self._here = expand(reading.nestings, reading.parents)
        self._there = () if donors is None else expand(donors.nestings, donors.parents)
        self._kinds = [
            kind
            for i in layers
            for seen, occurrences in ((reading, self._here), (donors, self._there))
            if seen is not None
            for kind in _kinds(i, seen, occurrences, is_added=seen is donors)
        ]
        self.label = int(reading.labels[-1][0])
        self.available = tuple(len(kind.members) for kind in self._kinds)
        self.is_added = tuple(kind.is_added for kind in self._kinds)

    def edits(self, counts: Sequence[int]) -> list[Edit]:
        """The edits of so many members of each kind."""
        found = []
        for kind, n in zip(self._kinds, counts, strict=True):
            occurrences = self._there if kind.is_added else self._here
            for index in kind.members[:n]:
                position = _position(kind.layer, index, occurrences, self._reading.parents)
                member = kind.layer, position
                found.append(Edit(kind.layer, kind.label, kind.is_added, member))
        return found

    def labels(self, variants: Sequence[Sequence[int]]) -> Ints:
        """The classes by the rules: int [variants].

        Args:
            variants: numbers of edited members of each kind.
        """
        parts = [
            self._labels_of(np.array(variants[start : start + _AT_ONCE], int))
            for start in range(0, len(variants), _AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, int)

    def _labels_of(self, counts: Ints) -> Ints:
        """The same for some, [variants, kinds]. Each has its own copy of all occurrences."""
        n, top = len(counts), len(self._here)
        stay = [np.ones((n, len(each.rows)), bool) for each in self._here]
        for kind, wanted in zip(self._kinds, counts.T, strict=True):
            if not kind.is_added:
                number = np.arange(len(kind.members))
                stay[kind.layer][:, list(kind.members)] = number >= wanted[:, None]
        rows = [*(each.rows for each in self._here), np.zeros(1, int)]
        labels: list[Ints] = [
            np.tile(nearest[of_layer], n)
            for nearest, of_layer in zip(self._reading.nearest, rows[:-1], strict=True)
        ]
        nestings, added = [], []
        for i, here in enumerate(self._here):
            nesting, of_donors = self._nesting(i, here, stay[i], counts)
            nestings.append(nesting)
            added.append(of_donors)
        for level in self._levels:
            of_record = [
                np.tile(raw[rows[level.record]], n) for raw in self._reading.values[level.record]
            ]
            known = labels
            if level.record == top:
                known = [np.append(*pair) for pair in zip(labels, added, strict=True)]
            found = level.tree.predict(level.space.matrix(known, nestings, of_record))
            labels[level.record : level.record + 1] = [found]
        return labels[-1]

    def _nesting(
        self, layer: int, here: Occurrences, stay: Bools, counts: Ints
    ) -> tuple[Nesting, Ints]:
        """The bags of a bag-layer in all variants, and the labels of rows that are added."""
        n, n_rows, n_bags = len(counts), len(here.rows), len(here.row_splits) - 1
        bag_of = bags_of_members(here.row_splits)
        variant, member = np.nonzero(stay)
        members: list[Ints] = [variant * n_rows + member]
        bags: list[Ints] = [variant * n_bags + bag_of[member]]
        weights: list[Array] = [here.weights[member]]
        labels: list[int] = []
        for kind, wanted in zip(self._kinds, counts.T, strict=True):
            if kind.is_added and kind.layer == layer:
                of_variant = np.repeat(np.arange(n), wanted)
                members.append(np.full(len(of_variant), n * n_rows + len(labels)))
                bags.append(of_variant)  # a top-bag has one bag of each bag-layer below it
                weights.append(np.full(len(of_variant), kind.weight))
                labels.append(kind.label)
        order = np.argsort(np.concatenate(bags), kind="stable")
        sizes = np.bincount(np.concatenate(bags), minlength=n * n_bags)
        nesting = Grouping(
            np.concatenate(members)[order],
            np.append(0, np.cumsum(sizes)),
            np.concatenate(weights)[order],
            n * n_rows + len(labels),
        )
        return nesting, np.array(labels, int)


def _kinds(
    layer: int, seen: Reading, occurrences: Sequence[Occurrences], is_added: bool
) -> Iterator[_Kind]:
    """The members of the bags of a bag-layer, those that are alike together."""
    here = occurrences[layer]
    labels = seen.labels[layer][here.rows]
    bags = bags_of_members(here.row_splits)
    found: dict[tuple[int, int, float], list[int]] = {}
    for i, (bag, label, weight) in enumerate(zip(bags, labels, here.weights, strict=True)):
        if weight > 0:
            # What is added all goes into the one bag of the top-bag.
            key = 0 if is_added else int(bag), int(label), float(weight)
            found.setdefault(key, []).append(i)
    for (_, label, weight), members in found.items():
        yield _Kind(layer, label, is_added, weight, tuple(members))


def _position(
    layer: int, index: int, occurrences: Sequence[Occurrences], parents: Sequence[int]
) -> tuple[int, ...]:
    """The position of an occurrence of a row of a bag-layer, from the top-bag inwards."""
    position: list[int] = []
    while layer < len(parents):
        splits = occurrences[layer].row_splits
        bag = int(np.searchsorted(splits, index, side="right")) - 1
        position.insert(0, int(index - splits[bag]))
        layer, index = parents[layer], bag
    return (index, *position)

"""The fewest members whose removal or addition changes the class by the rules."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from keras_mmil import ragged
from keras_mmil._support.types import Array, Bools, Config, Ints, Tensors
from keras_mmil.layers.grouping import Grouping
from keras_mmil.rules.evidence.edits import Editor, Member
from keras_mmil.rules.explain.reading import Reading, classify, position_of, read
from keras_mmil.rules.network.capture import Network, Observation
from keras_mmil.rules.network.nesting import Nesting, Occurrences, expand
from keras_mmil.rules.network.targets import Target
from keras_mmil.rules.trees.level import Level, all_clusters

__all__ = ["Counterfactual", "counterfactual"]

_MOST_COMBINATIONS = 10_000
_MOST_CHECKED = 64  # equally small changes, among which to find one that changes the network, too
_AT_ONCE = 256  # variants that are labelled together

# How many members of each kind are edited.
_Counts: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Counterfactual:
    """What would have to be different for the rules to give another class.

    Attributes:
        removed: members that are removed: for each, the index of the bag-layer whose row it is, and
            its position in the top-bag's data.
        added: members of donors that are added to bags of the top-bag: likewise.
        labels: names of their clusters: of those removed, then of those added.
        rules: names of the rules' class before and after; equal where no change is found.
        network: names of the network's class before and after.
        exact: whether no smaller change exists; otherwise the search was greedy.
        n_tried: number of combinations that were tried.
    """

    removed: tuple[Member, ...]
    added: tuple[Member, ...]
    labels: tuple[str, ...]
    rules: tuple[str, str]
    network: tuple[str, str]
    exact: bool
    n_tried: int

    @property
    def found(self) -> bool:
        """Whether there is a change."""
        return self.rules[0] != self.rules[1]

    @property
    def size(self) -> int:
        """Number of members that are removed or added."""
        return len(self.removed) + len(self.added)

    @property
    def network_agrees(self) -> bool:
        """Whether the network's class is that of the rules after the change, too."""
        return self.found and self.network[1] == self.rules[1]

    def text(self) -> str:
        """The change in words."""
        how = "no fewer would do" if self.exact else "found by a greedy search"
        if not self.found:
            how = "all were tried" if self.exact else "as far as a greedy search found"
            return f"No removal or addition changes the class {self.rules[0]} ({how})."
        names = iter(self.labels)
        lines = [f"{self.rules[1]} instead of {self.rules[0]}, if ({how})"]
        for verb, members in (("without", self.removed), ("with", self.added)):
            lines += [f"  {verb} {next(names)} at {list(position)}" for _, position in members]
        says = "The network agrees" if self.network_agrees else "The network does NOT agree"
        return "\n".join([*lines, f"{says}: {' → '.join(self.network)}."])

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> Config:
        """For JSON."""
        return vars(self) | {"found": self.found, "network_agrees": self.network_agrees}


def counterfactual(
    levels: Sequence[Level],
    classes: Sequence[str],
    target: Target,
    network: Network,
    observe: Callable[[Iterable[Tensors], bool], Iterable[Observation]],
    batch: Tensors,
    donors: Tensors | None,
    layers: Sequence[int],
) -> Counterfactual:
    """Search the smallest change of one top-bag, a batch of checked inputs.

    Args:
        levels, classes, target, network: of the explainer.
        observe: runs the network on batches of checked top-bags, in order or not.
        batch: the top-bag.
        donors: top-bags whose members may be added; None for none.
        layers: indices of the bag-layers whose rows may be removed.

    Raises:
        ValueError: if members cannot be removed, see `Editor`; or if there are donors, but rows of
            these layers are not members of the top-bag itself.
    """
    editor = Editor(network)
    batch = editor.plain(batch)
    donors = None if donors is None else editor.plain(donors)
    reading = read(levels, target, observe([batch], True))
    of_donors = None if donors is None else read(levels, target, observe([donors], True))
    inner = [i for i in layers if network.parents[i] != len(network.layers)]
    if of_donors is not None and inner:
        raise ValueError(
            "Expected members of top-bags, not of bags inside them, where donors are given. "
            f"Received: level={inner[0]}"
        )
    variants = _Variants(levels, reading, of_donors, layers)
    search = _Search(variants)
    chosen, exact = search.run()
    clusters = all_clusters(levels)
    old = classes[variants.label], classes[int(reading.network[0])]
    if not chosen:
        return Counterfactual(
            (), (), (), (old[0],) * 2, (old[1],) * 2, exact=exact, n_tried=search.n_tried
        )
    edits = [variants.edits(counts) for counts in chosen[:_MOST_CHECKED]]
    edited = [_edited(editor, batch, donors, each) for each in edits]
    by_rules, by_network = classify(levels, target, observe([ragged.concat(edited)], False))
    best = int(np.argmax(by_rules == by_network))  # the first, if the network never agrees
    removed, added = ([x for x in edits[best] if x.is_added == is_added] for is_added in (0, 1))
    return Counterfactual(
        removed=tuple(edit.member for edit in removed),
        added=tuple(edit.member for edit in added),
        labels=tuple(clusters[edit.member[0]].names[edit.label] for edit in removed + added),
        rules=(old[0], classes[int(by_rules[best])]),
        network=(old[1], classes[int(by_network[best])]),
        exact=exact,
        n_tried=search.n_tried,
    )


def _edited(
    editor: Editor, batch: Tensors, donors: Tensors | None, edits: Sequence["_Edit"]
) -> Tensors:
    """A top-bag with some edits."""
    result = editor.without(batch, [edit.member for edit in edits if not edit.is_added])
    added: dict[int, list[tuple[int, ...]]] = {}
    for edit in edits:
        if edit.is_added:
            layer, position = edit.member
            added.setdefault(layer, []).append(position)
    return result if donors is None else editor.with_added(result, donors, added)


class _Search:
    """Finds the smallest changes of class; `n_tried` counts the combinations that were tried."""

    def __init__(self, variants: "_Variants") -> None:
        self._variants, self._most = variants, variants.available
        self.n_tried = 0

    def run(self) -> tuple[list[_Counts], bool]:
        """The smallest changes, and whether no smaller ones exist."""
        for size in range(1, sum(self._most) + 1):
            n = math.comb(len(self._most) + size - 1, size)
            if self.n_tried + n > _MOST_COMBINATIONS:
                return self._greedy(), False
            if result := self._changing(self._of_size(size)):
                return result, True
        return [], True

    def _of_size(self, size: int) -> Iterator[_Counts]:
        """All ways to edit this many members; those of one kind are interchangeable."""
        kinds = range(len(self._most))
        for combination in itertools.combinations_with_replacement(kinds, size):
            counts = np.bincount(combination, minlength=len(self._most))
            if (counts <= self._most).all():
                yield tuple(counts.tolist())

    def _greedy(self) -> list[_Counts]:
        """A small change: the smallest of some large ones, cut back kind by kind."""
        most, is_added = np.array(self._most), np.array(self._variants.is_added)
        alone = np.diag(most)
        emptied = np.where(is_added, 0, most)
        starts = np.concatenate(
            [
                alone,
                # All but one kind is removed; or all is replaced by one kind.
                np.where(is_added[:, None], emptied + alone, emptied - alone),
                [emptied, most - emptied, most],
            ]
        )
        changing = self._changing([tuple(each.tolist()) for each in starts])
        result = [self._cut_back(counts) for counts in changing]
        return [min(result, key=sum)] if result else []

    def _cut_back(self, counts: _Counts) -> _Counts:
        """A change with as few members of each kind in turn as still change the class."""
        for kind in range(len(counts)):
            fewer = [(*counts[:kind], n, *counts[kind + 1 :]) for n in range(counts[kind])]
            counts = min(self._changing(fewer), key=sum, default=counts)
        return counts

    def _changing(self, candidates: Iterable[_Counts]) -> list[_Counts]:
        """Those that change the class by the rules."""
        tried = list(candidates)
        self.n_tried += len(tried)
        pairs = zip(tried, self._variants.labels(tried), strict=True)
        return [counts for counts, label in pairs if label != self._variants.label]


@dataclass(frozen=True)
class _Edit:
    """A member that is removed, or added from the donors, and its cluster."""

    member: Member
    label: int
    is_added: bool


@dataclass(frozen=True, eq=False)
class _Kind:
    """Members of one bag that are interchangeable to the rules: of one cluster and weight.

    `members` are their indices among the occurrences of the rows of the bag-layer.
    """

    layer: int
    label: int
    is_added: bool
    weight: float
    members: tuple[int, ...]


class _Variants:
    """Labels variants of a top-bag by the rules, without running the network.

    Rows of some bag-layers may be removed, and rows of the donors added to the top-bag. `available`
    and `is_added` are the number of members of each kind, and whether these are added.
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
        self._kinds: list[_Kind] = []
        for i in layers:
            self._kinds += _kinds(i, reading, self._here, is_added=False)
            if donors is not None:
                self._kinds += _kinds(i, donors, self._there, is_added=True)
        self.label = int(reading.labels[-1][0])
        self.available = tuple(len(kind.members) for kind in self._kinds)
        self.is_added = tuple(kind.is_added for kind in self._kinds)

    def edits(self, counts: _Counts) -> list[_Edit]:
        """The edits of this many members of each kind."""
        edits = []
        for kind, n in zip(self._kinds, counts, strict=True):
            occurrences = self._there if kind.is_added else self._here
            for index in kind.members[:n]:
                position = position_of(kind.layer, index, occurrences, self._reading.parents)
                edits.append(_Edit((kind.layer, position), kind.label, kind.is_added))
        return edits

    def labels(self, variants: Sequence[_Counts]) -> Ints:
        """The classes by the rules, int [variants], after edits of so many members of each kind."""
        parts = [
            self._labels_of(np.array(variants[start : start + _AT_ONCE], int))
            for start in range(0, len(variants), _AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, int)

    def _labels_of(self, counts: Ints) -> Ints:
        """Same for some, [variants, kinds]. Each has its own copy of all occurrences."""
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
            result = level.tree.predict(level.space.matrix(known, nestings, of_record))
            labels[level.record : level.record + 1] = [result]
        return labels[-1]

    def _nesting(
        self, layer: int, here: Occurrences, stay: Bools, counts: Ints
    ) -> tuple[Nesting, Ints]:
        """The bags of a bag-layer in all variants, and the labels of rows that are added."""
        n, n_rows, n_bags = len(counts), len(here.rows), len(here.row_splits) - 1
        bag_of = np.repeat(np.arange(n_bags), np.diff(here.row_splits))
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
    layer: int, reading: Reading, occurrences: Sequence[Occurrences], is_added: bool
) -> Iterator[_Kind]:
    """The members of the bags of a bag-layer, grouped by kind."""
    here = occurrences[layer]
    labels = reading.labels[layer][here.rows]
    bags = np.repeat(np.arange(len(here.row_splits) - 1), np.diff(here.row_splits))
    result: dict[tuple[int, int, float], list[int]] = {}
    for i, (bag, label, weight) in enumerate(zip(bags, labels, here.weights, strict=True)):
        if weight > 0:
            # All additions go into the one bag of the top-bag.
            key = 0 if is_added else int(bag), int(label), float(weight)
            result.setdefault(key, []).append(i)
    for (_, label, weight), members in result.items():
        yield _Kind(layer, label, is_added, weight, tuple(members))

"""The fewest members whose removal or addition changes the class by the rules."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from keras_mmil import ragged
from keras_mmil._support.types import Config, Ints, Tensors
from keras_mmil.interpretation.evidence.edits import Editor, Member
from keras_mmil.interpretation.evidence.variants import Edit, Variants
from keras_mmil.interpretation.network.capture import Network, Observation
from keras_mmil.interpretation.network.targets import Target
from keras_mmil.interpretation.readout.reading import classify, read
from keras_mmil.interpretation.rules.level import Level, all_clusters

__all__ = ["Counterfactual", "counterfactual"]

_MOST_COMBINATIONS = 10_000
_MOST_CHECKED = 64  # equally small changes, of which one is sought that changes the network, too

# How many members of each kind are edited.
_Counts = tuple[int, ...]


@dataclass(frozen=True)
class Counterfactual:
    """What would have to be different for the rules to say something else.

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
        """As JSON knows it."""
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
    """Search the smallest change of one top-bag.

    Args:
        levels: from the instances upwards.
        classes: names of the classes of top-bags.
        target: what they are.
        network: the network.
        observe: runs it on batches of checked top-bags, in order or not.
        batch: checked inputs of the top-bag.
        donors: checked inputs of top-bags whose members may be added; None for none.
        layers: indices of the bag-layers whose rows may be removed.

    Raises:
        ValueError: if members cannot be removed, see `Editor`; or if rows of these layers may not
            be added, which are not members of the top-bag itself.
    """
    editor = Editor(network)
    batch = editor.plain(batch)
    donors = None if donors is None else editor.plain(donors)
    reading = read(levels, target, observe([batch], True))
    given = None if donors is None else read(levels, target, observe([donors], True))
    if given is not None:
        _check_layers(layers, network)
    variants = Variants(levels, reading, given, layers)
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
    found = edits[best]
    ordered = [edit for added in (False, True) for edit in found if edit.is_added == added]
    return Counterfactual(
        removed=tuple(edit.member for edit in ordered if not edit.is_added),
        added=tuple(edit.member for edit in ordered if edit.is_added),
        labels=tuple(clusters[edit.layer].names[edit.label] for edit in ordered),
        rules=(old[0], classes[int(by_rules[best])]),
        network=(old[1], classes[int(by_network[best])]),
        exact=exact,
        n_tried=search.n_tried,
    )


def _check_layers(layers: Sequence[int], network: Network) -> None:
    inner = [i for i in layers if network.parents[i] != len(network.layers)]
    if inner:
        raise ValueError(
            "Expected members of top-bags, not of bags inside them, where donors are given. "
            f"Received: level={inner[0]}"
        )


def _edited(
    editor: Editor, batch: Tensors, donors: Tensors | None, edits: Sequence[Edit]
) -> Tensors:
    """A top-bag with some edits."""
    found = editor.without(batch, [edit.member for edit in edits if not edit.is_added])
    added: dict[int, list[tuple[int, ...]]] = {}
    for edit in edits:
        if edit.is_added:
            added.setdefault(edit.layer, []).append(edit.member[1])
    return found if donors is None else editor.with_added(found, donors, added)


class _Search:
    """Finds the smallest changes of class.

    Attributes:
        n_tried: number of combinations that were tried.
    """

    def __init__(self, variants: Variants) -> None:
        self._variants, self._most = variants, variants.available
        self.n_tried = 0

    def run(self) -> tuple[list[_Counts], bool]:
        """The smallest changes, none if there are none; and whether none smaller exists."""
        for size in range(1, sum(self._most) + 1):
            n = math.comb(len(self._most) + size - 1, size)
            if self.n_tried + n > _MOST_COMBINATIONS:
                return self._greedy(), False
            if found := self._changing(self._of_size(size)):
                return found, True
        return [], True

    def _of_size(self, size: int) -> Iterator[_Counts]:
        """All ways to edit so many members; those of one kind are alike."""
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
                # Everything goes, but one kind; or is replaced by one kind.
                np.where(is_added[:, None], emptied + alone, emptied - alone),
                [emptied, most - emptied, most],
            ]
        )
        found = []
        for counts in self._changing([tuple(each.tolist()) for each in starts]):
            found.append(self._cut_back(counts))
        return [min(found, key=sum)] if found else []

    def _cut_back(self, counts: _Counts) -> _Counts:
        """A change with as few members of each kind in turn as still change the class."""
        for kind in range(len(counts)):
            fewer = [(*counts[:kind], n, *counts[kind + 1 :]) for n in range(counts[kind])]
            counts = min(self._changing(fewer), key=sum, default=counts)
        return counts

    def _changing(self, wanted: Iterable[_Counts]) -> list[_Counts]:
        """Those after which the rules say something else."""
        tried = list(wanted)
        self.n_tried += len(tried)
        labels: Ints = self._variants.labels(tried)
        pairs = zip(tried, labels, strict=True)
        return [counts for counts, label in pairs if label != self._variants.label]

"""Why one top-bag got its label: the rules that fired, and the parts that made them fire."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from keras_mmil._support.checks import check_int
from keras_mmil._support.files import finite
from keras_mmil._support.formatting import preformatted
from keras_mmil._support.types import Array, Bools, Config
from keras_mmil.interpretation.network.nesting import expand
from keras_mmil.interpretation.readout.part import (
    CHECKED,
    DECIDES,
    IDLE,
    LIMITED,
    Part,
    Shows,
    show_of,
)
from keras_mmil.interpretation.readout.reading import Reading
from keras_mmil.interpretation.readout.worth import worths
from keras_mmil.interpretation.rules.level import Clusters, Level, all_clusters
from keras_mmil.interpretation.rules.rule import Condition

__all__ = ["Explanation", "explain"]

_INDENT = "    "


@dataclass(frozen=True, repr=False)
class Explanation:
    """The explanation of one top-bag.

    Attributes:
        top_bag: the `Part` that is the whole top-bag.
        network: index of the network's own class.
        network_name: its name.
    """

    top_bag: Part
    network: int
    network_name: str

    @property
    def label(self) -> int:
        """Index of the class by the rules."""
        return self.top_bag.label

    @property
    def agrees(self) -> bool:
        """Whether rules and network agree."""
        return self.label == self.network

    def ranking(self, level: int = 0) -> list[Part]:
        """The instances, those first on which the network's class depends most, by the rules.

        First come those that decide, in bags that decide; where rules and network disagree they
        come last, as they speak for another class. Among these, and among the others, the order is
        that of what they are worth to the network's class (`Part.worth`): by all rules, those of
        other classes included, and by where an instance is between the two centroids nearest to it.
        Of equal ones the first comes first.

        Args:
            level: index of the bag-layer whose rows are ranked: 0 for instances, 1 for sub-bags.

        Raises:
            ValueError: if there is no such bag-layer.
        """
        check_int("level", level, 0, self.top_bag.level - 1)
        sign = 1 if self.agrees else -1
        found = list(_of_level(self.top_bag, level, decides=True))
        found.sort(key=lambda pair: (-sign * pair[1], -(pair[0].worth or 0.0)))
        return [part for part, _ in found]

    def to_dict(self) -> Config:
        """As JSON knows it: numbers that are not finite are None."""
        found: Config = finite(
            {
                "network": self.network,
                "network_name": self.network_name,
                "agrees": self.agrees,
                "top_bag": self.top_bag.to_dict(),
            }
        )
        return found

    def _repr_html_(self) -> str:
        """For notebooks."""
        return preformatted(str(self))

    def __repr__(self) -> str:
        return f"<Explanation: {self.top_bag.word} {self.top_bag.sentence}>"

    def __str__(self) -> str:
        network = f"network: {self.network_name}"
        if not self.agrees:
            network = f"NOT as the {network}"
        first = f"{self.top_bag.word} {self.top_bag.sentence}  ({network})"
        return "\n".join([first, *(_INDENT + line for line in self.top_bag.lines())])


def _of_level(part: Part, level: int, decides: bool) -> Iterator[tuple[Part, bool]]:
    """The parts of a level in a part, each with whether it and all around it decide."""
    for child in part.children:
        still = decides and child.deciding
        if child.level == level:
            yield child, still
        yield from _of_level(child, level, still)


def explain(
    levels: Sequence[Level],
    class_names: Sequence[str],
    reading: Reading,
    show: Shows | None = None,
) -> list[Explanation]:
    """Explain every top-bag of a `Reading`.

    Args:
        levels: from the instances upwards.
        class_names: names of the classes.
        reading: the top-bags, as rules and network label them.
        show: function from the position of a part to its title, or a dict of such functions by the
            path of the part; None for its index.
    """
    builder = _Builder(levels, class_names, reading, show)
    return [
        Explanation(builder.top_bag(i), int(label), class_names[label])
        for i, label in enumerate(reading.network)
    ]


class _Builder:
    """Makes parts; holds what is the same for all parts of a reading."""

    def __init__(
        self,
        levels: Sequence[Level],
        class_names: Sequence[str],
        reading: Reading,
        show: Shows | None,
    ) -> None:
        self._clusters, self._reading, self._show = all_clusters(levels), reading, show
        self._level_of = {level.record: level for level in levels}
        self._names = [*(clusters.names for clusters in self._clusters), class_names]
        self._occurrences = expand(reading.nestings, reading.parents)
        self._matches = {level.record: self._of_rules(level) for level in levels}
        self._worths = self._of_rows(worths(levels, len(class_names))) if reading.places else None

    def _of_rows(self, values: Sequence[Array]) -> list[Array]:
        """Values [classes, clusters] of each bag-layer, for its rows: [classes, rows]."""
        seen, found = self._reading, []
        for layer, of_clusters in enumerate(values):
            if layer in self._level_of:  # rules say which cluster a row is in
                found.append(of_clusters[:, seen.labels[layer]])
            else:
                near, place = seen.nearest[layer], seen.places[layer]
                found.append(np.stack([place.between(near, each) for each in of_clusters]))
        return found

    def _of_rules(self, level: Level) -> Bools:
        """Which rules of a level match which of its rows: [rules, rows]."""
        seen = self._reading
        known = level.space.matrix(seen.labels, seen.nestings, seen.values[level.record])
        return np.array([rule.matches(known) for rule in level.rules])

    def top_bag(self, index: int) -> Part:
        """The part that is a whole top-bag."""
        top, position = len(self._clusters), (index,)
        label = int(self._reading.labels[top][index])
        part = Part(
            level=top,
            word=self._level_of[top].word,
            position=position,
            label=label,
            name=self._names[top][label],
            nearest=None,
            weight=1.0,
            role=None,
            title=show_of(self._show, "")(position),
        )
        return self._with_members(part, index, row=index)

    def _member(self, clusters: Clusters, index: int, position: tuple[int, ...], role: str) -> Part:
        """The part that is the `index`-th occurrence of a row of a bag-layer."""
        layer = clusters.level
        row = int(self._occurrences[layer].rows[index])
        label = int(self._reading.labels[layer][row])
        worth = None
        if self._worths is not None:
            worth = float(self._worths[layer][self._reading.network[position[0]], row])
        part = Part(
            level=layer,
            word=clusters.word,
            path=clusters.path,
            position=position,
            label=label,
            name=clusters.names[label],
            nearest=clusters.names[self._reading.nearest[layer][row]],
            weight=float(self._occurrences[layer].weights[index]),
            role=role,
            worth=worth,
            title=show_of(self._show, clusters.path)(position),
        )
        return self._with_members(part, index, row) if layer in self._level_of else part

    def _with_members(self, part: Part, index: int, row: int) -> Part:
        """A part with the rule that fired on it, and what is in it."""
        level = self._level_of[part.level]
        fired = np.flatnonzero(self._matches[part.level][:, row])
        matched = tuple(level.rules.rules[i] for i in fired)
        children, absent = [], []
        for bag, at in level.space.of_bags:
            conditions = {
                c.column - at.start: c
                for c in matched[0].conditions
                if at.start <= c.column < at.stop
            }
            members = self._members(bag, index, part.position, conditions)
            children += members
            present = {member.label for member in members}
            absent += [
                bag.names[cluster]
                for cluster, condition in conditions.items()
                if not condition.requires and cluster not in present
            ]
        fields = zip(level.space.fields, self._reading.values[part.level], strict=True)
        return replace(
            part,
            rule=matched[0],
            clause=level.rules.clause(matched[0]),
            matched=matched,
            absent=tuple(absent),
            children=tuple(children),
            is_bag=bool(level.clusters),
            fields={each.name: each.shown(raw[row]) for each, raw in fields},
        )

    def _members(
        self,
        clusters: Clusters,
        index: int,
        around: tuple[int, ...],
        conditions: Mapping[int, Condition],
    ) -> list[Part]:
        """The members of a bag in the `index`-th occurrence of a record.

        Args:
            clusters: of the rows of the bag-layer.
            index: of the record.
            around: its position.
            conditions: those of the rule that fired on it that are about the bag, by cluster.
        """
        occurrences = self._occurrences[clusters.level]
        start, stop = occurrences.row_splits[index : index + 2]
        labels = self._reading.labels[clusters.level][occurrences.rows[start:stop]]
        return [
            self._member(clusters, start + i, (*around, i), _role(conditions, int(labels[i])))
            for i in range(stop - start)
            if occurrences.weights[start + i] > 0
        ]


def _role(conditions: Mapping[int, Condition], label: int) -> str:
    """What a member with this label does for the conditions on its bag, by cluster."""
    if label in conditions:
        return DECIDES if conditions[label].requires else LIMITED
    requires = any(condition.requires for condition in conditions.values())
    return IDLE if requires or not conditions else CHECKED

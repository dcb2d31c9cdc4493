"""Why one top-bag got its label: the rules that fired, and the parts that made them fire."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from keras_mmil._support.types import Config
from keras_mmil.interpretation.network.nesting import expand
from keras_mmil.interpretation.readout.reading import Reading
from keras_mmil.interpretation.rules.level import Clusters, Level, all_clusters
from keras_mmil.interpretation.rules.rule import Condition, Rule

__all__ = ["Explanation", "Part", "Show", "explain"]

# From the position of a top-bag, sub-bag or instance, see `Part`, to its text.
Show: TypeAlias = Callable[[tuple[int, ...]], str]

# What a member does for the rule that fired on its bag.
DECIDES = "decides"  # the rule requires its cluster
LIMITED = "limited"  # the rule allows only so much of its cluster
CHECKED = "checked"  # the rule requires nothing, so that every member had to be something else
IDLE = "does not matter"

_INDENT = "    "
_SHOWN = 12  # members listed by number before "and … more"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A top-bag, or a sub-bag or instance in it.

    Attributes:
        level: index of the bag-layer whose rows are such parts: 0 for instances; the number of
            bag-layers for a top-bag.
        word: what it is called: "top-bag", "sub-bag", "instance".
        path: what such parts are called in the data; empty where they have no name.
        position: index in its bag, preceded by those of the bags around it, the top-bag's first.
        label, name: index and name of its label by the rules.
        nearest: name of the cluster of its nearest centroid; None for a top-bag.
        weight: multiplicity in its bag.
        role: "decides", "limited", "checked" or "does not matter": what it does for the rule that
            fired on its bag; None for a top-bag.
        rule, clause: the rule that fired on it, and its text; None where the nearest centroid
            decides.
        matched: all rules that match.
        absent: names of the clusters that the rule requires to be absent or few and that are
            absent.
        children: the members of its bags.
        is_bag: whether it holds bags.
        fields: what its fields are, by name, as text.
        title: what it is called in text: its index, or what the user wants to be shown.
    """

    level: int
    word: str
    path: str = ""
    position: tuple[int, ...]
    label: int
    name: str
    nearest: str | None
    weight: float
    role: str | None
    rule: Rule | None = None
    clause: str | None = None
    matched: tuple[Rule, ...] = ()
    absent: tuple[str, ...] = ()
    children: tuple["Part", ...] = ()
    is_bag: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    title: str = ""

    @property
    def deciding(self) -> bool:
        """Whether the rule that fired on its bag requires its cluster."""
        return self.role == DECIDES

    @property
    def is_brief(self) -> bool:
        """Whether text about it names only its label: no rule, or a record that decides nothing."""
        return self.rule is None or (bool(self.path) and self.role == CHECKED)

    def to_dict(self) -> Config:
        """As JSON knows it."""
        return {
            **vars(self),
            "rule": self.rule and self.rule.to_dict(),
            "matched": [rule.to_dict() for rule in self.matched],
            "children": [child.to_dict() for child in self.children],
        }

    def lines(self) -> Iterator[str]:
        """Lines of text about its fields and members."""
        if self.fields:
            yield ", ".join(f"{name} = {value}" for name, value in self.fields.items())
        for role in (DECIDES, LIMITED, CHECKED):
            members = [child for child in self.children if child.role == role]
            for alike in _by_path([child for child in members if child.is_brief]):
                yield f"{role}: {_listing(alike)}"
            for member in members:
                if not member.is_brief:
                    yield f"{role}: {member.word} {member.sentence}"
                    yield from (_INDENT + line for line in member.lines())
        if self.absent:
            yield f"absent: {', '.join(self.absent)}"
        for alike in _by_path([child for child in self.children if child.role == IDLE]):
            yield f"{IDLE}: {_listing(alike)}"

    @property
    def sentence(self) -> str:
        """What it is, and why."""
        differs = self.nearest is not None and self.nearest != self.name
        doubt = f" (nearest centroid: {self.nearest})" if differs else ""
        empty = " of an empty bag" if self.is_bag and not self.children else ""
        return f"{_number(self)} is {self.name}{doubt}, because{empty} {self.clause}"


@dataclass(frozen=True)
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

    def to_dict(self) -> Config:
        """As JSON knows it."""
        return {
            "network": self.network,
            "network_name": self.network_name,
            "agrees": self.agrees,
            "top_bag": self.top_bag.to_dict(),
        }

    def __str__(self) -> str:
        network = f"network: {self.network_name}"
        if not self.agrees:
            network = f"NOT as the {network}"
        first = f"{self.top_bag.word} {self.top_bag.sentence}  ({network})"
        return "\n".join([first, *(_INDENT + line for line in self.top_bag.lines())])


def explain(
    levels: Sequence[Level],
    class_names: Sequence[str],
    reading: Reading,
    show: Show | None = None,
) -> list[Explanation]:
    """Explain every top-bag of a `Reading`.

    Args:
        levels: from the instances upwards.
        class_names: names of the classes.
        reading: the top-bags, as rules and network label them.
        show: function from the position of a part to its title; None for its index.
    """
    builder = _Builder(levels, class_names, reading, show or (lambda position: str(position[-1])))
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
        show: Show,
    ) -> None:
        self._clusters, self._reading, self._show = all_clusters(levels), reading, show
        self._level_of = {level.record: level for level in levels}
        self._names = [*(clusters.names for clusters in self._clusters), class_names]
        self._occurrences = expand(reading.nestings, reading.parents)
        self._known = {
            level.record: level.space.matrix(
                reading.labels, reading.nestings, reading.values[level.record]
            )
            for level in levels
        }

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
            title=self._show(position),
        )
        return self._with_members(part, index, row=index)

    def _member(self, clusters: Clusters, index: int, position: tuple[int, ...], role: str) -> Part:
        """The part that is the `index`-th occurrence of a row of a bag-layer."""
        layer = clusters.level
        row = int(self._occurrences[layer].rows[index])
        label = int(self._reading.labels[layer][row])
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
            title=self._show(position),
        )
        return self._with_members(part, index, row) if layer in self._level_of else part

    def _with_members(self, part: Part, index: int, row: int) -> Part:
        """A part with the rule that fired on it, and what is in it."""
        level = self._level_of[part.level]
        known = self._known[part.level][row : row + 1]
        matched = tuple(rule for rule in level.rules if rule.matches(known)[0])
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
            self._member(
                clusters,
                start + i,
                (*around, i),
                _role(conditions, int(labels[i])),
            )
            for i in range(stop - start)
            if occurrences.weights[start + i] > 0
        ]


def _role(conditions: Mapping[int, Condition], label: int) -> str:
    """What a member with this label does for the conditions on its bag, by cluster."""
    if label in conditions:
        return DECIDES if conditions[label].requires else LIMITED
    requires = any(condition.requires for condition in conditions.values())
    return IDLE if requires or not conditions else CHECKED


def _by_path(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts by what they are called in the data."""
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(part.path, []).append(part)
    return list(found.values())


def _number(part: Part) -> str:
    return part.title + (f" (×{part.weight:g})" if part.weight != 1 else "")


def _listing(parts: Sequence[Part]) -> str:
    shown = ", ".join(f"{_number(part)} ({part.name})" for part in parts[:_SHOWN])
    more = f", … and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    plural = "s" if len(parts) > 1 and not parts[0].path else ""
    return f"{parts[0].word}{plural} {shown}{more}"

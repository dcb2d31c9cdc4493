"""Why one top-bag got its label: the rules that fired, and the parts that made them fire."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from keras_mmil._support.types import Config
from keras_mmil.interpretation.network.nesting import expand
from keras_mmil.interpretation.readout.reading import Reading
from keras_mmil.interpretation.rules.level import Level, level_word
from keras_mmil.interpretation.rules.rule import Rule

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
        level: 0 for instances.
        word: what it is called: "top-bag", "sub-bag", "instance".
        position: index in its bag, preceded by those of the bags around it, the top-bag's first.
        label, name: index and name of its label by the rules.
        nearest: name of the cluster of its nearest centroid; None for a top-bag.
        weight: multiplicity in its bag.
        role: "decides", "limited", "checked" or "does not matter": what it does for the rule that
            fired on its bag; None for a top-bag.
        rule, clause: the rule that fired on it, and its text; None for an instance.
        matched: all rules that match.
        absent: names of the clusters that the rule requires to be absent or few and that are
            absent.
        children: its members.
        title: what it is called in text: its index, or what the user wants to be shown.
    """

    level: int
    word: str
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
    title: str = ""

    @property
    def deciding(self) -> bool:
        """Whether the rule that fired on its bag requires its cluster."""
        return self.role == DECIDES

    def to_dict(self) -> Config:
        """As JSON knows it."""
        return {
            **vars(self),
            "rule": self.rule and self.rule.to_dict(),
            "matched": [rule.to_dict() for rule in self.matched],
            "children": [child.to_dict() for child in self.children],
        }

    def lines(self) -> Iterator[str]:
        """Lines of text about its members."""
        for role in (DECIDES, LIMITED, CHECKED):
            members = [child for child in self.children if child.role == role]
            if self.level == 1 and members:
                yield f"{role}: {_listing(members)}"
            elif self.level > 1:
                for member in members:
                    yield f"{role}: {member.word} {member.sentence}"
                    yield from (_INDENT + line for line in member.lines())
        if self.absent:
            yield f"absent: {', '.join(self.absent)}"
        idle = [child for child in self.children if child.role == IDLE]
        if idle:
            yield f"{IDLE}: {_listing(idle)}"

    @property
    def sentence(self) -> str:
        """What it is, and why."""
        differs = self.nearest is not None and self.nearest != self.name
        doubt = f" (nearest centroid: {self.nearest})" if differs else ""
        empty = "" if self.children else " of an empty bag"
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
        first = f"top-bag {self.top_bag.sentence}  ({network})"
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
        self._levels, self._reading, self._show = levels, reading, show
        self._names = [*(level.names for level in levels), class_names]
        self._occurrences = expand(reading.nestings)
        triples = zip(levels, reading.labels[:-1], reading.nestings, strict=True)
        self._bags = [level.bags(labels, nesting) for level, labels, nesting in triples]

    def top_bag(self, index: int) -> Part:
        """The part that is a whole top-bag."""
        top, position = len(self._levels), (index,)
        label = int(self._reading.labels[top][index])
        part = Part(
            level=top,
            word=level_word(top, top),
            position=position,
            label=label,
            name=self._names[top][label],
            nearest=None,
            weight=1.0,
            role=None,
            title=self._show(position),
        )
        return self._with_members(part, index, row=index)

    def _member(self, level: int, index: int, position: tuple[int, ...], fired: Rule) -> Part:
        """The part that is the `index`-th occurrence at its level, in a bag that a rule matched."""
        row = int(self._occurrences[level].rows[index])
        label = int(self._reading.labels[level][row])
        part = Part(
            level=level,
            word=level_word(level, len(self._levels)),
            position=position,
            label=label,
            name=self._names[level][label],
            nearest=self._names[level][self._reading.nearest[level][row]],
            weight=float(self._occurrences[level].weights[index]),
            role=_role(fired, label),
            title=self._show(position),
        )
        return part if level == 0 else self._with_members(part, index, row)

    def _with_members(self, part: Part, index: int, row: int) -> Part:
        """The part of a bag, with the rule that fired on it, and what is in it."""
        level = part.level - 1
        rules = self._levels[level].rules
        bag = self._bags[level][row : row + 1]
        matched = tuple(rule for rule in rules if rule.matches(bag)[0])
        occurrences = self._occurrences[level]
        start, stop = occurrences.row_splits[index : index + 2]
        children = tuple(
            self._member(level, i, (*part.position, int(i - start)), matched[0])
            for i in range(start, stop)
            if occurrences.weights[i] > 0
        )
        return replace(
            part,
            rule=matched[0],
            clause=rules.clause(matched[0]),
            matched=matched,
            absent=_absent(matched[0], children, rules.member_names),
            children=children,
        )


def _absent(rule: Rule, members: Sequence[Part], names: Sequence[str]) -> tuple[str, ...]:
    present = {member.label for member in members}
    unwanted = [c.cluster for c in rule.conditions if not c.requires]
    return tuple(names[cluster] for cluster in unwanted if cluster not in present)


def _role(rule: Rule, label: int) -> str:
    for condition in rule.conditions:
        if condition.cluster == label:
            return DECIDES if condition.requires else LIMITED
    requires = any(condition.requires for condition in rule.conditions)
    return IDLE if requires or not rule.conditions else CHECKED


def _number(part: Part) -> str:
    return part.title + (f" (×{part.weight:g})" if part.weight != 1 else "")


def _listing(parts: Sequence[Part]) -> str:
    shown = ", ".join(f"{_number(part)} ({part.name})" for part in parts[:_SHOWN])
    more = f", … and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    plural = "s" if len(parts) > 1 else ""
    return f"{parts[0].word}{plural} {shown}{more}"

"""Why one top-bag got its label: the rules that fired, and the parts that made them fire."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from keras_mmil._support.checks import check_int
from keras_mmil._support.files import finite
from keras_mmil._support.formatting import number_text, preformatted
from keras_mmil._support.types import Array, Config
from keras_mmil.rules.explain.reading import Reading, contributions
from keras_mmil.rules.network.nesting import expand
from keras_mmil.rules.trees.columns import singular
from keras_mmil.rules.trees.level import Clusters, Level, all_clusters, is_symbol
from keras_mmil.rules.trees.rule_set import Condition, Rule

__all__ = [
    "CHECKED",
    "COUNTED",
    "DECIDES",
    "IDLE",
    "LIMITED",
    "Explanation",
    "Part",
    "Reason",
    "Show",
    "Shows",
    "explain",
    "show_of",
]

# From the position of a top-bag, sub-bag or instance, see `Part`, to its text.
Show: TypeAlias = Callable[[tuple[int, ...]], str]
# One for all parts, or one for each path, as positions in several bags look the same.
Shows: TypeAlias = Show | Mapping[str, Show]

# What a member does for the rule that fired on its bag.
DECIDES = "decides"  # the rule requires its cluster
LIMITED = "limited"  # the rule limits its cluster
COUNTED = "counted"  # the rule is about a statistic of the members
CHECKED = "checked"  # the rule requires nothing, so every member had to be something else
IDLE = "does not matter"

_INDENT = "    "
_SHOWN = 12  # members listed by number before "and … more"
# What text in words says of members: of one, and of several.
_IN_WORDS = {
    DECIDES: ("matches", "match"),
    LIMITED: ("matches", "match"),
    COUNTED: ("counted", "counted"),
    CHECKED: ("does not match", "do not match"),
    IDLE: ("does not matter", "do not matter"),
}


@dataclass(frozen=True)
class Reason:
    """The conditions of a rule in words.

    Attributes:
        text: the conditions.
        mentions: the clusters that these name without describing them, each by the index of its
            bag-layer and its name.
        definitions: sentences on these clusters, and on those that they mention, likewise by
            cluster, as far as they can be described.
    """

    text: str
    mentions: frozenset[tuple[int, str]] = frozenset()
    definitions: Mapping[tuple[int, str], str] = field(default_factory=dict)

    def __str__(self) -> str:
        """All in one line."""
        return "; ".join([self.text, *self.definitions.values()])


@dataclass(frozen=True, kw_only=True)
class Part:
    """A top-bag, or a sub-bag or instance in it, and why it got its label.

    Attributes:
        level: index of the bag-layer whose rows are such parts: 0 for instances; the number of
            bag-layers for a top-bag.
        word: what it is called: "top-bag", "sub-bag", "instance".
        path: what such parts are called in the data; empty where they have no name.
        position: index in its bag, preceded by those of the enclosing bags, the top-bag's first.
        label, name: index and name of its label by the rules.
        nearest: name of the cluster of its nearest centroid; None for a top-bag.
        weight: multiplicity in its bag.
        role: "decides", "limited", "counted", "checked" or "does not matter": what it does for the
            rule that fired on its bag; None for a top-bag.
        contribution: how much it speaks, by all rules, for the network's class: positive for it,
            negative against it; None for a top-bag, and where it was not computed.
        rule, clause: the rule that fired on it, and its text; None where the nearest centroid
            decides.
        reason: the conditions of that rule in words.
        is_named: whether text in words calls it by its cluster: a rule that fired mentions this, or
            a user has named it.
        matched: all rules that match.
        absent: names of the clusters that the rule requires to be absent or few and that are
            absent.
        children: the members of its bags.
        is_bag: whether it holds bags.
        fields: the values of its fields, by name, as text.
        title: what it is called in text: its index, or what `show` returned.
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
    contribution: float | None = None
    rule: Rule | None = None
    clause: str | None = None
    reason: Reason | None = None
    is_named: bool = False
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
    def is_relevant(self) -> bool:
        """Whether the rule that fired on its bag requires or limits its cluster."""
        return self.role in (DECIDES, LIMITED)

    @property
    def is_brief(self) -> bool:
        """Whether text about it names only its label: no rule, or a record that decides nothing."""
        return self.rule is None or (bool(self.path) and self.role in (COUNTED, CHECKED))

    def to_dict(self) -> Config:
        """For JSON."""
        return {
            **{name: value for name, value in vars(self).items() if name != "is_named"},
            "rule": self.rule and self.rule.to_dict(),
            "reason": self.reason and self.reason.text,
            "matched": [rule.to_dict() for rule in self.matched],
            "children": [child.to_dict() for child in self.children],
        }

    def lines(self, formal: bool = False) -> Iterator[str]:
        """Lines of text about its fields and members, in words or in formal syntax."""
        if self.fields:
            # Statistics may have a sign in their names: "number of tags = 'new'".
            pairs = ((name, ":" if " " in name else " =", x) for name, x in self.fields.items())
            yield ", ".join(f"{name}{sign} {value}" for name, sign, value in pairs)
        for role in (DECIDES, LIMITED, COUNTED, CHECKED):
            members = [child for child in self.children if child.role == role]
            brief = [child for child in members if child.is_brief]
            yield from _listings(role, brief, formal)
            for alike in _alike([child for child in members if not child.is_brief], formal):
                first = alike[0]
                yield f"{role}: {first.word} {first.sentence}" if formal else _match(alike)
                yield from (_INDENT + line for line in first.lines(formal))
        if self.absent and formal:
            yield f"absent: {', '.join(self.absent)}"
        idle = [child for child in self.children if child.role == IDLE]
        yield from _listings(IDLE, idle, formal)

    @property
    def sentence(self) -> str:
        """What it is, and why, in formal syntax."""
        differs = self.nearest is not None and self.nearest != self.name
        doubt = f" (nearest centroid: {self.nearest})" if differs else ""
        found = f"{_number(self)} is {self.name}{doubt}"
        if self.clause is None:
            return f"{found}, whatever it holds."
        return self._because(found, self.clause.removeprefix(f"{self.name} ← "))

    @property
    def verdict(self) -> str:
        """What it is, and why, in words; in formal syntax where there is no reason in words."""
        if self.reason is None:
            return self.sentence
        return self._because(f"{_number(self)} is {self.name}", f"{self.reason.text}.")

    @property
    def why(self) -> str:
        """Why it matches what the rule on its bag describes, or not, in words; "" if unknown."""
        if self.rule is None or self.reason is None or not self.rule.conditions:
            return ""
        empty = "it is empty: " if self.is_bag and not self.children else ""
        return f"{empty}{self.reason.text}"

    def _because(self, found: str, why: str) -> str:
        if self.rule is None or not self.rule.conditions:
            return f"{found}, whatever it holds."
        empty = " the bag is empty:" if self.is_bag and not self.children else ""
        return f"{found}, because{empty} {why}"

    @property
    def definitions(self) -> dict[tuple[int, str], str]:
        """What the clusters are that its text in words mentions without describing them."""
        result = dict(self.reason.definitions) if self.reason else {}
        for child in self.children:
            if not child.is_brief and child.role != IDLE:
                result |= child.definitions
        return result


def _alike(parts: Sequence[Part], formal: bool) -> list[list[Part]]:
    """Parts of which text in words says the same, together; in formal syntax each alone."""
    groups: dict[Hashable, list[Part]] = {}
    for i, part in enumerate(parts):
        key = i if formal else (part.path, part.name, part.is_named, part.why, *part.lines())
        groups.setdefault(key, []).append(part)
    return list(groups.values())


def _match(alike: Sequence[Part]) -> str:
    """That some parts match what the rule on their bag describes, or not, and why, in words."""
    first = alike[0]
    one, several = _IN_WORDS[first.role or IDLE]
    verb = one if len(alike) == 1 else several
    name = f" ({first.name})" if first.is_named else ""
    why = first.why
    if len(alike) > 1 and why.startswith("it "):
        why = f"each {why.removeprefix('it ')}"
    return f"{_members(alike)} {verb}{name}{f': {why}' if why else ''}"


def _members(parts: Sequence[Part], formal: bool = False, with_names: bool = False) -> str:
    """Parts of one kind by their numbers: "orders 0, 3"."""
    first = parts[0]
    shown = ", ".join(
        f"{_number(part)} ({part.name})"
        if with_names and (formal or part.is_named)
        else _number(part)
        for part in parts[:_SHOWN]
    )
    more = f", … and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    word = first.word if first.path else f"{first.word}s"
    if len(parts) == 1:
        word = first.word if formal else singular(first.word)
    return f"{word} {shown}{more}"


def _listings(role: str, parts: Sequence[Part], formal: bool) -> Iterator[str]:
    """A line for the parts of each path."""
    by_path: dict[str, list[Part]] = {}
    for part in parts:
        by_path.setdefault(part.path, []).append(part)
    for some in by_path.values():
        said = role if formal else _IN_WORDS[role][0 if len(some) == 1 else 1]
        yield f"{said}: {_members(some, formal, with_names=True)}"


def _number(part: Part) -> str:
    return part.title + (f" (×{number_text(part.weight)})" if part.weight != 1 else "")


def show_of(shows: Shows | None, path: str) -> Show:
    """The function that shows the parts of a path, "" for top-bags; by default by last index."""
    result = shows.get(path) if isinstance(shows, Mapping) else shows
    return result or (lambda position: str(position[-1]))


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

        Instances that decide, in bags that decide, come first. Where rules and network disagree,
        they come last, because they speak for another class. Within both groups, instances are
        sorted by their `Part.contribution` to the network's class: it counts all rules, those of
        other classes included, and where an instance is between the two centroids nearest to it.
        Ties keep the order of the data.

        Args:
            level: index of the bag-layer whose rows are ranked: 0 for instances, 1 for sub-bags.

        Raises:
            ValueError: if there is no such bag-layer.
        """
        check_int("level", level, 0, self.top_bag.level - 1)
        sign = 1 if self.agrees else -1
        result = list(_of_level(self.top_bag, level, decides=True))
        result.sort(key=lambda pair: (-sign * pair[1], -(pair[0].contribution or 0.0)))
        return [part for part, _ in result]

    def to_dict(self) -> Config:
        """For JSON: numbers that are not finite are None."""
        result: Config = finite(
            {
                "network": self.network,
                "network_name": self.network_name,
                "agrees": self.agrees,
                "top_bag": self.top_bag.to_dict(),
            }
        )
        return result

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def __repr__(self) -> str:
        return f"<Explanation: {self.top_bag.word} {self.top_bag.verdict}>"

    def __str__(self) -> str:
        """In words, unless there are none."""
        if self.top_bag.reason is None:
            return self.formal()
        lines = [*self.top_bag.lines(), *self.top_bag.definitions.values()]
        return self._below(self.top_bag.verdict, lines)

    def formal(self) -> str:
        """In formal syntax: the clauses of the rules that fired, and the names of all clusters."""
        return self._below(self.top_bag.sentence, self.top_bag.lines(formal=True))

    def _below(self, sentence: str, lines: Iterable[str]) -> str:
        network = f"network: {self.network_name}"
        if not self.agrees:
            network = f"NOT as the {network}"
        first = f"{self.top_bag.word} {sentence}  ({network})"
        return "\n".join([first, *(_INDENT + line for line in lines)])


def _of_level(part: Part, level: int, decides: bool) -> Iterator[tuple[Part, bool]]:
    """The parts of a level in a part, each with whether it and all enclosing bags decide."""
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
    depth: float = math.inf,
    reasons: Mapping[int, Sequence[Reason]] | None = None,
) -> list[Explanation]:
    """Explain every top-bag of a `Reading`.

    For `show` see `show_of`. Members of members, down to `depth` bags, have parts. `reasons` are
    the rules in words, by `Level.record`; without them, text is in formal syntax.
    """
    builder = _Builder(levels, class_names, reading, show, depth, reasons or {})
    return [
        Explanation(builder.top_bag(i), int(label), class_names[label])
        for i, label in enumerate(reading.network)
    ]


class _Builder:
    """Makes the parts of the top-bags of a reading."""

    def __init__(
        self,
        levels: Sequence[Level],
        class_names: Sequence[str],
        reading: Reading,
        show: Shows | None,
        depth: float,
        reasons: Mapping[int, Sequence[Reason]],
    ) -> None:
        self._reasons = reasons
        self._clusters, self._reading, self._show = all_clusters(levels), reading, show
        self._depth = depth
        self._level_of = {level.record: level for level in levels}
        self._class_names = class_names
        self._occurrences = expand(reading.nestings, reading.parents)
        self._matches = {}  # which rules of a level match which of its records: [rules, records]
        for level in levels:
            known = reading.of_record(level)
            self._matches[level.record] = np.array([rule.matches(known) for rule in level.rules])
        self._contributions: list[Array] = []  # [classes, rows] for each bag-layer
        if reading.interpolations:
            of_clusters = contributions(levels, len(class_names))
            self._contributions = list(map(self._of_rows, range(len(of_clusters)), of_clusters))

    def _of_rows(self, layer: int, of_clusters: Array) -> Array:
        """Values [classes, clusters] of a bag-layer, for its rows: [classes, rows]."""
        if layer in self._level_of:  # rules say which cluster a row is in
            return of_clusters[:, self._reading.labels[layer]]
        near, between = self._reading.nearest[layer], self._reading.interpolations[layer]
        return np.stack([between.of(near, each) for each in of_clusters])

    def top_bag(self, index: int) -> Part:
        """The part that is a whole top-bag."""
        top, position = len(self._clusters), (index,)
        label = int(self._reading.labels[top][index])
        part = Part(
            level=top,
            word=self._level_of[top].word,
            position=position,
            label=label,
            name=self._class_names[label],
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
        contribution = None
        if self._contributions:
            network = self._reading.network[position[0]]
            contribution = float(self._contributions[layer][network, row])
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
            contribution=contribution,
            title=show_of(self._show, clusters.path)(position),
        )
        is_whole = layer in self._level_of and len(position) <= self._depth
        return self._with_members(part, index, row) if is_whole else part

    def _with_members(self, part: Part, index: int, row: int) -> Part:
        """A part with the rule that fired on it, and its members."""
        level = self._level_of[part.level]
        fired = np.flatnonzero(self._matches[part.level][:, row])
        matched = tuple(level.rules.rules[i] for i in fired)
        reason = self._reasons[level.record][fired[0]] if self._reasons else None
        mentions = reason.mentions if reason else frozenset()
        children, absent = [], []
        for bag, at in level.space.of_bags:
            conditions = {
                c.column - at.start: c
                for c in matched[0].conditions
                if at.start <= c.column < at.stop
            }
            is_counted = any(
                level.space.columns[c.column].summarizes(bag.members) for c in matched[0].conditions
            )
            members = self._members(bag, index, part.position, conditions, is_counted)
            children += [
                replace(m, is_named=(m.level, m.name) in mentions or not is_symbol(m.name))
                for m in members
            ]
            present = {member.label for member in members}
            absent += [
                bag.names[cluster]
                for cluster, condition in conditions.items()
                if not condition.requires and cluster not in present
            ]
        # Of statistics of bags, which may be hundreds, those that the rules are about.
        told = {condition.column for rule in matched for condition in rule.conditions}
        values = self._reading.values[part.level]
        fields = {
            field.name: field.shown(raw[row])
            for (field, at), raw in zip(level.space.of_fields, values, strict=True)
            if field.kind != "statistic" or not told.isdisjoint(range(at.start, at.stop))
        }
        return replace(
            part,
            rule=matched[0],
            clause=level.rules.clause(matched[0]),
            reason=reason,
            matched=matched,
            absent=tuple(absent),
            children=tuple(children),
            is_bag=bool(level.clusters),
            fields=fields,
        )

    def _members(
        self,
        clusters: Clusters,
        index: int,
        parent: tuple[int, ...],
        conditions: Mapping[int, Condition],
        is_counted: bool,
    ) -> list[Part]:
        """The members of a bag in the `index`-th occurrence of a record at position `parent`.

        `conditions` are those of the rule that fired on it that are about clusters of the bag, by
        cluster; `is_counted` says whether others are about statistics of it.
        """
        occurrences = self._occurrences[clusters.level]
        start, stop = occurrences.row_splits[index : index + 2]
        labels = self._reading.labels[clusters.level][occurrences.rows[start:stop]]
        return [
            self._member(
                clusters, start + i, (*parent, i), _role(conditions, int(labels[i]), is_counted)
            )
            for i in range(stop - start)
            if occurrences.weights[start + i] > 0
        ]


def _role(conditions: Mapping[int, Condition], label: int, is_counted: bool) -> str:
    """What a member with this label does for the conditions on its bag; see `_Builder._members`."""
    if label in conditions:
        return DECIDES if conditions[label].requires else LIMITED
    if is_counted:
        return COUNTED
    requires = any(condition.requires for condition in conditions.values())
    return IDLE if requires or not conditions else CHECKED

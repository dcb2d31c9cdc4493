"""Why one top-bag got its label: the rules that fired, and the parts that made them fire."""

from dataclasses import dataclass

from keras_mmil.interpretation.network.nesting import expand
from keras_mmil.interpretation.rules.level import level_word
from keras_mmil.interpretation.rules.rules import Rule

__all__ = ["Explanation", "Part", "explain"]

# What a member does for the rule that fired on its bag.
DECIDES = "decides"  # the rule requires its cluster
LIMITED = "limited"  # the rule allows only so much of its cluster
CHECKED = "checked"  # the rule requires nothing, so that every member had to be something else
IDLE = "does not matter"

_INDENT = "    "
_SHOWN = 12  # members listed by number before "and … more"


@dataclass(frozen=True)
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
        rule: the `Rule` that fired on it, None for an instance; with its text as a `clause`.
        matched: all rules that match, tuple of `Rule`.
        absent: names of the clusters that the rule wants to be absent or few, and which are absent.
        children: its members, tuple of `Part`.
        title: what it is called in text: its index, or what the user wants to be shown.
    """

    level: int
    word: str
    position: tuple
    label: int
    name: str
    nearest: str | None
    weight: float
    role: str | None
    rule: Rule | None = None
    clause: str | None = None
    matched: tuple = ()
    absent: tuple = ()
    children: tuple = ()
    title: str = ""

    @property
    def deciding(self):
        """Whether the rule that fired on its bag requires its cluster."""
        return self.role == DECIDES

    def to_dict(self):
        """As JSON knows it."""
        return {
            **vars(self),
            "rule": self.rule and self.rule.to_dict(),
            "matched": [rule.to_dict() for rule in self.matched],
            "children": [child.to_dict() for child in self.children],
        }

    def lines(self):
        """Lines of text on its members."""
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
    def sentence(self):
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
    def label(self):
        """Index of the class by the rules."""
        return self.top_bag.label

    @property
    def agrees(self):
        """Whether rules and network agree."""
        return self.label == self.network

    def to_dict(self):
        """As JSON knows it."""
        return {
            "network": self.network,
            "network_name": self.network_name,
            "agrees": self.agrees,
            "top_bag": self.top_bag.to_dict(),
        }

    def __str__(self):
        network = f"network: {self.network_name}"
        if not self.agrees:
            network = f"NOT as the {network}"
        first = f"top-bag {self.top_bag.sentence}  ({network})"
        return "\n".join([first, *(_INDENT + line for line in self.top_bag.lines())])


def explain(levels, class_names, reading, show=None):
    """Explain every top-bag of a `Reading`: a list of `Explanation`.

    Args:
        levels: tuple of `Level`.
        class_names: names of the classes.
        reading: the `Reading`.
        show: function from the position of a part to its title; None for its index.
    """
    builder = _Builder(levels, class_names, reading, show or (lambda position: str(position[-1])))
    return [
        Explanation(builder.part(len(levels), i, i, (i,)), int(label), class_names[label])
        for i, label in enumerate(reading.network)
    ]


class _Builder:
    """What is the same for all parts of a reading."""

    def __init__(self, levels, class_names, reading, show):
        self.levels, self.reading, self.show = levels, reading, show
        self.names = [*(level.names for level in levels), class_names]
        self.occurrences = expand(reading.nestings)
        triples = zip(levels, reading.labels[:-1], reading.nestings, strict=True)
        self.bags = [level.bags(labels, nesting) for level, labels, nesting in triples]

    def part(self, level, index, row, position, fired_above=None):
        """The part that is the `index`-th occurrence at its level, of a row."""
        label = int(self.reading.labels[level][row])
        own = {
            "level": level,
            "word": level_word(level, len(self.levels)),
            "position": position,
            "title": self.show(position),
            "label": label,
            "name": self.names[level][label],
            "nearest": None,
            "weight": 1.0,
            "role": None if fired_above is None else _role(fired_above, label),
        }
        if level < len(self.levels):
            own["nearest"] = self.names[level][self.reading.nearest[level][row]]
            own["weight"] = float(self.occurrences[level].weights[index])
        if level == 0:
            return Part(**own)
        rules = self.levels[level - 1].rules
        bag = self.bags[level - 1][row : row + 1]
        matched = tuple(rule for rule in rules if rule.matches(bag)[0])
        children = self._members(level - 1, index, position, matched[0])
        return Part(
            **own,
            rule=matched[0],
            clause=rules.clause(matched[0]),
            matched=matched,
            absent=_absent(matched[0], children, rules.member_names),
            children=children,
        )

    def _members(self, level, bag, position, fired):
        occurrences = self.occurrences[level]
        start, stop = occurrences.row_splits[bag : bag + 2]
        return tuple(
            self.part(level, i, occurrences.rows[i], (*position, int(i - start)), fired)
            for i in range(start, stop)
            if occurrences.weights[i] > 0
        )


def _absent(rule, members, names):
    present = {member.label for member in members}
    unwanted = [c.cluster for c in rule.conditions if not c.requires]
    return tuple(names[cluster] for cluster in unwanted if cluster not in present)


def _role(rule, label):
    for condition in rule.conditions:
        if condition.cluster == label:
            return DECIDES if condition.requires else LIMITED
    requires = any(condition.requires for condition in rule.conditions)
    return IDLE if requires or not rule.conditions else CHECKED


def _number(part):
    return part.title + (f" (×{part.weight:g})" if part.weight != 1 else "")


def _listing(parts):
    shown = ", ".join(f"{_number(part)} ({part.name})" for part in parts[:_SHOWN])
    more = f", … and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    plural = "s" if len(parts) > 1 else ""
    return f"{parts[0].word}{plural} {shown}{more}"

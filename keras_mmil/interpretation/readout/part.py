"""A part of a top-bag, and why it got its label."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from keras_mmil._support.formatting import number_text
from keras_mmil._support.types import Config
from keras_mmil.interpretation.rules.rule import Rule

__all__ = ["CHECKED", "DECIDES", "IDLE", "LIMITED", "Part", "Show", "Shows", "show_of"]

# From the position of a top-bag, sub-bag or instance, see `Part`, to its text.
Show: TypeAlias = Callable[[tuple[int, ...]], str]
# One for all parts, or one for each path in the data, where positions in several bags are alike.
Shows: TypeAlias = Show | Mapping[str, Show]

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
        worth: what it is worth, by all rules, to the network's class: positive if it speaks for it,
            negative if against it; None for a top-bag, and where it was not read.
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
    worth: float | None = None
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


def show_of(shows: Shows | None, path: str) -> Show:
    """The function that shows the parts that the data call `path`; by default, their last index.

    Args:
        shows: a function for all parts, or a dict of such functions by paths; "" is that of the
            top-bags.
        path: of the parts.
    """
    found = shows.get(path) if isinstance(shows, Mapping) else shows
    return found or (lambda position: str(position[-1]))


def _by_path(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts by what they are called in the data."""
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(part.path, []).append(part)
    return list(found.values())


def _number(part: Part) -> str:
    return part.title + (f" (×{number_text(part.weight)})" if part.weight != 1 else "")


def _listing(parts: Sequence[Part]) -> str:
    shown = ", ".join(f"{_number(part)} ({part.name})" for part in parts[:_SHOWN])
    more = f", … and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    plural = "s" if len(parts) > 1 and not parts[0].path else ""
    return f"{parts[0].word}{plural} {shown}{more}"

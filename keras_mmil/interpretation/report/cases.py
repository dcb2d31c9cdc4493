"""Worked cases: some top-bags with all that is in them, and what decided."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from markupsafe import Markup

from keras_mmil._support.types import Bools, Config, Ints
from keras_mmil.interpretation.readout.explanation import Explanation
from keras_mmil.interpretation.readout.part import CHECKED, DECIDES, IDLE, LIMITED, Part
from keras_mmil.interpretation.report.renderers import Renderer, css_class
from keras_mmil.interpretation.report.shown import markup

__all__ = ["Case", "Group", "Node", "case_of", "choose", "fired"]

_MOST, _MOST_OTHERS = 24, 12  # members of a bag that decide, and that do not
_TITLES = {
    DECIDES: "decides",
    LIMITED: "is limited by the rule",
    CHECKED: "had to be something else",
    IDLE: "does not matter",
}


@dataclass(frozen=True)
class Group:
    """The members of a record that play one role.

    Attributes:
        kind: class of the page's style.
        title: what the role is.
        members: some of them.
        n_more: number of others.
    """

    kind: str
    title: str
    members: tuple["Node", ...]
    n_more: int


@dataclass(frozen=True)
class Node:
    """A record.

    Attributes:
        part: what is known of it.
        kind: its role, as a class of the page's style.
        picture: what it looks like.
        whole: all its members in one picture; None where they are listed.
        groups: its members, by their roles.
    """

    part: Part
    kind: str
    picture: Markup
    whole: Markup | None = None
    groups: tuple[Group, ...] = field(default=())


@dataclass(frozen=True)
class Case:
    """A top-bag.

    Attributes:
        index: of the top-bag.
        explanation: why the rules say what they say.
        rule: number of the rule, from 1.
        truth: name of the true class; None where it is unknown.
        node: all that is in it.
        text: the text itself, with what decided in it; None of other data.
    """

    index: int
    explanation: Explanation
    rule: int
    truth: str | None
    node: Node
    text: Markup | None = None

    def to_dict(self) -> Config:
        """As JSON knows it."""
        return {
            "index": self.index,
            "rules": self.explanation.top_bag.name,
            "network": self.explanation.network_name,
            "truth": self.truth,
            "agrees": self.explanation.agrees,
            "rule": self.rule,
            "explanation": str(self.explanation),
        }


def choose(rules: Ints, agrees: Bools, n: int) -> list[int]:
    """Some top-bags, of all rules that fire and of those where rules and network disagree.

    Args:
        rules: which rule fired on each top-bag.
        agrees: whether rules and network agree.
        n: how many at most.

    Returns:
        Their indices, in order.
    """
    groups: dict[tuple[int, bool], list[int]] = {}
    for index, key in enumerate(zip(rules.tolist(), agrees.tolist(), strict=True)):
        groups.setdefault(key, []).append(index)
    turns = itertools.zip_longest(*(groups[key] for key in sorted(groups)))
    found = [index for turn in turns for index in turn if index is not None]
    return sorted(found[:n])


def case_of(
    explanation: Explanation,
    *,
    index: int,
    rule: int,
    truth: str | None,
    renderer: Renderer,
    text: Markup | None = None,
) -> Case:
    """A worked case.

    Args:
        explanation: of the top-bag.
        index: of the top-bag in the data that the renderer shows.
        rule: number of the rule that fired.
        truth: name of the true class; None where it is unknown.
        renderer: what shows the records.
        text: the text itself, where the top-bag is one.
    """
    node = _Drawing(renderer, index).node(explanation.top_bag)
    return Case(index, explanation, rule, truth, node, text)


@dataclass(frozen=True)
class _Drawing:
    renderer: Renderer
    index: int

    def node(self, part: Part) -> Node:
        position = (self.index, *part.position[1:])
        kind = css_class(part.role)
        renderer = self.renderer.of(part.path)
        whole = renderer.bag(position, part) if part.children else None
        if whole is not None:
            return Node(part, kind, self._title(position), markup(whole))
        bare = not part.children and not part.fields
        shown = renderer.row(position)
        is_bag_picture = part.children and not isinstance(shown, str)
        picture = self._title(position) if is_bag_picture else markup(shown)
        if part.fields and isinstance(shown, str) and not bare:
            picture = self._title(position)
        return Node(part, kind, picture, None, tuple(self._groups(part.children)))

    def _brief(self, part: Part) -> Node:
        """A record that decides nothing, without its members."""
        position = (self.index, *part.position[1:])
        alone = replace(part, rule=None, clause=None, children=(), absent=(), fields={})
        picture = markup(self.renderer.of(part.path).row(position))
        return Node(alone, css_class(part.role), picture)

    def _title(self, position: tuple[int, ...]) -> Markup:
        return Markup.escape(str(position[-1]))

    def _groups(self, children: Sequence[Part]) -> list[Group]:
        found = []
        key: Callable[[Part], tuple[int, str, str]] = lambda child: (  # noqa: E731
            list(_TITLES).index(str(child.role)),
            child.path,
            child.word,
        )
        for (role, _, word), alike in itertools.groupby(sorted(children, key=key), key=key):
            members = list(alike)
            name = list(_TITLES)[role]
            decides = name in (DECIDES, LIMITED)
            make = self.node if decides else self._brief
            nodes = tuple(map(make, members[: _MOST if decides else _MOST_OTHERS]))
            title = f"{word}: {_TITLES[name]}" if members[0].path else _TITLES[name]
            found.append(Group(css_class(name), title, nodes, len(members) - len(nodes)))
        return found


def fired(matched: Bools) -> Ints:
    """Index of the first rule that matches each top-bag, of bool [top-bags, rules]."""
    return np.argmax(matched, axis=1)

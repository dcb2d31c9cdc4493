"""Worked cases: some top-bags with all that is in them, and what decided."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from keras_mmil._support.types import Bools, Config, Ints
from keras_mmil.rules.explain.explanation import (
    CHECKED,
    COUNTED,
    DECIDES,
    IDLE,
    LIMITED,
    Explanation,
    Part,
)
from keras_mmil.rules.report.renderers import Renderer, css_class, markup

__all__ = ["Case", "case_of", "choose"]

_MOST, _MOST_OTHERS = 24, 12  # members of a bag that decide, and that do not
_TITLES = {
    DECIDES: "decides",
    LIMITED: "is limited by the rule",
    COUNTED: "is counted by the rule",
    CHECKED: "had to be something else",
    IDLE: "does not matter",
}
_ROLES = list(_TITLES)


@dataclass(frozen=True)
class _Group:
    """Some members of a record that have one role; `kind` is a class of the page's style."""

    kind: str
    title: str
    members: tuple["_Node", ...]
    n_more: int


@dataclass(frozen=True)
class _Node:
    """A record, and the class of its role in the page's style.

    Its members are in one picture, `whole`, or listed by role.
    """

    part: Part
    kind: str
    picture: Markup
    whole: Markup | None = None
    groups: tuple[_Group, ...] = ()


@dataclass(frozen=True)
class Case:
    """A top-bag.

    Attributes:
        index: of the top-bag.
        explanation: of its class by the rules.
        rule: number of the rule that fired, from 1.
        truth: name of the true class; None where it is unknown.
        node: its contents.
        text: the text itself, with what decided in it; None for other data.
    """

    index: int
    explanation: Explanation
    rule: int
    truth: str | None
    node: _Node
    text: Markup | None = None

    def to_dict(self) -> Config:
        """For JSON."""
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
    """The indices of at most n top-bags, for all rules that fired, with and without agreement."""
    groups: dict[tuple[int, bool], list[int]] = {}
    for index, key in enumerate(zip(rules.tolist(), agrees.tolist(), strict=True)):
        groups.setdefault(key, []).append(index)
    rounds = itertools.zip_longest(*(groups[key] for key in sorted(groups)))
    indices = [index for each in rounds for index in each if index is not None]
    return sorted(indices[:n])


def case_of(
    explanation: Explanation,
    *,
    index: int,
    rule: int,
    truth: str | None,
    renderer: Renderer,
    text: Markup | None = None,
) -> Case:
    """A `Case`, with the index of the top-bag in the data of the renderer."""
    node = _Drawing(renderer, index).node(explanation.top_bag)
    return Case(index, explanation, rule, truth, node, text)


@dataclass(frozen=True)
class _Drawing:
    renderer: Renderer
    index: int

    def node(self, part: Part) -> _Node:
        position = (self.index, *part.position[1:])
        kind, title = css_class(part.role), Markup.escape(str(position[-1]))
        renderer = self.renderer.of(part.path)
        whole = renderer.bag(position, part) if part.children else None
        if whole is not None:
            return _Node(part, kind, title, markup(whole))
        row = renderer.row(position)
        # A text would repeat the fields, and a picture of a bag its members.
        is_repeated = bool(part.fields) if isinstance(row, str) else bool(part.children)
        picture = title if is_repeated else markup(row)
        return _Node(part, kind, picture, None, tuple(self._groups(part.children)))

    def _brief(self, part: Part) -> _Node:
        """A record that decides nothing, without its members."""
        position = (self.index, *part.position[1:])
        alone = replace(part, rule=None, clause=None, children=(), absent=(), fields={})
        picture = markup(self.renderer.of(part.path).row(position))
        return _Node(alone, css_class(part.role), picture)

    def _groups(self, children: Sequence[Part]) -> list[_Group]:
        def key(child: Part) -> tuple[int, str, str]:
            return _ROLES.index(str(child.role)), child.path, child.word

        groups = []
        for (role, path, word), group in itertools.groupby(sorted(children, key=key), key=key):
            members, name = list(group), _ROLES[role]
            is_relevant = members[0].is_relevant
            make = self.node if is_relevant else self._brief
            nodes = tuple(map(make, members[: _MOST if is_relevant else _MOST_OTHERS]))
            title = f"{word}: {_TITLES[name]}" if path else _TITLES[name]
            groups.append(_Group(css_class(name), title, nodes, len(members) - len(nodes)))
        return groups

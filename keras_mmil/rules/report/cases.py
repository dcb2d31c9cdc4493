"""Cases: top-bags with what rules and network say of them, and what is in them that decided."""

import base64
import itertools
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from keras_mmil import ragged
from keras_mmil._support.files import finite
from keras_mmil._support.types import Bools, Config, Ints
from keras_mmil.layers import TextBags
from keras_mmil.rules.explain.explanation import (
    CHECKED,
    COUNTED,
    DECIDES,
    IDLE,
    LIMITED,
    Explanation,
    Part,
    explain,
)
from keras_mmil.rules.explain.texts import TextExplanation, annotate
from keras_mmil.rules.export.program import program
from keras_mmil.rules.export.sentences import reasons
from keras_mmil.rules.report.data import ReportData
from keras_mmil.rules.report.renderers import Renderer, css_class, markup
from keras_mmil.rules.trees.level import Level, all_clusters

if TYPE_CHECKING:
    from keras_mmil.rules.explainer import Explainer

__all__ = ["PICTURE", "cases_of", "choose", "packed"]

PICTURE = "picture"  # key of what only the page shows, HTML

_MOST_CASES = 2000
_MOST_BYTES = 1_200_000  # of what is in all of them, compressed, so that a page has less than 2 MB
_AT_ONCE = 256
_MOST, _MOST_OTHERS = 24, 8  # members of a bag that decide, and that do not
_TITLES = {
    DECIDES: "decides",
    LIMITED: "is limited by the rule",
    COUNTED: "is counted by the rule",
    CHECKED: "had to be something else",
    IDLE: "does not matter",
}
_ROLES = list(_TITLES)


def choose(rules: Ints, agrees: Bools, n: int) -> list[int]:
    """The indices of at most n top-bags, for all rules that fired, with and without agreement.

    The first are one of each kind, then a second of each, and so on.
    """
    groups: dict[tuple[int, bool], list[int]] = {}
    for index, key in enumerate(zip(rules.tolist(), agrees.tolist(), strict=True)):
        groups.setdefault(key, []).append(index)
    rounds = itertools.zip_longest(*(groups[key] for key in sorted(groups)))
    return [index for each in rounds for index in each if index is not None][:n]


def cases_of(
    explainer: "Explainer",
    data: ReportData,
    levels: Sequence[Level],
    renderer: Renderer,
    n: int | None,
    text_layer: TextBags | None,
) -> list[Config]:
    """Top-bags for JSON, in their order: at most n, and at most 2,000.

    What is in them is a "record", which the last ones lack where the page would get too large:

    title, word: what it is called, and what several are.
    label: the name of its cluster, if rules need it; at the top its class.
    because: the rule that fired on it, if its cluster depends on its contents.
    fields: what is in it.
    groups: its members, by what they do for the rule: each with `kind`, `title`, the `members`, and
        how many `more` there are.
    absent: the clusters that the rule wants to be absent.
    times: how often it is there, if more than once.
    text: of texts, all of it; "picture" is the same, as HTML, with what decided.

    Args:
        explainer: the rules.
        data: the top-bags, and what is known of them.
        levels: of the rules, with names for the page.
        renderer: of the data.
        n: how many; None for as many as possible.
        text_layer: what reads texts; None for other data.
    """
    rules = np.argmax(data.matched, axis=1)  # the first that matches each top-bag
    by_network = data.reading.network
    chosen = choose(rules, data.by_rules == by_network, _MOST_CASES if n is None else n)
    records: dict[int, Config] = {}
    left = _MOST_BYTES
    for some in _records(explainer, data, levels, renderer, chosen, text_layer):
        left -= len(packed(list(some.values())))
        if left < 0:
            break
        records |= some
    classes = explainer.classes_
    found = []
    for index in sorted(chosen):
        case: Config = {
            "name": data.names[index],
            "index": index,
            "rules": classes[data.by_rules[index]],
            "network": classes[by_network[index]],
            "agrees": bool(data.by_rules[index] == by_network[index]),
            "rule": int(rules[index]) + 1,
        }
        if data.truth is not None:
            case["truth"] = classes[data.truth[index]]
        if data.probabilities is not None:
            likely = data.probabilities[index, by_network[index]]
            case["probability"] = round(float(likely), 3)
        if index in records:
            case["record"] = records[index]
        found.append(case)
    return found


def _records(
    explainer: "Explainer",
    data: ReportData,
    levels: Sequence[Level],
    renderer: Renderer,
    chosen: Sequence[int],
    text_layer: TextBags | None,
) -> Iterator[dict[int, Config]]:
    """What is in some top-bags, by their indices, some at once."""
    drawing = _Drawing(renderer, _needed_names(levels))
    in_words = reasons(program(levels))
    for start in range(0, len(chosen), _AT_ONCE):
        indices = chosen[start : start + _AT_ONCE]
        some = ragged.take(data.x, indices)
        reading = explainer.read(explainer.top_bags(some))
        explanations: Sequence[Explanation] = explain(
            levels, explainer.classes_, reading, reasons=in_words
        )
        if text_layer is not None:
            explanations = annotate(np.asarray(some), explanations, text_layer)
        found = {}
        for index, explanation in zip(indices, explanations, strict=True):
            record = drawing.record(explanation.top_bag, index)
            record["title"] = data.names[index]
            if isinstance(explanation, TextExplanation):
                picture = Markup(explanation.to_html())  # already escaped
                record = {"title": data.names[index], "text": explanation.text, PICTURE: picture}
            found[index] = record
        yield found


def packed(content: object) -> str:
    """JSON, compressed and as text, which a page unpacks by itself."""
    text = json.dumps(finite(content), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _needed_names(levels: Sequence[Level]) -> set[tuple[int, int]]:
    """The clusters that the class of any top-bag can depend on, by bag-layer and index."""
    needed = {
        bag.level: here
        for level in levels
        for bag, here in zip(level.clusters, level.needed, strict=True)
    }
    return {
        (bag.level, index)
        for bag in all_clusters(levels)
        for index, is_needed in enumerate(needed[bag.level])
        if is_needed
    }


@dataclass(frozen=True)
class _Drawing:
    renderer: Renderer
    needed: set[tuple[int, int]]

    def record(self, part: Part, index: int, depth: int = 0) -> Config:
        """A record for JSON, with the index of its top-bag in the data of the renderer."""
        position = (index, *part.position[1:])
        renderer, found = self.renderer.of(part.path), dict[str, object]()
        whole = renderer.bag(position, part) if part.children else None
        row = renderer.row(position)
        # A text would repeat the fields, and a picture of a bag its members.
        is_repeated = bool(part.children)
        if isinstance(row, str):
            is_repeated = bool(part.fields) and (not depth or part.is_relevant)
        title = str(position[-1])
        if whole is not None:
            found |= {"title": title, PICTURE: markup(whole)}
        elif is_repeated or row == title:
            found["title"] = title
        elif isinstance(row, str) and not isinstance(row, Markup) and not _is_svg(row):
            found["title"] = str(Markup(markup(row)).unescape())
        else:
            found |= {"title": title, PICTURE: markup(row)}
        if depth and (part.level, part.label) in self.needed:
            found["label"] = part.name
            if part.why:
                found["because"] = part.why
        if part.weight != 1:
            found["times"] = part.weight
        # Of what does not decide, what the data's own renderer shows is enough.
        is_shown = bool(depth) and not part.is_relevant and found["title"] != title
        if part.fields and not is_shown:
            found["fields"] = dict(part.fields)
        is_reason = not depth or part.is_relevant
        if whole is None and part.children:
            groups = self._groups if is_reason else self._contents
            found["groups"] = list(groups(part.children, index, depth))
        if part.absent and is_reason:
            found["absent"] = list(part.absent)
        return found

    def _groups(self, children: Sequence[Part], index: int, depth: int) -> Iterator[Config]:
        def key(child: Part) -> tuple[int, str, str]:
            return _ROLES.index(str(child.role)), child.path, child.word

        for (role, path, word), group in itertools.groupby(sorted(children, key=key), key=key):
            members, name = list(group), _ROLES[role]
            most = _MOST if members[0].is_relevant else _MOST_OTHERS
            if name == IDLE and path and any(child.fields for child in members):
                most = 0  # of records, their number is enough
            # What does not matter is without its own members.
            is_whole = members[0].is_relevant or name == COUNTED
            shown = [
                child if is_whole else replace(child, children=(), rule=None)
                for child in members[:most]
            ]
            yield {
                "kind": css_class(name),
                "title": f"{word}: {_TITLES[name]}" if path else _TITLES[name],
                "members": [self.record(child, index, depth + 1) for child in shown],
                "more": len(members) - len(shown),
            }

    def _contents(self, children: Sequence[Part], index: int, depth: int) -> Iterator[Config]:
        """The members of a record that a rule counts, whatever they are for its cluster."""
        for word, group in itertools.groupby(children, key=lambda child: child.word):
            members = [replace(child, role=COUNTED) for child in group]
            yield {
                "kind": "inside",
                "title": word,
                "members": [
                    self.record(child, index, depth + 1) for child in members[:_MOST_OTHERS]
                ],
                "more": max(len(members) - _MOST_OTHERS, 0),
            }


def _is_svg(row: str) -> bool:
    return row.lstrip().startswith("<svg")

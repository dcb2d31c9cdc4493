"""The page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from keras_mmil import ragged
from keras_mmil._support.checks import check_int
from keras_mmil._support.files import atomic_write
from keras_mmil._support.formatting import number_text, percent
from keras_mmil._support.types import Config, PathLike
from keras_mmil.interpretation.export.program import program
from keras_mmil.interpretation.export.sentences import of_rules
from keras_mmil.interpretation.network.data import TopBags
from keras_mmil.interpretation.readout.explanation import explain
from keras_mmil.interpretation.readout.representatives import representatives
from keras_mmil.interpretation.readout.text_explanation import TextExplanation, annotate
from keras_mmil.interpretation.report.cases import Case, case_of, choose, fired
from keras_mmil.interpretation.report.clusters import decks, grids
from keras_mmil.interpretation.report.contents import (
    Material,
    Reported,
    figures,
    gather,
    made,
    overview,
)
from keras_mmil.interpretation.report.names import linked, marked
from keras_mmil.interpretation.report.renderers import Renderer
from keras_mmil.interpretation.report.svg import bar
from keras_mmil.interpretation.report.texts import renderer_for
from keras_mmil.interpretation.rules.level import Level
from keras_mmil.layers import TextBags

__all__ = ["Report", "report"]

_N_EXAMPLES = 8  # of a cluster
_MOST_READ = 5000  # top-bags that examples are chosen from
_RARE = 0.01  # of the top-bags: rules that match fewer are shown on demand,
_MANY = 10  # if there are more rules than so many


@dataclass(frozen=True)
class Report:
    """A page about rules: one file, which needs no other.

    Attributes:
        html: the page.
        data: what it shows as JSON knows it; the page holds that, too.
    """

    html: str
    data: Config

    def save(self, path: PathLike) -> Path:
        """Write the page to a file, atomically; returns its path."""
        with atomic_write(path) as part:
            part.write_text(self.html, encoding="utf-8")
        return Path(path)


def report(
    explainer: Reported,
    x: TopBags,
    y: npt.ArrayLike | None,
    show: Any,
    *,
    include_data: bool,
    n_cases: int,
    title: str | None,
    about: Sequence[str],
    trained_on: npt.NDArray[np.uint64] | None,
    text_layer: TextBags | None,
) -> Report:
    """Make a page; see `Explainer.report`.

    Args:
        explainer: a fitted `Explainer`.
        x, y, show, include_data, n_cases, title, about, trained_on: as for `Explainer.report`.
        text_layer: what the network reads texts by; None for other data.
    """
    check_int("n_cases", n_cases, 0)
    material = gather(explainer, x, y, trained_on)
    levels = marked(explainer.levels_)
    renderer = None
    if include_data:
        renderer = renderer_for(show, material.x, text_layer, explainer.feature_names)
    best = {}
    if renderer is not None:
        best = _best(explainer, material)
    cases = []
    if renderer is not None:
        cases = _cases(explainer, material, levels, renderer, n_cases, text_layer)
    words = [clusters.path or clusters.words for clusters in explainer.clusters_]
    context = {
        "title": title or f"Rules for {_listed(explainer.classes_)}",
        "overview": [*about, *overview(explainer, material)],
        "figures": figures(material),
        "rules": _rules(material, levels),
        "constant": explainer.rules_.constant,
        "word": explainer.levels_[-1].word,
        "rare_share": _RARE,
        "classes": explainer.classes_,
        "clauses": _clauses(levels),
        "decks": decks(levels, explainer.levels_, material.reading, best, renderer),
        "grids": grids(explainer.grid_, explainer.n_clusters_, words),
        "include_data": include_data,
        "cases": cases,
        "made": made(explainer),
    }
    data = _data(context, explainer, material, include_data)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("keras_mmil.interpretation.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["names"] = linked(explainer.levels_)
    environment.filters["percent"] = percent
    environment.filters["number"] = number_text
    html = environment.get_template("report.html.j2").render(**context, data=data)
    return Report(html, data)


def _listed(names: Sequence[str]) -> str:
    return (
        f"{', '.join(names[:-1])} and {names[-1]}" if len(names) <= 4 else f"{len(names)} classes"
    )


def _best(explainer: Reported, material: Material) -> Any:
    """What stands for each cluster."""
    keys = [
        (clusters.level, index)
        for clusters in explainer.clusters_
        for index in range(clusters.n_clusters)
    ]
    some = ragged.take(material.x, slice(_MOST_READ))
    seen = explainer._observe(explainer.top_bags(some).batches(), in_order=True)
    return representatives(explainer.levels_, keys, seen, n=_N_EXAMPLES, by="separation")


def _rules(material: Material, levels: Sequence[Level]) -> list[Config]:
    """The rules of the top-bags in words, each with its figures on these data."""
    rules = levels[-1].rules
    texts = [sentence for sentence, _ in of_rules(program(levels))]
    is_rare = (material.matched.mean(axis=0) < _RARE) & (len(rules) > _MANY)
    found = []
    for index, (rule, text) in enumerate(zip(rules, texts, strict=True)):
        matches = material.matched[:, index]
        right = material.reading.network[matches] == rule.conclusion
        precision = float(right.mean()) if len(right) else None
        ends: tuple[float | None, float | None] = (None, None)
        if material.certificate is not None and len(right):
            exact = material.certificate.rules[index].precision
            ends = exact.low, exact.high
        found.append(
            {
                "number": index + 1,
                "label": rule.conclusion,
                "text": f"if {text.body}" if text.body else str(text),
                "support": float(matches.mean()),
                "support_bar": bar(float(matches.mean())),
                "precision": precision,
                "ends": ends,
                "precision_bar": None if precision is None else bar(precision, *ends),
                "n": int(matches.sum()),
                "is_rare": bool(is_rare[index]),
            }
        )
    return found


def _clauses(levels: Sequence[Level]) -> list[tuple[str, list[str]]]:
    """All rules in their formal syntax, level by level."""
    return [
        (
            level.words,
            [
                level.rules.clause(rule)
                for rule in level.rules
                if level.rules.needed[rule.conclusion]
            ],
        )
        for level in levels
        if level.rules.n_needed
    ]


def _cases(
    explainer: Reported,
    material: Material,
    levels: Sequence[Level],
    renderer: Renderer,
    n_cases: int,
    text_layer: TextBags | None,
) -> list[tuple[Case, Case]]:
    """Worked cases: each with marked names, for the page, and without."""
    rules = fired(material.matched)
    chosen = choose(rules, material.by_rules == material.reading.network, n_cases)
    if not chosen:
        return []
    some = ragged.take(material.x, chosen)
    reading = explainer.read(explainer.top_bags(some), with_places=True)
    found = []
    both = [explain(each, explainer.classes_, reading) for each in (levels, explainer.levels_)]
    texts: list[Markup | None] = [None] * len(chosen)
    if text_layer is not None:
        both[0] = list(annotate(np.asarray(some), both[0], text_layer))
        texts = [
            Markup(each.to_html())  # which it has escaped
            for each in both[0]
            if isinstance(each, TextExplanation)
        ]
    for at, index in enumerate(chosen):
        truth = None if material.truth is None else explainer.classes_[material.truth[index]]
        pair = [
            case_of(
                explanations[at],
                index=index,
                rule=int(rules[index]) + 1,
                truth=truth,
                renderer=renderer,
                text=texts[at],
            )
            for explanations in both
        ]
        found.append((pair[0], pair[1]))
    return found


def _data(context: Config, explainer: Reported, material: Material, include_data: bool) -> Config:
    """What the page shows, as JSON knows it."""
    book = explainer.rules_
    certificate = material.certificate
    found: Config = {
        "title": context["title"],
        "overview": context["overview"],
        "figures": [vars(figure) for figure in context["figures"]],
        "certificate": certificate and certificate.to_dict(),
        "in_words": book.in_words(),
        "rules": list(book.records()),
        "clusters": {
            deck.words: {
                card.name: {"share": card.size, "needed": card.needed} for card in deck.cards
            }
            for deck in context["decks"]
        },
        "made": context["made"],
    }
    if include_data:
        found["cases"] = [case.to_dict() for _, case in context["cases"]]
    return found

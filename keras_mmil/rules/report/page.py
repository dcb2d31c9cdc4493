"""A page about rules: one HTML file to open, send and print."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from keras_mmil import ragged
from keras_mmil._support.checks import check_int
from keras_mmil._support.files import atomic_write
from keras_mmil._support.formatting import number_text, percent
from keras_mmil._support.types import Config, PathLike
from keras_mmil.layers import TextBags
from keras_mmil.rules.explain.clusters import Representative, representatives
from keras_mmil.rules.explain.explanation import explain
from keras_mmil.rules.explain.texts import TextExplanation, annotate
from keras_mmil.rules.export.program import program
from keras_mmil.rules.export.sentences import of_rules, reasons
from keras_mmil.rules.network.sources import TopBags
from keras_mmil.rules.report.cards import cards, grids, linked, marked
from keras_mmil.rules.report.cases import Case, case_of, choose
from keras_mmil.rules.report.data import (
    ReportData,
    collect,
    figures,
    overview,
    provenance,
)
from keras_mmil.rules.report.renderers import Renderer, renderer_for
from keras_mmil.rules.report.svg import bar
from keras_mmil.rules.trees.level import Level

if TYPE_CHECKING:
    from keras_mmil.rules.explainer import Explainer

__all__ = ["Report", "report"]

_N_EXAMPLES = 8  # of a cluster
_MOST_READ = 5000  # top-bags that examples are chosen from
_RARE = 0.01  # of the top-bags: rules that match fewer are shown on demand,
_MANY = 10  # if there are more rules than this


@dataclass(frozen=True)
class Report:
    """A page about rules: one file, which needs no other.

    Attributes:
        html: the page.
        data: its contents for JSON, which the page holds, too.
    """

    html: str
    data: Config

    def save(self, path: PathLike) -> Path:
        """Write the page to a file, atomically; returns its path."""
        with atomic_write(path) as part:
            part.write_text(self.html, encoding="utf-8")
        return Path(path)


def report(
    explainer: "Explainer",
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
    """Make a page; see `Explainer.report`. `text_layer` reads texts; None for other data."""
    check_int("n_cases", n_cases, 0)
    data = collect(explainer, x, y, trained_on)
    levels = marked(explainer.levels_)
    renderer, cases = None, list[tuple[Case, Case]]()
    best: Mapping[tuple[int, int], Sequence[Representative]] = {}
    if include_data:
        renderer = renderer_for(show, data.x, text_layer, explainer.feature_names)
        best = _best(explainer, data)
        cases = _cases(explainer, data, levels, renderer, n_cases, text_layer)
    words = [clusters.path or clusters.words for clusters in explainer.clusters_]
    context = {
        "title": title or f"Rules for {_listed(explainer.classes_)}",
        "overview": [*about, *overview(explainer, data)],
        "figures": figures(data),
        "rules": _rules(data, levels),
        "constant": explainer.rules_.constant,
        "word": explainer.levels_[-1].word,
        "rare_share": _RARE,
        "classes": explainer.classes_,
        "clauses": _clauses(levels),
        "cards": cards(levels, explainer.levels_, data.reading, best, renderer),
        "grids": grids(explainer.grid_, explainer.n_clusters_, words),
        "include_data": include_data,
        "cases": cases,
        "made": provenance(explainer),
    }
    content = _content(context, explainer, data)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("keras_mmil.rules.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["names"] = linked(explainer.levels_)
    environment.filters["percent"] = percent
    environment.filters["number"] = number_text
    html = environment.get_template("report.html.j2").render(**context, data=content)
    return Report(html, content)


def _listed(names: Sequence[str]) -> str:
    return (
        f"{', '.join(names[:-1])} and {names[-1]}" if len(names) <= 4 else f"{len(names)} classes"
    )


def _best(
    explainer: "Explainer", data: ReportData
) -> Mapping[tuple[int, int], Sequence[Representative]]:
    """The representatives of each cluster."""
    keys = [(each.level, i) for each in explainer.clusters_ for i in range(each.n_clusters)]
    some = ragged.take(data.x, slice(_MOST_READ))
    observations = explainer._observe(explainer.top_bags(some).batches(), in_order=True)
    return representatives(explainer.levels_, keys, observations, n=_N_EXAMPLES, by="separation")


def _rules(data: ReportData, levels: Sequence[Level]) -> list[Config]:
    """The rules of the top-bags in words, each with its figures on these data."""
    rules = levels[-1].rules
    sentences = [sentence for sentence, _ in of_rules(program(levels))]
    is_rare = (data.matched.mean(axis=0) < _RARE) & (len(rules) > _MANY)
    rows = []
    for index, (rule, sentence) in enumerate(zip(rules, sentences, strict=True)):
        matches = data.matched[:, index]
        right = data.reading.network[matches] == rule.conclusion
        precision = float(right.mean()) if len(right) else None
        ends: tuple[float | None, float | None] = (None, None)
        if data.certificate is not None and len(right):
            exact = data.certificate.rules[index].precision
            ends = exact.low, exact.high
        rows.append(
            {
                "number": index + 1,
                "label": rule.conclusion,
                "text": f"if {sentence.body}" if sentence.body else str(sentence),
                "support": float(matches.mean()),
                "support_bar": bar(float(matches.mean())),
                "precision": precision,
                "ends": ends,
                "precision_bar": None if precision is None else bar(precision, *ends),
                "n": int(matches.sum()),
                "is_rare": bool(is_rare[index]),
            }
        )
    return rows


def _clauses(levels: Sequence[Level]) -> list[tuple[str, list[str]]]:
    """All needed rules in their formal syntax, level by level."""
    return [
        (level.words, [rules.clause(rule) for rule in rules if rules.needed[rule.conclusion]])
        for level in levels
        if (rules := level.rules).n_needed
    ]


def _cases(
    explainer: "Explainer",
    data: ReportData,
    levels: Sequence[Level],
    renderer: Renderer,
    n_cases: int,
    text_layer: TextBags | None,
) -> list[tuple[Case, Case]]:
    """Worked cases: each with marked names, for the page, and without."""
    rules = np.argmax(data.matched, axis=1)  # the first that matches each top-bag
    chosen = choose(rules, data.by_rules == data.reading.network, n_cases)
    if not chosen:
        return []
    some = ragged.take(data.x, chosen)
    reading = explainer.read(explainer.top_bags(some))
    both = [
        explain(each, explainer.classes_, reading, reasons=reasons(program(each)))
        for each in (levels, explainer.levels_)
    ]
    texts: list[Markup | None] = [None] * len(chosen)
    if text_layer is not None:
        both[0] = list(annotate(np.asarray(some), both[0], text_layer))
        texts = [
            Markup(each.to_html())  # already escaped
            for each in both[0]
            if isinstance(each, TextExplanation)
        ]
    cases = []
    for at, index in enumerate(chosen):
        truth = None if data.truth is None else explainer.classes_[data.truth[index]]
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
        cases.append((pair[0], pair[1]))
    return cases


def _content(context: Config, explainer: "Explainer", data: ReportData) -> Config:
    """The contents of the page for JSON."""
    book = explainer.rules_
    result: Config = {
        "title": context["title"],
        "overview": context["overview"],
        "figures": [vars(figure) for figure in context["figures"]],
        "certificate": data.certificate and data.certificate.to_dict(),
        "in_words": book.in_words(),
        "rules": list(book.records()),
        "clusters": {
            words: {card.name: {"share": card.size, "needed": card.needed} for card in some}
            for words, some in context["cards"]
        },
        "made": context["made"],
    }
    if context["include_data"]:
        result["cases"] = [case.to_dict() for _, case in context["cases"]]
    return result

"""A report about rules: one structure of data, as a page of HTML, as JSON and as Markdown."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import numpy.typing as npt
from markupsafe import Markup

from keras_mmil import ragged
from keras_mmil._support.checks import check_int
from keras_mmil._support.files import atomic_write, finite
from keras_mmil._support.formatting import number_text, percent
from keras_mmil._support.types import Config, PathLike
from keras_mmil.layers import TextBags
from keras_mmil.rules.explain.clusters import Representative, representatives
from keras_mmil.rules.export.program import program
from keras_mmil.rules.export.sentences import of_rules
from keras_mmil.rules.export.standalone import runtime
from keras_mmil.rules.network.sources import TopBags
from keras_mmil.rules.report.background import Background, WhatIf
from keras_mmil.rules.report.cards import cards, grids, linked, marked, plain
from keras_mmil.rules.report.cases import PICTURE, cases_of, packed
from keras_mmil.rules.report.data import (
    ReportData,
    collect,
    figures,
    headline,
    overview,
    provenance,
)
from keras_mmil.rules.report.diagram import diagram
from keras_mmil.rules.report.renderers import Renderer, renderer_for
from keras_mmil.rules.report.scores import auc, by_class, calibration
from keras_mmil.rules.report.svg import bar, calibration_plot, curves
from keras_mmil.rules.trees.level import Level

if TYPE_CHECKING:
    from keras_mmil.rules.explainer import Explainer

__all__ = ["Report", "report"]

_N_EXAMPLES = 8  # of a cluster
_MOST_CHANGED = 200  # top-bags that a reader may change,
_MOST_BYTES_CHANGED = 300_000  # compressed
_MOST_READ = 5000  # top-bags that examples are chosen from
_RARE = 0.01  # of the top-bags: rules that match fewer are shown on demand,
_MANY = 10  # if there are more rules than this


@dataclass(frozen=True)
class Report:
    """A report about rules.

    Attributes:
        html: the page: one file, which needs no other.
        data: what it says, for JSON: the page holds it, too, with cases compressed.
    """

    html: str
    data: Config

    def to_json(self, indent: int | None = 1) -> str:
        """What the page says, without its pictures, as a JSON text."""
        return json.dumps(finite(self.data), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_markdown(self) -> str:
        """The same as Markdown; of cases, a line each."""
        return _environment().get_template("report.md.j2").render(**self.data, rare_share=_RARE)

    def save(self, path: PathLike) -> Path:
        """Write the page to a file, or with the ending .json or .md one of the other forms.

        The file is written atomically; its path is returned.
        """
        forms = {".json": self.to_json, ".md": self.to_markdown}
        form = forms.get(Path(path).suffix.lower())
        with atomic_write(path) as part:
            part.write_text(self.html if form is None else form(), encoding="utf-8")
        return Path(path)


def report(
    explainer: "Explainer",
    x: TopBags,
    y: npt.ArrayLike | None,
    show: Any,
    *,
    include_data: bool,
    n_cases: int | None,
    title: str | None,
    about: Sequence[str],
    trained_on: npt.NDArray[Any] | None,
    background: Background | None,
    text_layer: TextBags | None,
) -> Report:
    """Make a report; see `Explainer.report`. `text_layer` reads texts; None for other data."""
    if n_cases is not None:
        check_int("n_cases", n_cases, 0)
    known = background or Background()
    data = collect(explainer, x, y, trained_on, known)
    levels = marked(explainer.levels_)
    renderer: Renderer | None = None
    best: Mapping[tuple[int, int], Sequence[Representative]] = {}
    found = figures(data)
    content: Config = {
        "title": title or f"Rules for {_listed(explainer.classes_)}",
        "headline": headline(explainer, data, found),
        "about": list(about),
        "notes": overview(explainer, data),
        "word": explainer.levels_[-1].word,
        "words": explainer.levels_[-1].words,
        "classes": list(explainer.classes_),
        "figures": list(map(asdict, found)),
        "scores": _scores(data, explainer.classes_),
        "constant": explainer.rules_.constant,
        "rules": _rules(data, levels),
        "diagram": diagram(levels, data.reading),
        "fields": None if data.fields is None else [each.to_dict() for each in data.fields],
        "left_out": dict(known.left_out),
        "tried": list(map(dict, known.tried)),
        "advice": list(known.advice),
        "history": {name: list(map(float, losses)) for name, losses in known.history.items()},
    }
    if include_data:
        renderer = renderer_for(show, data.x, text_layer, explainer.feature_names)
        best = _best(explainer, data)
        content["cases"] = cases_of(explainer, data, levels, renderer, n_cases, text_layer)
    what_if = _what_if(known.what_if, content)
    views = cards(levels, explainer.levels_, data.reading, best, renderer)
    content |= {
        "clusters": [
            {
                "of": words,
                **{name: getattr(card, name) for name in ("key", "name", "size", "needed")},
                "definition": card.definition,
            }
            for words, some in views
            for card in some
        ],
        "formal": _clauses(levels),
        "grid": [asdict(point) for point in explainer.grid_],
        "certificate": data.certificate and data.certificate.to_dict(),
        "made": provenance(explainer),
    }
    names = [clusters.path or clusters.words for clusters in explainer.clusters_]
    html = (
        _environment(linked(explainer.levels_))
        .get_template("report.html.j2")
        .render(
            **content,
            data=finite({name: value for name, value in content.items() if name != "cases"}),
            packed=packed(content.get("cases")),
            what_if=what_if,
            no_what_if=known.what_if if isinstance(known.what_if, str) else "",
            runtime=Markup(runtime("_runtime.js")),
            cards=views,
            grids=grids(explainer.grid_, explainer.n_clusters_, names),
            rare_share=_RARE,
            n_records=len(data.names),
        )
    )
    return Report(html, _without_pictures(plain(content)))


def _what_if(known: WhatIf | str | None, content: Config) -> str:
    """The rules as data, with as many of the cases as are not too long; packed, or empty."""
    if not isinstance(known, WhatIf) or not content.get("cases") or content["constant"] is not None:
        return ""
    cases = content["cases"][:_MOST_CHANGED]
    records = known.records([case["index"] for case in cases])
    some = [(case["index"], [case["name"], x]) for case, x in zip(cases, records, strict=True)]
    while some:
        text = packed({"rules": known.rules, "records": dict(some)})
        if len(text) <= _MOST_BYTES_CHANGED:
            return text
        some = some[: len(some) // 2]
    return ""


def _environment(names: Callable[[object], Markup] | None = None) -> jinja2.Environment:
    """The templates; `names` makes elements of marked names of clusters."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("keras_mmil.rules.report", "templates"),
        autoescape=lambda name: name is not None and ".html" in name,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False,
        "separators": (",", ":"),
        "sort_keys": False,
    }
    environment.filters |= {"percent": percent, "number": number_text, "md": _markdown}
    environment.filters["names"] = names or str
    environment.globals |= {"bar": bar, "curves": curves, "calibration_plot": calibration_plot}
    return environment


def _markdown(text: object) -> str:
    """A text as one line of Markdown, in which nothing is syntax."""
    line = " ".join(str(text).split())
    for sign in "\\`*[]|":
        line = line.replace(sign, f"\\{sign}")
    return line.replace("<", "&lt;")


def _without_pictures(content: Any) -> Any:
    if isinstance(content, dict):
        return {k: _without_pictures(v) for k, v in content.items() if k != PICTURE}
    return [_without_pictures(each) for each in content] if isinstance(content, list) else content


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


def _scores(data: ReportData, classes: Sequence[str]) -> Config | None:
    """How good network and rules are, class by class; None without labels."""
    if data.truth is None:
        return None
    is_exact = data.certificate is not None
    said = {"network": data.reading.network, "rules": data.by_rules}
    found = by_class(data.truth, said, classes, is_exact)
    found |= {"auc": None, "calibration": None}
    if data.probabilities is not None:
        found["auc"] = auc(data.truth, data.probabilities)
        found["calibration"] = calibration(data.truth, data.probabilities, classes, is_exact)
    return found


def _rules(data: ReportData, levels: Sequence[Level]) -> list[Config]:
    """The rules of the top-bags in words, each with its figures on these data, class by class."""
    rules = levels[-1].rules
    sentences = [sentence for sentence, _ in of_rules(program(levels))]
    is_rare = (data.matched.mean(axis=0) < _RARE) & (len(rules) > _MANY)
    rows = []
    for index, (rule, sentence) in enumerate(zip(rules, sentences, strict=True)):
        matches = data.matched[:, index]
        right = data.reading.network[matches] == rule.conclusion
        low, high = None, None
        if data.certificate is not None and len(right):
            exact = data.certificate.rules[index].precision
            low, high = exact.low, exact.high
        rows.append(
            {
                "number": index + 1,
                "label": int(rule.conclusion),
                "class": rules.names[rule.conclusion],
                "text": f"if {sentence.body}" if sentence.body else str(sentence),
                "n": int(matches.sum()),
                "support": float(matches.mean()),
                "precision": float(right.mean()) if len(right) else None,
                "low": low,
                "high": high,
                "is_rare": bool(is_rare[index]),
            }
        )
    return sorted(rows, key=lambda row: (row["label"], -row["n"]))


def _clauses(levels: Sequence[Level]) -> list[Config]:
    """All needed rules in their formal syntax, level by level."""
    return [
        {
            "of": level.words,
            "rules": [rules.clause(rule) for rule in rules if rules.needed[rule.conclusion]],
        }
        for level in levels
        if (rules := level.rules).n_needed
    ]

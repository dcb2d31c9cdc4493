"""Why a text got its label, shown in the text itself."""

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from keras_mmil._support.types import Config
from keras_mmil.interpretation.readout.explanation import Explanation
from keras_mmil.interpretation.readout.part import DECIDES, LIMITED, Part
from keras_mmil.interpretation.readout.text_spans import (
    as_str,
    sentence_spans,
    window_centres,
    without_breaks,
)
from keras_mmil.layers import TextBags

__all__ = ["Phrase", "Sentence", "TextExplanation", "annotate", "side_by_side"]

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>#|"})
_FRAME, _DIM = "font-family:sans-serif;line-height:1.5", "color:#9a9a9a"
_LABEL, _RAISED = "font-weight:bold;color:#0b5394", "line-height:0;color:#0b5394"


@dataclass(frozen=True)
class Phrase:
    """A piece of a text.

    Attributes:
        text: the piece.
        cluster: name of the cluster of its windows, where the rule that fired on their bag tests
            it; else None.
    """

    text: str
    cluster: str | None = None


@dataclass(frozen=True)
class Sentence:
    """A sentence, with all that stands before the next one.

    Attributes:
        phrases: its pieces.
        label: name of its cluster, None where sentences are no bags.
        relevant: whether the rule that fired on the text tests its cluster.
    """

    phrases: tuple[Phrase, ...]
    label: str | None
    relevant: bool


@dataclass(frozen=True)
class TextExplanation(Explanation):
    """The explanation of a text.

    It shows the text. Sentences whose cluster the rule for the text does not test are dimmed; the
    others begin with their cluster. In these, phrases whose cluster the sentence's own rule tests
    are bold, followed by the number of their cluster. Jupyter shows it like that, too.

    Attributes:
        top_bag, network, network_name: as in `Explanation`.
        text: the text.
        sentences: its sentences.
    """

    text: str = ""
    sentences: tuple[Sentence, ...] = ()

    @property
    def verdict(self) -> str:
        """The label, its reason, and what the network says."""
        network = f"network: {self.network_name}"
        empty = "" if self.top_bag.children else "of an empty text: "
        return f"{empty}{self.top_bag.clause} ({network if self.agrees else f'NOT as {network}'})"

    @property
    def clauses(self) -> list[tuple[str, str | None]]:
        """The rules that fired on the sentences that matter, each once, after their clusters."""
        parts = self.top_bag.children if self.top_bag.level > 1 else ()
        fired = [(part.name, part.clause) for part in parts if _is_relevant(part)]
        return list(dict.fromkeys(fired))

    def to_text(self, color: bool = False) -> str:
        """For a terminal.

        Args:
            color: whether to use escape sequences for bold and dim; otherwise phrases are between
                asterisks, and sentences that do not matter in parentheses.
        """
        bold, dim = ("\033[1m{}\033[0m", "\033[2m{}\033[0m") if color else ("*{}*", "({})")
        return self._render(
            escape=str,
            heading="{}".format,
            label="[{}]".format,
            dim=dim.format,
            phrase=lambda piece, number: bold.format(piece) + number.translate(_SUPERSCRIPTS),
        )

    def to_markdown(self) -> str:
        """As Markdown, as GitHub shows it; what does not matter is small."""
        return self._render(
            escape=lambda piece: piece.translate(_MARKDOWN),
            heading="**{}**".format,
            label="[{}]".format,
            dim="<sub>{}</sub>".format,
            phrase="**{}**<sup>{}</sup>".format,
        )

    def to_html(self) -> str:
        """As a piece of HTML."""
        lines = self._render(
            escape=html.escape,
            heading="<b>{}</b>".format,
            label=f'<span style="{_LABEL}">[{{}}]</span>'.format,
            dim=f'<span style="{_DIM}">{{}}</span>'.format,
            phrase=f'<b>{{}}</b><sup style="{_RAISED}">{{}}</sup>'.format,
        )
        paragraphs = "".join(f"<p>{line}</p>" for line in lines.split("\n\n"))
        return f'<div style="{_FRAME}">{paragraphs}</div>'

    def _render(
        self,
        *,
        escape: Callable[[str], str],
        heading: Callable[[str], str],
        label: Callable[[str], str],
        dim: Callable[[str], str],
        phrase: Callable[[str, str], str],
    ) -> str:
        """Paragraphs of formatted pieces; `phrase` also takes the number of a cluster."""

        def sentence(one: Sentence) -> str:
            body = _on_one_line(
                escape(p.text) if p.cluster is None else _bold(p, p.cluster, escape, phrase)
                for p in one.phrases
            )
            if not one.relevant:
                return dim(body)
            return f"{label(escape(one.label))} {body}" if one.label else body

        paragraphs = [heading(escape(self.verdict)), " ".join(map(sentence, self.sentences))]
        paragraphs += [escape(clause) for _, clause in self.clauses if clause]
        return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_dict(self) -> Config:
        """As JSON knows it."""
        return {**super().to_dict(), "text": self.text}


def annotate(
    texts: Iterable[str | bytes], explanations: Iterable[Explanation], layer: TextBags
) -> list[TextExplanation]:
    """Show explanations in the texts they are of.

    Args:
        texts: the texts.
        explanations: one for each.
        layer: the layer by which the network reads texts.
    """
    pairs = zip(texts, explanations, strict=True)
    return [_annotate(without_breaks(as_str(text)), each, layer) for text, each in pairs]


def _annotate(content: str, explanation: Explanation, layer: TextBags) -> TextExplanation:
    spans = sentence_spans(content, layer.splitter)
    windows = [window_centres(len(tokens), layer.at_most) for tokens in spans]
    bags = _bags_of(explanation.top_bag, windows)
    # A sentence reaches to where the next one begins.
    starts = [tokens[0][0] for tokens in spans]
    ends = [*starts[1:], len(content)][: len(starts)]
    starts[:1] = [0] * len(starts[:1])
    sentences = []
    for tokens, centres, bag, start, end in zip(spans, windows, bags, starts, ends, strict=True):
        members = enumerate(bag.members if bag.relevant else ())
        clusters = {centres[i]: part.name for i, part in members if _is_relevant(part)}
        pieces = _pieces(tokens, clusters, layer.window_size // 2)
        phrases = tuple(_phrases(content, start, end, pieces))
        sentences.append(Sentence(phrases, bag.label, bag.relevant))
    return TextExplanation(
        top_bag=explanation.top_bag,
        network=explanation.network,
        network_name=explanation.network_name,
        text=content,
        sentences=tuple(sentences),
    )


def side_by_side(explanations: Iterable[TextExplanation], titles: Iterable[str]) -> str:
    """Several explanations of one text side by side, as a piece of HTML.

    Args:
        explanations: the explanations.
        titles: one for each.
    """
    heads = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    cells = "".join(
        f'<td style="vertical-align:top;padding:0 1em">{explanation.to_html()}</td>'
        for explanation in explanations
    )
    return f'<table style="{_FRAME}"><tr>{heads}</tr><tr>{cells}</tr></table>'


def _is_relevant(part: Part) -> bool:
    return part.role in (DECIDES, LIMITED)


def _number(cluster: str) -> str:
    """The number of a cluster, or the name that it was given."""
    digits = cluster.lstrip("uvwxyz")
    return digits if digits.isdigit() else f" {cluster}"


def _on_one_line(pieces: Iterable[str]) -> str:
    """Pieces of a sentence, which may have blank lines in it, as before a quotation."""
    return " ".join("".join(pieces).split())


def _bold(
    phrase: Phrase,
    cluster: str,
    escape: Callable[[str], str],
    render: Callable[[str, str], str],
) -> str:
    """A phrase in bold, without the spaces around it, and the number of its cluster."""
    inner = phrase.text.strip()
    before, _, after = phrase.text.partition(inner)
    return f"{before}{render(escape(inner), _number(escape(cluster)))}{after}"


class _Bag(NamedTuple):
    """The windows of a sentence, with the label of the sentence where that is a bag."""

    members: Sequence[Part]
    label: str | None = None
    relevant: bool = True


def _bags_of(top_bag: Part, windows: Iterable[Sequence[int]]) -> list[_Bag]:
    """The windows of each sentence of a text."""
    if top_bag.level > 1:
        return [_Bag(part.children, part.name, _is_relevant(part)) for part in top_bag.children]
    bags, start = [], 0
    for centres in windows:
        bags.append(_Bag(top_bag.children[start : start + len(centres)]))
        start += len(centres)
    return bags


def _pieces(
    tokens: Sequence[tuple[int, int]], clusters: dict[int, str], reach: int
) -> list[tuple[int, int, str]]:
    """The phrases of a sentence: (start, end, cluster) in the text.

    A token is in the phrase of the window around it, or else in that of a neighbour's window, which
    it is part of, too. Neighbours in windows of one cluster are one phrase.
    """
    pieces: list[tuple[int, int, str]] = []
    last = None
    for i, (start, end) in enumerate(tokens):
        near = [i, *(j for step in range(1, reach + 1) for j in (i - step, i + step))]
        cluster = next((clusters[j] for j in near if j in clusters), None)
        if cluster is not None and cluster == last:
            pieces[-1] = (pieces[-1][0], end, cluster)
        elif cluster is not None:
            pieces.append((start, end, cluster))
        last = cluster
    return pieces


def _phrases(
    content: str, start: int, end: int, pieces: Iterable[tuple[int, int, str]]
) -> Iterator[Phrase]:
    for first, last, cluster in pieces:
        if start < first:
            yield Phrase(content[start:first])
        yield Phrase(content[first:last], cluster)
        start = last
    if start < end:
        yield Phrase(content[start:end])

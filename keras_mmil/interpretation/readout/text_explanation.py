"""Why a text got its label, shown in the text itself."""

import html
from dataclasses import dataclass

from keras_mmil.interpretation.readout.explanation import DECIDES, LIMITED, Explanation
from keras_mmil.interpretation.readout.text_spans import (
    as_str,
    sentence_spans,
    window_centres,
    without_breaks,
)

__all__ = ["Phrase", "Sentence", "TextExplanation", "annotate", "beside"]

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>#|"})
_FRAME, _DIM = "font-family:sans-serif;line-height:1.5", "color:#9a9a9a"
_LABEL, _RAISED = "font-weight:bold;color:#0b5394", "line-height:0;color:#0b5394"


@dataclass(frozen=True)
class Phrase:
    """A piece of a text.

    Attributes:
        text: the piece.
        cluster: name of the cluster of its windows, where the rule that fired on their bag speaks
            of it; else None.
    """

    text: str
    cluster: str | None = None


@dataclass(frozen=True)
class Sentence:
    """A sentence, with all that stands before the next one.

    Attributes:
        phrases: tuple of `Phrase`.
        label: name of its cluster, None where sentences are no bags.
        relevant: whether the rule that fired on the text speaks of its cluster.
    """

    phrases: tuple
    label: str | None
    relevant: bool


@dataclass(frozen=True)
class TextExplanation(Explanation):
    """The explanation of a text.

    It shows the text: sentences that the rule for the text does not speak of are dimmed, the others
    have their cluster before them, and in these the phrases are bold which their own rule speaks
    of, with the number of their cluster behind them. In Jupyter it is shown like that, too.

    Attributes:
        top_bag, network, network_name: as in `Explanation`.
        text: the text.
        sentences: tuple of `Sentence`.
    """

    text: str = ""
    sentences: tuple = ()

    @property
    def verdict(self):
        """The label, its reason, and what the network says."""
        network = f"network: {self.network_name}"
        empty = "" if self.top_bag.children else "of an empty text: "
        reason = empty + self.top_bag.clause
        return f"{reason} ({network if self.agrees else f'NOT as {network}'})"

    @property
    def clauses(self):
        """The rules that fired on the sentences that matter, each once, with their names."""
        parts = self.top_bag.children if self.top_bag.level > 1 else ()
        fired = [(part.name, part.clause) for part in parts if _is_relevant(part)]
        return list(dict.fromkeys(fired))

    def to_text(self, color=False):
        """For a terminal.

        Args:
            color: whether to use the escape sequences for bold and dim; else phrases stand between
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

    def to_markdown(self):
        """As Markdown, as GitHub shows it; what does not matter is small."""
        return self._render(
            escape=lambda piece: piece.translate(_MARKDOWN),
            heading="**{}**".format,
            label="[{}]".format,
            dim="<sub>{}</sub>".format,
            phrase="**{}**<sup>{}</sup>".format,
        )

    def to_html(self):
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

    def _render(self, escape, heading, label, dim, phrase):
        """Paragraphs, of functions from an escaped piece (and the number of its cluster) to str."""

        def sentence(one):
            body = _on_one_line(
                escape(p.text) if p.cluster is None else _bold(p, escape, phrase)
                for p in one.phrases
            )
            if not one.relevant:
                return dim(body)
            return f"{label(escape(one.label))} {body}" if one.label else body

        paragraphs = [heading(escape(self.verdict)), " ".join(map(sentence, self.sentences))]
        paragraphs += [escape(clause) for _, clause in self.clauses]
        return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)

    def __str__(self):
        return self.to_text()

    def _repr_html_(self):
        return self.to_html()

    def to_dict(self):
        """As JSON knows it."""
        return {**super().to_dict(), "text": self.text}


def annotate(texts, explanations, layer):
    """Show explanations in the texts they are of.

    Args:
        texts: list of str or bytes.
        explanations: list of `Explanation`.
        layer: the `TextBags` layer by which the network reads texts.

    Returns:
        List of `TextExplanation`.
    """
    pairs = zip(texts, explanations, strict=True)
    return [_annotate(without_breaks(as_str(text)), each, layer) for text, each in pairs]


def _annotate(content, explanation, layer):
    spans = sentence_spans(content, layer.splitter)
    parts = explanation.top_bag.children
    windows = [window_centres(len(tokens), layer.at_most) for tokens in spans]
    bags = _sentences_of(parts, windows) if explanation.top_bag.level == 1 else parts
    # A sentence reaches to where the next one begins.
    starts = [tokens[0][0] for tokens in spans]
    ends = [*starts[1:], len(content)][: len(starts)]
    starts[:1] = [0] * len(starts[:1])
    sentences = []
    for tokens, centres, bag, start, end in zip(spans, windows, bags, starts, ends, strict=True):
        is_bag = explanation.top_bag.level > 1
        relevant = not is_bag or _is_relevant(bag)
        members = bag.children if is_bag else bag
        clusters = {centres[i]: part.name for i, part in enumerate(members) if _is_relevant(part)}
        pieces = _pieces(tokens, clusters if relevant else {}, layer.window_size // 2)
        phrases = tuple(_phrases(content, start, end, pieces))
        sentences.append(Sentence(phrases, bag.name if is_bag else None, relevant))
    return TextExplanation(
        explanation.top_bag,
        explanation.network,
        explanation.network_name,
        content,
        tuple(sentences),
    )


def beside(explanations, titles):
    """Several explanations of one text side by side, as a piece of HTML.

    Args:
        explanations: list of `TextExplanation`.
        titles: list of str.
    """
    heads = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    cells = "".join(
        f'<td style="vertical-align:top;padding:0 1em">{explanation.to_html()}</td>'
        for explanation in explanations
    )
    return f'<table style="{_FRAME}"><tr>{heads}</tr><tr>{cells}</tr></table>'


def _is_relevant(part):
    return part.role in (DECIDES, LIMITED)


def _number(cluster):
    """The number of a cluster, or the name that it was given."""
    digits = cluster.lstrip("uvwxyz")
    return digits if digits.isdigit() else f" {cluster}"


def _on_one_line(pieces):
    """Pieces of a sentence, which may have blank lines in it, as before a quotation."""
    return " ".join("".join(pieces).split())


def _bold(phrase, escape, render):
    """A phrase in bold, without the spaces around it."""
    inner = phrase.text.strip()
    before, _, after = phrase.text.partition(inner)
    return f"{before}{render(escape(inner), _number(escape(phrase.cluster)))}{after}"


def _sentences_of(parts, windows):
    """The windows of a text, cut where its sentences end."""
    result, start = [], 0
    for centres in windows:
        result.append(parts[start : start + len(centres)])
        start += len(centres)
    return result


def _pieces(tokens, clusters, reach):
    """The phrases of a sentence: (start, end, cluster) in the text.

    A token is in the phrase of the window around it, or else in that of a neighbour's window, which
    it is part of, too. Neighbours in windows of one cluster are one phrase.
    """
    pieces, last = [], None
    for i, (start, end) in enumerate(tokens):
        near = sorted(range(i - reach, i + reach + 1), key=lambda j, i=i: abs(i - j))
        cluster = next((clusters[j] for j in near if j in clusters), None)
        if cluster is not None and cluster == last:
            pieces[-1] = (pieces[-1][0], end, cluster)
        elif cluster is not None:
            pieces.append((start, end, cluster))
        last = cluster
    return pieces


def _phrases(content, start, end, pieces):
    for first, last, cluster in pieces:
        if start < first:
            yield Phrase(content[start:first])
        yield Phrase(content[first:last], cluster)
        start = last
    if start < end:
        yield Phrase(content[start:end])

"""Why a text got its label, shown in the text itself."""

import functools
import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import tensorflow as tf

from keras_mmil import ragged, text
from keras_mmil._support.types import Config
from keras_mmil.layers import TextBags
from keras_mmil.rules.explain.explanation import Explanation, Show

__all__ = [
    "Phrase",
    "Sentence",
    "TextExplanation",
    "annotate",
    "as_str",
    "sentence_spans",
    "side_by_side",
    "text_pieces",
    "window_centres",
    "window_words",
    "without_breaks",
]

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>#|"})
_FRAME, _DIM = "font-family:sans-serif;line-height:1.5", "color:#9a9a9a"
_LABEL, _RAISED = "font-weight:bold;color:#0b5394", "line-height:0;color:#0b5394"

# As in `text.tokenize`, which takes neither vertical tabs nor ASCII separators for spaces.
_BREAK = re.compile(text.BREAK.replace(r"\s", r"[^\S\v\x1c-\x1f]"))
_INVALID = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True)
class Phrase:
    """A piece of a text.

    Attributes:
        text: the piece.
        cluster: name of the cluster of its windows, if the rule that fired on their bag tests it.
    """

    text: str
    cluster: str | None = None


@dataclass(frozen=True)
class Sentence:
    """A sentence, with everything up to the next one.

    Attributes:
        phrases: its pieces.
        label: name of its cluster; None where sentences are no bags.
        relevant: whether the rule that fired on the text tests its cluster.
    """

    phrases: tuple[Phrase, ...]
    label: str | None
    relevant: bool


@dataclass(frozen=True)
class TextExplanation(Explanation):
    """The explanation of a text, shown in the text.

    Sentences whose cluster the rule for the text does not test are dimmed; the others begin with
    their cluster. In these, phrases whose cluster the sentence's own rule tests are bold, followed
    by the number of their cluster. Below, these clusters are described. Jupyter shows it like that,
    too.

    Attributes:
        top_bag, network, network_name: as in `Explanation`.
        text: the text.
        sentences: its sentences.
    """

    text: str = ""
    sentences: tuple[Sentence, ...] = ()

    @property
    def verdict(self) -> str:
        """The label, its reason in words, and what the network says."""
        network = f"network: {self.network_name}"
        empty = "" if self.top_bag.children else "of an empty text: "
        top = self.top_bag
        why = top.clause or ""
        if top.reason is not None and top.rule is not None and top.rule.conditions:
            why = f"{top.name}, because {top.reason.text}."
        return f"{empty}{why} ({network if self.agrees else f'NOT as {network}'})"

    @property
    def legend(self) -> list[str]:
        """What the clusters are that the verdict and the text name; without words, the rules."""
        top = self.top_bag
        relevant = [part for part in top.children if top.level > 1 and part.is_relevant]
        if top.reason is None:
            return list(dict.fromkeys(part.clause for part in relevant if part.clause))
        known = dict(top.reason.definitions)
        for part in relevant:
            known |= part.reason.definitions if part.reason else {}
        shown = {phrase.cluster for each in self.sentences for phrase in each.phrases}
        shown |= {each.label for each in self.sentences if each.relevant}
        wanted = [key for key in known if key in top.reason.mentions or key[1] in shown]
        return [known[key] for key in sorted(wanted, key=lambda key: -key[0])]

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
        """As GitHub's Markdown; what does not matter is small."""
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

        def bold(piece: str, cluster: str) -> str:
            inner = piece.strip()
            before, _, after = piece.partition(inner)
            return f"{before}{phrase(escape(inner), _number(escape(cluster)))}{after}"

        def sentence(one: Sentence) -> str:
            pieces = [
                escape(p.text) if p.cluster is None else bold(p.text, p.cluster)
                for p in one.phrases
            ]
            # A sentence may hold blank lines, as before a quotation.
            body = " ".join("".join(pieces).split())
            if not one.relevant:
                return dim(body)
            return f"{label(escape(one.label))} {body}" if one.label else body

        paragraphs = [heading(escape(self.verdict)), " ".join(map(sentence, self.sentences))]
        paragraphs += map(escape, self.legend)
        return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_dict(self) -> Config:
        """For JSON."""
        return {**super().to_dict(), "text": self.text}


def side_by_side(explanations: Iterable[TextExplanation], titles: Iterable[str]) -> str:
    """Several explanations of one text side by side, each with a title, as a piece of HTML."""
    heads = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    cells = "".join(
        f'<td style="vertical-align:top;padding:0 1em">{explanation.to_html()}</td>'
        for explanation in explanations
    )
    return f'<table style="{_FRAME}"><tr>{heads}</tr><tr>{cells}</tr></table>'


def annotate(
    texts: Iterable[str | bytes], explanations: Iterable[Explanation], layer: TextBags
) -> list[TextExplanation]:
    """Show explanations in their texts, which `layer` reads for the network."""
    pairs = zip(texts, explanations, strict=True)
    return [_annotate(without_breaks(as_str(one)), each, layer) for one, each in pairs]


def _annotate(content: str, explanation: Explanation, layer: TextBags) -> TextExplanation:
    spans = sentence_spans(content, layer.splitter)
    windows = [window_centres(len(tokens), layer.at_most) for tokens in spans]
    # A sentence reaches to where the next one begins.
    starts = [tokens[0][0] for tokens in spans]
    ends = [*starts[1:], len(content)][: len(starts)]
    starts[:1] = [0] * len(starts[:1])
    top, first = explanation.top_bag, 0
    sentences = []
    for i, (tokens, centres) in enumerate(zip(spans, windows, strict=True)):
        bag = top.children[i] if top.level > 1 else None
        members = bag.children if bag else top.children[first : first + len(centres)]
        first += len(centres)
        label, relevant = (bag.name, bag.is_relevant) if bag else (None, True)
        clusters = {
            centre: part.name
            for centre, part in zip(centres, members, strict=False)
            if relevant and part.is_relevant
        }
        pieces = _pieces(tokens, clusters, layer.window_size // 2)
        phrases = tuple(_phrases(content, starts[i], ends[i], pieces))
        sentences.append(Sentence(phrases, label, relevant))
    return TextExplanation(
        top_bag=top,
        network=explanation.network,
        network_name=explanation.network_name,
        text=content,
        sentences=tuple(sentences),
    )


def _number(cluster: str) -> str:
    """The number of a cluster, or the name that it was given."""
    digits = cluster.lstrip("uvwxyz")
    return digits if digits.isdigit() else f" {cluster}"


def _pieces(
    tokens: Sequence[tuple[int, int]], clusters: dict[int, str], reach: int
) -> list[tuple[int, int, str]]:
    """The phrases of a sentence: (start, end, cluster) in the text.

    A token is in the phrase of the window centred on it, or else of a neighbouring window that
    covers it. Neighbours in windows of one cluster are one phrase.
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


# Where the tokens of the network are in a text ---------------------------------------------------


def as_str(one: str | bytes) -> str:
    """A text as str; bytes that are not UTF-8 become spaces, as in `text.tokenize`."""
    if isinstance(one, bytes):
        return _INVALID.sub(" ", one.decode("utf-8", errors="surrogateescape"))
    return str(one)


def without_breaks(content: str) -> str:
    """A text with blank lines in place of its HTML breaks, which are no tokens."""
    return _BREAK.sub("\n\n", content)


@functools.lru_cache(maxsize=256)  # all parts of a text are shown one by one
def sentence_spans(content: str, splitter: str) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The sentences of a text `without_breaks`, each with the (start, end) of its tokens.

    For the splitter see `keras_mmil.text.tokenize`.
    """
    # What looks like a break now was none before, but contained one: "<<br>br>".
    opened = _BREAK.sub(lambda result: "^" + result[0][1:], content)
    sentences = text.tokenize(tf.constant([text.as_bytes(opened)]), splitter).to_list()[0]
    spans = []
    end = 0
    for sentence in sentences:
        tokens = []
        for token in map(bytes.decode, sentence):
            # Tokens are in the text unchanged, except for the point of a title ("Mr.Smith"), and in
            # order; nothing between them could be part of a token. So this finds each of them.
            pattern = re.compile(r"\.?".join(map(re.escape, token)))
            start, end = next(pattern.finditer(content, end)).span()
            tokens.append((start, end))
        spans.append(tuple(tokens))
    return tuple(spans)


def window_centres(n_tokens: int, at_most: int | None) -> list[int]:
    """The token in the middle of each window of a sentence: see `keras_mmil.text.windows`."""
    if at_most is None or n_tokens <= at_most:
        return list(range(n_tokens))
    half = at_most // 2
    return [*range(half), *range(n_tokens - half, n_tokens)]


def text_pieces(texts: Sequence[str | bytes], layer: TextBags) -> Show:
    """A function from positions in texts, which `layer` reads, to the piece of the text there."""

    def show(position: tuple[int, ...]) -> str:
        content = without_breaks(as_str(texts[position[0]]))
        if len(position) == 1:
            return content
        sentences = sentence_spans(content, layer.splitter)
        windows = [window_centres(len(tokens), layer.at_most) for tokens in sentences]
        if layer.depth == 1:
            flat = [(s, c) for s, centres in enumerate(windows) for c in centres]
            sentence, centre = flat[position[1]]
        elif len(position) == 2:
            tokens = sentences[position[1]]
            return content[tokens[0][0] : tokens[-1][1]]
        else:
            sentence, centre = position[1], windows[position[1]][position[2]]
        reach, tokens = layer.window_size // 2, sentences[sentence]
        first, last = max(centre - reach, 0), min(centre + reach, len(tokens) - 1)
        return content[tokens[first][0] : tokens[last][1]]

    return show


def window_words(x: tf.RaggedTensor, vocabulary: Sequence[str], n_words: int = 25) -> Show:
    """A function from positions of rows to text, for bags of windows over tokens.

    A window is shown by its tokens, a bag by those in the middle of its windows.

    Args:
        x: ids, RaggedTensor [texts, (sentences), (tokens), window_size] or [texts, (tokens),
            window_size].
        vocabulary: the token of each id.
        n_words: maximal number of tokens to show of a bag.
    """
    ids_at = ragged.lookup(x)

    def show(position: tuple[int, ...]) -> str:
        ids = ids_at(position)
        ids = ids if ids.ndim == 1 else ids[:, ids.shape[-1] // 2]
        words = [vocabulary[i] for i in ids]
        return " ".join(words[:n_words] + ["…"] * (len(words) > n_words))

    return show

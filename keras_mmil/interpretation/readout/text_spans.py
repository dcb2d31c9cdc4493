"""Where in a text the tokens stand that a network was given."""

import functools
import re
from collections.abc import Sequence

import tensorflow as tf

from keras_mmil import ragged, text
from keras_mmil.interpretation.readout.part import Show

__all__ = ["as_str", "sentence_spans", "window_centres", "window_words", "without_breaks"]

# As `text.tokenize` has it, to which vertical tabs and the separators of ASCII are no spaces.
_BREAK = re.compile(text.BREAK.replace(r"\s", r"[^\S\v\x1c-\x1f]"))
_INVALID = re.compile(r"[\ud800-\udfff]")


def as_str(one: str | bytes) -> str:
    """A text, str or bytes, as str; bytes that are not UTF-8 are spaces, as to `text.tokenize`."""
    if isinstance(one, bytes):
        return _INVALID.sub(" ", one.decode("utf-8", errors="surrogateescape"))
    return str(one)


def without_breaks(content: str) -> str:
    """A text with its HTML breaks, which are no tokens, turned into blank lines."""
    return _BREAK.sub("\n\n", content)


@functools.lru_cache(maxsize=256)  # all parts of a text are shown one by one
def sentence_spans(content: str, splitter: str) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The places of all tokens.

    Args:
        content: the text, str, `without_breaks`.
        splitter: see `keras_mmil.text.tokenize`.

    Returns:
        Sentences, each with the (start, end) of its tokens in `content`.
    """
    # What looks like a break now was none, but had one in it: "<<br>br>".
    opened = _BREAK.sub(lambda found: "^" + found[0][1:], content)
    sentences = text.tokenize(tf.constant([text.as_bytes(opened)]), splitter).to_list()[0]
    spans = []
    end = 0
    for sentence in sentences:
        tokens = []
        for token in map(bytes.decode, sentence):
            # Tokens stand in the text as they are, but for the point of a title ("Mr.Smith"), one
            # behind the other, and what lies between holds nothing that a token is made of: so this
            # finds each where it is.
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


def window_words(x: tf.RaggedTensor, vocabulary: Sequence[str], n_words: int = 25) -> Show:
    """A function that shows rows of bags of windows over tokens, by their positions.

    Args:
        x: RaggedTensor of ids [texts, (sentences), (tokens), window_size], or [texts, (tokens),
            window_size].
        vocabulary: the token of each id.
        n_words: of a longer bag only so many tokens are shown.

    Returns:
        Function from a position to text: the tokens of a window or, of a bag, those in the middle
        of its windows.
    """
    ids_at = ragged.lookup(x)

    def show(position: tuple[int, ...]) -> str:
        ids = ids_at(position)
        ids = ids if ids.ndim == 1 else ids[:, ids.shape[-1] // 2]
        words = [vocabulary[i] for i in ids]
        return " ".join(words[:n_words] + ["…"] * (len(words) > n_words))

    return show

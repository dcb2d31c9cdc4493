"""Texts as bags: from strings to sentences of tokens, and windows over tokens.

All are operations of TensorFlow's graphs, so that the same code prepares a corpus and serves a
model on strings.
"""

from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import Array

__all__ = [
    "BREAK",
    "SPLITTERS",
    "as_bytes",
    "check_splitter",
    "check_window",
    "tokenize",
    "windows",
]

Splitter: TypeAlias = Callable[[tf.Tensor], tf.RaggedTensor]  # strings [n] to [n, (sentences)]

BREAK = r"(?i)<\s*br\s*/?\s*>"
"""The regular expression of HTML's line break, which ends a sentence."""
_PARAGRAPH = "\n\n"
# What tokens are made of: letters, their marks, numbers, and symbols such as emoji; and what may
# join them, as in "don't", "well-spent", "8/10", and (put in for a decimal point) "8.5".
_DECIMAL_POINT = "\ue000"  # of the private use area, so that it ends no sentence
_JOINERS = rf"\-'\x{{2019}}/{_DECIMAL_POINT}"
_NOT_TOKEN = rf"[^\pL\pM\pN\p{{So}}{_JOINERS}]+"
_TITLE = r"\b(Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs)\."  # their point ends no sentence
_END = r"([.!?…]+[\"'\x{201d}\x{2019})\]]*)\s+"  # of a sentence, for the splitter "core"
_EDGES = rf"^[{_JOINERS}]+|[{_JOINERS}]+$"


def tokenize(
    texts: tf.Tensor | Array | list[str], splitter: str = "tensorflow-text"
) -> tf.RaggedTensor:
    """Split texts into sentences, and these into tokens.

    HTML breaks and blank lines end a sentence. Case is kept, punctuation dropped unless it joins:
    "don't", "8.5/10". Sentences without a token are dropped. Bytes that are not UTF-8 separate
    tokens.

    Args:
        texts: strings [texts].
        splitter: what finds the ends of sentences: "tensorflow-text" (its state-based sentence
            breaker) or "core", operations of TensorFlow alone.

    Returns:
        RaggedTensor of strings [texts, (sentences), (tokens)].

    Raises:
        ValueError: for another splitter.
        ImportError: if tensorflow-text is asked for and not installed.
    """
    split = check_splitter(splitter)
    texts = tf.strings.unicode_transcode(
        texts, "UTF-8", "UTF-8", errors="replace", replacement_char=ord(" ")
    )
    # The sentence breaker would cut the bytes of a wide space in two.
    texts = tf.strings.regex_replace(texts, r"[\pZ\x{85}\x{e000}]", " ")
    texts = tf.strings.regex_replace(texts, BREAK, _PARAGRAPH)
    texts = tf.strings.regex_replace(texts, r"\n\s*\n", _PARAGRAPH)
    texts = tf.strings.regex_replace(texts, r"(\pN)\.(\pN)", rf"\1{_DECIMAL_POINT}\2")
    texts = tf.strings.regex_replace(texts, _TITLE, r"\1")
    paragraphs = tf.strings.split(texts, _PARAGRAPH)  # (texts, (paragraphs))
    sentences = paragraphs.with_values(split(paragraphs.values)).merge_dims(1, 2)
    tokens = sentences.with_values(_tokens(sentences.values))  # (texts, (sentences), (tokens))
    return tf.ragged.boolean_mask(tokens, tokens.row_lengths(axis=2) > 0)


def windows(
    ids: tf.RaggedTensor, window_size: int = 3, at_most: int | None = None, padding: int = 0
) -> tf.RaggedTensor:
    """Windows of neighbours: trigrams of words, for instance.

    Both ends of every bag are padded, so that a bag of n ids has n windows.

    Args:
        ids: RaggedTensor of ints [..., (n)].
        window_size: number of ids in a window, odd.
        at_most: only the first and the last `at_most // 2` windows of a bag with more are kept.
        padding: id that is put before the first and after the last.

    Returns:
        RaggedTensor of ints [..., (n), window_size].
    """
    half = check_window(window_size) // 2
    if isinstance(ids.values, tf.RaggedTensor):
        return ids.with_values(windows(ids.values, window_size, at_most, padding))
    ends = tf.fill(tf.stack([ids.nrows(), half]), tf.constant(padding, ids.dtype))
    padded = tf.concat([ends, ids, ends], axis=1)
    # Window i of all begins at id i, and a whole padding later for every bag before.
    centres = ids.with_values(tf.range(ids.row_splits[-1]))
    starts = centres + 2 * half * ids.with_values(ids.value_rowids())
    if at_most is not None:
        positions = (centres - ids.row_starts()[:, None]).values
        after = tf.gather(ids.row_lengths(), ids.value_rowids()) - positions
        short = positions + after <= at_most
        kept = short | (positions < at_most // 2) | (after <= at_most // 2)
        starts = tf.ragged.boolean_mask(starts, ids.with_values(kept))
    flat = starts.values[:, None] + tf.range(window_size, dtype=starts.dtype)
    return starts.with_values(tf.gather(padded.values, flat))  # (bags, (windows), window_size)


def as_bytes(one: str | bytes) -> bytes:
    """A text as bytes; what UTF-8 cannot encode becomes a question mark.

    Raises:
        TypeError: if it is neither str nor bytes.
    """
    if not isinstance(one, (str, bytes)):
        raise TypeError(f"Expected a text, str or bytes. Received: {type(one).__name__} {one!r}")
    return one.encode("utf-8", "replace") if isinstance(one, str) else one


def check_window(window_size: int) -> int:
    """Return `window_size` if it is an odd int ≥ 1, else raise ValueError."""
    window_size = positive_int("window_size", window_size)
    if window_size % 2 == 0:
        raise ValueError(f"Expected windows of an odd size. Received: window_size={window_size}")
    return window_size


def check_splitter(name: str) -> Splitter:
    """The function that splits strings [n] into sentences [n, (sentences)].

    Raises:
        ValueError: if there is none of this name.
        ImportError: if it needs a package that is not installed.
    """
    if name not in SPLITTERS:
        raise ValueError(f"Expected one of {sorted(SPLITTERS)}. Received: splitter={name!r}")
    return SPLITTERS[name]()


def _tensorflow_text() -> Splitter:
    try:
        import tensorflow_text
    except ImportError as error:
        raise ImportError(
            "Expected tensorflow-text, `pip install keras-mmil[text]`; where there is none for "
            "the platform, use splitter='core'. Received: splitter='tensorflow-text'"
        ) from error
    return tensorflow_text.StateBasedSentenceBreaker().break_sentences


def _core() -> Splitter:
    def split(texts: tf.Tensor) -> tf.RaggedTensor:
        ended = tf.strings.regex_replace(texts, _END, r"\1" + _PARAGRAPH)
        return tf.strings.split(ended, _PARAGRAPH)

    return split


SPLITTERS: dict[str, Callable[[], Splitter]] = {"tensorflow-text": _tensorflow_text, "core": _core}
"""The ways to find sentences, by name: makers of functions from strings `[n]` to strings
`[n, (sentences)]`. "tensorflow-text" needs that package, "core" only TensorFlow."""


def _tokens(sentences: tf.Tensor) -> tf.RaggedTensor:
    """Tokens [sentences, (tokens)] of sentences [sentences]."""
    spaced = tf.strings.regex_replace(sentences, _NOT_TOKEN, " ")
    tokens = tf.strings.split(spaced, " ")
    stripped = tf.strings.regex_replace(tokens.values, _EDGES, "")
    stripped = tf.strings.regex_replace(stripped, _DECIMAL_POINT, ".")
    tokens = tokens.with_values(stripped)
    return tf.ragged.boolean_mask(tokens, tokens.with_values(stripped != ""))

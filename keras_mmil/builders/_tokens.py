"""Texts split into tokens, and tokens numbered by frequency."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import text
from keras_mmil._support.types import Ints

__all__ = ["PADDING", "UNKNOWN", "Batch", "look_up", "number_tokens", "split_batches"]

PADDING = "_"
"""The word with id 0, which stands before and after each sentence; no token is spelled so."""
UNKNOWN = "<unknown>"
"""The word with id 1, which stands for all rare and new tokens; no token is spelled so."""
_TEXTS = 256  # that are split at once


class Batch(NamedTuple):
    """Texts as indices into their distinct tokens, and the sizes of sentences and texts."""

    distinct: Sequence[bytes]
    tokens: Ints
    sentence_sizes: Ints
    text_sizes: Ints


def split_batches(texts: Iterable[str | bytes], splitter: str) -> Iterator[Batch]:
    """Yields some texts at a time, split."""
    errors: list[Exception] = []

    def checked() -> Iterator[bytes]:
        try:
            yield from map(text.as_bytes, texts)
        except Exception as error:  # which TensorFlow would turn into one of its own
            errors.append(error)

    dataset = tf.data.Dataset.from_generator(checked, output_signature=tf.TensorSpec((), tf.string))
    split = _splitting(splitter)
    dataset = dataset.batch(_TEXTS).map(split, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    for arrays in dataset.as_numpy_iterator():
        yield Batch(*arrays)
    if errors:
        raise errors[0]


@functools.cache
def _splitting(splitter: str) -> Callable[[tf.Tensor], tuple[tf.Tensor, ...]]:
    """What makes a `Batch` of strings [texts], traced once and not for every `Dataset`."""

    def split(texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        tokens = text.tokenize(texts, splitter)  # (texts, (sentences), (tokens))
        distinct, index = tf.unique(tokens.flat_values)
        return distinct, index, tokens.values.row_lengths(), tokens.row_lengths()

    types = [tf.TensorSpec([None], tf.string)]
    traced = tf.function(split, input_signature=types, autograph=False)
    return lambda texts: traced.get_concrete_function()(texts)


def number_tokens(
    tokens: Sequence[bytes], occurrences: Ints, min_count: int
) -> tuple[tuple[str, ...], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Vocabulary, its counts, and the id of each of `tokens`; rare ones are unknown."""
    counts = np.bincount(occurrences, minlength=len(tokens))
    known = [i for i in range(len(tokens)) if counts[i] >= min_count]
    known.sort(key=lambda i: (-counts[i], tokens[i]))
    ids = np.ones(len(tokens), np.int32)
    ids[known] = np.arange(2, len(known) + 2)
    vocabulary = (PADDING, UNKNOWN, *(tokens[i].decode() for i in known))
    unknown = len(occurrences) - counts[known].sum()
    return vocabulary, np.array([0, unknown, *counts[known]]), ids


def look_up(tokens: Sequence[bytes], vocabulary: Sequence[str]) -> npt.NDArray[np.int32]:
    """The id of each of `tokens`."""
    known = {token.encode(): i for i, token in enumerate(vocabulary)}
    return np.array([known.get(token, 1) for token in tokens], np.int32)

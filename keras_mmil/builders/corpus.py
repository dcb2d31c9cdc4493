"""Texts as bags of sentences of trigrams: corpora, in memory or on disk, and vocabularies."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import text
from keras_mmil._support.checks import positive_int
from keras_mmil._support.digests import checksum_of_file
from keras_mmil._support.files import atomic_write
from keras_mmil._support.rows import members_of, row_splits
from keras_mmil._support.state import decode, encode, read_state, write_state
from keras_mmil._support.types import Ints, PathLike

__all__ = ["PADDING", "UNKNOWN", "Corpus", "Rows"]

PADDING = "_"
"""The word of id 0, before and after each sentence; not a token."""
UNKNOWN = "<unknown>"
"""The word of id 1, for all rare and new tokens; not a token."""
_TEXTS = 256  # split at once


class _Batch(NamedTuple):
    """Texts as indices into their distinct tokens, and the sizes of sentences and texts."""

    distinct: Sequence[bytes]
    tokens: Ints
    sentence_sizes: Ints
    text_sizes: Ints


def _split_batches(texts: Iterable[str | bytes], splitter: str) -> Iterator[_Batch]:
    """Yields split texts, some at a time."""
    errors: list[Exception] = []

    def checked() -> Iterator[bytes]:
        try:
            yield from map(text.as_bytes, texts)
        except Exception as error:  # TensorFlow would raise one of its own
            errors.append(error)

    dataset = tf.data.Dataset.from_generator(checked, output_signature=tf.TensorSpec((), tf.string))
    split = _splitting(splitter)
    dataset = dataset.batch(_TEXTS).map(split, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    for arrays in dataset.as_numpy_iterator():
        yield _Batch(*arrays)
    if errors:
        raise errors[0]


@functools.cache
def _splitting(splitter: str) -> Callable[[tf.Tensor], tuple[tf.Tensor, ...]]:
    """The function from strings [texts] to a `_Batch`, traced once for all datasets."""

    def split(texts: tf.Tensor) -> tuple[tf.Tensor, ...]:
        tokens = text.tokenize(texts, splitter)  # (texts, (sentences), (tokens))
        distinct, index = tf.unique(tokens.flat_values)
        return distinct, index, tokens.values.row_lengths(), tokens.row_lengths()

    types = [tf.TensorSpec([None], tf.string)]
    traced = tf.function(split, input_signature=types, autograph=False)
    return lambda texts: traced.get_concrete_function()(texts)


def _number_tokens(
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


_CHUNK = 5_000  # texts whose windows are made at once
_ARRAYS = ("tokens", "sentence_splits", "text_splits", "counts")
_FORMAT, _VERSION = "keras-mmil corpus", 3
_ABOUT = "corpus.json"

Rows: TypeAlias = Ints | npt.NDArray[np.bool_] | Sequence[int] | slice | None
"""Which texts of a corpus: indices, a slice or a mask; None for all."""


@dataclass(frozen=True)
class _About:
    """What `corpus.json` says, beside the arrays: `checksums` are of their files, by name."""

    splitter: str
    vocabulary: tuple[str, ...]
    checksums: dict[str, str]


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Texts, split into sentences of tokens, with their vocabulary.

    Args:
        tokens: ids of all tokens, int32 [tokens]: 0 is padding, 1 an unknown token.
        sentence_splits: row splits of the tokens by sentence, int64 [sentences + 1].
        text_splits: row splits of the sentences by text, int64 [texts + 1].
        vocabulary: the token of each id: padding, unknown, and the others by decreasing frequency.
        counts: the number of occurrences of each token in the texts of the vocabulary, int64.
        splitter: of texts into sentences, see `keras_mmil.text.tokenize`.

    Raises:
        ValueError: if the parts are inconsistent.

    Example:

    >>> corpus = Corpus.from_texts(["Not bad. Not bad at all!", "Bad"], min_count=1)
    >>> corpus.vocabulary
    ('_', '<unknown>', 'Not', 'bad', 'Bad', 'all', 'at')
    >>> corpus.trigrams()[1]
    <tf.RaggedTensor [[[0, 4, 0]]]>
    """

    tokens: npt.NDArray[np.int32]
    sentence_splits: npt.NDArray[np.int64]
    text_splits: npt.NDArray[np.int64]
    vocabulary: tuple[str, ...]
    counts: npt.NDArray[np.int64]
    splitter: str

    def __post_init__(self) -> None:
        n_words = len(self.vocabulary)
        for name in _ARRAYS:
            if getattr(self, name).dtype.kind not in "iu":
                dtype = getattr(self, name).dtype
                raise ValueError(f"Expected ints. Received: {name} of {dtype}")
        if self.vocabulary[:2] != (PADDING, UNKNOWN) or len(set(self.vocabulary)) != n_words:
            raise ValueError(
                f"Expected a vocabulary of different tokens that begins with {PADDING!r} and "
                f"{UNKNOWN!r}. Received: vocabulary={self.vocabulary[:5]}..."
            )
        if self.counts.shape != (n_words,) or self.counts.min() < 0:
            raise ValueError(
                f"Expected counts of {n_words} tokens. Received: counts.shape={self.counts.shape}"
            )
        if self.tokens.size and not 0 <= self.tokens.min() <= self.tokens.max() < n_words:
            raise ValueError(
                f"Expected ids from 0 to {n_words - 1}. "
                f"Received: tokens from {self.tokens.min()} to {self.tokens.max()}"
            )
        _check_splits("sentence_splits", self.sentence_splits, len(self.tokens))
        _check_splits("text_splits", self.text_splits, len(self.sentence_splits) - 1)

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str | bytes],
        min_count: int = 2,
        fit_on: npt.ArrayLike | None = None,
        splitter: str = "tensorflow-text",
        like: "Corpus | None" = None,
        verbose: int = 1,
    ) -> "Corpus":
        """Split texts, and number their tokens.

        Args:
            texts: iterable of str or bytes, which is read once and never held in memory.
            min_count: rarer tokens are unknown.
            fit_on: bool [texts]: the texts of the vocabulary; None for all.
            splitter: of texts into sentences: "tensorflow-text" or "core".
            like: another `Corpus`, whose vocabulary and splitter to use in place of the three
                arguments before.
            verbose: 1 for a progress bar, 0 for none.

        Raises:
            ValueError: if there are no texts, or `fit_on` is not a bool for each.
            TypeError: if a text is neither str nor bytes.
        """
        positive_int("min_count", min_count)
        if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
            raise TypeError(f"Expected an iterable of texts. Received: {type(texts).__name__}")
        splitter = splitter if like is None else like.splitter
        table: dict[bytes, int] = {}
        parts = []
        total = len(texts) if isinstance(texts, Sized) else None
        bar = keras.utils.Progbar(total, verbose=verbose, unit_name="text")
        for batch in _split_batches(texts, splitter):
            numbers = [table.setdefault(token, len(table)) for token in batch.distinct]
            tokens = np.array(numbers, np.int32)[batch.tokens]
            parts.append((tokens, batch.sentence_sizes, batch.text_sizes))
            bar.add(len(batch.text_sizes))
        if not parts:
            raise ValueError("Expected at least one text. Received: none")
        tokens, sentence_sizes, text_sizes = map(np.concatenate, zip(*parts, strict=True))
        n_texts = len(text_sizes)
        bar.update(n_texts, finalize=True)
        sentence_splits, text_splits = map(row_splits, (sentence_sizes, text_sizes))
        if like is not None:
            tokens = look_up(list(table), like.vocabulary)[tokens]
            splits = sentence_splits, text_splits
            return cls(tokens, *splits, like.vocabulary, like.counts, splitter)
        counted = tokens
        if fit_on is not None:
            fit_on = np.asarray(fit_on)
            if fit_on.shape != (n_texts,) or fit_on.dtype != bool:
                raise ValueError(
                    f"Expected a bool for each of {n_texts} texts. "
                    f"Received: fit_on.shape={fit_on.shape}, dtype={fit_on.dtype}"
                )
            counted = tokens[np.repeat(fit_on, np.diff(sentence_splits[text_splits]))]
        vocabulary, counts, ids = _number_tokens(list(table), counted, min_count)
        return cls(ids[tokens], sentence_splits, text_splits, vocabulary, counts, splitter)

    def trigrams(
        self, rows: Rows = None, window_size: int = 3, at_most: int | None = 100
    ) -> tf.RaggedTensor:
        """The texts as bags of sentences of windows of neighbouring tokens.

        Args:
            rows: indices of the texts, a slice or a mask; None for all.
            window_size: number of tokens in a window.
            at_most: longer sentences keep their first and last `at_most // 2` windows; None for
                all.

        Returns:
            int32 RaggedTensor [texts, (sentences), (tokens), window_size].
        """
        indices = self._indices(rows)
        # In chunks, as intermediate results are several times as large as the final one.
        chunks = np.split(indices, range(_CHUNK, len(indices), _CHUNK))
        return tf.concat(
            [text.windows(self.ids(some), window_size, at_most) for some in chunks], axis=0
        )

    def ids(self, rows: Rows = None) -> tf.RaggedTensor:
        """The ids of the tokens: int32 RaggedTensor [texts, (sentences), (tokens)]."""
        sentences, text_splits = members_of(self.text_splits, self._indices(rows))
        tokens, sentence_splits = members_of(self.sentence_splits, sentences)
        return tf.RaggedTensor.from_nested_row_splits(
            self.tokens[tokens], [text_splits, sentence_splits], validate=False
        )

    def flat_ids(self, rows: Rows = None) -> Iterator[npt.NDArray[np.int32]]:
        """Yields the ids of the tokens of each text, regardless of sentences: int32 [tokens]."""
        splits = self.sentence_splits[self.text_splits]
        for row in self._indices(rows):
            yield self.tokens[splits[row] : splits[row + 1]]

    def words(self, ids: Iterable[int]) -> list[str]:
        """The tokens of some ids."""
        return [self.vocabulary[i] for i in ids]

    def save(self, folder: PathLike) -> None:
        """Write the corpus, with checksums, to a folder for `load`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name in _ARRAYS:
            with atomic_write(folder / f"{name}.npy") as part:
                np.save(part, getattr(self, name), allow_pickle=False)
        # Last, as its presence means that the rest is complete.
        checksums = {name: checksum_of_file(folder / f"{name}.npy") for name in _ARRAYS}
        about = _About(self.splitter, self.vocabulary, checksums)
        write_state(folder / _ABOUT, _FORMAT, _VERSION, encode(about))

    @classmethod
    def load(cls, folder: PathLike) -> "Corpus":
        """Map a saved corpus into memory.

        Raises:
            FileNotFoundError: if a file is missing.
            ValueError: if the format is another one, or a byte was changed.
        """
        folder = Path(folder)
        try:
            about = decode(_About, read_state(folder / _ABOUT, _FORMAT, _VERSION))
            arrays = {}
            for name in _ARRAYS:
                path = folder / f"{name}.npy"
                if checksum_of_file(path) != about.checksums.get(name):
                    raise ValueError(f"{path} has another checksum")
                arrays[name] = np.load(path, mmap_mode="r", allow_pickle=False)
            return cls(**arrays, vocabulary=about.vocabulary, splitter=about.splitter)
        except FileNotFoundError:
            raise
        except Exception as error:  # of NumPy, if the checksum is forged
            raise ValueError(
                f"Expected a corpus as it was saved; make it again. Received: {folder}: {error}"
            ) from error

    def _indices(self, rows: Rows) -> Ints:
        return np.arange(len(self))[slice(None) if rows is None else rows]

    def __len__(self) -> int:
        return len(self.text_splits) - 1

    def __repr__(self) -> str:
        return (
            f"Corpus({len(self):,} texts, {len(self.sentence_splits) - 1:,} sentences, "
            f"{len(self.tokens):,} tokens, vocabulary of {len(self.vocabulary):,})"
        )


def _check_splits(name: str, splits: Ints, n: int) -> None:
    """Raise ValueError unless `splits` are row splits of n members."""
    is_whole = splits.ndim == 1 and splits.size and splits[0] == 0 and splits[-1] == n
    if not is_whole or (splits[1:] < splits[:-1]).any():
        raise ValueError(f"Expected splits that rise from 0 to {n}. Received: {name}={splits}")

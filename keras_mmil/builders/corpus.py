"""Texts as bags of sentences of trigrams: corpora on disk, vocabularies, and word vectors."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_mmil import text
from keras_mmil._support.atomic import replacing, write_json
from keras_mmil._support.checks import positive_int
from keras_mmil._support.nested_lists import members_of, row_splits

__all__ = ["PADDING", "UNKNOWN", "Corpus"]

PADDING, UNKNOWN = "_", "<unknown>"  # ids 0 and 1; no token is spelled like them
_BATCH = 256  # texts that are split at once
_CHUNK = 5_000  # texts whose windows are made at once
_ARRAYS = ("tokens", "sentence_splits", "text_splits", "counts")
_FORMAT = 2
_DAMAGED = "Expected a corpus as it was saved; delete the folder and make it again. Received:"


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Texts, split into sentences of tokens, with their vocabulary.

    Args:
        tokens: ids of all tokens, int32 [tokens]: 0 is padding, 1 an unknown token.
        sentence_splits: tokens `sentence_splits[s]` to `sentence_splits[s + 1]` are in sentence s,
            int64 [sentences + 1].
        text_splits: likewise the sentences of each text, int64 [texts + 1].
        vocabulary: tuple of str, the token of each id: padding, unknown, and the others by
            decreasing frequency.
        counts: how often each token occurs in the texts that the vocabulary is made of, int64.
        splitter: what found the sentences, see `keras_mmil.text.tokenize`.

    Raises:
        ValueError: if the parts do not fit together.

    Example:

    >>> corpus = Corpus.from_texts(["Not bad. Not bad at all!", "Bad"], min_count=1)
    >>> corpus.vocabulary
    ('_', '<unknown>', 'Not', 'bad', 'Bad', 'all', 'at')
    >>> corpus.trigrams()[1]
    <tf.RaggedTensor [[[0, 4, 0]]]>
    """

    tokens: np.ndarray
    sentence_splits: np.ndarray
    text_splits: np.ndarray
    vocabulary: tuple
    counts: np.ndarray
    splitter: str

    def __post_init__(self):
        n_words = len(self.vocabulary)
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
        cls, texts, min_count=2, fit_on=None, splitter="tensorflow-text", like=None, verbose=1
    ):
        """Split texts, and number their tokens.

        Args:
            texts: iterable of str or of bytes; read once, in order, never held as a whole.
            min_count: tokens that occur less often are unknown.
            fit_on: bool [texts]: which of the texts the vocabulary is made of; None for all.
            splitter: what finds the sentences, "tensorflow-text" or "core".
            like: another `Corpus`, whose vocabulary and splitter are taken over; the three
                arguments before are then not used.
            verbose: 1 for a progress bar, 0 for none.

        Raises:
            ValueError: if there are no texts, or `fit_on` is not one bool for each.
            TypeError: if a text is neither str nor bytes.
        """
        positive_int("min_count", min_count)
        if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
            raise TypeError(f"Expected an iterable of texts. Received: {type(texts).__name__}")
        splitter = splitter if like is None else like.splitter
        table, parts = {}, []
        total = len(texts) if hasattr(texts, "__len__") else None
        bar = keras.utils.Progbar(total, verbose=verbose, unit_name="text")
        for distinct, tokens, *sizes in _split_batches(texts, splitter):
            ids = [table.setdefault(token, len(table)) for token in distinct]
            parts.append((np.array(ids, np.int32)[tokens], *sizes))
            bar.add(len(sizes[1]))
        if not parts:
            raise ValueError("Expected at least one text. Received: none")
        tokens, sentence_sizes, text_sizes = map(np.concatenate, zip(*parts, strict=True))
        n_texts = len(text_sizes)
        bar.update(n_texts, finalize=True)
        sentence_splits, text_splits = map(row_splits, (sentence_sizes, text_sizes))
        if like is not None:
            ids = _look_up(list(table), like.vocabulary)
            vocabulary, counts = like.vocabulary, like.counts
            return cls(ids[tokens], sentence_splits, text_splits, vocabulary, counts, splitter)
        counted = tokens
        if fit_on is not None:
            fit_on = np.asarray(fit_on)
            if fit_on.shape != (n_texts,) or fit_on.dtype != bool:
                raise ValueError(
                    f"Expected a bool for each of {n_texts} texts. "
                    f"Received: fit_on.shape={fit_on.shape}, dtype={fit_on.dtype}"
                )
            counted = tokens[np.repeat(fit_on, np.diff(sentence_splits[text_splits]))]
        vocabulary, counts, ids = _number(list(table), counted, min_count)
        return cls(ids[tokens], sentence_splits, text_splits, vocabulary, counts, splitter)

    def trigrams(self, rows=None, window_size=3, at_most=100):
        """The texts as bags of sentences of windows over neighbouring tokens.

        Args:
            rows: indices of the texts, a slice or a mask; None for all.
            window_size: number of tokens in a window.
            at_most: of a longer sentence only the first and the last `at_most // 2` windows are
                kept; None for all.

        Returns:
            int32 RaggedTensor [texts, (sentences), (tokens), window_size].
        """
        rows = self._indices(rows)
        # Some at a time, as what is computed on the way is a multiple of the result.
        chunks = np.split(rows, range(_CHUNK, len(rows), _CHUNK))
        windows = [text.windows(self.ids(some), window_size, at_most) for some in chunks]
        return tf.concat(windows, axis=0)

    def ids(self, rows=None):
        """The ids of the tokens: int32 RaggedTensor [texts, (sentences), (tokens)]."""
        sentences, text_splits = members_of(self.text_splits, self._indices(rows))
        tokens, sentence_splits = members_of(self.sentence_splits, sentences)
        return tf.RaggedTensor.from_nested_row_splits(
            self.tokens[tokens], [text_splits, sentence_splits], validate=False
        )

    def flat_ids(self, rows=None):
        """The ids of the tokens of each text, without its sentences: yields int32 [tokens]."""
        splits = self.sentence_splits[self.text_splits]
        for row in self._indices(rows):
            yield self.tokens[splits[row] : splits[row + 1]]

    def words(self, ids):
        """The tokens of ids, a list of str."""
        return [self.vocabulary[i] for i in ids]

    def save(self, folder):
        """Write to a folder, from which `load` maps it into memory, with checksums."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name in _ARRAYS:
            with replacing(folder / f"{name}.npy") as part:
                np.save(part, getattr(self, name), allow_pickle=False)
        # Last, because its presence says that the rest is complete.
        about = {"format": _FORMAT, "splitter": self.splitter, "vocabulary": list(self.vocabulary)}
        about["checksums"] = {name: _checksum(folder, name) for name in _ARRAYS}
        write_json(folder / "corpus.json", about | {"checksum": _checksum_of_json(about)})

    @classmethod
    def load(cls, folder):
        """Map a saved corpus into memory.

        Raises:
            FileNotFoundError: if there is none, or it is incomplete.
            ValueError: if it is of another version, or a byte is not as it was saved.
        """
        folder = Path(folder)
        try:
            about = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
            version, checksum = about["format"], about.pop("checksum", None)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{_DAMAGED} {folder / 'corpus.json'} ({error})") from error
        if version != _FORMAT:
            raise ValueError(
                f"Expected a corpus of format {_FORMAT}; make it again. "
                f"Received: {folder} of format {version}"
            )
        if checksum != _checksum_of_json(about):
            raise ValueError(f"{_DAMAGED} {folder / 'corpus.json'} with another checksum")
        for name in _ARRAYS:
            if _checksum(folder, name) != about["checksums"][name]:
                raise ValueError(f"{_DAMAGED} {folder / name}.npy with another checksum")
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in _ARRAYS
        }
        return cls(**arrays, vocabulary=tuple(about["vocabulary"]), splitter=about["splitter"])

    def _indices(self, rows):
        return np.arange(len(self))[slice(None) if rows is None else rows]

    def __len__(self):
        return len(self.text_splits) - 1

    def __repr__(self):
        return (
            f"Corpus({len(self):,} texts, {len(self.sentence_splits) - 1:,} sentences, "
            f"{len(self.tokens):,} tokens, vocabulary of {len(self.vocabulary):,})"
        )


def _check_splits(name, splits, n):
    """Raise ValueError unless `splits` part n things into bags, in order."""
    is_whole = splits.ndim == 1 and splits.size and splits[0] == 0 and splits[-1] == n
    if not is_whole or (splits[1:] < splits[:-1]).any():
        raise ValueError(f"Expected splits that rise from 0 to {n}. Received: {name}={splits}")


def _checksum(folder, name):
    with open(folder / f"{name}.npy", "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum_of_json(content):
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _split_batches(texts, splitter):
    """Distinct tokens, the index among them of each token, and the sizes of sentences and texts."""

    def split(batch):
        tokens = text.tokenize(batch, splitter)  # (texts, (sentences), (tokens))
        distinct, index = tf.unique(tokens.flat_values)
        return distinct, index, tokens.values.row_lengths(), tokens.row_lengths()

    errors = []

    def checked():
        try:
            yield from map(text.as_bytes, texts)
        except Exception as error:  # which TensorFlow would turn into one of its own
            errors.append(error)

    dataset = tf.data.Dataset.from_generator(checked, output_signature=tf.TensorSpec((), tf.string))
    dataset = dataset.batch(_BATCH).map(split, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    yield from dataset.as_numpy_iterator()
    if errors:
        raise errors[0]


def _number(tokens, occurrences, min_count):
    """Vocabulary, its counts, and the id of each of `tokens`; what is rare is unknown."""
    counts = np.bincount(occurrences, minlength=len(tokens))
    known = [i for i in range(len(tokens)) if counts[i] >= min_count]
    known.sort(key=lambda i: (-counts[i], tokens[i]))
    ids = np.ones(len(tokens), np.int32)
    ids[known] = np.arange(2, len(known) + 2)
    vocabulary = (PADDING, UNKNOWN, *(tokens[i].decode() for i in known))
    unknown = len(occurrences) - counts[known].sum()
    return vocabulary, np.array([0, unknown, *counts[known]]), ids


def _look_up(tokens, vocabulary):
    """The id of each of `tokens`, which are bytes."""
    known = {token.encode(): i for i, token in enumerate(vocabulary)}
    return np.array([known.get(token, 1) for token in tokens], np.int32)

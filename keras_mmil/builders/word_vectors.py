"""Word vectors: trained on a corpus, or read from a file, by gensim."""

import codecs
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import StandardScaler

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import Array, Ints, PathLike
from keras_mmil.builders.corpus import Corpus, Rows

__all__ = ["read", "standardize", "train"]

_LARGEST = 1e15  # whose squares, summed over a vocabulary, fit in float32


def train(
    corpus: Corpus,
    rows: Rows = None,
    size: int = 100,
    window: int = 10,
    epochs: int = 5,
    workers: int = 2,
    seed: int = 0,
    verbose: int = 1,
) -> npt.NDArray[np.float32]:
    """Train word vectors on a corpus by word2vec (skip-gram with negative sampling).

    A text is one sequence of tokens, regardless of sentences. With several workers, results vary
    slightly, whatever the seed.

    Args:
        corpus: a `Corpus`.
        rows: indices of the training texts, a slice or a mask; None for all.
        size: dimension of a vector.
        window: greatest distance between a word and one that it predicts.
        epochs: number of passes over the corpus.
        workers: number of threads.
        seed: of the initial vectors.
        verbose: 1 for a progress bar, 0 for none.

    Returns:
        float32 [vocabulary, size]. All unknown tokens share the vector of id 1; the padding, id 0,
        has one nearly orthogonal to all words, and of their mean length.

    Raises:
        ValueError: if there is no token to train on.
        ImportError: if gensim is not installed.

    Reference:
        Mikolov et al., Distributed Representations of Words and Phrases and their Compositionality,
        2013. The paper trained GloVe vectors instead.
    """
    gensim = _gensim()
    for name, value in {"size": size, "window": window, "epochs": epochs}.items():
        positive_int(name, value)
    if not any(map(len, corpus.flat_ids(rows))):
        raise ValueError("Expected texts with at least one token. Received: none")
    names = np.arange(len(corpus.vocabulary)).astype(str).astype(object)
    bar = keras.utils.Progbar(epochs, verbose=verbose, unit_name="epoch")

    # gensim has no types, and is imported above.
    class Progress(gensim.models.callbacks.CallbackAny2Vec):  # type: ignore[name-defined]
        def on_epoch_end(self, model: Any) -> None:
            bar.add(1)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        # On a file, gensim's threads train without Python's lock.
        with open(path, "w", encoding="ascii") as file:
            file.writelines(" ".join(names[text]) + "\n" for text in corpus.flat_ids(rows))
        model = gensim.models.Word2Vec(
            corpus_file=str(path),
            vector_size=size,
            window=window,
            epochs=epochs,
            sg=1,
            min_count=1,
            workers=workers,
            seed=seed,
            callbacks=[Progress()],
        )
    trained = np.array(model.wv.index_to_key, np.int64)
    vectors = np.zeros((len(names), size), np.float32)
    vectors[trained] = model.wv.vectors
    return _complete(vectors, np.isin(np.arange(len(names)), trained))


def read(
    path: PathLike,
    vocabulary: Sequence[str],
    size: int = 100,
    binary: bool = False,
    verbose: int = 1,
) -> npt.NDArray[np.float32]:
    """Read the vectors of a vocabulary from a file in the format of GloVe or word2vec.

    Args:
        path: text file, with or without a first line of sizes; or a binary file.
        vocabulary: that of a `Corpus`.
        size: dimension of a vector.
        binary: whether the file is in word2vec's binary format.
        verbose: 1 to print how many words were found, 0 for no output.

    Returns:
        float32 [vocabulary, size]. Unknown tokens and words that are not in the file have the mean
        of the others; the padding is as from `train`. The first vector of a repeated word is used.

    Raises:
        ValueError: if the vectors have another size, or the file is damaged or has no word of the
            vocabulary.
        ImportError: if gensim is not installed.
    """
    gensim = _gensim()
    try:
        has_header = _check_header(path, binary)
        loaded = gensim.models.KeyedVectors.load_word2vec_format(
            str(path), binary=binary, no_header=not has_header
        )
    except (ValueError, TypeError, EOFError, IndexError, MemoryError, OverflowError) as error:
        raise ValueError(
            f"Expected a file of word vectors, in the format of GloVe or of word2vec. "
            f"Received: {path} ({error})"
        ) from error
    if loaded.vector_size != size:
        raise ValueError(
            f"Expected vectors of size {size}. Received: {path} with size {loaded.vector_size}"
        )
    ids = [i for i, word in enumerate(vocabulary) if i > 1 and word in loaded.key_to_index]
    if not ids:
        raise ValueError(f"Expected words of the vocabulary. Received: {path} with none of them")
    vectors = np.zeros((len(vocabulary), size), np.float32)
    vectors[ids] = loaded[[vocabulary[i] for i in ids]]
    if not (np.abs(vectors) < _LARGEST).all():  # nor NaN
        raise ValueError(
            f"Expected finite vectors. Received: {path} with NaN or infinity, or numbers above "
            f"{_LARGEST:g}"
        )
    if verbose:
        print(f"{len(ids):,} of {len(vocabulary) - 2:,} words have a vector in {path}")
    return _complete(vectors, np.isin(np.arange(len(vocabulary)), ids))


def standardize(vectors: Array, counts: Ints) -> npt.NDArray[np.float32]:
    """Shift and scale each dimension to mean 0 and standard deviation 1 over the occurrences.

    Args:
        vectors: [vocabulary, size].
        counts: the number of occurrences of each word, [vocabulary].

    Returns:
        float32 [vocabulary, size], with the padding again as from `train`.

    Reference:
        Miyato, Dai and Goodfellow, Adversarial Training Methods for Semi-Supervised Text
        Classification, 2017.
    """
    vectors = vectors.astype(float)
    scaled = StandardScaler().fit(vectors, sample_weight=counts).transform(vectors)
    return _complete(scaled.astype(np.float32), np.arange(len(vectors)) > 0)


def _complete(vectors: Array, known: npt.NDArray[np.bool_]) -> Array:
    """Set the vector of the padding, and those of unknown words to the mean of the others."""
    known = known & (np.arange(len(vectors)) > 0)
    vectors = np.where(known[:, None], vectors, vectors[known].mean(axis=0))
    # The direction along which words are closest to 0.
    direction = np.linalg.eigh(vectors[known].T @ vectors[known])[1][:, 0]
    vectors[0] = direction * np.linalg.norm(vectors[known], axis=1).mean()
    return vectors


def _check_header(path: PathLike, binary: bool) -> bool:
    """Whether the file begins with a line of sizes, which must match the file."""
    with open(path, "rb") as file:
        first = file.readline()
        if first.startswith(codecs.BOM_UTF8):
            raise ValueError("a byte-order mark, which would be part of the first word")
        if not binary and len(first.split()) != 2:
            return False
        n_words, size = map(int, first.split())
        n_bytes = os.fstat(file.fileno()).st_size
        # A text has at least a blank and a digit for each number.
        if n_words * size * (4 if binary else 2) > n_bytes:
            raise ValueError(f"{n_words} vectors of size {size} in {n_bytes} bytes")
        if not binary and (n_lines := sum(map(bool, map(bytes.strip, file)))) != n_words:
            raise ValueError(f"{n_lines} lines instead of {n_words}")
    return True


def _gensim() -> Any:
    try:
        import gensim
    except ImportError as error:
        raise ImportError(
            "Expected gensim for word vectors, `pip install keras-mmil[text]`."
        ) from error
    return gensim

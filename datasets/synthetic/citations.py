"""Made-up citation networks."""

import numpy as np
import tensorflow as tf

from keras_mmil._support.rows import row_splits
from keras_mmil.builders import graphs
from keras_mmil.datasets.citations import Citations

__all__ = ["load_citations"]


def load_citations(n_papers: int = 400, n_words: int = 60, seed: int = 0) -> Citations:
    """A citation network of papers on three subjects, with all kinds of splits.

    A third of a paper's words are specific to its subject, and three quarters of its citations are
    of papers on the same subject.

    Args:
        n_papers: number of papers, at least 60: a fifth for training, and a fifth for validation.
        n_words: size of the vocabulary, at least 6; half the words are specific to a subject.
        seed: integer.

    Raises:
        ValueError: if an argument is out of range.
    """
    if n_papers < 60 or n_words < 6:
        raise ValueError(
            f"Expected at least 60 papers and 6 words. Received: {n_papers=}, {n_words=}"
        )
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n_papers) % 3)
    lengths = rng.integers(5, 16, n_papers)
    owner = np.repeat(labels, lengths)
    is_special = rng.random(len(owner)) < 1 / 3
    own = n_words // 6  # words of a subject
    words = np.where(
        is_special,
        owner * own + rng.integers(0, own, len(owner)),
        rng.integers(3 * own, n_words, len(owner)),
    )
    citing = np.repeat(np.arange(n_papers), rng.integers(1, 4, n_papers))
    of_class = [np.flatnonzero(labels == subject) for subject in range(3)]
    same = np.array([rng.choice(of_class[labels[paper]]) for paper in citing])
    cited = np.where(rng.random(len(citing)) < 0.75, same, rng.integers(0, n_papers, len(citing)))
    fifth = n_papers // 5
    train, valid, test = np.split(rng.permutation(n_papers), [fifth, 2 * fifth])
    return Citations(
        words=tf.RaggedTensor.from_row_splits(words.astype(np.int32), row_splits(lengths)),
        n_words=n_words,
        labels=labels,
        edges=graphs.adjacency(np.stack([citing, cited], axis=1), n_nodes=n_papers),
        class_names=("astronomy", "botany", "chess"),
        sizes=(len(train), len(valid), len(test)),
        transductive=(train, valid, test),
        years=1990 + np.arange(n_papers) * 10 // n_papers,
        until=(1991, 1993),
    )

"""Citation networks: papers, their words, and the papers they cite (paper, "Citation Datasets").

Cora, CiteSeer and PubMed in the form of Planetoid: a paper is a bag of words, and its top-bag holds
it and what it cites or is cited by. Citations go both ways.

Reference: Sen et al., Collective Classification in Network Data, 2008; Yang et al., Revisiting
Semi-Supervised Learning with Graph Embeddings, 2016 (the files and the transductive split).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
import tensorflow as tf

from keras_mmil._support.splits import row_splits
from keras_mmil.bags import Bags
from keras_mmil.builders import graphs
from keras_mmil.datasets._io import files, planetoid

__all__ = ["NAMES", "Citations", "load", "read", "synthetic", "visible"]

# Papers for training, validation and test in the paper's random and temporal splits, the years in
# which the first two of the latter end, and the classes in the order of the files.
_KNOWN = {
    "cora": (
        (1040, 447, 1221),
        (1994, 1995),
        (
            "theory",
            "reinforcement learning",
            "genetic algorithms",
            "neural networks",
            "probabilistic methods",
            "case based",
            "rule learning",
        ),
    ),
    "citeseer": (
        (1560, 779, 988),
        (1999, 2000),
        (
            "artificial intelligence",
            "machine learning",
            "information retrieval",
            "databases",
            "agents",
            "human-computer interaction",
        ),
    ),
    "pubmed": (
        (8289, 3087, 8341),
        (1997, 2001),
        ("experimental diabetes", "diabetes type 1", "diabetes type 2"),
    ),
}
NAMES = tuple(_KNOWN)


@dataclass(frozen=True, eq=False)
class Citations:
    """A citation network, or another graph whose nodes are bags of words.

    Attributes:
        words: int32 RaggedTensor [papers, (words)] of the words of each paper, ids from 0.
        n_words: size of the vocabulary.
        labels: int64 [papers], the class of each; -1 where nobody knows it.
        links: CSR array of bool [papers, papers], both ways; `builders.graphs.adjacency` makes it.
        weights: float32 RaggedTensor like `words` of their TF-IDF weights; None where words are a
            set.
        class_names: names of the classes; None if nobody knows them.
        sizes: numbers of papers for training, validation and test in a random split.
        transductive: int64 arrays of the papers for training, validation and test of Planetoid.
        years: int64 [papers], when each was published, and
        until: the last years of training and of validation, for the temporal split.

    Raises:
        ValueError: if the parts do not fit together.
    """

    words: tf.RaggedTensor
    n_words: int
    labels: np.ndarray
    links: sparse.csr_array
    weights: tf.RaggedTensor | None = None
    class_names: tuple | None = None
    sizes: tuple | None = None
    transductive: tuple | None = None
    years: np.ndarray | None = None
    until: tuple | None = None

    def __post_init__(self):
        n = int(self.words.nrows())
        if self.links.shape != (n, n) or np.shape(self.labels) != (n,):
            raise ValueError(
                f"Expected links [{n}, {n}] and labels [{n}] for the words of {n} papers. "
                f"Received: links.shape={self.links.shape}, labels.shape={np.shape(self.labels)}"
            )
        if not (self.labels >= 0).any():
            raise ValueError("Expected papers whose class is known. Received: labels, all negative")
        largest = int(self.words.values.numpy().max(initial=-1))
        if largest >= self.n_words:
            raise ValueError(
                f"Expected ids of words below {self.n_words}, the size of the vocabulary. "
                f"Received: words with {largest}"
            )

    @property
    def n_classes(self):
        """Number of classes."""
        return int(self.labels.max()) + 1

    def split(self, kind="random", seed=0, years=None, until=None):
        """Papers for training, validation and test.

        Args:
            kind: "transductive", Planetoid's; "random", as many as in the paper's table, the rest
                for test; or "temporal", by years of publication.
            seed: of the random split.
            years, until: for the temporal split, in place of the network's own.

        Returns:
            Three int64 arrays. Papers of unknown class are in none of them.

        Raises:
            ValueError: for another kind, or what it needs is missing, or leaves a part empty.
        """
        known = self.labels >= 0
        if kind == "transductive" and self.transductive is not None:
            return tuple(part[known[part]] for part in self.transductive)
        if kind == "random" and self.sizes is not None:
            papers = np.random.default_rng(seed).permutation(np.flatnonzero(known))
            return tuple(np.split(papers, np.cumsum(self.sizes[:2])))
        if kind != "temporal":
            raise ValueError(
                "Expected 'transductive', 'random' or 'temporal', and a network that says what is "
                f"in the parts. Received: kind={kind!r}, transductive={self.transductive}, "
                f"sizes={self.sizes}"
            )
        years = self.years if years is None else years
        years = np.asarray([] if years is None else years)
        until = self.until if until is None else until
        if years.shape != self.labels.shape or until is None or not until[0] < until[1]:
            raise ValueError(
                f"Expected years of {len(self.labels)} papers, which Planetoid does not have, and "
                f"two that part them. Received: years.shape={years.shape}, until={until!r}"
            )
        which = np.searchsorted(until, years)  # 0: years ≤ until[0]
        parts = tuple(np.flatnonzero(known & (which == part)) for part in range(3))
        if not all(map(len, parts)):
            raise ValueError(
                "Expected papers in all three parts. "
                f"Received: until={until!r} with {[len(part) for part in parts]} papers"
            )
        return parts

    def bags(self, papers, visible=None):
        """The bag of each paper: itself, and the papers it cites or is cited by.

        Args:
            papers: int array [n].
            visible: papers that may be in bags, besides each in its own; None for all.

        Returns:
            int64 RaggedTensor [n, (papers)].
        """
        links = self.links if visible is None else graphs.among(self.links, visible)
        return graphs.neighbourhoods(links, papers)

    def word_bags(self, papers, visible=None, depth=2):
        """The words of the papers in the bag of each paper.

        Args:
            papers, visible: as for `bags`.
            depth: 2 for bags of papers which are bags of words; 1 for bags of all their words.

        Returns:
            `Bags` [n, (papers), (words)], or [n, (words)].
        """
        bags = self.bags(papers, visible)
        words, weights = (
            None if of_papers is None else tf.gather(of_papers, bags)
            for of_papers in (self.words, self.weights)
        )
        if depth == 1:
            words = words.merge_dims(1, 2)
            weights = None if weights is None else weights.merge_dims(1, 2)
        return Bags.from_ragged(words, weights)

    def parts(self, kind="random", seed=0, depth=2, limit=None):
        """Bags of words for training, validation and test.

        In the transductive split, bags hold all neighbours. In the others, which are inductive,
        later papers are not known yet: the bag of a training paper holds training papers only, that
        of a validation paper also validation papers, and that of a test paper all.

        Args:
            kind, seed: as for `split`.
            depth: as for `word_bags`.
            limit: greatest number of papers in each part; None for all.

        Returns:
            Three pairs of `Bags` and their labels.
        """
        parts = self.split(kind, seed)
        return tuple(
            (self.word_bags(part[:limit], seen, depth), self.labels[part[:limit]])
            for part, seen in zip(parts, visible(kind, parts), strict=True)
        )


def visible(kind, parts):
    """The papers that bags of each part of a split may hold, besides each in its own.

    Args:
        kind: "transductive", where all may be; or another, where later parts are unknown.
        parts: arrays of the papers in each part, as `Citations.split` returns them.

    Returns:
        A list of arrays, or of None for all.
    """
    if kind == "transductive":
        return [None] * len(parts)
    return [np.concatenate(parts[: i + 1]) for i in range(len(parts))]


def load(name):
    """Read a citation network.

    Args:
        name: "cora", "citeseer" or "pubmed".

    Returns:
        `Citations`. It has years where there is a file `planetoid/<name>.years` with the year of
        each paper, a line each, which Planetoid does not have.

    Raises:
        FileNotFoundError: if a file is not there and cannot be downloaded.
        ValueError: if there is no such network, or a file does not have the checksum of the
            official one (that of PubMed's `allx` is not known).
    """
    if name not in NAMES:
        raise ValueError(f"Expected one of {', '.join(NAMES)}. Received: name={name!r}")
    sizes, until, class_names = _KNOWN[name]
    fields = planetoid.read(planetoid.find(name))
    years = planetoid.years(files.find_local(f"planetoid/{name}.years"), len(fields["labels"]))
    return Citations(**fields, class_names=class_names, sizes=sizes, years=years, until=until)


def read(folder, name):
    """Read a network of your own from files in the form of Planetoid.

    Args:
        folder: where they are: `ind.<name>.x`, `y`, `tx`, `ty`, `allx`, `ally`, `graph` and
            `test.index`, and maybe `<name>.years`.
        name: of the network.

    Returns:
        `Citations` without names of classes, and without sizes of a random split;
        `dataclasses.replace` adds them.

    Raises:
        FileNotFoundError: if a file is not there.
        ValueError: if a file is damaged, as far as can be told without a checksum, or holds what it
            should not.
    """
    fields = planetoid.read(planetoid.find_own(folder, name))
    years = planetoid.years(Path(folder) / f"{name}.years", len(fields["labels"]))
    return Citations(**fields, years=years)


def synthetic(n_papers=400, n_words=60, seed=0):
    """A made-up network of three subjects, each of which has words of its own.

    A third of a paper's words are of its subject, and so are three in four of its citations.

    Args:
        n_papers: number of papers, at least 60: a fifth for training, and a fifth for validation.
        n_words: size of the vocabulary, at least 6; half the words belong to a subject.
        seed: integer.

    Returns:
        `Citations`, with all three kinds of splits.

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
    parts = np.split(rng.permutation(n_papers), [fifth, 2 * fifth])
    return Citations(
        tf.RaggedTensor.from_row_splits(words.astype(np.int32), row_splits(lengths)),
        n_words,
        labels,
        graphs.adjacency(np.stack([citing, cited], axis=1), n_nodes=n_papers),
        class_names=("astronomy", "botany", "chess"),
        sizes=tuple(map(len, parts)),
        transductive=tuple(parts),
        years=1990 + np.arange(n_papers) * 10 // n_papers,
        until=(1991, 1993),
    )

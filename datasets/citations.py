"""Citation networks: papers, their words, and the papers they cite (paper, "Citation Datasets").

Cora, CiteSeer and PubMed in the format of Planetoid: a paper is a bag of words, and its top-bag
contains the paper itself and those it cites or is cited by.

Reference: Sen et al., Collective Classification in Network Data, 2008; Yang et al., Revisiting
Semi-Supervised Learning with Graph Embeddings, 2016 (the files and the transductive split).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
import tensorflow as tf

from keras_mmil._support.types import Array, Ints, PathLike
from keras_mmil.bags import Bags
from keras_mmil.builders import graphs
from keras_mmil.datasets._io import files, planetoid

__all__ = ["ALL_VISIBLE", "NAMES", "Citations", "Walk", "load", "read", "visible"]

# Papers for training, validation and test in the paper's random and temporal splits, the last years
# of training and of validation in the latter, and the classes in the order of the files.
_KNOWN = {
    "cora": (
        (1040, 447, 1221),
        (1994, 1995),
        "theory, reinforcement learning, genetic algorithms, neural networks, "
        "probabilistic methods, case based, rule learning",
    ),
    "citeseer": (
        (1560, 779, 988),
        (1999, 2000),
        "artificial intelligence, machine learning, information retrieval, databases, agents, "
        "human-computer interaction",
    ),
    "pubmed": (
        (8289, 3087, 8341),
        (1997, 2001),
        "experimental diabetes, diabetes type 1, diabetes type 2",
    ),
}
NAMES = tuple(_KNOWN)
"""The networks that `load` knows."""
Walk: TypeAlias = Mapping[str, Any]
"""Arguments of `builders.graphs.walk_neighbourhoods`, by name."""
ALL_VISIBLE = ("transductive", "scarce")
"""The splits with few labels, in which all papers and citations are visible."""


@dataclass(frozen=True, eq=False)
class Citations:
    """A citation network, or another graph whose nodes are bags of words.

    Attributes:
        words: int32 RaggedTensor [papers, (words)] of the words of each paper, ids from 0.
        n_words: size of the vocabulary.
        labels: int64 [papers], the class of each; -1 where it is not known.
        edges: symmetric adjacency matrix of the citations, CSR array of bool [papers, papers], as
            made by `builders.graphs.adjacency`.
        weights: float32 RaggedTensor like `words` of their TF-IDF weights; None for sets of words.
        class_names: names of the classes; None if they are not known.
        sizes: numbers of papers for training, validation and test in a random split.
        transductive: int64 arrays of the papers for training, validation and test of Planetoid.
        years: int64 [papers], the year in which each was published, for the temporal split.
        until: the last years of training and of validation in that split.

    Raises:
        ValueError: if the parts are inconsistent.
    """

    words: tf.RaggedTensor
    n_words: int
    labels: npt.NDArray[np.int64]
    edges: sparse.csr_array
    weights: tf.RaggedTensor | None = None
    class_names: tuple[str, ...] | None = None
    sizes: tuple[int, int, int] | None = None
    transductive: tuple[Ints, Ints, Ints] | None = None
    years: npt.NDArray[np.int64] | None = None
    until: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        n = int(self.words.nrows())
        if self.edges.shape != (n, n) or np.shape(self.labels) != (n,):
            raise ValueError(
                f"Expected edges [{n}, {n}] and labels [{n}] for the words of {n} papers. "
                f"Received: edges.shape={self.edges.shape}, labels.shape={np.shape(self.labels)}"
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
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    def split(
        self,
        kind: str = "random",
        seed: int = 0,
        years: npt.ArrayLike | None = None,
        until: tuple[int, int] | None = None,
    ) -> tuple[Ints, ...]:
        """Papers for training, validation and test.

        Args:
            kind: "transductive", the split of Planetoid, with equally many training papers of each
                class; "scarce", a random split of the same sizes; "random", of the sizes in the
                paper's table; or "temporal", by years of publication.
            seed: of the random splits.
            years, until: for the temporal split, in place of the network's own.

        Returns:
            Three int64 arrays, without papers of unknown class.

        Raises:
            ValueError: if there is no such kind, the network lacks its data, or a part is empty.
        """
        known = self.labels >= 0
        if kind == "transductive" and self.transductive is not None:
            return tuple(part[known[part]] for part in self.transductive)
        sizes: tuple[int, ...] | None = self.sizes if kind == "random" else None
        if kind == "scarce" and self.transductive is not None:
            sizes = tuple(len(part) for part in self.transductive)
        if sizes is not None:
            papers = np.random.default_rng(seed).permutation(np.flatnonzero(known))
            return tuple(np.split(papers, np.cumsum(sizes))[:3])
        if kind != "temporal":
            raise ValueError(
                "Expected 'transductive', 'scarce', 'random' or 'temporal', and a network that "
                f"says what is in the parts. Received: kind={kind!r}, "
                f"transductive={self.transductive}, sizes={self.sizes}"
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

    def bags(
        self,
        papers: npt.ArrayLike,
        visible: npt.ArrayLike | None = None,
        walk: Walk | None = None,
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """The bag of each paper: itself, and the papers it cites or is cited by.

        Args:
            papers: int array [n].
            visible: papers that may be in the bags of others; None for all.
            walk: arguments of `builders.graphs.walk_neighbourhoods`, for bags of the papers where
                random walks end; None for the neighbours.

        Returns:
            int64 RaggedTensor [n, (papers)], and a float32 one of their weights, 1 without a walk.
        """
        edges = self.edges
        if visible is not None:
            edges = graphs.induced_subgraph(edges, visible)
        if walk is not None:
            return graphs.walk_neighbourhoods(edges, papers, **walk)
        bags = graphs.neighbourhoods(edges, papers)
        return bags, tf.ones_like(bags, tf.float32)

    def word_bags(
        self,
        papers: npt.ArrayLike,
        visible: npt.ArrayLike | None = None,
        depth: int = 2,
        walk: Walk | None = None,
    ) -> Bags:
        """The words of the papers in the bag of each paper: `Bags` [n, (papers), (words)].

        Args:
            papers, visible, walk: as for `bags`.
            depth: 2 for bags of papers, which are bags of words; 1 for [n, (words)].
        """
        bags, paper_weights = self.bags(papers, visible, walk)
        words = tf.gather(self.words, bags)
        weights = tf.ones_like(words, tf.float32)
        if self.weights is not None:
            weights = tf.gather(self.weights, bags)
        if depth == 2:
            return Bags.from_ragged(words, weights, level_weights=[paper_weights])
        of_words = tf.repeat(paper_weights.values, words.values.row_lengths())
        weights = weights.with_flat_values(weights.flat_values * of_words)
        return Bags.from_ragged(words.merge_dims(1, 2), weights.merge_dims(1, 2))

    def parts(
        self,
        kind: str = "random",
        seed: int = 0,
        depth: int = 2,
        limit: int | None = None,
        walk: Walk | None = None,
    ) -> tuple[tuple[Bags, Array], ...]:
        """Bags of words for training, validation and test.

        In the transductive and the scarce split, bags contain all neighbours. In the others, which
        are inductive, those of training papers contain only training papers, those of validation
        papers also validation papers, and those of test papers all.

        Args:
            kind, seed: as for `split`.
            depth: as for `word_bags`.
            limit: greatest number of papers in each part; None for all.
            walk: as for `bags`.

        Returns:
            Three pairs of `Bags` and their labels.
        """
        parts = self.split(kind, seed)
        return tuple(
            (self.word_bags(part[:limit], seen, depth, walk), self.labels[part[:limit]])
            for part, seen in zip(parts, visible(kind, parts), strict=True)
        )


def visible(kind: str, parts: Sequence[Ints]) -> list[Ints] | list[None]:
    """The papers that may be in the bags of others, for each part of `Citations.split`.

    They are those of the part and of earlier ones; or None, for all, in the splits `ALL_VISIBLE`.
    """
    if kind in ALL_VISIBLE:
        return [None] * len(parts)
    return [np.concatenate(parts[: i + 1]) for i in range(len(parts))]


def load(name: str) -> Citations:
    """Read a citation network.

    Args:
        name: "cora", "citeseer" or "pubmed".

    Returns:
        `Citations`. It has years if there is a file `planetoid/<name>.years`, which Planetoid does
        not provide, with the year of one paper a line.

    Raises:
        FileNotFoundError: if a file is not there and cannot be downloaded.
        ValueError: if there is no such network, or a file does not have the official checksum
            (that of PubMed's `allx` is not known).
    """
    if name not in NAMES:
        raise ValueError(f"Expected one of {', '.join(NAMES)}. Received: name={name!r}")
    sizes, until, class_names = _KNOWN[name]
    fields = planetoid.read(planetoid.find(name))
    years = planetoid.years(files.find_local(f"planetoid/{name}.years"), len(fields["labels"]))
    names = tuple(class_names.split(", "))
    return Citations(**fields, class_names=names, sizes=sizes, years=years, until=until)


def read(folder: PathLike, name: str) -> Citations:
    """Read a network of your own from files in the format of Planetoid.

    Args:
        folder: of the files `ind.<name>.x`, `y`, `tx`, `ty`, `allx`, `ally`, `graph` and
            `test.index`, and optionally `<name>.years`.
        name: of the network.

    Returns:
        `Citations` without class names and sizes of a random split, which `dataclasses.replace`
        can add.

    Raises:
        FileNotFoundError: if a file is not there.
        ValueError: if a file is damaged or has other contents.
    """
    fields = planetoid.read(planetoid.find_own(folder, name))
    years = planetoid.years(Path(folder) / f"{name}.years", len(fields["labels"]))
    return Citations(**fields, years=years)

"""Citation networks: papers, their words, and the papers they cite (paper, "Citation Datasets").

Cora, CiteSeer and PubMed in the form of Planetoid: a paper is a bag of words, and its top-bag holds
it and what it cites or is cited by. Citations go both ways.

Reference: Sen et al., Collective Classification in Network Data, 2008; Yang et al., Revisiting
Semi-Supervised Learning with Graph Embeddings, 2016 (the files and the transductive split).
"""

import pickle
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
import tensorflow as tf

from keras_mmil._nested_lists import row_splits
from keras_mmil.datasets import _files, graphs

__all__ = ["Citations", "load"]

_URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
_N_VALID = 500  # of the transductive split
# Papers for training, validation and test in the paper's random and temporal splits.
_SIZES = {"cora": (1040, 447, 1221), "citeseer": (1560, 779, 988), "pubmed": (8289, 3087, 8341)}


@dataclass(frozen=True, eq=False)
class Citations:
    """A citation network.

    Attributes:
        words: int32 RaggedTensor [papers, (words)] of the words of each paper, ids from 0.
        weights: float32 RaggedTensor like it of their TF-IDF weights; None where words are a set.
        n_words: size of the vocabulary.
        labels: int64 [papers], the class of each; -1 where nobody knows it.
        links: CSR array of bool [papers, papers], both ways.
        transductive: int64 arrays of the papers for training, validation and test of Planetoid.
        sizes: numbers of papers in the parts of the paper's random and temporal splits.
    """

    words: tf.RaggedTensor
    weights: tf.RaggedTensor | None
    n_words: int
    labels: np.ndarray
    links: sparse.csr_array
    transductive: tuple
    sizes: tuple

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
            years: int array [papers], for the temporal split.
            until: the last years of training and of validation, for the temporal split.

        Returns:
            Three int64 arrays. Papers of unknown class are in none of them.

        Raises:
            ValueError: for another kind, or years that are missing or leave a part empty.
        """
        known = self.labels >= 0
        if kind == "transductive":
            return tuple(part[known[part]] for part in self.transductive)
        if kind == "random":
            papers = np.random.default_rng(seed).permutation(np.flatnonzero(known))
            return tuple(np.split(papers, np.cumsum(self.sizes[:2])))
        if kind != "temporal":
            raise ValueError(
                f"Expected 'transductive', 'random' or 'temporal'. Received: kind={kind!r}"
            )
        years = np.asarray([] if years is None else years)
        if years.shape != self.labels.shape or until is None or not until[0] < until[1]:
            raise ValueError(
                f"Expected years of {len(self.labels)} papers, and two that part them. "
                f"Received: years.shape={years.shape}, until={until!r}"
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


def load(name):
    """Read a citation network.

    Args:
        name: "cora", "citeseer" or "pubmed".

    Returns:
        `Citations`.

    Raises:
        FileNotFoundError: if a file is not there and cannot be downloaded.
        ValueError: if there is no such network, or a file is damaged, or holds what it should not.
    """
    if name not in _SIZES:
        raise ValueError(f"Expected one of {', '.join(_SIZES)}. Received: name={name!r}")
    parts = {part: _read(name, part) for part in _PARTS}
    return _assemble(parts, _SIZES[name], f"ind.{name}.*")


def _assemble(parts, sizes, source):
    """The network of the contents of Planetoid's files."""
    n_train, n_known = parts["x"].shape[0], parts["allx"].shape[0]
    index = parts["test.index"]
    n = max(len(parts["graph"]), int(index.max()) + 1)
    if (
        len(np.unique(index)) != len(index)
        or index.min() < n_known
        or len(index) != parts["tx"].shape[0]
        or n_known + int(index.max()) - int(index.min()) + 1 > n
        or not n_train <= n_known == len(parts["ally"])
        or len(index) != len(parts["ty"])
        or parts["allx"].shape[1] != parts["tx"].shape[1]
    ):
        raise ValueError(
            f"Expected files that fit together, with test papers from {n_known} up. Received: "
            f"{source} with {len(index)} test papers from {index.min()} to {index.max()}, "
            f"{parts['tx'].shape[0]} rows of words and {len(parts['ty'])} labels for them"
        )
    # Test papers stand where the index says; CiteSeer has a few that nothing is known of.
    rows = np.full(n, -1)
    rows[:n_known] = np.arange(n_known)
    rows[index] = n_known + np.arange(len(index))
    content = sparse.csr_array(sparse.vstack([parts["allx"], parts["tx"]]))
    content.sort_indices()
    one_hot = np.concatenate([parts["ally"], parts["ty"]])
    is_known = rows >= 0
    labels = np.full(n, -1, np.int64)
    labels[is_known] = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)[rows[is_known]]
    lengths = np.zeros(n, np.int64)
    lengths[is_known] = np.diff(content.indptr)[rows[is_known]]
    ordered = content[rows[is_known]]
    splits = row_splits(lengths)
    words = tf.RaggedTensor.from_row_splits(ordered.indices.astype(np.int32), splits)
    values = ordered.data.astype(np.float32)
    weights = None if (values == 1).all() else tf.RaggedTensor.from_row_splits(values, splits)
    links = [(paper, other) for paper, others in parts["graph"].items() for other in others]
    return Citations(
        words,
        weights,
        content.shape[1],
        labels,
        graphs.adjacency(np.array(links, np.int64).reshape(-1, 2), n_nodes=n),
        (np.arange(n_train), n_train + np.arange(_N_VALID), np.sort(index).astype(np.int64)),
        sizes,
    )


# Planetoid's files ------------------------------------------------------------------------------


def _read(name, part):
    file = f"ind.{name}.{part}"
    path = _files.find(f"planetoid/{file}", f"{_URL}/{file}", instructions=f"It is {_URL}/{file}.")
    if part == "test.index":
        try:
            return np.loadtxt(path, dtype=np.int64, ndmin=1)
        except ValueError as error:
            raise _damaged(path, error) from error
    with open(path, "rb") as stream:
        try:
            found = _Unpickler(stream, encoding="latin1").load()
        except Exception as error:  # whatever a damaged stream leads to
            raise _damaged(path, error) from error
    return _checked(found, part, path)


def _damaged(path, why):
    return ValueError(
        f"Expected a file of Planetoid; delete it and get it again. Received: {path} ({why})"
    )


class _Matrix:
    """Stands for SciPy's CSR matrix of old: keeps what was pickled of it, and runs nothing."""

    def __setstate__(self, state):
        self.state = state


_ALLOWED = {
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("scipy.sparse._csr", "csr_matrix"): _Matrix,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("collections", "defaultdict"): defaultdict,
}


class _Unpickler(pickle.Unpickler):
    """Makes arrays, matrices and dicts of lists, and refuses anything else."""

    def find_class(self, module, name):
        """What a pickle may name."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is neither array nor list")
        return _ALLOWED[module, name]


def _checked(found, part, path):
    """The content of a file as CSR array, array, or dict of lists."""
    if part == "graph":
        if not isinstance(found, dict) or not all(isinstance(x, list) for x in found.values()):
            raise _damaged(path, "not a dict of lists")
        return dict(found)
    if isinstance(found, _Matrix):
        state = found.state
        try:
            arrays = tuple(state[name] for name in ("data", "indices", "indptr"))
            matrix = sparse.csr_array(arrays, shape=state["_shape"])
            matrix.check_format()
            if not np.isfinite(matrix.data).all():
                raise ValueError("not finite")
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, error) from error
        return matrix
    if not isinstance(found, np.ndarray) or found.ndim != 2 or found.dtype.kind not in "iuf":
        raise _damaged(path, f"{type(found).__name__} instead of a matrix")
    return found

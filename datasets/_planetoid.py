"""Citation networks in the files of Planetoid, which are pickled: only arrays get through."""

import pickle
from collections import defaultdict

import numpy as np
import scipy.sparse as sparse
import tensorflow as tf

from keras_mmil._nested_lists import row_splits
from keras_mmil.datasets import _files, graphs

__all__ = ["read"]

_URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
_N_VALID = 500  # of the transductive split


def read(name):
    """The fields of a `Citations` that its files have.

    Args:
        name: of the network, as in the names of the files.

    Returns:
        Dict of `words`, `weights`, `n_words`, `labels`, `links` and `transductive`.

    Raises:
        FileNotFoundError: if a file is not there and cannot be downloaded.
        ValueError: if a file is damaged, or holds what it should not.
    """
    return _assemble({part: _read(name, part) for part in _PARTS}, f"ind.{name}.*")


def _assemble(parts, source):
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
    valid = np.arange(n_train, min(n_train + _N_VALID, n_known))
    return {
        "words": words,
        "weights": weights,
        "n_words": content.shape[1],
        "labels": labels,
        "links": graphs.adjacency(np.array(links, np.int64).reshape(-1, 2), n_nodes=n),
        "transductive": (np.arange(n_train), valid, np.sort(index).astype(np.int64)),
    }


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

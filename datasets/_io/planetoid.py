"""Citation networks in the files of Planetoid, which are pickled: only arrays get through."""

import hashlib
import io
import pickle
import pickletools
from collections import defaultdict
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
import tensorflow as tf

from keras_mmil._support.files import UTF_8, parse_ints
from keras_mmil._support.rows import row_splits
from keras_mmil._support.types import Array, Ints, PathLike
from keras_mmil.builders import graphs
from keras_mmil.datasets._io import files
from keras_mmil.datasets._io.planetoid_checksums import CHECKSUMS

__all__ = ["Fields", "find", "find_own", "read", "years"]

_URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
_SPARSE = ("x", "tx", "allx")
_N_VALID = 500  # of the transductive split

Contents: TypeAlias = dict[Path, bytes]
# The content of a file by its part: CSR matrices, arrays, and the dict of lists `graph`.
_Parts: TypeAlias = Mapping[str, Any]


class Fields(TypedDict):
    """The fields of a `Citations` that the files of a network have."""

    words: tf.RaggedTensor
    weights: tf.RaggedTensor | None
    n_words: int
    labels: npt.NDArray[np.int64]
    edges: sparse.csr_array
    transductive: tuple[Ints, Ints, Ints]


def find(name: str) -> Contents:
    """The contents of the official files of a network, a dict from their paths to bytes.

    Args:
        name: "cora", "citeseer" or "pubmed".

    Raises:
        FileNotFoundError: if a file is not there and cannot be downloaded.
        ValueError: if a file does not have its checksum.
    """
    contents = {}
    for part in _PARTS:
        file = f"ind.{name}.{part}"
        url = f"{_URL}/{file}"
        expected = CHECKSUMS[name].get(part)
        path = files.find(
            f"planetoid/{file}", url, expected and f"sha256:{expected}", f"It is {url}."
        )
        contents[path] = path.read_bytes()
        found = hashlib.sha256(contents[path]).hexdigest()
        if expected not in (None, found):
            raise ValueError(
                f"Expected the file of Planetoid, sha256:{expected}; delete it and get it again. A "
                f"network of your own is read by `citations.read`. Received: {path} with "
                f"sha256:{found}"
            )
    return contents


def find_own(folder: PathLike, name: str) -> Contents:
    """The contents of the files of a network in a folder, a dict from their paths to bytes."""
    paths = [Path(folder) / f"ind.{name}.{part}" for part in _PARTS]
    return {path: path.read_bytes() for path in paths}


def read(contents: Contents) -> Fields:
    """The fields of a `Citations` that the files of a network have.

    Args:
        contents: dict from the paths of the files to their bytes.

    Raises:
        ValueError: if a file is damaged, or holds what it should not.
    """
    parts = {
        part: _read(content, part, path)
        for part, (path, content) in zip(_PARTS, contents.items(), strict=True)
    }
    return _assemble(parts, str(next(iter(contents))).removesuffix("x") + "*")


def years(path: Path, n: int) -> npt.NDArray[np.int64] | None:
    """The years of n papers, int64 [n], from a file with a line for each; None if it is not there.

    Raises:
        ValueError: if it holds anything else.
    """
    if not path.is_file():
        return None
    found = _ints(path.read_bytes(), path)
    if found.shape != (n,):
        raise ValueError(f"Expected the years of {n} papers. Received: {path} with {found.size}")
    return found


def _assemble(parts: _Parts, source: str) -> Fields:
    n_train, n_known = parts["x"].shape[0], parts["allx"].shape[0]
    index, graph = parts["test.index"], parts["graph"]
    n_described = n_known + len(index)
    largest = max(index.max(initial=-1), max(graph, default=-1))
    if (
        not len(index)
        or len(np.unique(index)) != len(index)
        or index.min() < n_known
        or len(index) != parts["tx"].shape[0]
        or not n_train <= n_known == len(parts["ally"])
        or n_train != len(parts["y"])
        or len(index) != len(parts["ty"])
        or len({parts[part].shape[1] for part in ("x", "tx", "allx")}) != 1
        or len({parts[part].shape[1] for part in ("y", "ty", "ally")}) != 1
    ):
        raise ValueError(
            f"Expected files that fit together, with test papers from {n_known} up. Received: "
            f"{source} with {len(index)} test papers from {index.min(initial=largest)} to "
            f"{index.max(initial=-1)}, {parts['tx'].shape[0]} rows of words and "
            f"{len(parts['ty'])} labels for them"
        )
    # What is allocated goes by the largest number. CiteSeer describes 3,312 papers of 3,327.
    if largest >= 2 * n_described:
        raise ValueError(
            f"Expected numbers of papers most of which are described, {n_described} in all. "
            f"Received: {source} with paper {largest}"
        )
    n = int(largest) + 1
    # The index gives the rows of the test papers; of a few of CiteSeer nothing is known.
    rows = np.full(n, -1)
    rows[:n_known] = np.arange(n_known)
    rows[index] = n_known + np.arange(len(index))
    content = sparse.csr_array(sparse.vstack([parts["allx"], parts["tx"]]))
    content.sort_indices()
    one_hot = np.concatenate([parts["ally"], parts["ty"]])
    if not np.isin(one_hot, (0, 1)).all() or (one_hot.sum(axis=1) > 1).any():
        raise ValueError(f"Expected at most one class a paper, one-hot. Received: {source}")
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
    edges = [(paper, other) for paper, others in graph.items() for other in others]
    if any(not 0 <= other < n for _, other in edges):
        raise ValueError(
            f"Expected edges between papers from 0 to {n - 1}. Received: {source} with edges to "
            f"papers from {min(o for _, o in edges)} to {max(o for _, o in edges)}"
        )
    valid = np.arange(n_train, min(n_train + _N_VALID, n_known))
    return {
        "words": words,
        "weights": weights,
        "n_words": content.shape[1],
        "labels": labels,
        "edges": graphs.adjacency(np.array(edges, np.int64).reshape(-1, 2), n_nodes=n),
        "transductive": (np.arange(n_train), valid, np.sort(index).astype(np.int64)),
    }


def _read(content: bytes, part: str, path: Path) -> Any:
    if part == "test.index":
        return _ints(content, path)
    try:
        _check_memo(content)
        found = _Unpickler(io.BytesIO(content), encoding="latin1").load()
    except Exception as error:  # whatever a damaged stream leads to
        raise _damaged(path, error) from error
    return _checked(found, part, path, len(content))


def _ints(content: bytes, path: Path) -> npt.NDArray[np.int64]:
    """The ints of a text with one in each line, int64 [lines]."""
    lines = io.TextIOWrapper(io.BytesIO(content), UTF_8)
    return parse_ints(lines, 1, path)[:, 0]


def _check_memo(content: bytes) -> None:
    """Refuse a place in the unpickler's memo, which is an array, beyond the size of the file."""
    for opcode, argument, _ in pickletools.genops(content):
        is_put = opcode.name in ("PUT", "BINPUT", "LONG_BINPUT")
        if is_put and isinstance(argument, int) and argument > len(content):
            raise pickle.UnpicklingError(f"place {argument} in a file of {len(content)} bytes")


def _damaged(path: Path, why: object) -> ValueError:
    return ValueError(
        f"Expected a file of Planetoid; delete it and get it again. Received: {path} ({why})"
    )


class _Matrix:
    """Stands for SciPy's former CSR matrix: keeps its pickled state, and runs nothing."""

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Dtype:
    """Stands for NumPy's dtype: keeps its code and the order of its bytes."""

    def __init__(self, code: Any, *_: Any):
        self.code = code

    def __setstate__(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.code = state[1] + self.code


class _Array:
    """Stands for NumPy's array, whose own unpickling trusts what it reads.

    Attributes:
        array: the array, of as many numbers as there are bytes for.
    """

    def __init__(self, *_: Any):
        self.array: Array | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, content = state
        dtype = np.dtype(dtype.code)
        if dtype.kind not in "iuf":
            raise pickle.UnpicklingError(f"an array of {dtype} instead of numbers")
        content = content.encode("latin1") if isinstance(content, str) else content
        flat = np.frombuffer(content, dtype)
        self.array = flat.reshape(shape, order="F" if is_fortran else "C").copy()


_ALLOWED: dict[tuple[str, str], type] = {
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("scipy.sparse._csr", "csr_matrix"): _Matrix,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("collections", "defaultdict"): defaultdict,
}


class _Unpickler(pickle.Unpickler):
    """Makes arrays, matrices and dicts of lists, and refuses anything else."""

    def find_class(self, module: str, name: str) -> type:
        """The class that a pickle names, if it is one of those allowed."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is neither array nor list")
        return _ALLOWED[module, name]


def _checked(found: Any, part: str, path: Path, n_bytes: int) -> Any:
    """The content of a file as CSR array, array, or dict of lists."""
    if part == "graph":
        if not isinstance(found, dict) or not all(isinstance(x, list) for x in found.values()):
            raise _damaged(path, "not a dict of lists")
        papers = chain(found, chain.from_iterable(found.values()))
        if not all(type(paper) is int and paper >= 0 for paper in papers):
            raise _damaged(path, "not numbers of papers")
        if sum(map(len, found.values())) > n_bytes:  # one list many times
            raise _damaged(path, "more edges than bytes")
        return dict(found)
    if isinstance(found, _Matrix):
        state = found.state
        try:
            arrays = tuple(state[name].array for name in ("data", "indices", "indptr"))
            matrix = sparse.csr_array(arrays, shape=state["_shape"])
            matrix.check_format()
            if not np.isfinite(matrix.data).all():
                raise ValueError("not finite")
        except Exception as error:  # whatever SciPy makes of it
            raise _damaged(path, error) from error
        if part not in _SPARSE:
            raise _damaged(path, "a sparse matrix instead of an array")
        return matrix
    array = getattr(found, "array", None)
    if array is None or array.ndim != 2 or part in _SPARSE:
        raise _damaged(path, f"{type(found).__name__.strip('_')} instead of a matrix")
    return array

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

__all__ = ["Fields", "find", "find_own", "read", "years"]

_URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
_SPARSE = ("x", "tx", "allx")
_N_VALID = 500  # of the transductive split

# SHA-256; that of the `allx` of PubMed is not known.
_CHECKSUMS: dict[str, dict[str, str]] = {
    "cora": {
        "x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
        "y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
        "tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
        "ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
        "allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
        "ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
        "graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
        "test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    },
    "citeseer": {
        "x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
        "y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
        "tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
        "ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
        "allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
        "ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
        "graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
        "test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    },
    "pubmed": {
        "x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
        "y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
        "tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
        "ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
        "ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
        "graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
        "test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    },
}

Contents: TypeAlias = dict[Path, bytes]
# Contents by part: CSR matrices, arrays, and the dict of lists `graph`.
_Parts: TypeAlias = Mapping[str, Any]


class Fields(TypedDict):
    """The fields of a `Citations` that are in the files of a network."""

    words: tf.RaggedTensor
    weights: tf.RaggedTensor | None
    n_words: int
    labels: npt.NDArray[np.int64]
    edges: sparse.csr_array
    transductive: tuple[Ints, Ints, Ints]


def find(name: str) -> Contents:
    """The contents of the official files of a network; ValueError for another checksum."""
    contents = {}
    for part in _PARTS:
        file = f"ind.{name}.{part}"
        url = f"{_URL}/{file}"
        expected = _CHECKSUMS[name].get(part)
        path = files.find(
            f"planetoid/{file}", url, expected and f"sha256:{expected}", f"It is {url}."
        )
        contents[path] = path.read_bytes()
        checksum = hashlib.sha256(contents[path]).hexdigest()
        if expected not in (None, checksum):
            raise ValueError(
                f"Expected the file of Planetoid, sha256:{expected}; delete it and get it again. A "
                f"network of your own is read by `citations.read`. Received: {path} with "
                f"sha256:{checksum}"
            )
    return contents


def find_own(folder: PathLike, name: str) -> Contents:
    """The contents of the files of a network in a folder."""
    paths = [Path(folder) / f"ind.{name}.{part}" for part in _PARTS]
    return {path: path.read_bytes() for path in paths}


def read(contents: Contents) -> Fields:
    """The fields of a `Citations` from the contents of its files, which are checked."""
    parts = {
        part: _read(content, part, path)
        for part, (path, content) in zip(_PARTS, contents.items(), strict=True)
    }
    return _assemble(parts, str(next(iter(contents))).removesuffix("x") + "*")


def years(path: Path, n: int) -> npt.NDArray[np.int64] | None:
    """The years of n papers, int64 [n], from a file with a line for each; None if there is none."""
    if not path.is_file():
        return None
    years_of_papers = _ints(path.read_bytes(), path)
    if years_of_papers.shape != (n,):
        raise ValueError(
            f"Expected the years of {n} papers. Received: {path} with {years_of_papers.size}"
        )
    return years_of_papers


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
    # Arrays are as long as the largest number. CiteSeer describes 3,312 papers of 3,327.
    if largest >= 2 * n_described:
        raise ValueError(
            f"Expected numbers of papers most of which are described, {n_described} in all. "
            f"Received: {source} with paper {largest}"
        )
    n = int(largest) + 1
    # The rows of the test papers are in the index; a few papers of CiteSeer have none.
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
        unpickled = _Unpickler(io.BytesIO(content), encoding="latin1").load()
    except Exception as error:  # damaged streams raise many kinds
        raise _damaged(path, error) from error
    return _checked(unpickled, part, path, len(content))


def _ints(content: bytes, path: Path) -> npt.NDArray[np.int64]:
    """The ints of a text with one a line."""
    lines = io.TextIOWrapper(io.BytesIO(content), UTF_8)
    return parse_ints(lines, 1, path)[:, 0]


def _check_memo(content: bytes) -> None:
    """Refuse indices in the unpickler's memo, an array, that exceed the size of the file."""
    for opcode, argument, _ in pickletools.genops(content):
        is_put = opcode.name in ("PUT", "BINPUT", "LONG_BINPUT")
        if is_put and isinstance(argument, int) and argument > len(content):
            raise pickle.UnpicklingError(f"place {argument} in a file of {len(content)} bytes")


def _damaged(path: Path, why: object) -> ValueError:
    return ValueError(
        f"Expected a file of Planetoid; delete it and get it again. Received: {path} ({why})"
    )


class _Matrix:
    """Replaces SciPy's CSR matrix: keeps the pickled state, and runs nothing."""

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Dtype:
    """Replaces NumPy's dtype: keeps its code and byte order."""

    def __init__(self, code: Any, *_: Any):
        self.code = code

    def __setstate__(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.code = state[1] + self.code


class _Array:
    """Replaces NumPy's array, whose own unpickling trusts its input."""

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
    """Unpickles arrays, matrices and dicts of lists only."""

    def find_class(self, module: str, name: str) -> type:
        """The class of a name in the pickle, if it is allowed."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is neither array nor list")
        return _ALLOWED[module, name]


def _checked(unpickled: Any, part: str, path: Path, n_bytes: int) -> Any:
    """The content of a file as CSR array, array, or dict of lists."""
    if part == "graph":
        if not isinstance(unpickled, dict) or not all(
            isinstance(x, list) for x in unpickled.values()
        ):
            raise _damaged(path, "not a dict of lists")
        papers = chain(unpickled, chain.from_iterable(unpickled.values()))
        if not all(type(paper) is int and paper >= 0 for paper in papers):
            raise _damaged(path, "not numbers of papers")
        if sum(map(len, unpickled.values())) > n_bytes:  # one list many times
            raise _damaged(path, "more edges than bytes")
        return dict(unpickled)
    if isinstance(unpickled, _Matrix):
        state = unpickled.state
        try:
            arrays = tuple(state[name].array for name in ("data", "indices", "indptr"))
            matrix = sparse.csr_array(arrays, shape=state["_shape"])
            files.check_csr(matrix)
            if not np.isfinite(matrix.data).all():
                raise ValueError("not finite")
        except Exception as error:  # of SciPy
            raise _damaged(path, error) from error
        if part not in _SPARSE:
            raise _damaged(path, "a sparse matrix instead of an array")
        return matrix
    array = getattr(unpickled, "array", None)
    if array is None or array.ndim != 2 or part in _SPARSE:
        raise _damaged(path, f"{type(unpickled).__name__.strip('_')} instead of a matrix")
    return array

"""Social networks as bags of neighbourhoods (paper, "Social Network Datasets").

A graph is a bag of its nodes' neighbourhoods, and an instance is the degree of a node. So a data
set has a few dozen to a few thousand distinct instances, and many neighbourhoods are equal.

Reference: Yanardag and Vishwanathan, Deep Graph Kernels, 2015; Morris et al., TUDataset, 2020.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
import tensorflow as tf

from keras_mmil.builders import graphs
from keras_mmil.datasets._io import files, tu

__all__ = ["NAMES", "Networks", "load"]

NAMES = (
    "IMDB-BINARY",
    "IMDB-MULTI",
    "COLLAB",
    "REDDIT-BINARY",
    "REDDIT-MULTI-5K",
    "REDDIT-MULTI-12K",
)
"""The data sets that `load` knows."""
_VERSION = 2  # of what is cached
_ARRAYS = ("indices", "indptr", "sizes", "labels")


@dataclass(frozen=True, eq=False)
class Networks:
    """A set of graphs.

    Attributes:
        edges: adjacency matrix of all graphs, one after the other, CSR array of bool
            [nodes, nodes].
        sizes: number of nodes of each graph, int64 [graphs].
        labels: class of each graph, int64 [graphs], from 0.

    Raises:
        ValueError: if the parts are inconsistent.
    """

    edges: sparse.csr_array
    sizes: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        n = self.edges.shape[0]
        if self.edges.shape != (n, n) or self.sizes.sum() != n or self.sizes.min(initial=0) < 0:
            raise ValueError(
                f"Expected edges [n, n] of n nodes, {self.sizes.sum()} in all graphs. "
                f"Received: edges.shape={self.edges.shape}"
            )
        if self.labels.shape != self.sizes.shape or self.labels.min(initial=0) < 0:
            raise ValueError(
                f"Expected classes from 0 of {len(self.sizes)} graphs. "
                f"Received: labels.shape={self.labels.shape}, from {self.labels.min(initial=0)}"
            )

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    @property
    def degrees(self) -> npt.NDArray[np.int64]:
        """The degree of each node, int64 [nodes]."""
        return graphs.degrees(self.edges)

    def bags(self) -> tf.RaggedTensor:
        """Each graph as the bag of its nodes' neighbourhoods, which are bags of degrees.

        Returns:
            int32 RaggedTensor [graphs, (nodes), (members)]. `keras_mmil.Bags` stores equal
            neighbourhoods once.
        """
        members = graphs.neighbourhoods(self.edges)
        known = self.degrees.astype(np.int32)[members.values.numpy()]
        return graphs.of_graphs(members.with_values(tf.constant(known)), self.sizes)


def load(name: str) -> Networks:
    """Read a data set; the first call parses the text files and caches the result.

    Args:
        name: one of `NAMES`, in any case.

    Raises:
        FileNotFoundError: if the archive is not there and cannot be downloaded.
        ValueError: if there is no such data set, or the archive is damaged, incomplete or
            inconsistent.
    """
    if not isinstance(name, str) or name.upper() not in NAMES:
        raise ValueError(f"Expected one of {', '.join(NAMES)}. Received: name={name!r}")
    name = name.upper()
    archive = tu.find(name)
    path = files.cache_folder() / f"{name.lower()}-{files.short_digest(archive)}-v{_VERSION}.npz"
    return files.cached(path, make=lambda: _parse(archive, name), read=_read, write=_write)


def _read(path: Path) -> Networks:
    """The `Networks` of a cached file."""
    arrays = files.read_arrays(path, _ARRAYS)
    kinds = {name: array.dtype.name for name, array in arrays.items() if array.dtype.kind != "i"}
    if kinds:
        raise ValueError(f"Expected arrays of integers. Received: {path} with {kinds}")
    indices, indptr, sizes, labels = arrays.values()
    n = len(indptr) - 1
    edges = sparse.csr_array((np.ones(len(indices), bool), indices, indptr), shape=(n, n))
    files.check_csr(edges)
    return Networks(edges, sizes, labels)


def _write(path: Path, networks: Networks) -> None:
    arrays = networks.edges.indices, networks.edges.indptr, networks.sizes, networks.labels
    files.write_arrays(path, dict(zip(_ARRAYS, arrays, strict=True)))


def _parse(archive: Path, name: str) -> Networks:
    """Read the text files of an archive."""
    edges, sizes, graph_labels = tu.read(archive, name)
    labels = np.unique(graph_labels, return_inverse=True)[1].reshape(-1)
    adjacency = graphs.adjacency(edges, n_nodes=int(sizes.sum()))
    return Networks(adjacency, sizes, labels.astype(np.int64))

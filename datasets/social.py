"""Social networks as bags of neighbourhoods (paper, "Social Network Datasets").

Graphs in the form of the TU collection, whose nodes have nothing but a degree: a graph is a bag of
its nodes' neighbourhoods, and an instance is the degree of a node. So all instances of a data set
are a few dozen to a few thousand different ones, and many neighbourhoods are the same multiset.

Reference: Yanardag and Vishwanathan, Deep Graph Kernels, 2015; Morris et al., TUDataset, 2020.
"""

import io
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
import tensorflow as tf

from keras_mmil._support import text_files
from keras_mmil._support.checks import check_int
from keras_mmil.builders import graphs
from keras_mmil.datasets._io import archives, cache, files

__all__ = ["NAMES", "Networks", "load", "synthetic"]

NAMES = (
    "IMDB-BINARY",
    "IMDB-MULTI",
    "COLLAB",
    "REDDIT-BINARY",
    "REDDIT-MULTI-5K",
    "REDDIT-MULTI-12K",
)
_URL = "https://www.chrsmrrs.com/graphkerneldatasets"
_VERSION = 2  # of what is cached
_ARRAYS = ("indices", "indptr", "sizes", "labels")
# How many ints a line of each file has.
_COLUMNS = {"A": 2, "graph_indicator": 1, "graph_labels": 1}


@dataclass(frozen=True, eq=False)
class Networks:
    """Graphs side by side.

    Attributes:
        links: CSR array of bool [nodes, nodes] of all graphs, one after the other.
        sizes: number of nodes of each graph, int64 [graphs].
        labels: class of each graph, int64 [graphs], from 0.

    Raises:
        ValueError: if the parts do not fit together.
    """

    links: sparse.csr_array
    sizes: np.ndarray
    labels: np.ndarray

    def __post_init__(self):
        n = self.links.shape[0]
        if self.links.shape != (n, n) or self.sizes.sum() != n or self.sizes.min(initial=0) < 0:
            raise ValueError(
                f"Expected links [n, n] of n nodes, {self.sizes.sum()} in all graphs. "
                f"Received: links.shape={self.links.shape}"
            )
        if self.labels.shape != self.sizes.shape or self.labels.min(initial=0) < 0:
            raise ValueError(
                f"Expected classes from 0 of {len(self.sizes)} graphs. "
                f"Received: labels.shape={self.labels.shape}, from {self.labels.min(initial=0)}"
            )

    def __len__(self):
        return len(self.sizes)

    @property
    def n_classes(self):
        """Number of classes."""
        return int(self.labels.max()) + 1

    @property
    def degrees(self):
        """The degree of each node, int64 [nodes]."""
        return graphs.degrees(self.links)

    def bags(self):
        """Each graph as the bag of its nodes' neighbourhoods, and a node as its degree.

        Returns:
            int32 RaggedTensor [graphs, (nodes), (members)] of degrees. `keras_mmil.Bags` stores
            equal neighbourhoods once.
        """
        members = graphs.neighbourhoods(self.links)
        known = self.degrees.astype(np.int32)[members.values.numpy()]
        return graphs.of_graphs(members.with_values(tf.constant(known)), self.sizes)


def load(name):
    """Read a data set; the first call caches what it makes of the text files.

    Args:
        name: one of `NAMES`, in any case.

    Returns:
        `Networks`.

    Raises:
        FileNotFoundError: if the archive is not there and cannot be downloaded.
        ValueError: if there is no such data set, or the archive is damaged, lacks a file, or its
            numbers do not fit together.
    """
    if not isinstance(name, str) or name.upper() not in NAMES:
        raise ValueError(f"Expected one of {', '.join(NAMES)}. Received: name={name!r}")
    name = name.upper()
    archive = files.find(f"tu/{name}.zip", f"{_URL}/{name}.zip")
    path = files.cache() / f"{name.lower()}-{files.short_digest(archive)}-v{_VERSION}.npz"
    return cache.kept(path, lambda: _parse(archive, name), _read, _write)


def _read(path):
    """The `Networks` of a cached file."""
    indices, indptr, sizes, labels = cache.read_arrays(path, _ARRAYS).values()
    n = len(indptr) - 1
    links = sparse.csr_array((np.ones(len(indices), bool), indices, indptr), shape=(n, n))
    links.check_format()
    return Networks(links, sizes, labels)


def _write(path, networks):
    arrays = networks.links.indices, networks.links.indptr, networks.sizes, networks.labels
    cache.write_arrays(path, dict(zip(_ARRAYS, arrays, strict=True)))


def synthetic(n_graphs=300, sizes=(10, 30), seed=0):
    """Made-up networks of two kinds, as many of each: groups of friends, and discussions.

    Groups overlap in one person, and in a group all know each other. In a discussion everybody
    answers somebody, the more likely the more answers somebody has already: a tree.

    Args:
        n_graphs: number of networks; the last is a discussion if it is even.
        sizes: smallest and largest number of nodes, at least 4.
        seed: integer.

    Returns:
        `Networks`.

    Raises:
        ValueError: if an argument is out of range.
    """
    n_graphs = check_int("n_graphs", n_graphs, least=2)
    if not 4 <= sizes[0] <= sizes[1]:
        raise ValueError(f"Expected networks of at least 4 nodes, (low, high). Received: {sizes=}")
    rng = np.random.default_rng(seed)
    labels = np.arange(n_graphs) % 2
    n_nodes = rng.integers(*sizes, n_graphs, endpoint=True)
    make = (_groups, _discussion)
    links = [make[label](n, rng) for label, n in zip(labels, n_nodes, strict=True)]
    starts = np.cumsum(n_nodes) - n_nodes
    everything = np.concatenate([part + start for part, start in zip(links, starts, strict=True)])
    return Networks(graphs.adjacency(everything, n_nodes=int(n_nodes.sum())), n_nodes, labels)


def _groups(n, rng):
    """Links [links, 2] of one person, 0, and the groups to which all others belong."""
    group_of = rng.integers(0, max(2, n // 6), n)
    is_linked = group_of[:, None] == group_of
    is_linked[0] = True
    return np.argwhere(np.triu(is_linked, 1))


def _discussion(n, rng):
    """Links [links, 2] of a tree, in which the rich get richer."""
    links = [(0, 1)]
    for node in range(2, n):
        links.append((node, int(rng.choice(np.reshape(links, -1)))))
    return np.array(links)


def _parse(archive, name):
    """Read the text files of an archive."""
    links, graph_of, given = (_numbers(archive, name, part) for part in _COLUMNS)
    links, graph_of, given = links - 1, graph_of[:, 0] - 1, given[:, 0]
    n, n_graphs = len(graph_of), len(given)
    last = graph_of.max(initial=-1)
    if not n or graph_of.min() < 0 or last >= n_graphs or (np.diff(graph_of) < 0).any():
        raise ValueError(
            f"Expected nodes of graphs 1 to {n_graphs}, one graph after the other. "
            f"Received: {archive} with nodes of graphs {graph_of.min(initial=0) + 1} to {last + 1}"
        )
    sizes = np.bincount(graph_of, minlength=n_graphs)
    if links.size and not 0 <= links.min() <= links.max() < n:
        raise ValueError(
            f"Expected links between nodes 1 to {n}. "
            f"Received: {archive} with nodes {links.min() + 1} to {links.max() + 1}"
        )
    if (graph_of[links[:, 0]] != graph_of[links[:, 1]]).any():
        raise ValueError(f"Expected links within graphs. Received: {archive} with others")
    labels = np.unique(given, return_inverse=True)[1].reshape(-1)
    return Networks(graphs.adjacency(links, n_nodes=n), sizes, labels.astype(np.int64))


def _numbers(archive, name, part):
    """The ints of a text file: int64 [lines, columns]."""
    member = f"{name}/{name}_{part}.txt"
    with archives.opened(archive) as files:
        if member not in files.namelist():
            raise ValueError(f"Expected a file {member}. Received: {archive} without it")
        with files.open(member) as stream:
            lines = io.TextIOWrapper(stream, text_files.UTF_8)
            return text_files.ints(lines, _COLUMNS[part], f"{member} of {archive}")

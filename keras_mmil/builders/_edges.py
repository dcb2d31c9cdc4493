"""Adjacency matrices: from whatever form a graph is given in, and restricted to some nodes."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import Ints

if TYPE_CHECKING:
    import networkx

__all__ = [
    "GraphLike",
    "adjacency",
    "as_adjacency",
    "checked_nodes",
    "induced_subgraph",
    "oriented",
]

# What `adjacency` accepts.
GraphLike: TypeAlias = "sparse.sparray | sparse.spmatrix | networkx.Graph | npt.ArrayLike"


def adjacency(
    graph: GraphLike, n_nodes: int | None = None, directed: bool = False
) -> sparse.csr_array:
    """The adjacency matrix of a graph. All functions of this module accept graphs in these forms.

    Args:
        graph: square SciPy sparse matrix or array, whose nonzero entries are edges; networkx
            graph, whose nodes are numbered in its own order; or int array [edges, 2] of node
            numbers. Repeated edges count once, and self-loops are removed.
        n_nodes: number of nodes, needed for an array of edges if the last nodes have none.
        directed: whether edges keep their direction; otherwise the matrix is made symmetric.

    Returns:
        SciPy CSR array of bool [nodes, nodes]: row i has the nodes to which there is an edge from
        i, sorted.

    Raises:
        TypeError: if the graph is none of these.
        ValueError: if it is not square, node numbers are negative or too large, or a matrix has
            entries that are not finite.

    Example:

    >>> adjacency([[0, 1], [1, 2]]).toarray().astype(int)
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """
    positive_int("n_nodes", n_nodes, optional=True)
    edges, n = _edges(graph, n_nodes)
    edges = edges[edges[:, 0] != edges[:, 1]]
    there = np.ones(len(edges), bool)
    found = sparse.coo_array((there, (edges[:, 0], edges[:, 1])), shape=(n, n)).tocsr()
    found.sum_duplicates()  # which also sorts
    if not directed:
        found = found + found.T.tocsr()
        found.sort_indices()
    return found


def induced_subgraph(graph: GraphLike, nodes: npt.ArrayLike) -> sparse.csr_array:
    """The graph with the edges between some nodes only; all nodes keep their numbers.

    Args:
        graph: see `adjacency`.
        nodes: int array [n].

    Returns:
        CSR array of bool [nodes, nodes].
    """
    edges = as_adjacency(graph)
    kept = np.zeros(edges.shape[0], bool)
    kept[checked_nodes("nodes", nodes, len(kept))] = True
    starts, ends = edges.nonzero()
    both = kept[starts] & kept[ends]
    between = np.stack([starts[both], ends[both]], axis=1)
    return adjacency(between, n_nodes=len(kept) or None, directed=True)


def as_adjacency(graph: GraphLike) -> sparse.csr_array:
    """The adjacency matrix of a graph; one that `adjacency` made is returned as it is."""
    is_ready = isinstance(graph, sparse.csr_array) and graph.dtype == bool
    return graph if is_ready else adjacency(graph)


def oriented(edges: sparse.csr_array, direction: str) -> sparse.csr_array:
    """The adjacency matrix of the outgoing edges of each node, the incoming ones, or both."""
    if direction not in ("out", "in", "both"):
        raise ValueError(f"Expected 'out', 'in' or 'both'. Received: direction={direction!r}")
    if direction == "out":
        return edges
    back = edges.T.tocsr()
    back.sort_indices()
    return back if direction == "in" else adjacency(edges)


def checked_nodes(name: str, nodes: npt.ArrayLike, n: int) -> npt.NDArray[np.int64]:
    """Node numbers as int64 [...]."""
    nodes = np.asarray(nodes)
    if nodes.dtype.kind not in "iu" and nodes.size:
        raise TypeError(f"Expected numbers of nodes, ints. Received: {name} of {nodes.dtype}")
    if nodes.size and not 0 <= nodes.min() <= nodes.max() < n:
        raise ValueError(
            f"Expected numbers of nodes from 0 to {n - 1}. "
            f"Received: {name} from {nodes.min()} to {nodes.max()}"
        )
    return nodes.astype(np.int64)


def _edges(graph: Any, n_nodes: int | None) -> tuple[Ints, int]:
    """Edges int64 [edges, 2], and the number of nodes."""
    if sparse.issparse(graph):
        if graph.shape[0] != graph.shape[1]:
            raise ValueError(f"Expected a square matrix. Received: graph.shape={graph.shape}")
        if not np.isfinite(graph.data).all():
            raise ValueError("Expected finite entries. Received: graph with NaN or infinity")
        edges, n = np.stack(graph.nonzero(), axis=1), graph.shape[0]
    elif hasattr(graph, "number_of_nodes") and hasattr(graph, "edges"):
        number = {node: i for i, node in enumerate(graph)}
        edges = np.array([(number[u], number[v]) for u, v in graph.edges()], np.int64)
        edges, n = edges.reshape(-1, 2), graph.number_of_nodes()
        if not graph.is_directed():
            edges = np.concatenate([edges, edges[:, ::-1]])
    else:
        edges = np.asarray(graph)
        edges = edges.reshape(-1, 2).astype(np.int64) if edges.size == 0 else edges
        if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
            raise TypeError(
                "Expected a SciPy sparse matrix, a networkx graph, or int edges [n, 2]. "
                f"Received: graph of type {type(graph).__name__}, shape {edges.shape}"
            )
        n = int(edges.max(initial=-1)) + 1
    n = n if n_nodes is None else n_nodes
    return checked_nodes("graph", edges.reshape(-1), n).reshape(-1, 2), n

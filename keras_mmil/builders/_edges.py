"""The links of graphs: whatever a graph is given as, made a sparse matrix."""

import numpy as np
import scipy.sparse as sparse

from keras_mmil._support.checks import positive_int

__all__ = ["adjacency", "among", "as_adjacency", "checked_nodes", "facing"]


def adjacency(graph, n_nodes=None, directed=False):
    """The links of a graph, whatever it is given as. All functions here take a graph like that.

    Args:
        graph: square SciPy sparse matrix or array, whose entries that are not 0 are links; networkx
            graph, whose nodes are numbered in its own order; or int array [links, 2] of node
            numbers. A link that is there several times is one; one from a node to itself is none.
        n_nodes: number of nodes, needed for an array of links if the last nodes have none.
        directed: whether links have a direction; otherwise one in either direction is both.

    Returns:
        SciPy CSR array of bool [nodes, nodes]: row i has the nodes to which there is a link from i,
        sorted.

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
    links, n = _links(graph, n_nodes)
    links = links[links[:, 0] != links[:, 1]]
    there = np.ones(len(links), bool)
    found = sparse.coo_array((there, (links[:, 0], links[:, 1])), shape=(n, n)).tocsr()
    found.sum_duplicates()  # which also sorts
    if not directed:
        found = found + found.T.tocsr()
        found.sort_indices()
    return found


def among(graph, nodes):
    """The graph without the links to or from other nodes than some; all nodes keep their numbers.

    Args:
        graph: see `adjacency`.
        nodes: int array [n].

    Returns:
        CSR array of bool [nodes, nodes].
    """
    links = as_adjacency(graph)
    kept = np.zeros(links.shape[0], bool)
    kept[checked_nodes("nodes", nodes, len(kept))] = True
    starts, ends = links.nonzero()
    both = kept[starts] & kept[ends]
    between = np.stack([starts[both], ends[both]], axis=1)
    return adjacency(between, n_nodes=len(kept) or None, directed=True)


def as_adjacency(graph):
    """The adjacency of a graph; one that `adjacency` made is taken as it is."""
    is_ready = isinstance(graph, sparse.csr_array) and graph.dtype == bool
    return graph if is_ready else adjacency(graph)


def facing(links, direction):
    """The adjacency with the links that go out of nodes, come in, or both."""
    if direction not in ("out", "in", "both"):
        raise ValueError(f"Expected 'out', 'in' or 'both'. Received: direction={direction!r}")
    if direction == "out":
        return links
    back = links.T.tocsr()
    back.sort_indices()
    return back if direction == "in" else adjacency(links)


def checked_nodes(name, nodes, n):
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


def _links(graph, n_nodes):
    """Links int64 [links, 2], and the number of nodes."""
    if sparse.issparse(graph):
        if graph.shape[0] != graph.shape[1]:
            raise ValueError(f"Expected a square matrix. Received: graph.shape={graph.shape}")
        if not np.isfinite(graph.data).all():
            raise ValueError("Expected finite entries. Received: graph with NaN or infinity")
        links, n = np.stack(graph.nonzero(), axis=1), graph.shape[0]
    elif hasattr(graph, "number_of_nodes") and hasattr(graph, "edges"):
        number = {node: i for i, node in enumerate(graph)}
        links = np.array([(number[u], number[v]) for u, v in graph.edges()], np.int64)
        links, n = links.reshape(-1, 2), graph.number_of_nodes()
        if not graph.is_directed():
            links = np.concatenate([links, links[:, ::-1]])
    else:
        links = np.asarray(graph)
        links = links.reshape(-1, 2).astype(np.int64) if links.size == 0 else links
        if links.ndim != 2 or links.shape[1] != 2 or links.dtype.kind not in "iu":
            raise TypeError(
                "Expected a SciPy sparse matrix, a networkx graph, or int links [n, 2]. "
                f"Received: graph of type {type(graph).__name__}, shape {links.shape}"
            )
        n = int(links.max(initial=-1)) + 1
    n = n if n_nodes is None else n_nodes
    return checked_nodes("graph", links.reshape(-1), n).reshape(-1, 2), n

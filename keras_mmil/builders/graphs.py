"""Graphs as nested bags: nodes, pairs of nodes and whole graphs, decomposed into their parts.

The bags are RaggedTensors of node ids (row numbers of the adjacency matrix). `tf.gather(words,
bags)` replaces the ids by the contents of the nodes, such as their words.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
import tensorflow as tf
from sklearn.utils.validation import check_random_state

from keras_mmil import ragged
from keras_mmil._support.checks import check_number, positive_int
from keras_mmil._support.rows import members_of, row_splits
from keras_mmil._support.types import Array, Ints

if TYPE_CHECKING:
    import networkx

__all__ = [
    "adjacency",
    "cycles_and_trees",
    "degree_features",
    "degrees",
    "edge_values",
    "induced_subgraph",
    "neighbour_pairs",
    "neighbourhoods",
    "node_and_neighbours",
    "of_graphs",
    "of_pairs",
    "walk_neighbourhoods",
]

# What `adjacency` accepts.
GraphLike: TypeAlias = "sparse.sparray | sparse.spmatrix | networkx.Graph | npt.ArrayLike"
_ENTRIES = 2**22  # numbers held at a time while walks are followed, 32 MB


def neighbourhoods(
    graph: GraphLike,
    nodes: npt.ArrayLike | None = None,
    hops: int = 1,
    max_neighbours: int | None = None,
    include_self: bool = True,
    direction: str = "out",
    seed: int | np.random.RandomState = 0,
) -> tf.RaggedTensor:
    """The bag of each node: itself, and the nodes within some hops.

    Args:
        graph: see `adjacency`; its result is used as it is.
        nodes: int array [n] of the nodes to make bags of; None for all.
        hops: greatest distance, in edges.
        max_neighbours: a random sample of this size is used of a node's neighbours; None for all.
        include_self: whether a node is in its own bag, as the first member.
        direction: of the edges to follow: "out", "in" or "both". No effect in an undirected graph.
        seed: integer or `numpy.random.RandomState` of the sample.

    Returns:
        int64 RaggedTensor [n, (members)] of nodes.

    Raises:
        ValueError: if a node does not exist, or an argument is out of range.

    Example:

    >>> neighbourhoods([[0, 1], [1, 2]])
    <tf.RaggedTensor [[0, 1], [1, 0, 2], [2, 1]]>
    """
    positive_int("hops", hops)
    positive_int("max_neighbours", max_neighbours, optional=True)
    edges = _oriented(_as_adjacency(graph), direction)
    n = edges.shape[0]
    nodes = np.arange(n) if nodes is None else _check_nodes("nodes", nodes, n)
    reached = edges
    for _ in range(hops - 1):
        reached = reached + reached @ edges
    if hops > 1:  # without the nodes themselves
        reached = adjacency(reached, directed=True)
    index, splits = members_of(reached.indptr.astype(np.int64), nodes)
    members = reached.indices[index].astype(np.int64)
    if max_neighbours is not None:
        members, splits = _sample(members, splits, max_neighbours, check_random_state(seed))
    if include_self:
        members = np.insert(members, splits[:-1], nodes)
        splits = splits + np.arange(len(splits))
    return tf.RaggedTensor.from_row_splits(members, splits, validate=False)


def node_and_neighbours(graph: GraphLike, **arguments: Any) -> tf.RaggedTensor:
    """The richer bag of each node: {{itself}, {neighbours}}.

    Args:
        graph, arguments: as for `neighbourhoods`, without `include_self`.

    Returns:
        int64 RaggedTensor [n, (2), (members)]; the second bag of an isolated node is empty.
    """
    bags = neighbourhoods(graph, **arguments, include_self=True)
    n = bags.nrows().numpy()
    sizes = bags.row_lengths().numpy()
    inner = np.stack([np.ones(n, np.int64), sizes - 1], axis=1).reshape(-1)
    return ragged.from_flat(bags.values, [np.full(n, 2), inner])


def of_pairs(bags: tf.RaggedTensor, pairs: npt.ArrayLike) -> tf.RaggedTensor:
    """The bags of both nodes of each pair, such as for link prediction.

    Args:
        bags: RaggedTensor [nodes, (members), ...], such as `neighbourhoods` makes.
        pairs: int array [n, 2] of nodes.

    Returns:
        RaggedTensor [n, (2), (members), ...].

    Raises:
        ValueError: if a node does not exist, or `pairs` has another shape.
    """
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"Expected pairs, [n, 2]. Received: pairs.shape={pairs.shape}")
    nodes = _check_nodes("pairs", pairs.reshape(-1), int(bags.nrows()))
    both = tf.gather(bags, nodes)
    return tf.RaggedTensor.from_row_splits(both, 2 * np.arange(len(pairs) + 1, dtype=np.int64))


def of_graphs(bags: tf.RaggedTensor, sizes: npt.ArrayLike) -> tf.RaggedTensor:
    """The bags of the nodes of each graph.

    Args:
        bags: RaggedTensor [nodes, (members), ...] of the nodes of all graphs, one graph after the
            other, such as the `neighbourhoods` of their union.
        sizes: int array [graphs], the number of nodes of each.

    Returns:
        RaggedTensor [graphs, (nodes), (members), ...].

    Raises:
        ValueError: if the sizes do not add up to the number of nodes.
    """
    sizes = _check_sizes(sizes, int(bags.nrows()))
    return tf.RaggedTensor.from_row_splits(bags, row_splits(sizes), validate=False)


def edge_values(
    bags: tf.RaggedTensor, values: sparse.sparray | sparse.spmatrix | Array, self_value: float = 0
) -> tf.RaggedTensor:
    """The value of the edge to each member of a bag, such as its kind or weight.

    Args:
        bags: RaggedTensor [n, (members)], the `neighbourhoods` of all nodes.
        values: SciPy sparse matrix or array [nodes, nodes] of the edges' values.
        self_value: the value for a node in its own bag.

    Returns:
        RaggedTensor [n, (members)] of the values; 0 where `values` has none.
    """
    n = int(bags.nrows())
    if values.shape != (n, n):
        raise ValueError(
            f"Expected values [{n}, {n}] for the bags of {n} nodes. "
            f"Received: values.shape={values.shape}"
        )
    rows = np.repeat(np.arange(n), bags.row_lengths().numpy())
    members = bags.values.numpy()
    of_edges = np.asarray(sparse.csr_array(values)[rows, members]).reshape(-1)
    return bags.with_values(tf.constant(np.where(rows == members, self_value, of_edges)))


def degrees(graph: GraphLike) -> npt.NDArray[np.int64]:
    """The number of neighbours of each node, int64 [nodes]."""
    return np.diff(_as_adjacency(graph).indptr).astype(np.int64)


def degree_features(n: int) -> npt.NDArray[np.float32]:
    """Features of nodes by their degree d: x_i = 1 / √d for 1 ≤ i < d, else 0.

    The closer two degrees, the larger is the dot product of their features.

    Args:
        n: greatest degree.

    Returns:
        float32 [n + 1, n]: row d is for degree d.

    Source:
        Paper, section "Social Network Datasets".
    """
    positive_int("n", n)
    degree = np.arange(n + 1)[:, None]
    filled = np.arange(1, n + 1) < degree
    return (filled / np.sqrt(np.maximum(degree, 1))).astype(np.float32)


def neighbour_pairs(graph: GraphLike, sizes: npt.ArrayLike) -> tf.RaggedTensor:
    """Each graph as the bag of its nodes' neighbourhoods, and the bag of its edges.

    Args:
        graph: see `adjacency`; the union of all graphs, one after the other.
        sizes: int array [graphs], the number of nodes of each.

    Returns:
        int64 RaggedTensor [graphs, (2), (parts), (nodes)].
    """
    edges = _as_adjacency(graph)
    sizes = _check_sizes(sizes, edges.shape[0])
    starts, ends = edges.nonzero()
    once = starts < ends
    pairs = np.stack([starts, ends], axis=1)[once].astype(np.int64)
    graph_of = np.repeat(np.arange(len(sizes)), sizes)
    n_pairs = np.bincount(graph_of[starts[once]], minlength=len(sizes))
    return _pair_up(
        of_graphs(neighbourhoods(edges), sizes),
        ragged.from_flat(pairs.reshape(-1), [n_pairs, np.full(len(pairs), 2)]),
    )


def cycles_and_trees(graph: GraphLike, sizes: npt.ArrayLike) -> tf.RaggedTensor:
    """Each graph as the bag of a basis of its cycles, and the bag of the trees between them.

    The trees are the connected components of the bridges, the edges on no cycle.

    Args:
        graph: see `adjacency`; the union of all graphs, one after the other.
        sizes: int array [graphs], the number of nodes of each.

    Returns:
        int64 RaggedTensor [graphs, (2), (parts), (nodes)], without isolated nodes.

    Raises:
        ImportError: if networkx is not installed.

    Reference:
        Horváth, Gärtner and Wrobel, Cyclic Pattern Kernels for Predictive Graph Mining, 2004.
    """
    try:
        import networkx
    except ImportError as error:
        raise ImportError(
            "Expected networkx, `pip install keras-mmil[graphs]`. Received: no networkx"
        ) from error
    whole = networkx.from_scipy_sparse_array(_as_adjacency(graph))
    sizes = _check_sizes(sizes, len(whole))
    graph_of = np.repeat(np.arange(len(sizes)), sizes)
    cycles = [sorted(cycle) for cycle in networkx.cycle_basis(whole)]
    forest = networkx.Graph(networkx.bridges(whole))
    trees = [sorted(tree) for tree in networkx.connected_components(forest)]
    return _pair_up(*(_nest(parts, graph_of, len(sizes)) for parts in (cycles, trees)))


def _check_sizes(sizes: npt.ArrayLike, n: int) -> Ints:
    """The sizes of graphs with n nodes in total, as an array [graphs]."""
    sizes = np.asarray(sizes)
    if sizes.ndim != 1 or (sizes < 0).any() or sizes.sum() != n:
        raise ValueError(f"Expected sizes that add up to {n} nodes. Received: sizes={sizes}")
    return sizes


def _sample(
    members: Ints, splits: Ints, most: int, rng: np.random.RandomState
) -> tuple[Ints, npt.NDArray[np.int64]]:
    """A random sample of at most `most` members of each bag, in their order; and the row splits."""
    bag = np.repeat(np.arange(len(splits) - 1), np.diff(splits))
    random_scores = rng.random_sample(len(members))
    rank = np.empty(len(members), np.int64)  # of the score, in its bag
    rank[np.lexsort((random_scores, bag))] = np.arange(len(members)) - splits[bag]
    is_sampled = rank < most
    return members[is_sampled], row_splits(np.bincount(bag[is_sampled], minlength=len(splits) - 1))


def _pair_up(first: tf.RaggedTensor, second: tf.RaggedTensor) -> tf.RaggedTensor:
    """[n, (a), (m)] and [n, (b), (m)] as [n, (2), (parts), (m)]."""
    n = int(first.nrows())
    values = tf.concat([first, second], axis=1).values
    sizes = np.stack([part.row_lengths().numpy() for part in (first, second)], axis=1)
    parts = tf.RaggedTensor.from_row_splits(values, row_splits(sizes.reshape(-1)))
    return tf.RaggedTensor.from_row_splits(parts, 2 * np.arange(n + 1, dtype=np.int64))


def _nest(parts: list[list[int]], graph_of: Ints, n_graphs: int) -> tf.RaggedTensor:
    """Lists of nodes as [graphs, (parts), (nodes)]."""
    parts = sorted(parts)  # and so by graph
    counts = np.bincount(graph_of[[part[0] for part in parts]], minlength=n_graphs) if parts else 0
    counts = np.broadcast_to(counts, n_graphs)
    nodes = np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)
    return ragged.from_flat(nodes, [counts, np.array([len(part) for part in parts], np.int64)])


def adjacency(
    graph: GraphLike, n_nodes: int | None = None, directed: bool = False
) -> sparse.csr_array:
    """The adjacency matrix of a graph. All functions of this module accept graphs in these forms.

    Args:
        graph: square SciPy sparse matrix or array, whose nonzero entries are edges; networkx
            graph, with its nodes numbered in order; or int array [edges, 2] of node numbers.
            Repeated edges count once, and self-loops are removed.
        n_nodes: number of nodes, needed for an array of edges if the last nodes have none.
        directed: whether edges keep their direction, or the matrix is made symmetric.

    Returns:
        SciPy CSR array of bool [nodes, nodes], with sorted indices: row i has the edges from i.

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
    ones = np.ones(len(edges), bool)
    matrix = sparse.coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(n, n)).tocsr()
    matrix.sum_duplicates()  # which also sorts
    if not directed:
        matrix = matrix + matrix.T.tocsr()
        matrix.sort_indices()
    return matrix


def induced_subgraph(graph: GraphLike, nodes: npt.ArrayLike) -> sparse.csr_array:
    """The edges between some nodes, int array [n]: CSR array of bool [nodes, nodes].

    All nodes keep their numbers. For `graph`, see `adjacency`.
    """
    edges = _as_adjacency(graph)
    is_inside = np.zeros(edges.shape[0], bool)
    is_inside[_check_nodes("nodes", nodes, len(is_inside))] = True
    starts, ends = edges.nonzero()
    are_inside = is_inside[starts] & is_inside[ends]
    between = np.stack([starts[are_inside], ends[are_inside]], axis=1)
    return adjacency(between, n_nodes=len(is_inside) or None, directed=True)


def _as_adjacency(graph: GraphLike) -> sparse.csr_array:
    """The adjacency matrix of a graph, which is the graph itself if `adjacency` made it."""
    is_ready = isinstance(graph, sparse.csr_array) and graph.dtype == bool
    return graph if is_ready else adjacency(graph)


def _oriented(edges: sparse.csr_array, direction: str) -> sparse.csr_array:
    """The adjacency matrix of the outgoing edges of each node, the incoming ones, or both."""
    if direction not in ("out", "in", "both"):
        raise ValueError(f"Expected 'out', 'in' or 'both'. Received: direction={direction!r}")
    if direction == "out":
        return edges
    back = edges.T.tocsr()
    back.sort_indices()
    return back if direction == "in" else adjacency(edges)


def _check_nodes(name: str, nodes: npt.ArrayLike, n: int) -> npt.NDArray[np.int64]:
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
    return _check_nodes("graph", edges.reshape(-1), n).reshape(-1, 2), n


def walk_neighbourhoods(
    graph: GraphLike,
    nodes: npt.ArrayLike | None = None,
    restart: float = 0.1,
    steps: int = 8,
    max_members: int | None = None,
    direction: str = "out",
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """The bag of each node: the nodes where random walks from it end, and how often.

    Before each step, a walk ends with probability `restart`; otherwise it goes to a neighbour or
    stays, each equally likely. This is personalised PageRank, truncated after some steps: near
    nodes, and nodes reached in many ways, have larger weights.

    Args:
        graph: see `adjacency`; its result is used as it is.
        nodes: int array [n] of the nodes to make bags of; None for all.
        restart: probability from 0 to 1. The smaller it is, the larger is the neighbourhood.
        steps: greatest number of steps of a walk.
        max_members: greatest number of nodes in a bag, which keeps those of the largest weights
            (and of equal weights the smallest numbers); None for all.
        direction: of the edges to follow: "out", "in" or "both". No effect in an undirected graph.

    Returns:
        int64 RaggedTensor [n, (members)] of nodes, by decreasing weight; and a float32 RaggedTensor
        like it of the weights, which sum to 1 in each bag, for
        `Bags.from_ragged(…, level_weights=)`.

    Raises:
        ValueError: if a node does not exist, or an argument is out of range.

    Example:

    >>> bags, weights = walk_neighbourhoods([[0, 1], [1, 2]], restart=0.5, steps=2)
    >>> bags
    <tf.RaggedTensor [[0, 1, 2], [1, 0, 2], [2, 1, 0]]>

    Reference:
        Klicpera, Bojchevski and Günnemann, Predict then Propagate: Graph Neural Networks meet
        Personalized PageRank, 2019.
    """
    check_number("restart", restart, 0, 1)
    positive_int("steps", steps)
    positive_int("max_members", max_members, optional=True)
    edges = _oriented(_as_adjacency(graph), direction)
    n = edges.shape[0]
    nodes = np.arange(n) if nodes is None else _check_nodes("nodes", nodes, n)
    with_loops = sparse.csr_array(edges + sparse.eye_array(n, dtype=bool, format="csr"))
    step = sparse.csr_array(with_loops / with_loops.sum(axis=1)[:, None])
    blocks = [
        _walk_ends(step, some, restart, steps, max_members)
        for some in np.array_split(nodes, max(1, -(-len(nodes) * n // _ENTRIES)))
    ]
    members, weights, sizes = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    splits = row_splits(sizes)
    return tuple(
        tf.RaggedTensor.from_row_splits(part, splits, validate=False) for part in (members, weights)
    )


def _walk_ends(
    step: sparse.csr_array, nodes: Ints, restart: float, steps: int, most: int | None
) -> tuple[Ints, Array, Ints]:
    """The nodes where walks from `nodes` end, and their weights, of all bags; the sizes of bags."""
    at = np.zeros((len(nodes), step.shape[0]))  # the share of the walks at each node
    at[np.arange(len(nodes)), nodes] = 1
    ended = np.zeros_like(at)
    for _ in range(steps):
        ended += restart * at
        at = (1 - restart) * (at @ step)
    ended = (ended + at).astype(np.float32)
    order = np.argsort(-ended, axis=1, kind="stable")[:, :most]
    weights = np.take_along_axis(ended, order, axis=1)
    is_there = weights > 0
    weights = weights / weights.sum(axis=1, keepdims=True)
    return order[is_there], weights[is_there].astype(np.float32), is_there.sum(axis=1)

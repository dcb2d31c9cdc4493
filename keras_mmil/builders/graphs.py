"""Graphs as nested bags: nodes, pairs of nodes and whole graphs, decomposed into their parts.

All functions return RaggedTensors of node ids (row numbers of the adjacency matrix).
`tf.gather(words, bags)` replaces the ids by what the nodes hold, such as their words.
"""

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
import tensorflow as tf
from sklearn.utils.validation import check_random_state

from keras_mmil import ragged
from keras_mmil._support.checks import positive_int
from keras_mmil._support.rows import bags_of_members, members_of, row_splits
from keras_mmil._support.types import Array, Ints
from keras_mmil.builders._edges import (
    GraphLike,
    adjacency,
    as_adjacency,
    checked_nodes,
    induced_subgraph,
    oriented,
)
from keras_mmil.builders._walks import walk_neighbourhoods

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
        graph: see `adjacency`; a CSR array that it made is taken as it is.
        nodes: int array [n] of nodes to make bags of; None for all.
        hops: greatest number of edges on the way.
        max_neighbours: of a node with more neighbours, so many are drawn at random; None for all.
        include_self: whether a node is in its own bag, as the first member.
        direction: of the edges to follow: "out", "in" or "both". Makes no difference in an
            undirected graph.
        seed: integer or `numpy.random.RandomState` of the draws.

    Returns:
        int64 RaggedTensor [n, (members)] of nodes. The bag of an isolated node holds only itself.

    Raises:
        ValueError: if a node does not exist, or an argument is out of range.

    Example:

    >>> neighbourhoods([[0, 1], [1, 2]])
    <tf.RaggedTensor [[0, 1], [1, 0, 2], [2, 1]]>
    """
    positive_int("hops", hops)
    positive_int("max_neighbours", max_neighbours, optional=True)
    edges = oriented(as_adjacency(graph), direction)
    n = edges.shape[0]
    nodes = np.arange(n) if nodes is None else checked_nodes("nodes", nodes, n)
    reached = edges
    for _ in range(hops - 1):
        reached = reached + reached @ edges
    if hops > 1:  # by a way back
        reached = adjacency(reached, directed=True)
    index, splits = members_of(reached.indptr.astype(np.int64), nodes)
    members = reached.indices[index].astype(np.int64)
    if max_neighbours is not None:
        members, splits = _draw(members, splits, max_neighbours, check_random_state(seed))
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
        ValueError: if a node does not exist, or `pairs` is of another shape.
    """
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"Expected pairs, [n, 2]. Received: pairs.shape={pairs.shape}")
    nodes = checked_nodes("pairs", pairs.reshape(-1), int(bags.nrows()))
    both = tf.gather(bags, nodes)
    return tf.RaggedTensor.from_row_splits(both, 2 * np.arange(len(pairs) + 1, dtype=np.int64))


def of_graphs(bags: tf.RaggedTensor, sizes: npt.ArrayLike) -> tf.RaggedTensor:
    """The bags of the nodes of each graph.

    Args:
        bags: RaggedTensor [nodes, (members), ...] of the nodes of all graphs, one graph after the
            other, such as `neighbourhoods` makes of a graph that holds them all.
        sizes: int array [graphs], the number of nodes of each.

    Returns:
        RaggedTensor [graphs, (nodes), (members), ...].

    Raises:
        ValueError: if the sizes do not add up to the number of nodes.
    """
    sizes = _checked_sizes(sizes, int(bags.nrows()))
    return tf.RaggedTensor.from_row_splits(bags, row_splits(sizes), validate=False)


def edge_values(
    bags: tf.RaggedTensor, values: sparse.sparray | sparse.spmatrix | Array, self_value: float = 0
) -> tf.RaggedTensor:
    """The value of the edge to each member of a bag, such as its kind or weight.

    Args:
        bags: RaggedTensor [n, (members)] of `neighbourhoods`, of all nodes, each the first of its
            own bag.
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
    found = np.asarray(sparse.csr_array(values)[rows, members]).reshape(-1)
    return bags.with_values(tf.constant(np.where(rows == members, self_value, found)))


def degrees(graph: GraphLike) -> npt.NDArray[np.int64]:
    """The number of neighbours of each node, int64 [nodes]."""
    return np.diff(as_adjacency(graph).indptr).astype(np.int64)


def degree_features(n: int) -> npt.NDArray[np.float32]:
    """Features of nodes that are known by degree d only: x_i = 1 / √d for 1 ≤ i < d, else 0.

    The dot product of two rows is large if the degrees are close. Row d of the table is for degree
    d, for `tf.gather` or an `Embedding`, so that nodes of equal degree are one instance.

    Args:
        n: greatest degree.

    Returns:
        float32 [n + 1, n].

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
        graph: see `adjacency`; all graphs in one, one after the other.
        sizes: int array [graphs], the number of nodes of each.

    Returns:
        int64 RaggedTensor [graphs, (2), (parts), (nodes)].
    """
    edges = as_adjacency(graph)
    sizes = _checked_sizes(sizes, edges.shape[0])
    starts, ends = edges.nonzero()
    once = starts < ends
    pairs = np.stack([starts, ends], axis=1)[once].astype(np.int64)
    graph_of = np.repeat(np.arange(len(sizes)), sizes)
    n_pairs = np.bincount(graph_of[starts[once]], minlength=len(sizes))
    return _interleave(
        of_graphs(neighbourhoods(edges), sizes),
        ragged.from_flat(pairs.reshape(-1), [n_pairs, np.full(len(pairs), 2)]),
    )


def cycles_and_trees(graph: GraphLike, sizes: npt.ArrayLike) -> tf.RaggedTensor:
    """Each graph as the bag of a basis of its cycles, and the bag of the trees between them.

    The trees are the connected components of the graph of its bridges, the edges on no cycle.

    Args:
        graph: see `adjacency`; all graphs in one, one after the other.
        sizes: int array [graphs], the number of nodes of each.

    Returns:
        int64 RaggedTensor [graphs, (2), (parts), (nodes)]. An isolated node is in neither.

    Raises:
        ImportError: if networkx is not installed.

    Reference:
        Horváth, Gärtner and Wrobel, Cyclic Pattern Kernels for Predictive Graph Mining, 2004.
    """
    networkx = _networkx()
    whole = networkx.from_scipy_sparse_array(as_adjacency(graph))
    sizes = _checked_sizes(sizes, len(whole))
    graph_of = np.repeat(np.arange(len(sizes)), sizes)
    cycles = [sorted(cycle) for cycle in networkx.cycle_basis(whole)]
    forest = networkx.Graph(networkx.bridges(whole))
    trees = [sorted(tree) for tree in networkx.connected_components(forest)]
    return _interleave(*(_grouped(parts, graph_of, len(sizes)) for parts in (cycles, trees)))


# Pieces of the functions above ------------------------------------------------------------------


def _networkx() -> ModuleType:
    try:
        import networkx
    except ImportError as error:
        raise ImportError(
            "Expected networkx, `pip install keras-mmil[graphs]`. Received: no networkx"
        ) from error
    return networkx


def _checked_sizes(sizes: npt.ArrayLike, n: int) -> Ints:
    """Numbers of nodes of graphs that have n nodes in all, [graphs]."""
    sizes = np.asarray(sizes)
    if sizes.ndim != 1 or (sizes < 0).any() or sizes.sum() != n:
        raise ValueError(f"Expected sizes that add up to {n} nodes. Received: sizes={sizes}")
    return sizes


def _draw(
    members: Ints, splits: Ints, most: int, rng: np.random.RandomState
) -> tuple[Ints, npt.NDArray[np.int64]]:
    """At most so many members of each bag, drawn at random, in their order; and the row splits."""
    bag = bags_of_members(splits)
    random_scores = rng.random_sample(len(members))
    rank = np.empty(len(members), np.int64)  # of the score, in its bag
    rank[np.lexsort((random_scores, bag))] = np.arange(len(members)) - splits[bag]
    kept = rank < most
    return members[kept], row_splits(np.bincount(bag[kept], minlength=len(splits) - 1))


def _interleave(first: tf.RaggedTensor, second: tf.RaggedTensor) -> tf.RaggedTensor:
    """[n, (a), (m)] and [n, (b), (m)] as [n, (2), (parts), (m)]."""
    n = int(first.nrows())
    values = tf.concat([first, second], axis=1).values
    sizes = np.stack([part.row_lengths().numpy() for part in (first, second)], axis=1)
    parts = tf.RaggedTensor.from_row_splits(values, row_splits(sizes.reshape(-1)))
    return tf.RaggedTensor.from_row_splits(parts, 2 * np.arange(n + 1, dtype=np.int64))


def _grouped(parts: list[list[int]], graph_of: Ints, n_graphs: int) -> tf.RaggedTensor:
    """Lists of nodes as [graphs, (parts), (nodes)]."""
    parts = sorted(parts)  # by their graphs, which are one after the other
    counts = np.bincount(graph_of[[part[0] for part in parts]], minlength=n_graphs) if parts else 0
    counts = np.broadcast_to(counts, n_graphs)
    nodes = np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)
    return ragged.from_flat(nodes, [counts, np.array([len(part) for part in parts], np.int64)])

"""Neighbourhoods of nodes by random walks."""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
import tensorflow as tf

from keras_mmil._support.checks import check_number, positive_int
from keras_mmil._support.rows import row_splits
from keras_mmil._support.types import Array, Ints
from keras_mmil.builders._edges import GraphLike, as_adjacency, checked_nodes, oriented

__all__ = ["walk_neighbourhoods"]

# Numbers that are held at a time while walks are followed, 32 MB.
_ENTRIES = 2**22


def walk_neighbourhoods(
    graph: GraphLike,
    nodes: npt.ArrayLike | None = None,
    restart: float = 0.1,
    steps: int = 8,
    max_members: int | None = None,
    direction: str = "out",
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """The bag of each node: the nodes where random walks from it end, and how many of them do.

    Before each step, a walk ends with the probability `restart`. Otherwise it goes to a neighbour
    or stays where it is, each as likely. After the last step it ends. This is personalised
    PageRank, cut off: near nodes weigh more than far ones, and nodes with many ways to them more
    than others.

    Args:
        graph: see `adjacency`; a CSR array that it made is taken as it is.
        nodes: int array [n] of nodes to make bags of; None for all.
        restart: probability from 0 to 1. The smaller it is, the larger is the neighbourhood.
        steps: greatest number of steps of a walk.
        max_members: a bag holds at most so many nodes, those with the largest weights, and of equal
            weights those with the smaller numbers; None for all.
        direction: of the edges to follow: "out", "in" or "both". Makes no difference in an
            undirected graph.

    Returns:
        int64 RaggedTensor [n, (members)] of nodes, by falling weight; and a float32 RaggedTensor
        like it of the weights, the shares of the walks that end there, which add up to 1 in each
        bag: `Bags.from_ragged(…, level_weights=)` takes them.

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
    edges = oriented(as_adjacency(graph), direction)
    n = edges.shape[0]
    nodes = np.arange(n) if nodes is None else checked_nodes("nodes", nodes, n)
    with_loops = sparse.csr_array(edges + sparse.eye_array(n, dtype=bool, format="csr"))
    step = sparse.csr_array(with_loops / with_loops.sum(axis=1)[:, None])
    found = [
        _walk_ends(step, some, restart, steps, max_members)
        for some in np.array_split(nodes, max(1, -(-len(nodes) * n // _ENTRIES)))
    ]
    members, weights, sizes = (np.concatenate(parts) for parts in zip(*found, strict=True))
    splits = row_splits(sizes)
    return tuple(
        tf.RaggedTensor.from_row_splits(part, splits, validate=False) for part in (members, weights)
    )


def _walk_ends(
    step: sparse.csr_array, nodes: Ints, restart: float, steps: int, most: int | None
) -> tuple[Ints, Array, Ints]:
    """Where walks from some nodes end: nodes and weights of all bags, and the sizes of the bags."""
    at = np.zeros((len(nodes), step.shape[0]))  # the share of the walks that are there
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

"""Made-up social networks."""

import numpy as np

from keras_mmil._support.checks import check_int
from keras_mmil._support.types import Ints
from keras_mmil.builders import graphs
from keras_mmil.datasets.social import Networks

__all__ = ["load_networks"]


def load_networks(
    n_graphs: int = 300, sizes: tuple[int, int] = (10, 30), seed: int = 0
) -> Networks:
    """Social networks of two classes of equal size: groups of friends (0), and discussions (1).

    Groups are cliques that share one person. A discussion is a tree of answers that grows by
    preferential attachment.

    Args:
        n_graphs: number of networks; of an odd number one more is of friends.
        sizes: smallest and largest number of nodes, at least 4.
        seed: integer.

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
    edges = [make[label](n, rng) for label, n in zip(labels, n_nodes, strict=True)]
    starts = np.cumsum(n_nodes) - n_nodes
    everything = np.concatenate([part + start for part, start in zip(edges, starts, strict=True)])
    return Networks(
        edges=graphs.adjacency(everything, n_nodes=int(n_nodes.sum())), sizes=n_nodes, labels=labels
    )


def _groups(n: int, rng: np.random.Generator) -> Ints:
    """Edges [edges, 2] between person 0 and all others, and within the groups of the others."""
    group_of = rng.integers(0, max(2, n // 6), n)
    is_edge = group_of[:, None] == group_of
    is_edge[0] = True
    return np.argwhere(np.triu(is_edge, 1))


def _discussion(n: int, rng: np.random.Generator) -> Ints:
    """Edges [edges, 2] of a tree that grows by preferential attachment."""
    edges = [(0, 1)]
    for node in range(2, n):
        edges.append((node, int(rng.choice(np.reshape(edges, -1)))))
    return np.array(edges)

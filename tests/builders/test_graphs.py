"""Graphs as nested bags, against networkx and loops over neighbours."""

import networkx
import numpy as np
import pytest
import scipy.sparse as sparse
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_mmil.builders import graphs

PATH = [[0, 1], [1, 2]]  # 0 - 1 - 2
KARATE = networkx.karate_club_graph()


@st.composite
def random_graphs(draw, directed=False):
    n = draw(st.integers(1, 12))
    nodes = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(nodes, nodes), max_size=30))  # with loops and repetitions
    graph = (networkx.DiGraph if directed else networkx.Graph)()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges)
    return graph


def sets(bags):
    return [sorted(bag) for bag in bags.to_list()]


# Adjacency --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "graph",
    [
        [[0, 1], [1, 2]],
        [[1, 0], [2, 1], [1, 2], [1, 1]],  # either direction, repeated, with a loop
        np.array([[0, 1], [1, 2]], np.int32),
        sparse.csr_matrix([[0, 1, 0], [1, 0, 1], [0, 1, 0]]),
        sparse.coo_array([[3, 0.5, 0], [0, 0, -2], [0, 0, 0]]),  # weighted, asymmetric, a loop
        networkx.path_graph(3),
        networkx.Graph([("a", "b"), ("b", "c"), ("b", "b")]),
        networkx.DiGraph([("a", "b"), ("c", "b")]).to_undirected(),
        networkx.MultiGraph([(0, 1), (0, 1), (1, 2)]),
    ],
)
def test_adjacency_of_all_kinds(graph):
    edges = graphs.adjacency(graph)
    assert isinstance(edges, sparse.csr_array)
    assert edges.dtype == bool
    found = edges.toarray()
    np.testing.assert_array_equal(found, found.T)
    assert not found.diagonal().any()
    assert sorted(found.sum(axis=1)) == [1, 1, 2]


@given(random_graphs(directed=True))
def test_adjacency_is_that_of_networkx(graph):
    expected = networkx.to_numpy_array(graph, nodelist=range(len(graph))) > 0
    np.fill_diagonal(expected, False)
    np.testing.assert_array_equal(graphs.adjacency(graph, directed=True).toarray(), expected)
    both = expected | expected.T
    np.testing.assert_array_equal(graphs.adjacency(graph).toarray(), both)
    edges = np.array(graph.edges, int).reshape(-1, 2)
    again = graphs.adjacency(edges, n_nodes=len(graph))
    np.testing.assert_array_equal(again.toarray(), both)


def test_adjacency_without_edges():
    assert graphs.adjacency([], n_nodes=3).shape == (3, 3)
    assert graphs.adjacency(networkx.empty_graph(2)).nnz == 0
    assert graphs.adjacency(networkx.Graph()).shape == (0, 0)
    assert graphs.neighbourhoods([], max_neighbours=2).to_list() == []


@pytest.mark.parametrize(
    ("graph", "arguments", "error", "match"),
    [
        (sparse.csr_array((2, 3)), {}, ValueError, r"graph\.shape=\(2, 3\)"),
        (sparse.csr_array([[0, np.nan], [0, 0]]), {}, ValueError, "NaN or infinity"),
        ([[0, -1]], {}, ValueError, "from -1 to 0"),
        ([[0, 5]], {"n_nodes": 5}, ValueError, "from 0 to 4. Received: graph from 0 to 5"),
        ([[0, 1]], {"n_nodes": 0}, ValueError, "n_nodes=0"),
        ([[0.0, 1.0]], {}, TypeError, r"of type list, shape \(1, 2\)"),
        ([[0, 1, 2]], {}, TypeError, r"shape \(1, 3\)"),
        ("graph", {}, TypeError, "of type str"),
    ],
)
def test_adjacency_of_what_is_no_graph(graph, arguments, error, match):
    with pytest.raises(error, match=match):
        graphs.adjacency(graph, **arguments)


# Nodes ------------------------------------------------------------------------------------------


@given(random_graphs(), st.integers(1, 4))
def test_neighbourhoods_are_what_is_reached(graph, hops):
    bags = graphs.neighbourhoods(graph, hops=hops)
    assert bags.dtype == tf.int64
    reached = networkx.single_source_shortest_path_length
    assert sets(bags) == [sorted(reached(graph, node, hops)) for node in graph]
    assert [bag[0] for bag in bags.to_list()] == list(graph)
    without = graphs.neighbourhoods(graph, hops=hops, include_self=False)
    assert without.to_list() == [bag[1:] for bag in bags.to_list()]


@given(random_graphs(directed=True), st.integers(1, 3))
def test_directions(graph, hops):
    edges = graphs.adjacency(graph, directed=True)
    reached = networkx.single_source_shortest_path_length
    for direction, other in (
        ("out", graph),
        ("in", graph.reverse()),
        ("both", graph.to_undirected()),
    ):
        bags = graphs.neighbourhoods(edges, hops=hops, direction=direction)
        assert sets(bags) == [sorted(reached(other, node, hops)) for node in graph]


@given(random_graphs(directed=True), st.floats(0, 1), st.integers(1, 4))
def test_where_walks_end(graph, restart, steps):
    """A walk is followed over all its ways."""
    bags, weights = graphs.walk_neighbourhoods(
        graphs.adjacency(graph, directed=True), restart=restart, steps=steps
    )
    ways = {node: sorted({node, *graph.successors(node)}) for node in graph}

    def ends(node, left):
        yield node, restart if left else 1.0
        for following in ways[node] if left else []:
            for end, share in ends(following, left - 1):
                yield end, share * (1 - restart) / len(ways[node])

    for node, members, shares in zip(graph, bags.to_list(), weights.to_list(), strict=True):
        expected = dict.fromkeys(graph, 0.0)
        for end, share in ends(node, steps):
            expected[end] += share
        found = dict.fromkeys(graph, 0.0) | dict(zip(members, shares, strict=True))
        assert found == pytest.approx(expected, abs=1e-6)
        assert shares == sorted(shares, reverse=True)
        assert min(shares) > 0


def test_long_walks_are_personalised_pagerank():
    _, found = graphs.walk_neighbourhoods(KARATE, [0, 33], restart=0.15, steps=100)
    with_loops = KARATE.copy()
    with_loops.add_edges_from((node, node) for node in KARATE)
    for node, shares in zip([0, 33], found.to_list(), strict=True):
        ranks = networkx.pagerank(
            with_loops, alpha=0.85, personalization={node: 1}, tol=1e-12, weight=None
        )
        assert shares == pytest.approx(sorted(ranks.values(), reverse=True), abs=1e-5)


def test_some_nodes_of_walks(monkeypatch):
    bags, weights = graphs.walk_neighbourhoods(KARATE, max_members=5)
    every, shares = graphs.walk_neighbourhoods(KARATE)
    for few, some, all_, whole in zip(
        *(part.to_list() for part in (bags, weights, every, shares)), strict=True
    ):
        assert few == all_[:5]
        assert some == pytest.approx([share / sum(whole[:5]) for share in whole[:5]])
    chosen = [33, 0, 0, 5]
    monkeypatch.setattr("keras_mmil.builders.graphs._ENTRIES", 40)  # one node at a time
    found = graphs.walk_neighbourhoods(KARATE, chosen, max_members=5)
    assert found[0].to_list() == [bags[i].numpy().tolist() for i in chosen]
    assert found[1].to_list() == [weights[i].numpy().tolist() for i in chosen]
    for graph, nodes in ((KARATE, []), ([], None)):
        assert [part.to_list() for part in graphs.walk_neighbourhoods(graph, nodes)] == [[], []]
    isolated = graphs.walk_neighbourhoods(networkx.empty_graph(2))
    assert [part.to_list() for part in isolated] == [[[0], [1]], [[1.0], [1.0]]]


def test_some_nodes_in_any_order():
    every = graphs.neighbourhoods(KARATE).to_list()
    chosen = [33, 0, 0, 5]
    assert graphs.neighbourhoods(KARATE, chosen).to_list() == [every[i] for i in chosen]
    assert graphs.neighbourhoods(KARATE, []).to_list() == []


@given(random_graphs(directed=True), st.sets(st.integers(0, 11)))
def test_induced_subgraphs(graph, some):
    some = [node for node in some if node in graph]
    edges = graphs.induced_subgraph(graphs.adjacency(graph, directed=True), some)
    inner = graph.subgraph(some)
    expected = sorted((u, v) for u, v in inner.edges if u != v)
    assert sorted(zip(*(part.tolist() for part in edges.nonzero()), strict=True)) == expected
    assert edges.shape == (len(graph), len(graph))


def test_sampled_neighbours():
    every = graphs.neighbourhoods(KARATE, include_self=False).to_list()
    first, again, other = (
        graphs.neighbourhoods(KARATE, max_neighbours=3, include_self=False, seed=seed).to_list()
        for seed in (0, 0, 1)
    )
    assert first == again != other
    for few, many in zip(first, every, strict=True):
        assert len(set(few)) == len(few) == min(3, len(many))
        assert set(few) <= set(many)
    with_itself = graphs.neighbourhoods(KARATE, max_neighbours=3).to_list()
    assert with_itself == [[node, *few] for node, few in enumerate(first)]


def test_each_neighbour_is_as_likely():
    rng = np.random.RandomState(0)
    star = networkx.star_graph(5)
    draws = [
        graphs.neighbourhoods(
            star, [0], max_neighbours=2, include_self=False, seed=rng
        ).values.numpy()
        for _ in range(600)
    ]
    counts = np.bincount(np.concatenate(draws), minlength=6)[1:]
    assert counts.sum() == 1200
    assert np.abs(counts - 240).max() < 60  # 240 ± 13


def test_node_and_neighbours():
    bags = graphs.node_and_neighbours([[0, 1], [1, 2]], nodes=[1, 0])
    assert bags.to_list() == [[[1], [0, 2]], [[0], [1]]]
    assert graphs.node_and_neighbours([], nodes=[]).to_list() == []
    isolated = graphs.node_and_neighbours(networkx.empty_graph(2))
    assert isolated.to_list() == [[[0], []], [[1], []]]


def test_contents_take_the_place_of_nodes():
    words = tf.ragged.constant([[7], [8, 9], []])
    found = tf.gather(words, graphs.neighbourhoods(PATH))
    assert found.to_list() == [[[7], [8, 9]], [[8, 9], [7], []], [[], [8, 9]]]


def test_edge_values():
    edges = graphs.adjacency([[0, 1], [2, 1]], directed=True)
    kinds = sparse.csr_array(([5, 7], ([0, 2], [1, 1])), shape=(3, 3))
    values = graphs.edge_values(graphs.neighbourhoods(edges), kinds, self_value=-1)
    assert values.to_list() == [[-1, 5], [-1], [-1, 7]]
    with pytest.raises(ValueError, match=r"values\.shape=\(2, 2\)"):
        graphs.edge_values(graphs.neighbourhoods(edges), kinds[:2, :2])


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"hops": 0}, ValueError, "hops=0"),
        ({"max_neighbours": 0}, ValueError, "max_neighbours=0"),
        ({"direction": "up"}, ValueError, "direction='up'"),
        ({"nodes": [3]}, ValueError, "from 0 to 2. Received: nodes from 3 to 3"),
        ({"nodes": [-1]}, ValueError, "nodes from -1 to -1"),
        ({"nodes": [0.5]}, TypeError, "nodes of float64"),
        ({"restart": 1.5}, ValueError, "restart=1.5"),
        ({"restart": 0.5, "nodes": [3]}, ValueError, "nodes from 3 to 3"),
        ({"steps": 0}, ValueError, "steps=0"),
        ({"max_members": 0}, ValueError, "max_members=0"),
    ],
)
def test_arguments_out_of_range(arguments, error, match):
    walks = {"restart", "steps", "max_members"} & arguments.keys()
    make = graphs.walk_neighbourhoods if walks else graphs.neighbourhoods
    with pytest.raises(error, match=match):
        make(PATH, **arguments)


# Pairs and graphs -------------------------------------------------------------------------------


def test_of_pairs():
    bags = graphs.neighbourhoods(PATH)
    assert graphs.of_pairs(bags, [[0, 2], [1, 1]]).to_list() == [
        [[0, 1], [2, 1]],
        [[1, 0, 2], [1, 0, 2]],
    ]
    with pytest.raises(ValueError, match=r"pairs\.shape=\(2,\)"):
        graphs.of_pairs(bags, [0, 2])
    with pytest.raises(ValueError, match="pairs from 0 to 3"):
        graphs.of_pairs(bags, [[0, 3]])


@pytest.mark.slow
@given(st.lists(random_graphs(), min_size=1, max_size=4))
def test_graphs_side_by_side(parts):
    whole = networkx.disjoint_union_all(parts)
    sizes = [len(part) for part in parts]
    starts = np.cumsum(sizes) - sizes
    ours = graphs.of_graphs(graphs.neighbourhoods(whole), sizes).to_list()
    alone = [
        [[member + start for member in bag] for bag in graphs.neighbourhoods(part).to_list()]
        for part, start in zip(parts, starts, strict=True)
    ]
    assert ours == alone
    by_kind = graphs.neighbour_pairs(whole, sizes).to_list()
    assert [one[0] for one in by_kind] == alone
    pairs = [
        sorted(sorted((u + s, v + s)) for u, v in part.edges if u != v)
        for part, s in zip(parts, starts, strict=True)
    ]
    assert [one[1] for one in by_kind] == pairs


@pytest.mark.slow
@given(st.lists(random_graphs(), min_size=1, max_size=3))
def test_cycles_and_trees_are_all_edges(parts):
    for part in parts:
        part.remove_edges_from(list(networkx.selfloop_edges(part)))
    whole = networkx.disjoint_union_all(parts)
    found = graphs.cycles_and_trees(whole, [len(part) for part in parts]).to_list()
    start = 0
    for part, (cycles, trees) in zip(parts, found, strict=True):
        inside = set(range(start, start + len(part)))
        assert all(set(nodes) <= inside for nodes in cycles + trees)
        components = networkx.number_connected_components(part)
        assert len(cycles) == part.number_of_edges() - len(part) + components
        n_bridges = sum(len(tree) - 1 for tree in trees)
        assert n_bridges == len(list(networkx.bridges(part)))
        start += len(part)


def test_cycles_and_trees_of_a_lollipop():
    graph = networkx.disjoint_union(networkx.lollipop_graph(3, 2), networkx.path_graph(3))
    graph.add_node(8)
    found = graphs.cycles_and_trees(graph, [5, 3, 1]).to_list()
    assert found == [[[[0, 1, 2]], [[2, 3, 4]]], [[], [[5, 6, 7]]], [[], []]]


@pytest.mark.parametrize("sizes", [[2], [2, 2], [-1, 4], [[3]]])
def test_sizes_that_do_not_fit(sizes):
    with pytest.raises(ValueError, match="add up to 3 nodes"):
        graphs.of_graphs(graphs.neighbourhoods(PATH), sizes)


# Degrees ----------------------------------------------------------------------------------------


@given(random_graphs())
def test_degrees_are_those_without_loops(graph):
    graph.remove_edges_from(list(networkx.selfloop_edges(graph)))
    assert graphs.degrees(graph).tolist() == [degree for _, degree in graph.degree]


def test_degree_features_by_the_papers_equation():
    table = graphs.degree_features(6)
    assert table.shape == (7, 6)
    assert table.dtype == np.float32
    for degree in range(7):
        for i in range(1, 7):
            expected = 1 / np.sqrt(degree) if i < degree else 0
            np.testing.assert_allclose(table[degree, i - 1], expected, rtol=1e-6)

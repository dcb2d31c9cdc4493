"""What hops of linked tables cost: `python benchmarks/hops.py`.

Molecules as tables of molecules, atoms and bonds, and a made-up social graph with hubs, whose
users send messages to users; with all rows, and with samples of larger bags (`at_most`). For each
number of hops: the rows of the tables, and those of the nested records, in which rows are repeated;
the rows in a batch by level, and those that the network computes, as it computes equal ones once;
megabytes in Arrow; seconds to link and to read, and until the first training step is done; and
milliseconds of a later step. For still more hops, nested rows are only counted. Results go to
`benchmarks/results/hops.json`.
"""

import argparse
import os
import time
import warnings
from dataclasses import dataclass

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pyarrow as pa
from records import write
from scipy import sparse

from keras_mmil import ragged
from keras_mmil.datasets._io import tu
from keras_mmil.layers import DistinctRows
from keras_mmil.records import Schema, link, records_model

BATCH, N_BATCHES = 64, 4
AT_MOST = 5  # messages that a user sent, and that he received
DATA = ("MUTAG", "Mutagenicity", "social")


@dataclass(frozen=True)
class Graph:
    """Linked tables with rows (`nodes`) that edges lead from and to.

    Attributes:
        tables, top, keys: as in `link`.
        target: what to predict.
        at_most: samples to compare with all rows; None for none.
        nodes, edges: the names of these tables; edges have the columns "one" and "two".
    """

    tables: dict[str, pa.Table]
    top: str
    keys: list[tuple[str, str]]
    target: str
    at_most: int | None
    nodes: str
    edges: str

    @property
    def n_rows(self):
        """Number of rows of all tables."""
        return sum(map(len, self.tables.values()))

    def n_nested(self, hops):
        """Number of rows of nested records without samples: from each node, all walks."""
        edges = self.tables[self.edges]
        one, two = (edges[name].to_numpy() for name in ("one", "two"))
        n = len(self.tables[self.nodes])
        ones = np.ones(2 * len(one))
        ends = (np.concatenate([one, two]), np.concatenate([two, one]))
        adjacency = sparse.csr_array((ones, ends), shape=(n, n))
        walks, found = np.ones(n), self.n_rows - len(edges)
        for _ in range(hops):
            walks = adjacency @ walks
            found += 2 * int(walks.sum())  # an edge, and the node behind it
        return found


def main():
    """Measure what the command line says, print a line each, and record it."""
    options = parse()
    records = []
    for name in options.data:
        graph = load(name, options.limit)
        for hops in range(1, options.counted + 1):
            for at_most in dict.fromkeys((None, graph.at_most)):
                found = about(name, graph, hops, at_most)
                if hops <= options.hops:
                    found |= measure(graph, hops, at_most, options.rounds)
                elif at_most is not None:
                    continue
                print(*(f"{key}={value}" for key, value in found.items()), flush=True)
                records.append(found)
    if not options.dry:
        write("hops", records, ("experiment", "model", "variant"))


def parse(arguments=None):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--hops", type=int, default=3, help="1, 2, … to this number")
    parser.add_argument("--counted", type=int, default=6, help="hops for which rows are counted")
    parser.add_argument("--limit", type=int, default=500, help="molecules or users, at most")
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest counts")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    return parser.parse_args(arguments)


def about(name, graph, hops, at_most):
    """What is known of a number of hops beforehand."""
    found = {
        "experiment": f"hops of {name}",
        "model": "all rows" if at_most is None else f"at most {at_most}",
        "variant": f"{hops} hops" if hops > 1 else "1 hop",
        "metric": "step_ms",
        "rows": graph.n_rows,
    }
    return found if at_most is not None else found | {"nested_rows": graph.n_nested(hops)}


def measure(graph, hops, at_most, rounds):
    """What is measured of a number of hops."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Samples of at most")
        link_seconds, records = fastest(
            lambda: link(graph.tables, graph.top, graph.keys, hops=hops, at_most=at_most),
            rounds,
        )
    schema = Schema.infer(records)
    read_seconds, (x, y) = fastest(lambda: schema.read(records, target=graph.target), rounds)
    n = min(N_BATCHES, len(y) // BATCH) or 1
    batches = [ragged.take((x, y), slice(i * BATCH, (i + 1) * BATCH)) for i in range(n)]
    keras.utils.clear_session()
    started = time.perf_counter()
    model = records_model(schema, graph.target, seed=0)
    model.train_on_batch(*batches[0])
    first_seconds = time.perf_counter() - started
    in_batch, computed = by_level(model, [x for x, _ in batches])

    def steps():
        for batch in batches:
            model.train_on_batch(*batch)

    steps()  # every batch once, before anything is timed
    seconds, _ = fastest(steps, rounds)
    return {
        "nested_rows": count(records),
        "batch_rows": in_batch,
        "computed_rows": computed,
        "mb": round(records.nbytes / 2**20, 2),
        "link_seconds": round(link_seconds, 3),
        "read_seconds": round(read_seconds, 3),
        "first_seconds": round(first_seconds, 1),
        "mean": round(seconds / n * 1000, 1),
        "runs": rounds,
    }


def fastest(program, rounds):
    """The least seconds of some rounds, and what the last one returned."""
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        found = program()
        seconds.append(time.perf_counter() - started)
    return min(seconds), found


def count(array):
    """Number of records in an array, at all levels."""
    if pa.types.is_large_list(array.type):
        return count(array.flatten())
    if not pa.types.is_struct(array.type):
        return 0
    return len(array) - array.null_count + sum(map(count, array.flatten()))


def by_level(model, batches):
    """Rows in a batch, and those that are computed, for bags at the top, bags in these, and so on.

    The rows of a bag come with the rows that they refer to. Averages over batches.
    """
    layers = [layer for layer in model.layers if isinstance(layer, DistinctRows)]
    outputs = [layer.output for layer in layers]
    probe = keras.Model(model.input, [[found[0], found[-1]] for found in outputs])
    levels = [len(found[-1].shape) - 2 for found in outputs]
    sums = np.zeros((2, max(levels) + 1))
    for batch in batches:
        for level, (rows, ids) in zip(levels, probe(batch), strict=True):
            sums[:, level] += ids.flat_values.shape[0], rows.shape[0]
    return np.rint(sums / len(batches)).astype(int).tolist()


def load(name, limit):
    """A graph of at most so many molecules or users."""
    return social(limit) if name == "social" else of_molecules(name, limit)


def of_molecules(name, limit):
    """Molecules of the TU collection, with their atoms and bonds, each bond once."""
    archive = tu.find(name)
    graphs = tu.read(archive, name)
    elements, kinds = (
        tu.read_ints(archive, name, f"{part}_labels")[:, 0] for part in ("node", "edge")
    )
    sizes = graphs.sizes[:limit]
    n = sizes.sum()
    is_one = (graphs.edges[:, 0] < graphs.edges[:, 1]) & (graphs.edges[:, 0] < n)
    one, two = graphs.edges[is_one].T
    tables = {
        "molecules": {"id": np.arange(len(sizes)), "label": graphs.labels[:limit] > 0},
        "atoms": {
            "id": np.arange(n),
            "molecule": np.repeat(np.arange(len(sizes)), sizes),
            "element": [f"element {x}" for x in elements[:n]],
        },
        "bonds": {"one": one, "two": two, "kind": [f"kind {x}" for x in kinds[is_one]]},
    }
    keys = [("atoms.molecule", "molecules.id"), *keys_of("bonds", "atoms")]
    return Graph(arrow(tables), "molecules", keys, "label", None, "atoms", "bonds")


def social(n):
    """Users who send messages to others, by preferential attachment (Barabási and Albert, 1999)."""
    random = np.random.default_rng(0)
    ends = [0, 1]  # a user comes as often as messages lead from and to him
    for user in range(2, n):
        for other in {ends[i] for i in random.integers(len(ends), size=3)}:
            ends += [user, other]
    one, two = np.reshape(ends, (-1, 2)).T
    is_turned = random.random(len(one)) < 0.5
    ages = random.integers(18, 80, n)
    tables = {
        "users": {
            "id": np.arange(n),
            "age": ages,
            "country": [f"country {x}" for x in random.integers(0, 8, n)],
            "active": ages + random.normal(0, 10, n) < 40,
        },
        "messages": {
            "one": np.where(is_turned, two, one),
            "two": np.where(is_turned, one, two),
            "words": random.integers(1, 100, len(one)),
        },
    }
    keys = keys_of("messages", "users")
    return Graph(arrow(tables), "users", keys, "active", AT_MOST, "users", "messages")


def keys_of(edges, nodes):
    """The keys of edges to the nodes at both ends."""
    return [(f"{edges}.{end}", f"{nodes}.id") for end in ("one", "two")]


def arrow(tables):
    """Dicts of columns as tables of Arrow."""
    return {name: pa.table(columns) for name, columns in tables.items()}


if __name__ == "__main__":
    main()

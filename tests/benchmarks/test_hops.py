"""The rows that the benchmark of hops counts."""

import collections
import itertools

import pytest

from keras_mmil.records import Schema, link, records_model


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_nested_rows_are_the_walks(load_benchmark, hops):
    graph = load_benchmark("hops").social(40)
    nested = link(graph.tables, graph.top, graph.keys, hops=hops)

    def count(part):
        if isinstance(part, list):
            return sum(map(count, part))
        return 1 + sum(map(count, part.values())) if isinstance(part, dict) else 0

    n = count(nested.to_pylist())
    assert graph.n_nested(hops) == n
    assert load_benchmark("hops").count(nested) == n


@pytest.mark.slow
def test_rows_by_level(load_benchmark):
    hops = load_benchmark("hops")
    graph = hops.social(60)
    nested = link(graph.tables, graph.top, graph.keys, hops=2)
    schema = Schema.infer(nested)
    model = records_model(schema, graph.target, compress=True)
    in_batch, computed = hops.by_level(model, [schema.read(nested, without=graph.target)])
    # An edge and the node behind it are a row together.
    walks = [len(graph.tables["users"]), graph.n_nested(1), graph.n_nested(2)]
    assert in_batch == [(two - one) // 2 for one, two in itertools.pairwise(walks)]
    rows = collections.defaultdict(set)
    ends = [("one", "two"), ("two", "one")]
    for user in nested.to_pylist():
        for (here, there), (then, last) in itertools.product(ends, ends):
            for message in user[f"messages_by_{here}"]:
                for other in message[f"users_by_{there}"][f"messages_by_{then}"]:
                    behind = other[f"users_by_{last}"]
                    rows[here, then].add((other["words"], behind["age"], behind["country"]))
    assert computed[1] == sum(map(len, rows.values())) < in_batch[1] / 2
    assert computed[0] <= in_batch[0]

"""What the statistics of a schema say about a network, against NumPy."""

import datetime
import math

import numpy as np
import pytest

from keras_mmil.layers import CategoryEncoder
from keras_mmil.records import Schema
from keras_mmil.records import network as known

ARGUMENTS = {"units": 5, "min_count": 2, "n_edges": 0, "name": "encoder"}


def encoder_of(schema, *paths, **arguments):
    fields = [schema[path] for path in paths]
    return known.encoder_of(fields, **{**ARGUMENTS, **arguments})


def config_of(schema, path, **arguments):
    """The arguments of the encoder of one field."""
    config = encoder_of(schema, path, **arguments).get_config()
    return {name: x[0] if isinstance(x, list) else x for name, x in config.items()}


def test_numbers_are_standardised():
    values = np.random.default_rng(0).normal(50, 7, 300)
    schema = Schema.infer([{"a": float(x)} for x in values])
    found = config_of(schema, "a")
    assert found["mean"] == pytest.approx(values.mean())
    assert found["variance"] == pytest.approx(values.var())
    assert found["edges"] == []
    edges = config_of(schema, "a", n_edges=5)["edges"]
    expected = np.quantile(values, [0, 0.25, 0.5, 0.75, 1], method="inverted_cdf")
    np.testing.assert_allclose(edges, expected, rtol=1e-6)
    few = Schema.infer([{"a": [1, 1, 1, 1, 5, 9][i % 6]} for i in range(60)])
    assert config_of(few, "a", n_edges=4)["edges"] in ([1, 5, 9], [1, 9])


@pytest.mark.parametrize("as_text", [True, False])
def test_times_are_standardised(as_text):
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    times = [start + datetime.timedelta(days=3 * i) for i in range(50)]
    rows = [{"t": time.isoformat() if as_text else time} for time in times]
    found = config_of(Schema.infer(rows), "t")
    seconds = np.array([time.timestamp() for time in times])
    assert found["mean"] == pytest.approx(seconds.mean())
    assert found["variance"] == pytest.approx(seconds.var())


def test_categories():
    rows = [{"a": f"c{i % 70}", "b": ["x", "y", "x", "y", "z"][i % 5], "c": i} for i in range(141)]
    schema = Schema.infer([*rows, {"a": "once", "b": None}])
    many, few = encoder_of(schema, "a"), encoder_of(schema, "b")
    assert isinstance(many, CategoryEncoder)
    assert (many.units, len(many.vocabulary[0]), few.units) == (5, 70, None)
    assert few.vocabulary == [["x", "y", "z"]]
    assert "once" in config_of(schema, "a", min_count=1)["vocabulary"]
    assert config_of(schema, "b", min_count=1000)["vocabulary"] == ["x", "y", "z"]
    assert [known.n_distinct(schema[path]) for path in ("b", "c")] == [4, 142]


def test_mean_sizes():
    rows = [{"a": [1, 2, 3], "b": {f"k{i}": i for i in range(20)}}, {"a": []}, {"a": None}]
    schema = Schema.infer(rows)
    assert known.mean_size(schema["a"]) == 1.5
    schema["b"] = "bag"
    assert schema["b"].is_map
    assert known.mean_size(schema["b"]) == 20
    with pytest.raises(TypeError, match="a bag"):
        known.mean_size(schema["a[]"])


def test_values_that_are_not_counted():
    schema = Schema.infer([{"a": i + 0.5} for i in range(10_001)])
    assert known.n_distinct(schema["a"]) == math.inf
    assert config_of(schema, "a", n_edges=8)["edges"] == []

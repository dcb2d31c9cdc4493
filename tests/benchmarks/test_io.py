"""Memory of data in files: what is made up is what is written, and a small run goes through."""

import numpy as np
import pytest

from keras_mmil import ragged


@pytest.mark.parametrize("form", ["bags", "ids"])
def test_made_up_reviews_are_alike(load_benchmark, form):
    memory = load_benchmark("io_memory")
    found = list(memory.batches(600, form))
    assert sum(len(y) for _, y in found) == 600
    instances = [x.n_instances if form == "bags" else x.flat_values.shape[0] for x, _ in found]
    assert 150 < sum(instances) / 600 < 350
    again = ragged.concat([y for _, y in memory.batches(600, form)])
    np.testing.assert_array_equal(again, np.concatenate([y for _, y in found]))


@pytest.mark.slow
@pytest.mark.nightly  # a process for each measurement
def test_memory_is_measured(load_benchmark, monkeypatch):
    memory = load_benchmark("io_memory")
    options = ["--reviews", "60", "--scales", "1", "--tasks", "write", "train", "evaluate"]
    recorded = []
    monkeypatch.setattr(memory, "write", lambda name, records, key: recorded.extend(records))
    memory.compare("tfrecord", "bags", memory.parse(options))
    assert [record["metric"] for record in recorded] == ["peak_gb", "peak_growth"] * 3
    assert all(0 <= record["mean"] < 4 for record in recorded)

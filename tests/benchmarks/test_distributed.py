"""The throughput of actors: what counts of their reports, and a small run."""

import pytest

from keras_mmil.distributed.jobs import BlockReport


def report(process, started, finished, rows=100):
    return BlockReport(0, rows, "", started, finished, process)


def test_blocks_count_from_when_all_actors_are_at_work(load_benchmark):
    rate = load_benchmark("distributed").rate
    first = [report(1, 0, 7), report(1, 7, 9), report(1, 9, 11), report(2, 4, 10)]
    # Both have done a block after 10 seconds; those that were begun before do not count.
    later = [report(1, 11, 13), report(1, 13, 15, rows=50), report(2, 10, 14)]
    assert rate([*later, *first], 2) == pytest.approx(250 / 5)
    assert rate(first[:3], 1) == pytest.approx(200 / 4)
    with pytest.raises(RuntimeError, match="2 actors"):
        rate(first[:3], 2)
    with pytest.raises(RuntimeError, match="more blocks"):
        rate(first, 2)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_small_run(load_benchmark):
    pytest.importorskip("ray", reason="needs Ray: pip install 'keras-mmil[ray]'")
    records = load_benchmark("distributed").measured(2000, rounds=1, block_size=50)
    figures = {(each["variant"], each["metric"]): each["mean"] for each in records}
    assert len(figures) == 5
    assert all(figures[f"{n}", "reviews_per_second"] > 0 for n in ("1 actor", "2 actors"))
    assert 0.3 < figures["2 actors", "peak_gb"] < 4
    assert figures["2 actors", "speedup"] > 0

"""The model of cost of several workers."""

import pytest

ALPHA, BETA = 1e-4, 2e-9  # seconds for a message, and for a byte
FIXED = 5e-3  # seconds that a strategy adds to a step
SIZES = {32: 1e4, 128: 1e6, 512: 4e6}  # bytes of gradients, by units


def compute(units):
    """Seconds."""
    return 0.0003 * units


def measured():
    """Times as they would be if the model were true."""
    for units, n_bytes in SIZES.items():
        alone = [compute(units)]
        shared = {"units": units, "bytes": n_bytes, "alone": alone}
        yield {**shared, "n_workers": 1, "together": alone, "all_reduce": [0.0]}
        reduce = 2 * ALPHA + n_bytes * BETA
        together = [alone[0] + FIXED + reduce]
        yield {**shared, "n_workers": 2, "together": together, "all_reduce": [reduce]}


def test_the_model_of_cost_finds_what_made_the_times(load_benchmark):
    scaling = load_benchmark("scaling")
    found = [*measured()]
    records = [*scaling.communication(found), *scaling.costs(found)]
    figures = {
        (each["model"].split()[0], each["variant"], each["metric"]): each for each in records
    }
    assert len(figures) == len(records)  # none is written over another

    def figure(*name):
        return figures[("512", *name)]["mean"]

    two = compute(512) + FIXED + 2 * ALPHA + 4e6 * BETA
    held_out = figure("2 workers, not fitted to", "modelled_to_measured")
    assert held_out == pytest.approx(1, abs=1e-3)
    assert figure("2 workers", "efficiency") == pytest.approx(compute(512) / two, abs=1e-4)
    share = 1 - compute(512) / two
    assert figure("2 workers", "communication_share") == pytest.approx(share, abs=1e-4)
    many = compute(512) + FIXED + 126 * ALPHA + 126 / 64 * 4e6 * BETA
    on_paper = figure("64 workers on paper, loopback", "efficiency")
    assert on_paper == pytest.approx(compute(512) / many, abs=1e-3)

"""Pictures of the search."""

from types import SimpleNamespace

import pytest
from trainable_networks import make_data, make_model, median_target

from keras_mmil.interpretation import Explainer, plot_grid
from keras_mmil.interpretation.fitting.search import GridPoint


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_grid_picture(depth, tmp_path):
    x, _ = make_data(60, depth)
    model = make_model(depth)
    fit = Explainer(max_clusters=3, ccp_alpha=0, verbose=0, target=median_target(model, x))
    fit.fit(model, x)
    figure = plot_grid(fit, tmp_path / "grid.png")
    assert (tmp_path / "grid.png").stat().st_size > 1000
    figures = f"{100 * fit.fidelity_:.2f} %; most frequent class: {100 * fit.majority_:.2f} %"
    assert f"(chosen: {figures})" in figure.get_suptitle()
    panels = [ax for ax in figure.axes if ax.get_xlabel()]
    assert len(panels) == max(1, depth - 1)
    if depth == 2:
        shown = {(round(t.get_position()[0]), round(t.get_position()[1])): t.get_text()
                 for t in panels[0].texts}  # fmt: skip
        for point in fit.grid_:
            column, row = (k - 2 for k in point.n_clusters)
            assert shown[column, row] == f"{100 * point.fidelity:.1f}"


def test_grid_picture_of_some_combinations():
    """Those that were not tried are left blank."""
    fidelities = {(2, 2): 0.5, (2, 9): 0.625, (9, 2): 0.75, (4, 3): 0.9}
    grid = tuple(GridPoint(ks, fidelity, 5) for ks, fidelity in fidelities.items())
    fit = SimpleNamespace(grid_=grid, n_clusters_=(4, 3), fidelity_=0.9, majority_=0.5)
    panel = plot_grid(fit).axes[0]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["2", "4", "9"]
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["2", "3", "9"]
    shown = {text.get_position(): text.get_text() for text in panel.texts}
    assert shown == {(0, 0): "50.0", (0, 2): "62.5", (2, 0): "75.0", (1, 1): "90.0"}
    assert panel.images[0].get_clim() == pytest.approx((68.75, 90))  # from the median upwards


@pytest.mark.parametrize("depth", [1, 2])
def test_grid_picture_of_many_combinations(depth):
    """Numbers on the axes do not overlap."""
    grid = tuple(GridPoint((k,) * depth, k / 100, 5) for k in range(2, 51))
    fit = SimpleNamespace(grid_=grid, n_clusters_=(50,) * depth, fidelity_=0.5, majority_=0.5)
    panel = plot_grid(fit).axes[0]
    for axis in (panel.xaxis, panel.yaxis)[:depth]:
        names = [tick.get_text() for tick in axis.get_ticklabels()]
        assert names == [str(k) for k in range(2, 51, 3)]

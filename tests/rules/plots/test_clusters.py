"""Pictures of clusters and true labels, and of the search."""

from types import SimpleNamespace

import numpy as np
import pytest
from trainable_networks import make_data, make_model, median_target

from keras_mmil.rules import Explainer, plot_correspondence, plot_grid
from keras_mmil.rules.explain.clusters import LevelDescription
from keras_mmil.rules.fitting.search import GridPoint


@pytest.fixture(scope="module")
def x():
    return make_data()[0]


@pytest.fixture(scope="module")
def fitted(x):
    model = make_model()
    target = median_target(model, x)
    return Explainer(max_clusters=4, target=target, verbose=0).fit(model, x)


@pytest.mark.parametrize("names", [("low", "high"), ("0", "1")])
def test_correspondence_picture(fitted, x, tmp_path, names):
    """Bars lie beside long names."""
    signs = x.with_values((x.values[:, 0] > 0).numpy().astype(int))
    description = fitted.describe(x, instance_labels=signs, label_names={"instance": names})[0]
    figure = plot_correspondence(description, tmp_path / "labels.png")
    assert (tmp_path / "labels.png").exists()
    ax, lying = figure.axes[0], names[0] == "low"
    ticks = ax.get_yticklabels() if lying else ax.get_xticklabels()
    assert [tick.get_text() for tick in ticks] == list(names)
    sizes = [bar.get_width() if lying else bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(sizes, 100 * description.table[0] / description.table[0].sum())
    assert description.names[0] in figure.axes[0].get_title()
    with pytest.raises(ValueError, match="instances without a table"):
        plot_correspondence(fitted.describe(x)[0])


@pytest.mark.slow
def test_correspondence_of_many_clusters_is_a_map(tmp_path):
    """Rows are the clusters, sorted by their most frequent label."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 50, (30, 20))
    table[7] = 0  # a cluster without rows
    names, labels = tuple(f"u{i + 1}" for i in range(30)), tuple(f"kind {i}" for i in range(20))
    needed = (False, *[True] * 29)
    description = LevelDescription(
        level=0,
        word="instance",
        words="instances",
        title="instance",
        names=names,
        sizes=np.full(30, 1 / 30),
        needed=needed,
        table=table,
        label_names=labels,
    )
    figure = plot_correspondence(description, tmp_path / "labels.png")
    assert (tmp_path / "labels.png").exists()
    ax = figure.axes[0]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list(labels)
    order = [names.index(tick.get_text().split()[0]) for tick in ax.get_yticklabels()]
    assert sorted(order) == list(range(30))
    majority = np.maximum(description.majority, 0)[order]
    assert (np.diff(majority) >= 0).all()
    expected = 100 * table[order] / np.maximum(table[order].sum(axis=1, keepdims=True), 1)
    np.testing.assert_allclose(ax.images[0].get_array(), expected)
    numbers = [text.get_text() for text in ax.texts]
    assert numbers == [f"{share:.0f}" for share in expected[expected >= 10]]
    colours = {label.get_text().split()[0]: label.get_color() for label in ax.get_yticklabels()}
    assert colours["u1"] != colours["u2"] == "black"


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

"""A picture of the search for the numbers of clusters."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_mmil._support.formatting import percent
from keras_mmil._support.types import PathLike
from keras_mmil.interpretation.fitting.search import GridPoint
from keras_mmil.interpretation.plots.figures import BLUE, RED, finish, new_figure, write_numbers
from keras_mmil.interpretation.plots.protocols import FittedExplainer
from keras_mmil.interpretation.rules.level import level_symbol, level_word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_grid"]

_N_TICKS = 17  # with a name, on an axis


def plot_grid(explainer: FittedExplainer, path: PathLike | None = None) -> "Figure":
    """Fidelity on validation data for each combination of numbers of clusters.

    A line for one level, a heat-map for two; for more, a heat-map for each pair of neighbouring
    levels, of the best fidelity over the others. The chosen combination is marked.

    Args:
        explainer: a fitted `Explainer`.
        path: where to save the picture, if at all.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: without matplotlib.
        ValueError: for records without bags, which have no clusters.
    """
    chosen, grid = explainer.n_clusters_, explainer.grid_
    if not chosen:
        raise ValueError("Expected rules about clusters. Received: explainer of fields alone")
    if len(chosen) == 1:
        figure = new_figure(5, 3.2)
        _line(figure.subplots(), grid, chosen)
    else:
        pairs = list(itertools.pairwise(range(len(chosen))))
        figure = new_figure(5.2 * len(pairs), 4.4)
        axes = figure.subplots(1, len(pairs), squeeze=False)
        for ax, pair in zip(axes[0], pairs, strict=True):
            _heat_map(figure, ax, grid, chosen, pair)
    fidelity, share = percent(explainer.fidelity_, 2), percent(explainer.majority_, 2)
    figure.suptitle(
        f"Fidelity on validation data\n(chosen: {fidelity}; most frequent class: {share})",
        fontsize=11,
    )
    return finish(figure, path)


def _line(ax: "Axes", grid: Sequence[GridPoint], chosen: Sequence[int]) -> None:
    ks = [point.n_clusters[0] for point in grid]
    fidelities = [100 * point.fidelity for point in grid]
    ax.plot(ks, fidelities, marker="o", color=BLUE)
    best = ks.index(chosen[0])
    (ring,) = ax.plot(ks[best], fidelities[best], marker="o", markersize=13)
    ring.set(markerfacecolor="none", markeredgecolor=RED, markeredgewidth=2)
    ax.set_xticks(ks[:: _tick_step(ks)])
    ax.set_xlabel(_axis_label(0, 1))
    ax.set_ylabel("fidelity in %")
    ax.spines[["top", "right"]].set_visible(False)


def _heat_map(
    figure: "Figure",
    ax: "Axes",
    grid: Sequence[GridPoint],
    chosen: Sequence[int],
    pair: tuple[int, int],
) -> None:
    """The best fidelity for each combination of numbers of clusters of a pair of levels."""
    ks = [sorted({point.n_clusters[level] for point in grid}) for level in pair]
    values = np.full((len(ks[1]), len(ks[0])), np.nan)
    for point in grid:
        column, row = (ks[i].index(point.n_clusters[level]) for i, level in enumerate(pair))
        values[row, column] = np.fmax(values[row, column], 100 * point.fidelity)
    # Colours tell the better half apart: few clusters can be far worse than all others.
    low, high = np.nanmedian(values), np.nanmax(values)
    image = ax.imshow(values, origin="lower", cmap="Blues", aspect="auto", vmin=low, vmax=high)
    middle = (low + high) / 2
    fontsize = 8 if max(values.shape) <= 12 else 5
    tried = np.isfinite(values)
    write_numbers(ax, values, chosen=tried, middle=middle, form=".1f", fontsize=fontsize)
    column, row = (ks[i].index(chosen[level]) for i, level in enumerate(pair))
    x, y = np.array([0, 1, 1, 0, 0]) + column - 0.5, np.array([0, 0, 1, 1, 0]) + row - 0.5
    ax.plot(x, y, color=RED, linewidth=2.5, clip_on=False)
    for axis, numbers in zip((ax.xaxis, ax.yaxis), ks, strict=True):
        shown = range(0, len(numbers), _tick_step(numbers))
        axis.set_ticks(shown, [str(numbers[i]) for i in shown])
    ax.set_xlabel(_axis_label(pair[0], len(chosen)))
    ax.set_ylabel(_axis_label(pair[1], len(chosen)))
    label = "fidelity in %" if len(chosen) == 2 else "best fidelity in %"
    figure.colorbar(
        image, ax=ax, label=label, extend="min" if np.nanmin(values) < low else "neither"
    )


def _tick_step(values: Sequence[int]) -> int:
    """Which ticks to name, so that their names do not overlap."""
    return -(-len(values) // _N_TICKS)


def _axis_label(level: int, n_levels: int) -> str:
    return f"clusters of {level_word(level, n_levels)}s ({level_symbol(level)})"

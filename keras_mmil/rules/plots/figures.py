"""What all pictures share: figures without pyplot, colours, and texts that fit."""

import re
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from keras_mmil._support.types import Array, PathLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "RED",
    "add_legend",
    "finish",
    "new_figure",
    "rows_and_columns",
    "wrap_clause",
    "write_numbers",
]

BLUE, GREY, RED, GREEN = "#3b6ea5", "#b9c4cf", "#c0392b", "#2a9134"


def new_figure(width: float, height: float) -> "Figure":
    """A figure, in inches, without pyplot, which would keep it and look for a display.

    Raises:
        ImportError: without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Expected matplotlib to draw: pip install 'keras-mmil[plots]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def finish(figure: "Figure", path: PathLike | None) -> "Figure":
    """Save a figure, if there is a path, and return it."""
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def add_legend(figure: "Figure", marks: Mapping[str, tuple[str, str]]) -> None:
    """Add a legend below a figure: a dict from meanings to markers, such as "s", and colours."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker=marker, color=colour, linestyle="none", markersize=6)
        for marker, colour in marks.values()
    ]
    figure.legend(
        handles,
        list(marks),
        loc="outside lower center",
        ncols=len(marks),
        fontsize=8,
        frameon=False,
    )


def rows_and_columns(n_panels: int, most_columns: int) -> tuple[int, int]:
    """The numbers of rows and columns of a figure with so many panels."""
    columns = min(n_panels, most_columns)
    return -(-n_panels // columns), columns


def wrap_clause(clause: str, width: int) -> str:
    """A clause in lines of at most `width` characters, broken between conditions only."""
    kept_together = re.sub(r"(?<![,←:]) | (?=\d)", "\N{NO-BREAK SPACE}", clause)
    return textwrap.fill(kept_together, width, break_long_words=False, break_on_hyphens=False)


def write_numbers(
    ax: "Axes", values: Array, *, chosen: Array, middle: float, form: str, fontsize: float
) -> None:
    """Write the chosen values into the cells of a heat map, in white on those above the middle."""
    for row, column in np.argwhere(chosen):
        value = values[row, column]
        colour = "white" if value > middle else "black"
        text = f"{value:{form}}"
        ax.text(column, row, text, color=colour, ha="center", va="center", fontsize=fontsize)

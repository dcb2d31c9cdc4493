"""Pictures of top-bags: bags of images, and clouds of points with the rules that fired on them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil._support.types import PathLike
from keras_mmil.rules.explain.explanation import CHECKED, COUNTED, DECIDES, LIMITED, Part
from keras_mmil.rules.plots.figures import (
    BLUE,
    GREEN,
    RED,
    add_legend,
    finish,
    new_figure,
    rows_and_columns,
    wrap_clause,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    from keras_mmil.rules.explainer import Explainer

__all__ = ["plot_clouds", "plot_top_bag"]

# By label; None where it is unknown.
_STYLES: dict[int | None, dict[str, Any]] = {
    1: {"edgecolor": "#2a9134", "linestyle": "-"},
    0: {"edgecolor": "#c8313a", "linestyle": "--"},
    None: {"edgecolor": "#808080", "linestyle": "-"},
}
# In units of the size of an image.
_PAD = 0.12  # between a frame and what is in it
_GAP = 0.2  # between frames


def plot_top_bag(
    x: tf.RaggedTensor,
    sub_bag_labels: npt.ArrayLike | None = None,
    label: int | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a top-bag of images: a frame for each sub-bag, and one around them all.

    Frames are solid and green for positive bags, dashed and red for negative bags, and grey if the
    label is unknown.

    Args:
        x: a top-bag, RaggedTensor `[(n), (m), height, width]` of images, such as `x_test[0]`.
        sub_bag_labels: labels 0 or 1 of its sub-bags, `[n]`, such as those from
            `datasets.mnist.sub_bag_labels`; None if they are unknown.
        label: of the top-bag, 0 or 1; by default 1 if a sub-bag has label 1, 0 if none has, and
            unknown if theirs are.
        ax: matplotlib axes to draw in; by default those of a new figure.

    Returns:
        The matplotlib axes.

    Raises:
        ImportError: without matplotlib.
        TypeError: if `x` is not a RaggedTensor.
        ValueError: if `x` is not a single top-bag, there is not one label for each sub-bag, or a
            label is neither 0 nor 1.
    """
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Expected matplotlib, which draws pictures: pip install 'keras-mmil[plots]'"
        ) from error
    if not isinstance(x, tf.RaggedTensor):
        raise TypeError(f"Expected a RaggedTensor. Received: x of type {type(x).__name__}")
    if x.ragged_rank != 1 or x.flat_values.shape.rank != 3:
        raise ValueError(
            f"Expected one top-bag, a bag of bags such as x[0]. Received: x.shape={x.shape}"
        )
    labels: list[int | None] = [None] * x.shape[0]
    if sub_bag_labels is not None:
        array = np.asarray(sub_bag_labels)
        if array.shape != (len(labels),):
            raise ValueError(
                f"Expected a label for each of {len(labels)} sub-bags. "
                f"Received: sub_bag_labels of shape {array.shape}"
            )
        labels = array.tolist()
        label = int(1 in labels) if label is None else label
    for name, value in (*(("sub_bag_labels", value) for value in labels), ("label", label)):
        if value not in _STYLES:
            raise ValueError(f"Expected a label 0 or 1, or None. Received: {name}={value!r}")

    sizes = x.row_lengths().numpy()
    step = 1 + 2 * _PAD + _GAP  # from a sub-bag to the next one below it
    width = sizes.max(initial=1) + 2 * _PAD + 2 * _GAP
    height = len(sizes) * step + _GAP
    if ax is None:
        _, ax = plt.subplots(figsize=(0.6 * width, 0.6 * height), layout="constrained")
    ax.add_patch(_frame(0, 0, width, height, label=label, linewidth=2.5))
    brightest = x.flat_values.numpy().max(initial=1)
    for row, (images, own) in enumerate(zip(x, labels, strict=True)):
        left, top = _GAP, _GAP + row * step
        inner = _frame(left, top, len(images) + 2 * _PAD, 1 + 2 * _PAD, label=own, linewidth=1.5)
        ax.add_patch(inner)
        for column, image in enumerate(images.numpy()):
            x0, y0 = left + _PAD + column, top + _PAD
            ax.imshow(image, "gray_r", extent=(x0, x0 + 1, y0 + 1, y0), vmin=0, vmax=brightest)
    ax.set(xlim=(-_PAD, width + _PAD), ylim=(height + _PAD, -_PAD), aspect="equal")
    ax.set_axis_off()
    return ax


def _frame(
    left: float, top: float, width: float, height: float, *, label: int | None, linewidth: float
) -> "FancyBboxPatch":
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(
        (left, top),
        width,
        height,
        boxstyle=f"round,pad=0,rounding_size={_PAD}",
        facecolor="none",
        linewidth=linewidth,
        **_STYLES[label],
    )


# Clouds of points --------------------------------------------------------------------------------

_WIDTH, _LETTERS = 3.6, 50  # of a cloud, inches, and letters of its title as wide as it
_N_ABSENT = 60  # points that would have to be absent, in a picture


def plot_clouds(
    explainer: "Explainer",
    x: tf.RaggedTensor,
    around: tf.RaggedTensor,
    titles: Sequence[str] | None = None,
    path: PathLike | None = None,
) -> "Figure":
    """Clouds of points, and the rules that fired on each top-bag and on the cloud shown.

    Points whose cluster the rule on the cloud requires are green. Red crosses are points in the
    clouds of `around` whose clusters the rule forbids or limits and that this cloud does not have.
    Of several clouds in a top-bag, the first is shown whose cluster the rule on the top-bag
    requires; if it requires none, the first that it limits, or else checked.

    Args:
        explainer: a fitted `Explainer` of a network for clouds of points in space.
        x: top-bags, one picture each: RaggedTensor [top-bags, (points), 3] or
            [top-bags, (clouds), (points), 3].
        around: more top-bags.
        titles: of the top-bags; by default their indices.
        path: where to save the picture, if at all.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: without matplotlib.
        ValueError: if points do not have three coordinates.
    """
    if x.shape[-1] != 3:
        raise ValueError(f"Expected points in space. Received: x.shape={tuple(x.shape)}")
    others = around.flat_values.numpy()
    cluster_of = explainer.labels(around)[0].flat_values.numpy()
    names = explainer.clusters_[0].names
    paths = [_shown(explanation.top_bag) for explanation in explainer.explain(x)]
    titles = titles or list(map(str, range(len(paths))))
    texts = [_reasons(path, title) for path, title in zip(paths, titles, strict=True)]
    rows, columns = rows_and_columns(len(paths), 4)
    lines = 1 + max(text.count("\n") for text in texts)
    figure = new_figure(_WIDTH * columns, (_WIDTH + 0.17 * lines) * rows)
    # Subfigures, because the layout makes no room for long titles of 3D axes.
    panels = figure.subfigures(rows, columns, squeeze=False).flat
    for panel, parts, text in zip(panels, paths, texts, strict=False):
        panel.suptitle(text, fontsize=9)
        cloud = parts[-1]
        ax = panel.add_subplot(projection="3d")
        ax.set_axis_off()
        if cloud.level > 1:
            continue  # an empty bag, without a cloud
        points = x[cloud.position].numpy()
        decides = np.array([child.deciding for child in cloud.children], bool)
        absent = np.isin(cluster_of, [names.index(name) for name in cloud.absent])
        step = max(1, absent.sum() // _N_ABSENT)
        crosses = others[absent][::step]
        ax.scatter(*crosses.T, color=RED, marker="x", s=12, alpha=0.5)
        ax.scatter(*points[~decides].T, color=BLUE, s=6)
        ax.scatter(*points[decides].T, color=GREEN, s=30, depthshade=False)
        drawn = np.concatenate([points, crosses]).astype(float)
        if len(drawn):
            low, high = drawn.min(axis=0), drawn.max(axis=0)
            high = np.maximum(high, low + 1e-6)  # a cloud may be flat
            ax.set(**{f"{axis}lim": pair for axis, *pair in zip("xyz", low, high, strict=True)})
            ax.set_box_aspect(high - low, zoom=1.05)
    marks = {
        "points that the rule requires": ("o", GREEN),
        "other points": ("o", BLUE),
        "where the rule allows none, or few": ("x", RED),
    }
    add_legend(figure, marks)
    return finish(figure, path)


def _shown(top_bag: Part) -> list[Part]:
    """A top-bag, and the bags in it that best explain why its rule fired, down to an empty bag."""
    path = [top_bag]
    while path[-1].level > 1 and path[-1].children:
        children = path[-1].children
        first = {child.role: child for child in reversed(children)}
        roles = (role for role in (DECIDES, LIMITED, COUNTED, CHECKED) if role in first)
        path.append(first[next(roles, children[0].role)])
    return path


def _reasons(path: Sequence[Part], title: str) -> str:
    """The title of a picture, and the rule that fired on each of the bags."""
    top_bag, *inner = path
    reasons = [f"{part.word} {part.title} ({part.role}): {part.clause}" for part in inner]
    lines = [wrap_clause(reason, _LETTERS) for reason in (f"{top_bag.clause}", *reasons)]
    return "\n".join([title, *lines])

"""Pictures of bags of images, as in the paper's figure of top-bags of digits."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import FancyBboxPatch

__all__ = ["plot_top_bag"]

# By label; None where it is not known.
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

    Frames of positive bags are solid and green, those of negative bags dashed and red, and grey
    where the label is not known.

    Args:
        x: a top-bag, RaggedTensor `[(n), (m), height, width]` of images, such as `x_test[0]`.
        sub_bag_labels: labels 0 or 1 of its sub-bags, `[n]`, such as those that
            `datasets.mnist.sub_bag_labels` gives; None if they are not known.
        label: of the top-bag, 0 or 1; by default 1 if a sub-bag has label 1, 0 if none has, and
            not known if theirs are not.
        ax: matplotlib axes to draw in; by default those of a new figure of fitting size.

    Returns:
        The matplotlib axes.

    Raises:
        ImportError: if matplotlib is not installed.
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
    _check_top_bag(x)
    labels: list[int | None] = [None] * x.shape[0]
    if sub_bag_labels is not None:
        given = np.asarray(sub_bag_labels)
        if given.shape != (len(labels),):
            raise ValueError(
                f"Expected a label for each of {len(labels)} sub-bags. "
                f"Received: sub_bag_labels of shape {given.shape}"
            )
        labels = given.tolist()
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


def _check_top_bag(x: Any) -> None:
    if not isinstance(x, tf.RaggedTensor):
        raise TypeError(f"Expected a RaggedTensor. Received: x of type {type(x).__name__}")
    if x.ragged_rank != 1 or x.flat_values.shape.rank != 3:
        raise ValueError(
            f"Expected one top-bag, a bag of bags such as x[0]. Received: x.shape={x.shape}"
        )

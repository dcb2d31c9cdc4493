"""What a user wants to be shown of a record, as a piece of HTML."""

import base64
from typing import TypeAlias

import numpy as np
import tensorflow as tf
from markupsafe import Markup

from keras_mmil._support.types import Array

__all__ = ["Shown", "markup", "picture"]

# A text; an SVG, which begins with "<svg"; or an image [height, width] or [height, width, 1 | 3].
Shown: TypeAlias = str | Array

_LONGEST = 400  # characters of a text


def markup(shown: Shown) -> Markup:
    """A piece of HTML. Texts are escaped; an SVG is an image, in which no script runs.

    Raises:
        TypeError: for anything that cannot be shown.
    """
    if isinstance(shown, Markup):
        return shown
    if isinstance(shown, str):
        if shown.lstrip().startswith("<svg"):
            return _image(shown.encode(), "svg+xml")
        return Markup.escape(shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…")
    array = np.asarray(shown)
    if array.ndim not in (2, 3) or array.dtype.kind not in "biuf":
        raise TypeError(
            "Expected a text, an SVG or an image [height, width] or [height, width, channels]. "
            f"Received: {type(shown).__name__} of shape {array.shape} and dtype {array.dtype}"
        )
    return picture(array, float(array.min(initial=0)), float(array.max(initial=0)))


def picture(array: Array, low: float, high: float) -> Markup:
    """An image, of which `low` is white and `high` is black where it has one channel.

    Args:
        array: numbers [height, width] or [height, width, 1 | 3].
        low, high: of all images that are to be compared.
    """
    scaled = np.clip((array.astype(float) - low) / max(high - low, 1e-12), 0, 1)
    scaled = scaled[..., None] if scaled.ndim == 2 else scaled
    if scaled.shape[-1] == 1:
        scaled = 1 - scaled
    return _image(tf.io.encode_png(np.round(255 * scaled).astype(np.uint8)).numpy(), "png")


def _image(content: bytes, form: str) -> Markup:
    data = base64.b64encode(content).decode()
    return Markup('<img alt="" src="data:image/{};base64,{}">').format(form, data)

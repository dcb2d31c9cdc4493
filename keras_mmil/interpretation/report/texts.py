"""What texts look like, and the choice among all renderers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from markupsafe import Markup

from keras_mmil._support.types import Tensors
from keras_mmil.interpretation.readout.part import CHECKED, IDLE, Part
from keras_mmil.interpretation.readout.text_spans import (
    as_str,
    sentence_spans,
    window_centres,
    without_breaks,
)
from keras_mmil.interpretation.report.renderers import (
    RENDERERS,
    Images,
    Instances,
    Numbers,
    Plain,
    Renderer,
    css_class,
)
from keras_mmil.interpretation.report.shown import Shown
from keras_mmil.layers import TextBags

__all__ = ["Texts", "Tokens", "renderer_for"]

_RANKS_OF_IMAGES = (3, 4)  # with the axis of instances: without or with channels


class Tokens(Instances):
    """Bags of windows over tokens: sentences, in which what decides is highlighted in place.

    Args:
        x: ids of tokens, RaggedTensor [texts, (sentences), (tokens), window_size].
        vocabulary: the token of each id.
    """

    def __init__(self, x: tf.RaggedTensor, vocabulary: Sequence[str]) -> None:
        super().__init__(x)
        self._vocabulary = vocabulary

    def row(self, position: tuple[int, ...]) -> Shown:
        """See `Renderer`."""
        if self.is_instance(position):
            return " ".join(self._vocabulary[i] for i in self.at(position))
        if self.is_innermost(position):
            return " ".join(self._words(position))
        return super().row(position)

    def bag(self, position: tuple[int, ...], part: Part) -> Shown | None:
        """See `Renderer`."""
        if not self.is_innermost(position):
            return None
        roles = {child.position[-1]: child for child in part.children}
        pieces = []
        for i, word in enumerate(self._words(position)):
            child = roles.get(i)
            if child is None or child.role in (None, IDLE, CHECKED):
                pieces.append(Markup.escape(word))
            else:
                form = '<mark class="{}" title="{}">{}</mark>'
                pieces.append(Markup(form).format(css_class(child.role), child.name, word))
        return Markup('<p class="sentence">{}</p>').format(Markup(" ").join(pieces))

    def _words(self, position: tuple[int, ...]) -> list[str]:
        windows = self.at(position)
        return [self._vocabulary[i] for i in windows[:, windows.shape[-1] // 2]]


class Texts(Renderer):
    """Texts as the network reads them, by its layer `TextBags`."""

    def __init__(self, x: Any, layer: TextBags) -> None:
        super().__init__(np.asarray(x))  # once, not for each row
        self._layer = layer

    def row(self, position: tuple[int, ...]) -> Shown:
        """See `Renderer`."""
        content = without_breaks(as_str(self.x[position[0]]))
        if len(position) == 1:
            return content
        sentences = sentence_spans(content, self._layer.splitter)
        windows = [window_centres(len(tokens), self._layer.at_most) for tokens in sentences]
        if self._layer.depth == 1:
            flat = [(s, c) for s, centres in enumerate(windows) for c in centres]
            sentence, centre = flat[position[1]]
        elif len(position) == 2:
            tokens = sentences[position[1]]
            return content[tokens[0][0] : tokens[-1][1]]
        else:
            sentence, centre = position[1], windows[position[1]][position[2]]
        reach, tokens = self._layer.window_size // 2, sentences[sentence]
        first, last = max(centre - reach, 0), min(centre + reach, len(tokens) - 1)
        return content[tokens[first][0] : tokens[last][1]]


def renderer_for(
    show: Any, x: Tensors, text_layer: TextBags | None, names: Sequence[str] | None
) -> Renderer:
    """What shows the records of some top-bags.

    Args:
        show: a `Renderer`; one of the names in `RENDERERS`; a function from positions to what is
            shown; or None, to choose by `x`: texts, images, numbers, or positions.
        x: the top-bags.
        text_layer: what the network reads texts by; None for other data.
        names: of the features of instances that are vectors.

    Raises:
        ValueError: for the name of no renderer.
    """
    if isinstance(show, Renderer):
        return show
    if callable(show):
        return Plain(x, show)
    if show is not None:
        if show not in RENDERERS:
            raise ValueError(
                f"Expected a function, a Renderer, or one of {sorted(RENDERERS)}. "
                f"Received: show={show!r}"
            )
        return RENDERERS[show](x)
    if text_layer is not None:
        return Texts(x, text_layer)
    if isinstance(x, tf.RaggedTensor) and x.dtype != tf.string:
        rank = x.flat_values.shape.rank
        if rank in _RANKS_OF_IMAGES:
            return Images(x)
        if rank == 2 and x.dtype.is_floating:  # not ids
            return Numbers(x, names)
    return Plain(x)

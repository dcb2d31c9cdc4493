"""What records look like: small renderers, by the kind of data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from markupsafe import Markup

from keras_mmil import ragged
from keras_mmil._support.types import Tensors
from keras_mmil.bags import Bags, instances_of
from keras_mmil.interpretation.readout.part import IDLE, Part, Show
from keras_mmil.interpretation.readout.text_spans import (
    as_str,
    sentence_spans,
    window_centres,
    without_breaks,
)
from keras_mmil.interpretation.report.shown import Shown, picture
from keras_mmil.interpretation.report.svg import points, star
from keras_mmil.layers import TextBags

__all__ = [
    "RENDERERS",
    "Clouds",
    "Graphs",
    "Images",
    "Numbers",
    "Places",
    "Plain",
    "Renderer",
    "Tokens",
    "renderer_for",
]

_RANKS_OF_IMAGES = (3, 4)  # with the axis of instances: without or with channels
_MOST_NEIGHBOURS, _MOST_NUMBERS = 40, 8
_ACROSS = np.array([[0.9, -0.3], [0.4, 0.25], [0.0, 1.0]])  # from space to the plane


class Renderer:
    """Shows the records of some top-bags. Subclasses say how.

    Args:
        x: top-bags, as `Explainer.report` is given them.
    """

    def __init__(self, x: Any) -> None:
        self.x = x

    def row(self, position: tuple[int, ...]) -> Shown:
        """One top-bag, sub-bag or instance.

        Args:
            position: in `x`: index of the top-bag, then of its member, and so on.
        """
        return str(position[-1])

    def bag(self, position: tuple[int, ...], part: Part) -> Shown | None:
        """All members of a bag in one picture; None to show them one by one.

        Args:
            position: of the bag.
            part: the bag, with the roles of its members.
        """
        return None

    def cluster(self, positions: Sequence[tuple[int, ...]]) -> Shown | None:
        """The members of a cluster in one picture; None to show those that stand for it.

        Args:
            positions: of some members, instances.
        """
        return None


class Plain(Renderer):
    """By a function from positions to what is shown: a text, an SVG or an image."""

    def __init__(self, x: Any, show: Callable[[tuple[int, ...]], Shown] | None = None) -> None:
        super().__init__(x)
        self._show = show

    def row(self, position: tuple[int, ...]) -> Shown:
        """See `Renderer`."""
        return super().row(position) if self._show is None else self._show(position)


class _Instances(Renderer):
    """Of top-bags whose instances are arrays."""

    def __init__(self, x: Any) -> None:
        super().__init__(x)
        self._bags = instances_of(x)
        self._depth = self._bags.ragged_rank + 1
        self._at = ragged.lookup(self._bags)

    def _is_instance(self, position: tuple[int, ...]) -> bool:
        return len(position) == self._depth

    def _is_innermost(self, position: tuple[int, ...]) -> bool:
        return len(position) == self._depth - 1


class Images(_Instances):
    """Instances that are images [height, width] or [height, width, channels]."""

    def __init__(self, x: Any) -> None:
        super().__init__(x)
        values = self._bags.flat_values.numpy()
        self._low, self._high = float(values.min(initial=0)), float(values.max(initial=0))

    def row(self, position: tuple[int, ...]) -> Shown:
        """See `Renderer`."""
        if self._is_instance(position):
            return picture(self._at(position), self._low, self._high)
        if self._is_innermost(position):
            images = [picture(image, self._low, self._high) for image in self._at(position)]
            return Markup('<span class="images">{}</span>').format(Markup("").join(images))
        return super().row(position)


class Numbers(_Instances):
    """Instances that are vectors of features."""

    def __init__(self, x: Any, feature_names: Sequence[str] | None = None) -> None:
        super().__init__(x)
        self._names = feature_names

    def row(self, position: tuple[int, ...]) -> Shown:
        """See `Renderer`."""
        if not self._is_instance(position):
            return super().row(position)
        vector = np.atleast_1d(self._at(position)).ravel()
        some = [f"{value:.3g}" for value in vector[:_MOST_NUMBERS]]
        if self._names:
            some = [f"{name} = {text}" for name, text in zip(self._names, some, strict=False)]
        return ", ".join(some) + (", …" if len(vector) > _MOST_NUMBERS else "")


class Clouds(_Instances):
    """Bags of points in space, [x, y, z]; the last coordinate points upwards.

    Args:
        x: top-bags.
        title: function from the position of a top-bag or cloud to its text; None for its index.
    """

    def __init__(self, x: Any, title: Show | None = None) -> None:
        super().__init__(x)
        self._title = title

    def row(self, position: tuple[int, ...]) -> Shown:
        """See `Renderer`."""
        if self._is_instance(position):
            return f"({', '.join(f'{value:.2f}' for value in self._at(position))})"
        if self._is_innermost(position):
            cloud = self._at(position)
            return points(cloud @ _ACROSS, [IDLE_CLASS] * len(cloud), "a cloud", size=90)
        return super().row(position) if self._title is None else self._title(position)

    def bag(self, position: tuple[int, ...], part: Part) -> Shown | None:
        """See `Renderer`."""
        if not self._is_innermost(position):
            return None
        cloud = self._at(position)
        roles = {child.position[-1]: child.role for child in part.children}
        classes = [css_class(roles.get(i)) for i in range(len(cloud))]
        return points(cloud @ _ACROSS, classes, "the cloud; what decides is highlighted")

    def cluster(self, positions: Sequence[tuple[int, ...]]) -> Shown | None:
        """See `Renderer`."""
        some = np.array([self._at(position) for position in positions]).reshape(-1, 3)
        every = self._bags.flat_values.numpy()
        around = every[:: max(1, len(every) // 300)] @ _ACROSS
        return points(some @ _ACROSS, ["decides"] * len(some), "where its points lie", around, 160)


class Places(_Instances):
    """Instances that are places, by their numbers; drawn on a map.

    Args:
        x: top-bags.
        coordinates: latitude and longitude of each place, float [places, 2].
        title: function from the position of a top-bag, sub-bag or instance to its text.
    """

    def __init__(self, x: Any, coordinates: npt.ArrayLike, title: Show | None = None) -> None:
        super().__init__(x)
        latitude, longitude = np.asarray(coordinates, float).T
        squeezed = np.cos(np.radians(latitude.mean()))
        self._places = np.stack([longitude * squeezed, latitude], axis=1)
        self._around = self._places[:: max(1, len(self._places) // 400)]
        self._title = title

    def row(self, position: tuple[int, ...]) -> Shown:
        """See `Renderer`."""
        return super().row(position) if self._title is None else self._title(position)

    def bag(self, position: tuple[int, ...], part: Part) -> Shown | None:
        """See `Renderer`."""
        if not self._is_innermost(position):
            return None
        ids = np.asarray(self._at(position)).ravel().astype(int)
        roles = {child.position[-1]: child.role for child in part.children}
        classes = [css_class(roles.get(i)) for i in range(len(ids))]
        return points(
            self._places[ids], classes, "a map; what decides is highlighted", self._around
        )

    def cluster(self, positions: Sequence[tuple[int, ...]]) -> Shown | None:
        """See `Renderer`."""
        ids = np.unique([int(self._at(position)) for position in positions])
        return points(self._places[ids], ["decides"] * len(ids), "a map", self._around, 200)


class Graphs(Plain):
    """Bags that are the neighbourhoods of nodes: drawn as stars.

    Args:
        x: top-bags.
        show: function from the position of a graph or node to its text.
    """

    def bag(self, position: tuple[int, ...], part: Part) -> Shown | None:
        """See `Renderer`."""
        if any(child.children for child in part.children):
            return None
        some = part.children[:_MOST_NEIGHBOURS]
        names = [f"{self.row((position[0], *each.position[1:]))}" for each in some]
        return star(names, [css_class(each.role) for each in some], "a node and its neighbours")


class Tokens(_Instances):
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
        if self._is_instance(position):
            return " ".join(self._vocabulary[i] for i in self._at(position))
        if self._is_innermost(position):
            return " ".join(self._words(position))
        return super().row(position)

    def bag(self, position: tuple[int, ...], part: Part) -> Shown | None:
        """See `Renderer`."""
        if not self._is_innermost(position):
            return None
        roles = {child.position[-1]: child for child in part.children}
        pieces = []
        for i, word in enumerate(self._words(position)):
            child = roles.get(i)
            if child is None or child.role in (None, IDLE) or child.role == "checked":
                pieces.append(Markup.escape(word))
            else:
                form = '<mark class="{}" title="{}">{}</mark>'
                pieces.append(Markup(form).format(css_class(child.role), child.name, word))
        return Markup('<p class="sentence">{}</p>').format(Markup(" ").join(pieces))

    def _words(self, position: tuple[int, ...]) -> list[str]:
        windows = self._at(position)
        return [self._vocabulary[i] for i in windows[:, windows.shape[-1] // 2]]


class Texts(Renderer):
    """Texts as the network reads them, by its layer `TextBags`."""

    def __init__(self, x: Any, layer: TextBags) -> None:
        super().__init__(x)
        self._layer = layer

    def row(self, position: tuple[int, ...]) -> Shown:
        """See `Renderer`."""
        content = without_breaks(as_str(np.asarray(self.x)[position[0]]))
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


IDLE_CLASS = "idle"


def css_class(role: str | None) -> str:
    """The class of a role in the page's style."""
    return IDLE_CLASS if role in (None, IDLE) else str(role)


# By name, for `show=`.
RENDERERS: Mapping[str, Callable[[Any], Renderer]] = {
    "cloud": Clouds,
    "graph": Graphs,
    "image": Images,
    "plain": Plain,
    "numbers": Numbers,
}


def renderer_for(
    show: Any, x: Tensors | Bags, text_layer: TextBags | None, names: Sequence[str] | None
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

"""What records look like on the page: pieces of HTML, by the kind of data."""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from markupsafe import Markup

from keras_mmil import ragged
from keras_mmil._support.types import Array, Tensors
from keras_mmil.bags import instances_of
from keras_mmil.layers import TextBags
from keras_mmil.rules.explain.explanation import CHECKED, COUNTED, IDLE, Part, Show
from keras_mmil.rules.explain.texts import text_pieces
from keras_mmil.rules.report.svg import points, star

__all__ = [
    "RENDERERS",
    "ByPath",
    "Clouds",
    "Graphs",
    "Images",
    "Numbers",
    "Places",
    "Plain",
    "Renderer",
    "Texts",
    "Tokens",
    "css_class",
    "markup",
    "renderer_for",
]

# A text; an SVG, which begins with "<svg"; or an image [height, width] or [height, width, 1 | 3].
Renderable: TypeAlias = str | Array

_LONGEST = 400  # characters of a text
_MOST_NEIGHBOURS, _MOST_NUMBERS = 40, 8
_PROJECTION = np.array([[0.9, -0.3], [0.4, 0.25], [0.0, 1.0]])  # from space to the plane
_RANKS_OF_IMAGES = (3, 4)  # with the axis of instances: without or with channels


def markup(content: Renderable) -> Markup:
    """A piece of HTML. Texts are escaped; an SVG becomes an image, in which no script runs.

    Raises:
        TypeError: for anything that cannot be shown.
    """
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        if content.lstrip().startswith("<svg"):
            return _image(content.encode(), "svg+xml")
        is_long = len(content) > _LONGEST
        return Markup.escape(f"{content[: _LONGEST - 1]}…" if is_long else content)
    array = np.asarray(content)
    if array.ndim not in (2, 3) or array.dtype.kind not in "biuf":
        raise TypeError(
            "Expected a text, an SVG or an image [height, width] or [height, width, channels]. "
            f"Received: {type(content).__name__} of shape {array.shape} and dtype {array.dtype}"
        )
    return _picture(array, float(array.min(initial=0)), float(array.max(initial=0)))


def _picture(array: Array, low: float, high: float) -> Markup:
    """An image [height, width] or [height, width, 1 | 3], scaled from `low` to `high`.

    With one channel, `low` is white and `high` is black.
    """
    scaled = np.clip((array.astype(float) - low) / max(high - low, 1e-12), 0, 1)
    scaled = scaled[..., None] if scaled.ndim == 2 else scaled
    if scaled.shape[-1] == 1:
        scaled = 1 - scaled
    return _image(tf.io.encode_png(np.round(255 * scaled).astype(np.uint8)).numpy(), "png")


def _image(content: bytes, form: str) -> Markup:
    data = base64.b64encode(content).decode()
    return Markup('<img alt="" src="data:image/{};base64,{}">').format(form, data)


def css_class(role: str | None) -> str:
    """The class of a role in the page's style."""
    return "idle" if role in (None, IDLE) else str(role)


def _member_classes(part: Part, n: int) -> list[str]:
    """The classes of the members of a bag by their index."""
    roles = {child.position[-1]: child.role for child in part.children}
    return [css_class(roles.get(i)) for i in range(n)]


class Renderer:
    """Shows the records of some top-bags. Subclasses define how.

    Args:
        x: top-bags, same as for `Explainer.report`.
    """

    def __init__(self, x: Any) -> None:
        self.x = x

    def row(self, position: tuple[int, ...]) -> Renderable:
        """One top-bag, sub-bag or instance.

        Args:
            position: in `x`: index of the top-bag, then of its member, and so on.
        """
        return str(position[-1])

    def of(self, path: str) -> "Renderer":
        """The renderer of the parts with this path, "" for the top-bags; by default itself."""
        return self

    def bag(self, position: tuple[int, ...], part: Part) -> Renderable | None:
        """All members of a bag in one picture; None to show them one by one.

        Args:
            position: of the bag.
            part: the bag, with the roles of its members.
        """
        return None

    def cluster(self, positions: Sequence[tuple[int, ...]]) -> Renderable | None:
        """The members of a cluster in one picture; None to show its representatives.

        Args:
            positions: of some members, which are instances.
        """
        return None


class Plain(Renderer):
    """Calls a function from positions to what to show: a text, an SVG or an image."""

    def __init__(self, x: Any, show: Callable[[tuple[int, ...]], Renderable] | None = None) -> None:
        super().__init__(x)
        self._show = show

    def row(self, position: tuple[int, ...]) -> Renderable:
        """See `Renderer`."""
        return super().row(position) if self._show is None else self._show(position)


class ByPath(Renderer):
    """Records with several bags, each with its own renderer.

    Args:
        x: top-bags.
        renderers: by path, "" for the top-bags. For other parts the index is shown.
    """

    def __init__(self, x: Any, renderers: Mapping[str, Renderer]) -> None:
        super().__init__(x)
        self._renderers = renderers

    def of(self, path: str) -> Renderer:
        """See `Renderer`."""
        return self._renderers.get(path, self)


class _Instances(Renderer):
    """A renderer of top-bags whose instances are arrays."""

    def __init__(self, x: Any) -> None:
        super().__init__(x)
        self.bags = instances_of(x)
        self._depth = self.bags.ragged_rank + 1
        self.at = ragged.lookup(self.bags)

    def is_instance(self, position: tuple[int, ...]) -> bool:
        return len(position) == self._depth

    def is_innermost(self, position: tuple[int, ...]) -> bool:
        """Whether this is the position of a bag of instances."""
        return len(position) == self._depth - 1


class Images(_Instances):
    """Instances that are images [height, width] or [height, width, channels]."""

    def __init__(self, x: Any) -> None:
        super().__init__(x)
        values = self.bags.flat_values.numpy()
        self._low, self._high = float(values.min(initial=0)), float(values.max(initial=0))

    def row(self, position: tuple[int, ...]) -> Renderable:
        """See `Renderer`."""
        if self.is_instance(position):
            return _picture(self.at(position), self._low, self._high)
        if self.is_innermost(position):
            images = [_picture(image, self._low, self._high) for image in self.at(position)]
            return Markup('<span class="images">{}</span>').format(Markup("").join(images))
        return super().row(position)


class Numbers(_Instances):
    """Instances that are vectors of features."""

    def __init__(self, x: Any, feature_names: Sequence[str] | None = None) -> None:
        super().__init__(x)
        self._names = feature_names

    def row(self, position: tuple[int, ...]) -> Renderable:
        """See `Renderer`."""
        if not self.is_instance(position):
            return super().row(position)
        vector = np.atleast_1d(self.at(position)).ravel()
        some = [f"{value:.3g}" for value in vector[:_MOST_NUMBERS]]
        if self._names:
            some = [f"{name} = {text}" for name, text in zip(self._names, some, strict=False)]
        return ", ".join(some) + (", …" if len(vector) > _MOST_NUMBERS else "")


class Clouds(_Instances):
    """Bags of points in space, [x, y, z]; the last coordinate points upwards.

    Args:
        x: top-bags.
        title: function from the position of a top-bag to its text; None for its index.
    """

    def __init__(self, x: Any, title: Show | None = None) -> None:
        super().__init__(x)
        self._title = title

    def row(self, position: tuple[int, ...]) -> Renderable:
        """See `Renderer`."""
        if self.is_instance(position):
            return f"({', '.join(f'{value:.2f}' for value in self.at(position))})"
        if self.is_innermost(position):
            cloud = self.at(position)
            return points(cloud @ _PROJECTION, ["idle"] * len(cloud), "a cloud", size=90)
        return super().row(position) if self._title is None else self._title(position)

    def bag(self, position: tuple[int, ...], part: Part) -> Renderable | None:
        """See `Renderer`."""
        if not self.is_innermost(position):
            return None
        cloud = self.at(position)
        classes = _member_classes(part, len(cloud))
        return points(cloud @ _PROJECTION, classes, "the cloud; what decides is highlighted")

    def cluster(self, positions: Sequence[tuple[int, ...]]) -> Renderable | None:
        """See `Renderer`."""
        some = np.array([self.at(position) for position in positions]).reshape(-1, 3)
        every = self.bags.flat_values.numpy()
        others = every[:: max(1, len(every) // 300)] @ _PROJECTION
        classes = ["decides"] * len(some)
        return points(some @ _PROJECTION, classes, "where its points lie", others, 160)


class Places(_Instances):
    """Instances that are numbers of places; drawn on a map.

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
        self._others = self._places[:: max(1, len(self._places) // 400)]
        self._title = title

    def row(self, position: tuple[int, ...]) -> Renderable:
        """See `Renderer`."""
        return super().row(position) if self._title is None else self._title(position)

    def bag(self, position: tuple[int, ...], part: Part) -> Renderable | None:
        """See `Renderer`."""
        if not self.is_innermost(position):
            return None
        ids = np.asarray(self.at(position)).ravel().astype(int)
        classes = _member_classes(part, len(ids))
        label = "a map; what decides is highlighted"
        return points(self._places[ids], classes, label, self._others)

    def cluster(self, positions: Sequence[tuple[int, ...]]) -> Renderable | None:
        """See `Renderer`."""
        ids = np.unique([int(self.at(position)) for position in positions])
        return points(self._places[ids], ["decides"] * len(ids), "a map", self._others, 200)


class Graphs(Plain):
    """Bags that are the neighbourhoods of nodes, drawn as stars.

    Args:
        x: top-bags.
        show: function from the position of a graph or node to its text.
    """

    def bag(self, position: tuple[int, ...], part: Part) -> Renderable | None:
        """See `Renderer`."""
        if any(child.children for child in part.children):
            return None
        some = part.children[:_MOST_NEIGHBOURS]
        names = [f"{self.row((position[0], *each.position[1:]))}" for each in some]
        return star(names, [css_class(each.role) for each in some], "a node and its neighbours")


class Tokens(_Instances):
    """Bags of windows over tokens: sentences, in which what decides is highlighted.

    Args:
        x: ids of tokens, RaggedTensor [texts, (sentences), (tokens), window_size].
        vocabulary: the token of each id.
    """

    def __init__(self, x: tf.RaggedTensor, vocabulary: Sequence[str]) -> None:
        super().__init__(x)
        self._vocabulary = vocabulary

    def row(self, position: tuple[int, ...]) -> Renderable:
        """See `Renderer`."""
        if self.is_instance(position):
            return " ".join(self._vocabulary[i] for i in self.at(position))
        if self.is_innermost(position):
            return " ".join(self._words(position))
        return super().row(position)

    def bag(self, position: tuple[int, ...], part: Part) -> Renderable | None:
        """See `Renderer`."""
        if not self.is_innermost(position):
            return None
        roles = {child.position[-1]: child for child in part.children}
        pieces = []
        for i, word in enumerate(self._words(position)):
            child = roles.get(i)
            if child is None or child.role in (None, IDLE, COUNTED, CHECKED):
                pieces.append(Markup.escape(word))
            else:
                form = '<mark class="{}" title="{}">{}</mark>'
                pieces.append(Markup(form).format(css_class(child.role), child.name, word))
        return Markup('<p class="sentence">{}</p>').format(Markup(" ").join(pieces))

    def _words(self, position: tuple[int, ...]) -> list[str]:
        windows = self.at(position)
        return [self._vocabulary[i] for i in windows[:, windows.shape[-1] // 2]]


class Texts(Renderer):
    """Texts that the network reads with a layer `TextBags`."""

    def __init__(self, x: Any, layer: TextBags) -> None:
        super().__init__(np.asarray(x))  # once, not for each row
        self._pieces = text_pieces(self.x, layer)

    def row(self, position: tuple[int, ...]) -> Renderable:
        """See `Renderer`."""
        return self._pieces(position)


# By name, for `show=`.
RENDERERS: Mapping[str, Callable[[Any], Renderer]] = {
    "cloud": Clouds,
    "graph": Graphs,
    "image": Images,
    "plain": Plain,
    "numbers": Numbers,
}


def renderer_for(
    show: Any, x: Tensors, text_layer: TextBags | None, names: Sequence[str] | None
) -> Renderer:
    """The renderer of some top-bags.

    Args:
        show: a `Renderer`; one of the names in `RENDERERS`; a function from positions to what to
            show; or None, to choose by `x`: texts, images, numbers, or positions.
        x: the top-bags.
        text_layer: the layer that reads texts; None for other data.
        names: of the features of instances that are vectors.

    Raises:
        ValueError: if no renderer has this name.
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

"""What records look like: small renderers, by the kind of data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from keras_mmil import ragged
from keras_mmil.bags import instances_of
from keras_mmil.interpretation.readout.part import IDLE, Part, Show
from keras_mmil.interpretation.report.shown import Shown, picture
from keras_mmil.interpretation.report.svg import points, star

__all__ = [
    "RENDERERS",
    "ByPath",
    "Clouds",
    "Graphs",
    "Images",
    "Instances",
    "Numbers",
    "Places",
    "Plain",
    "Renderer",
    "css_class",
]

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

    def of(self, path: str) -> "Renderer":
        """What shows the parts that the data call `path`, "" for the top-bags: itself for all."""
        return self

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


class ByPath(Renderer):
    """Records with several bags, each with a renderer of its own.

    Args:
        x: top-bags.
        renderers: by the path of what they show, "" for the top-bags. Of other parts the index is
            shown.
    """

    def __init__(self, x: Any, renderers: Mapping[str, Renderer]) -> None:
        super().__init__(x)
        self._renderers = renderers

    def of(self, path: str) -> Renderer:
        """See `Renderer`."""
        return self._renderers.get(path, self)


class Instances(Renderer):
    """Of top-bags whose instances are arrays.

    Args:
        x: top-bags.
    """

    def __init__(self, x: Any) -> None:
        super().__init__(x)
        self.bags = instances_of(x)
        self._depth = self.bags.ragged_rank + 1
        self.at = ragged.lookup(self.bags)

    def is_instance(self, position: tuple[int, ...]) -> bool:
        """Whether a position is that of an instance."""
        return len(position) == self._depth

    def is_innermost(self, position: tuple[int, ...]) -> bool:
        """Whether a position is that of a bag of instances."""
        return len(position) == self._depth - 1


class Images(Instances):
    """Instances that are images [height, width] or [height, width, channels]."""

    def __init__(self, x: Any) -> None:
        super().__init__(x)
        values = self.bags.flat_values.numpy()
        self._low, self._high = float(values.min(initial=0)), float(values.max(initial=0))

    def row(self, position: tuple[int, ...]) -> Shown:
        """See `Renderer`."""
        if self.is_instance(position):
            return picture(self.at(position), self._low, self._high)
        if self.is_innermost(position):
            images = [picture(image, self._low, self._high) for image in self.at(position)]
            return Markup('<span class="images">{}</span>').format(Markup("").join(images))
        return super().row(position)


class Numbers(Instances):
    """Instances that are vectors of features."""

    def __init__(self, x: Any, feature_names: Sequence[str] | None = None) -> None:
        super().__init__(x)
        self._names = feature_names

    def row(self, position: tuple[int, ...]) -> Shown:
        """See `Renderer`."""
        if not self.is_instance(position):
            return super().row(position)
        vector = np.atleast_1d(self.at(position)).ravel()
        some = [f"{value:.3g}" for value in vector[:_MOST_NUMBERS]]
        if self._names:
            some = [f"{name} = {text}" for name, text in zip(self._names, some, strict=False)]
        return ", ".join(some) + (", …" if len(vector) > _MOST_NUMBERS else "")


class Clouds(Instances):
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
        if self.is_instance(position):
            return f"({', '.join(f'{value:.2f}' for value in self.at(position))})"
        if self.is_innermost(position):
            cloud = self.at(position)
            return points(cloud @ _ACROSS, [IDLE_CLASS] * len(cloud), "a cloud", size=90)
        return super().row(position) if self._title is None else self._title(position)

    def bag(self, position: tuple[int, ...], part: Part) -> Shown | None:
        """See `Renderer`."""
        if not self.is_innermost(position):
            return None
        cloud = self.at(position)
        roles = {child.position[-1]: child.role for child in part.children}
        classes = [css_class(roles.get(i)) for i in range(len(cloud))]
        return points(cloud @ _ACROSS, classes, "the cloud; what decides is highlighted")

    def cluster(self, positions: Sequence[tuple[int, ...]]) -> Shown | None:
        """See `Renderer`."""
        some = np.array([self.at(position) for position in positions]).reshape(-1, 3)
        every = self.bags.flat_values.numpy()
        around = every[:: max(1, len(every) // 300)] @ _ACROSS
        return points(some @ _ACROSS, ["decides"] * len(some), "where its points lie", around, 160)


class Places(Instances):
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
        if not self.is_innermost(position):
            return None
        ids = np.asarray(self.at(position)).ravel().astype(int)
        roles = {child.position[-1]: child.role for child in part.children}
        classes = [css_class(roles.get(i)) for i in range(len(ids))]
        return points(
            self._places[ids], classes, "a map; what decides is highlighted", self._around
        )

    def cluster(self, positions: Sequence[tuple[int, ...]]) -> Shown | None:
        """See `Renderer`."""
        ids = np.unique([int(self.at(position)) for position in positions])
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

"""What the report of an experiment shows."""

from typing import Any, NamedTuple

from keras_mmil._support.types import Ints, Tensors
from keras_mmil.bags import Bags

__all__ = ["Page"]


class Page(NamedTuple):
    """Top-bags for `Explainer.report`, which rules and network have not seen.

    Attributes:
        x: top-bags.
        y: their labels, ints [top-bags].
        show: what shows them, as for `Explainer.report`.
    """

    x: Bags | Tensors
    y: Ints
    show: Any = None

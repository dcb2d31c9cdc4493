"""Names of clusters in texts, so that the page can rename them wherever they stand."""

import re
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

from keras_mmil.interpretation.rules.level import Level, all_clusters, rename

__all__ = ["linked", "marked"]

_START, _END = "\ue000", "\ue001"  # for private use, so that no font or language needs them
_CODE = re.compile(f"{_START}[0-9.]+{_END}")


def marked(levels: Sequence[Level]) -> tuple[Level, ...]:
    """The levels with a code behind the name of each cluster, which gets into all texts."""
    found = tuple(levels)
    for clusters in all_clusters(levels):
        codes = {
            index: f"{name}{_START}{clusters.level}.{index}{_END}"
            for index, name in enumerate(clusters.names)
        }
        found = rename(found, clusters.level, codes)
    return found


def linked(levels: Sequence[Level]) -> Callable[[object], Markup]:
    """A function that escapes a text and turns marked names into elements that can be renamed.

    Args:
        levels: not marked.
    """
    names = {str(escape(name)) for clusters in all_clusters(levels) for name in clusters.names}
    alternatives = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    pattern = re.compile(f"({alternatives}){_START}([0-9]+\\.[0-9]+){_END}")

    def link(text: object) -> Markup:
        html = pattern.sub(r'<span class="name" data-cluster="\2">\1</span>', str(escape(text)))
        return Markup(_CODE.sub("", html))  # of what has been escaped

    return link

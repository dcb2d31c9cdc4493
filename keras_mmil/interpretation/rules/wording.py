"""What texts about rules share: plurals, and values that are listed."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

__all__ = ["alike", "is_plural", "one_of"]

_MOST_VALUES = 8  # that are listed
_PLURALS = ("people", "children", "men", "women", "data", "media", "criteria")
_SINGULARS = ("ss", "us", "is", "news", "series")

Part = TypeVar("Part", bound=Hashable)


def is_plural(name: str) -> bool:
    """Whether what the data call a bag reads as several things: "orders", but not "type"."""
    name = name.lower()
    return name.endswith(_PLURALS) or (name.endswith("s") and not name.endswith(_SINGULARS))


def one_of(values: Sequence[str | int]) -> str:
    """Values as a list: all of a few, else the first and how many more."""
    shown = ", ".join(map(repr, values[:_MOST_VALUES]))
    more = len(values) - _MOST_VALUES
    return f"{shown} and {more} more" if more > 0 else shown


def alike(
    cases: Sequence[tuple[Part, ...]], of: Callable[[Part], Hashable | None]
) -> list[tuple[list[int], Part | None]]:
    """Cases that are the same but for the value of one field, together.

    Args:
        cases: each the parts that all have to hold.
        of: which field a part compares with one value; None for other parts.

    Returns:
        For each group the indices of its cases, in their order, and the part of the first in which
        the others differ; None where a case is alone.
    """
    groups: dict[Hashable, list[int]] = {}
    varying: dict[Hashable, Part | None] = {}
    for index, case in enumerate(cases):
        found = [part for part in case if of(part) is not None]
        key: Hashable = index
        if len(found) == 1:
            key = (of(found[0]), frozenset(part for part in case if part is not found[0]))
        groups.setdefault(key, []).append(index)
        varying.setdefault(key, found[0] if len(found) == 1 else None)
    return [(group, varying[key] if len(group) > 1 else None) for key, group in groups.items()]

"""Kinds of parts that people choose."""

from collections.abc import Mapping

from keras_mmil.records import kinds
from keras_mmil.records.fields import Field, tree, walk
from keras_mmil.records.paths import alternative
from keras_mmil.records.statistics import MAX_FIELDS, TYPES, Bags, Observed, Records, Values

__all__ = ["applicable", "by_choice", "by_path", "check"]


def by_path(root: Field, also_left_out: bool = False) -> dict[str, Field]:
    """The parts of records by their paths; those in left-out ones only on request."""
    parts: dict[str, Field] = {}
    for field in walk(root, also_left_out):
        parts.setdefault(field.path, field)  # records in a bag have the bag's path
    del parts[""]
    return parts


def by_choice(root: Field, also_left_out: bool = False) -> dict[str, Field]:
    """The same, and records in bags by the paths at which their kinds are chosen: `orders[]`."""
    parts = by_path(root, also_left_out)
    for field in walk(root, also_left_out):
        if field.chosen_at:
            parts.setdefault(field.chosen_at, field)
    return parts


def applicable(observed: Observed, choices: Mapping[str, str]) -> dict[str, str]:
    """Those of some choices that are of parts which the records have."""
    parts = by_choice(tree(observed, choices), also_left_out=True)
    return {
        path: kind
        for path, kind in choices.items()
        if path in parts or (kind == "dropped" and _types_at(path, parts))
    }


def check(observed: Observed, choices: Mapping[str, str]) -> None:
    """Raise ValueError where records cannot be read, or cannot be of the kinds that were chosen."""
    top = observed.by_type.get("record")
    if isinstance(top, Records) and top.by_key is not None:
        raise ValueError(
            f"Expected at most {MAX_FIELDS} fields of the records at the top. Received: more. "
            "Leave some out, or put those that are alike into one field: a list, or an object, "
            "which is a bag by key"
        )
    if not choices:
        return
    parts = by_choice(tree(observed, choices), also_left_out=True)
    for path, kind in choices.items():
        types = _types_at(path, parts)
        if types and kind == "dropped":
            continue
        if path not in parts:
            found = f"{' and '.join(types)} values" if types else "nothing"
            raise ValueError(f"Expected {kind} at {path!r}, as was chosen. Received: {found} there")
        allowed = _allowed(parts[path])
        if kind not in allowed:
            raise ValueError(
                f"Expected a kind that {path!r} can be of: {', '.join(allowed)}. Received: {kind!r}"
            )


def _types_at(path: str, parts: Mapping[str, Field]) -> list[str]:
    """The types of the values at a path, where they are of several."""
    return [type_ for type_ in TYPES if alternative(path, type_) in parts]


def _allowed(field: Field) -> tuple[str, ...]:
    """The kinds that may be chosen for a part."""
    if isinstance(field.seen, Values):
        return (*kinds.possible(field.type, field.seen, field.texts), "dropped")
    if isinstance(field.seen, Records):
        return ("bag", *(["record"] if field.seen.by_key is None else []), "dropped")
    if isinstance(field.seen, Bags):
        return ("bag", *(["vector"] if field.seen.positions else []), "dropped")
    return ("dropped",)

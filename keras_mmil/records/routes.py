"""How the fields of a schema are found in a record: data for programs that need no library.

A step is a key of an object, or a position in a list, with the length that the list must have.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from keras_mmil._support.types import Config
from keras_mmil.records import scalars
from keras_mmil.records.fields import Field
from keras_mmil.records.keys import Key
from keras_mmil.records.profiling import Records

__all__ = ["reads", "tables"]


def reads(root: Field) -> tuple[dict[str, Config], dict[str, Config]]:
    """How each bag, and each field with values, is read, by path.

    Returns:
        Two dicts from paths, JSON-ready. Of bags: "outer", the path of the bag around it, or "";
        "at", the steps from a member of that; and whether it is "by_key", an object whose keys are
        data, and whose members are pairs of key and value. Of fields: "bag", the path of the
        innermost bag around, or ""; "at"; "kind", "form" and the "types" that are read.
    """
    bags, fields = dict[str, Config](), dict[str, Config]()
    for part, found in _reads(root, "", [], False):
        (bags if part.kind == "bag" else fields)[part.path] = found
    return bags, fields


def _reads(parent: Field, bag: str, at: list[Any], is_pair: bool) -> Iterator[tuple[Field, Config]]:
    """The parts of a record, a vector or a bag that are read; `is_pair` in a bag by key."""
    n = len({part.name for part in parent.parts})
    for part in parent.parts:
        if not part.is_read:
            continue
        step: list[Any]
        if parent.kind == "vector":
            step = [[int(part.name[1:-1]), n]]
        elif parent.kind == "bag":
            step = [[0 if part.name else 1, 2]] if is_pair else []
        else:
            step = [part.name]
        here = [*at, *step]
        if part.has_fields:
            yield from _reads(part, bag, here, False)
        elif part.kind == "bag":
            yield part, {"outer": bag, "at": here, "by_key": part.is_map}
            yield from _reads(part, part.path, [], part.is_map)
        else:
            yield part, _read(part, [x for x in parent.parts if x.name == part.name], bag, here)


def _read(part: Field, alternatives: list[Field], bag: str, at: list[Any]) -> Config:
    types = {part.type, *scalars.ACCEPTED.get(part.kind, ())}
    types -= {other.type for other in alternatives if other is not part}
    found = {"bag": bag, "at": at, "kind": part.kind, "form": part.form}
    return {**found, "types": sorted(types)}


def tables(root: Field, key: Sequence[str]) -> Config | None:
    """The linked tables that records were made of; None if they were not.

    Args:
        root: the records at the top.
        key: names of the fields by which these are told apart, where no key of the tables does.

    Returns:
        Dict, JSON-ready, of the table at the top: its name, "table"; "ids", the columns that tell
        its rows apart, as far as known; and "parts", the tables that keys lead to, by their names
        in a record, each with "on", pairs of a column of the outer table and one of its own, and
        "at_most", the size of samples of its rows, or None.
    """
    found = _table(root)
    return {**found, "ids": found["ids"] or [[name] for name in key]} if found["parts"] else None


def _table(record: Field) -> Config:
    fields = record.seen.fields if isinstance(record.seen, Records) else {}
    name, ids, parts = "", list[Any](), dict[str, Config]()
    for part in record.parts:
        profile = fields.get(part.name)
        marked = None if profile is None else Key.marked(profile.key)
        if marked is None:
            continue
        key, at_most = marked
        is_up = part.type == "record"
        pairs = list(zip(key.columns, key.ids, strict=True))
        on = [[list(x), list(y)] if is_up else [list(y), list(x)] for x, y in pairs]
        ids = ids or ([] if is_up else [list(x) for x in key.ids])
        name = key.child if is_up else key.parent
        inner = part if is_up else next((x for x in part.parts if x.type == "record"), None)
        if inner is not None:
            own = {"table": key.parent if is_up else key.child, "on": on, "at_most": at_most}
            parts[part.name] = _table(inner) | own
    return {"table": name, "ids": ids, "parts": parts}

"""Schemas as JSON, and back; everything that is read is checked."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from keras_mmil._support.files import write_json
from keras_mmil._support.types import PathLike
from keras_mmil.records import profiling
from keras_mmil.records.linking import Links
from keras_mmil.records.profiling import Bags, ByKey, FieldProfile, Reading, Records, Seen, Values
from keras_mmil.records.scalars import FORMS

__all__ = ["read", "write"]

_FORMAT = 3
_MOMENTS = ("mean", "squares")
_COUNTS = ("n_integers", "n_wide", "n_words")


def write(
    path: PathLike, profile: FieldProfile, choices: Mapping[str, str], links: Links | None
) -> None:
    """Write a profile, the choices of kinds, and how tables are linked, to a file."""
    content: dict[str, Any] = {"format": _FORMAT, "choices": dict(choices)}
    if links is not None:
        content["tables"] = asdict(links)
    write_json(Path(path), content | {"records": _encode(profile)})


def read(path: PathLike) -> tuple[FieldProfile, dict[str, str], Links | None]:
    """Read what `write` wrote; ValueError, with the place, if the file holds something else."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        _expect(isinstance(content, dict), "format", content)
        if content.get("format") in (1, 2):
            older = f"format={content['format']}, of an older version: infer the schema again"
            raise ValueError(older)
        _expect(content.get("format") == _FORMAT, "format", content.get("format"))
        choices = content.get("choices")
        are_texts = isinstance(choices, dict) and all(isinstance(x, str) for x in choices.values())
        _expect(are_texts, "choices", choices)
        return _decode(content.get("records"), "records"), choices, _links(content.get("tables"))
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"Expected a schema in {path}. Received: {error}") from error


def _links(content: Any) -> Links | None:
    if content is None:
        return None
    is_right = isinstance(content, dict) and content.keys() == {"top", "keys", "orphans"}
    _expect(is_right and isinstance(content["top"], str), "tables", content)
    keys = content["keys"]
    try:
        pairs = Links.of(content["top"], keys, "raise").keys
    except (TypeError, ValueError):
        raise _wrong("keys", keys) from None
    return Links(content["top"], pairs, content["orphans"])


def _expect(is_right: bool, where: str, received: object) -> None:
    if not is_right:
        raise _wrong(where, received)


def _wrong(where: str, received: object) -> ValueError:
    shown = repr(received)
    return ValueError(f"{where}={shown if len(shown) < 80 else f'{shown[:80]}…'}")


def _encode(profile: FieldProfile) -> dict[str, Any]:
    content: dict[str, Any] = {"count": profile.count}
    if profile.key:
        content["key"] = profile.key
    return content | {type_: _encoded(type_, seen) for type_, seen in profile.by_type.items()}


def _encoded(type_: str, seen: Seen) -> dict[str, Any]:
    content: dict[str, Any]
    if isinstance(seen, Bags):
        content = {"count": seen.count, "lengths": _encoded("number", seen.lengths)}
        if seen.positions:
            content["positions"] = [_encode(each) for each in seen.positions]
        if seen.is_fixed:
            content["is_fixed"] = True
        return content | {"members": _encode(seen.members)}
    if isinstance(seen, Records):
        content = {"count": seen.count}
        if seen.by_key is None:
            return content | {"fields": {name: _encode(x) for name, x in seen.fields.items()}}
        keys, each = seen.by_key.keys, seen.by_key.each
        return content | {"keys": _encoded("text", keys), "each": _encode(each)}
    content = {"count": seen.count}
    content |= {name: getattr(seen, name) for name in (*_MOMENTS, *_COUNTS) if getattr(seen, name)}
    if seen.counts is None:
        content |= {"smallest": list(seen.smallest), "largest": seen.largest}
        return content | {form: _encoded_reading(form, x) for form, x in seen.readings.items()}
    # Pairs, for keys of JSON are texts.
    return content | {"values": [[value, n] for value, n in seen.counts.items()]}


def _encoded_reading(form: str, reading: Reading) -> dict[str, Any]:
    content = {"values": _encoded(FORMS[form], reading.values), "example": reading.example}
    others = reading.others
    return content if others is None else content | {"others": [[x, n] for x, n in others.items()]}


def _decode(content: Any, where: str) -> FieldProfile:
    _expect(isinstance(content, dict), where, content)
    by_type = {
        type_: _decoded(type_, part, f"{where}.{type_}")
        for type_, part in content.items()
        if type_ not in ("count", "key")
    }
    key = content.get("key", "")
    _expect(isinstance(key, str), f"{where}.key", key)
    profile = FieldProfile(_count(content, where), by_type, key)
    _expect(profile.n_present <= profile.count, f"{where}.count", profile.count)
    return profile


def _decoded(type_: str, content: Any, where: str) -> Seen:
    _expect(type_ in profiling.TYPES and isinstance(content, dict), where, content)
    if type_ not in ("record", "bag"):
        return _values(type_, content, where)
    count = _count(content, where, least=1)
    if type_ == "bag":
        return _bags(content, count, where)
    if "keys" in content:
        keys = _values("text", content["keys"], f"{where}.keys", least=0)
        each = _decode(content.get("each"), f"{where}.each")
        _expect(each.count == keys.count, f"{where}.each.count", each.count)
        return Records(count, {}, ByKey(keys, each))
    fields = content.get("fields")
    _expect(isinstance(fields, dict), f"{where}.fields", fields)
    _expect(len(fields) <= profiling.MAX_FIELDS, f"{where}.fields", list(fields))
    parts = {name: _decode(part, f"{where}.fields.{name}") for name, part in fields.items()}
    for name, part in parts.items():
        _expect(part.count == count, f"{where}.fields.{name}.count", part.count)
    return Records(count, parts)


def _bags(content: dict[str, Any], count: int, where: str) -> Bags:
    members = _decode(content.get("members"), f"{where}.members")
    lengths = _values("number", content.get("lengths"), f"{where}.lengths")
    _expect(lengths.count == count, f"{where}.lengths.count", lengths.count)
    ends = [*lengths.smallest, lengths.largest, *(lengths.counts or ())]
    _expect(all(type(x) is int and x >= 0 for x in ends), f"{where}.lengths", ends)
    parts = content.get("positions", [])
    _expect(isinstance(parts, list), f"{where}.positions", parts)
    _expect(len(parts) in (0, lengths.largest), f"{where}.positions", len(parts))
    positions = tuple(_decode(x, f"{where}.positions[{i}]") for i, x in enumerate(parts))
    for i, each in enumerate(positions):
        here = f"{where}.positions[{i}]"
        _expect(each.count * len(positions) == members.count, f"{here}.count", each.count)
        _expect(each.by_type.keys() <= members.by_type.keys(), here, list(each.by_type))
    is_fixed = content.get("is_fixed", False)
    _expect(isinstance(is_fixed, bool), f"{where}.is_fixed", is_fixed)
    return Bags(lengths, members, positions, is_fixed)


_PYTHON = {"number": (int, float), "time": (int, float), "text": (str,), "boolean": (bool,)}


def _values(type_: str, content: Any, where: str, least: int = 1) -> Values:
    _expect(isinstance(content, dict), where, content)
    count = _count(content, where, least=least)
    figures: dict[str, Any] = {
        name: _count(content | {name: content.get(name, 0)}, where, name) for name in _COUNTS
    }
    for name in _MOMENTS:
        figures[name] = content.get(name, 0.0)
        _expect(_is_value("number", figures[name]), f"{where}.{name}", figures[name])
    if "values" not in content:
        smallest, largest = content.get("smallest"), content.get("largest")
        are_some = isinstance(smallest, list) and 0 < len(smallest) <= profiling.N_SMALLEST
        _expect(are_some, f"{where}.smallest", smallest)
        _expect(all(_is_value(type_, x) for x in smallest), f"{where}.smallest", smallest)
        _expect(_is_value(type_, largest), f"{where}.largest", largest)
        readings = {
            form: _reading(form, content[form], count, f"{where}.{form}")
            for form in FORMS
            if form in content and type_ == "text"
        }
        return Values(count, None, tuple(smallest), largest, **figures, readings=readings)
    counts = _counts(type_, content["values"], f"{where}.values")
    _expect(len(counts) <= profiling.MAX_VALUES, f"{where}.values", f"{len(counts)} values")
    _expect(sum(counts.values()) == count, f"{where}.count", count)
    in_order = sorted(counts)
    smallest = tuple(in_order[: profiling.N_SMALLEST])
    return Values(count, counts, smallest, in_order[-1] if in_order else None, **figures)


def _counts(type_: str, pairs: Any, where: str) -> dict[Any, int]:
    """Values and how often each was seen, from pairs of both."""
    _expect(isinstance(pairs, list), where, pairs)
    for pair in pairs:
        is_pair = isinstance(pair, list) and len(pair) == 2 and _is_value(type_, pair[0])
        _expect(is_pair and type(pair[1]) is int and pair[1] > 0, where, pair)
    counts = dict(pairs)
    _expect(len(counts) == len(pairs), where, "repeated ones")
    return counts


def _reading(form: str, content: Any, count: int, where: str) -> Reading:
    _expect(isinstance(content, dict), where, content)
    values = _values(FORMS[form], content.get("values"), f"{where}.values")
    example, others = content.get("example"), None
    _expect(isinstance(example, str), f"{where}.example", example)
    _expect(values.count <= count, f"{where}.values.count", values.count)
    if "others" in content:
        others = _counts("text", content["others"], f"{where}.others")
        _expect(len(others) <= profiling.MAX_OTHERS, f"{where}.others", f"{len(others)} texts")
        _expect(values.count + sum(others.values()) == count, f"{where}.others", others)
        _expect(example == min(others, default=""), f"{where}.example", example)
    return Reading(values, others, example)


def _is_value(type_: str, value: object) -> bool:
    is_right = isinstance(value, _PYTHON[type_]) and (type_ == "boolean") == isinstance(value, bool)
    return is_right and (not isinstance(value, float) or math.isfinite(value))


def _count(content: dict[str, Any], where: str, name: str = "count", least: int = 0) -> int:
    count = content.get(name)
    if type(count) is not int or count < least:
        raise _wrong(f"{where}.{name}", count)
    return count

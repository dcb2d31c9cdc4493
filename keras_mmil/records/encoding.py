"""Schemas as JSON, and back, where nothing is believed unchecked."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_mmil._support.atomic import write_json
from keras_mmil._support.types import PathLike
from keras_mmil.records import statistics
from keras_mmil.records.statistics import Bags, Observed, Records, Values

__all__ = ["read", "write"]

_FORMAT = 1
_FIGURES = ("mean", "squares", "n_integers", "n_times", "n_words")


def write(path: PathLike, observed: Observed, choices: Mapping[str, str]) -> None:
    """Write what was seen, and what was chosen, to a file."""
    content = {"format": _FORMAT, "choices": dict(choices), "records": _encode(observed)}
    write_json(Path(path), content)


def read(path: PathLike) -> tuple[Observed, dict[str, str]]:
    """Read what `write` wrote.

    Raises:
        ValueError: if the file holds something else; it says where.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        _expect(isinstance(content, dict) and content.get("format") == _FORMAT, "format", content)
        choices = content.get("choices")
        are_texts = isinstance(choices, dict) and all(isinstance(x, str) for x in choices.values())
        _expect(are_texts, "choices", choices)
        return _decode(content.get("records"), "records"), choices
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"Expected a schema in {path}. Received: {error}") from error


def _expect(is_right: bool, where: str, received: object) -> None:
    if not is_right:
        shown = repr(received)
        raise ValueError(f"{where}={shown if len(shown) < 80 else f'{shown[:80]}…'}")


def _encode(observed: Observed) -> dict[str, Any]:
    return {"count": observed.count} | {
        type_: _encoded(type_, seen) for type_, seen in observed.by_type.items()
    }


def _encoded(type_: str, seen: Values | Records | Bags) -> dict[str, Any]:
    if isinstance(seen, Bags):
        return {"count": seen.count, "largest": seen.largest, "members": _encode(seen.members)}
    if isinstance(seen, Records):
        content: dict[str, Any] = {"count": seen.count}
        if seen.keys is None:
            fields = {name: _encode(part) for name, part in seen.fields.items()}
            return content | {"fields": fields}
        return content | {"keys": _encoded("text", seen.keys), "each": _encode(seen.each)}
    content = {"count": seen.count}
    content |= {name: getattr(seen, name) for name in _FIGURES if getattr(seen, name)}
    if seen.counts is None:
        return content | {"smallest": list(seen.smallest), "largest": seen.largest}
    # Pairs, for keys of JSON are texts.
    return content | {"values": [[value, n] for value, n in seen.counts.items()]}


def _decode(content: Any, where: str) -> Observed:
    _expect(isinstance(content, dict), where, content)
    by_type = {
        type_: _decoded(type_, part, f"{where}.{type_}")
        for type_, part in content.items()
        if type_ != "count"
    }
    observed = Observed(_count(content, where), by_type)
    _expect(observed.n_present <= observed.count, f"{where}.count", observed.count)
    return observed


def _decoded(type_: str, content: Any, where: str) -> Values | Records | Bags:
    _expect(type_ in statistics.TYPES and isinstance(content, dict), where, content)
    count = _count(content, where)
    if type_ == "bag":
        members = _decode(content.get("members"), f"{where}.members")
        return Bags(count, members, _count(content, where, "largest"))
    if type_ == "record":
        if "keys" in content:
            keys = _values("text", content["keys"], f"{where}.keys")
            return Records(count, keys=keys, each=_decode(content.get("each"), f"{where}.each"))
        fields = content.get("fields")
        _expect(isinstance(fields, dict), f"{where}.fields", fields)
        parts = {name: _decode(part, f"{where}.fields.{name}") for name, part in fields.items()}
        for name, part in parts.items():
            _expect(part.count == count, f"{where}.fields.{name}.count", part.count)
        return Records(count, parts)
    return _values(type_, content, where)


_PYTHON = {"number": (int, float), "time": (int, float), "text": (str,), "boolean": (bool,)}


def _values(type_: str, content: Any, where: str) -> Values:
    _expect(isinstance(content, dict), where, content)
    count, figures = _count(content, where), {}
    for name in _FIGURES:
        figure = content.get(name, 0)
        is_number = isinstance(figure, int | float) and not isinstance(figure, bool)
        _expect(is_number and figure == figure, f"{where}.{name}", figure)
        figures[name] = figure

    def check(value: object) -> None:
        is_right = isinstance(value, _PYTHON[type_])
        is_right &= type_ == "boolean" or not isinstance(value, bool)
        _expect(is_right, f"{where}.values", value)

    if "values" not in content:
        smallest, largest = content.get("smallest"), content.get("largest")
        _expect(isinstance(smallest, list) and len(smallest) > 0, f"{where}.smallest", smallest)
        for value in (*smallest, largest):
            check(value)
        return Values(count, None, tuple(smallest), largest, **figures)
    pairs = content["values"]
    _expect(isinstance(pairs, list), f"{where}.values", pairs)
    for pair in pairs:
        _expect(isinstance(pair, list) and len(pair) == 2, f"{where}.values", pair)
        check(pair[0])
        _expect(type(pair[1]) is int and pair[1] > 0, f"{where}.values", pair)
    counts = dict(pairs)
    _expect(sum(counts.values()) == count, f"{where}.count", count)
    in_order = sorted(counts)
    smallest = tuple(in_order[: statistics.N_SMALLEST])
    return Values(count, counts, smallest, in_order[-1] if in_order else None, **figures)


def _count(content: dict[str, Any], where: str, name: str = "count") -> int:
    count = content.get(name)
    _expect(type(count) is int and count >= 0, f"{where}.{name}", count)
    return count

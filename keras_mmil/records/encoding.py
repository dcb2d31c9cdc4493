"""Schemas as JSON, and back; everything that is read is checked."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from keras_mmil._support.files import write_json
from keras_mmil._support.state import decode, encode, require
from keras_mmil._support.types import PathLike
from keras_mmil.records import profiling
from keras_mmil.records.linking import Links
from keras_mmil.records.profiling import Bags, FieldProfile, Records, Scalar, Seen, Values
from keras_mmil.records.scalars import FORMS

__all__ = ["Saved", "read", "write"]

_FORMAT = 5
_PYTHON = {"number": (int, float), "time": (int, float), "text": (str,), "boolean": (bool,)}


@dataclass(frozen=True)
class Saved:
    """What is saved of a schema: it has no checksum, as people may edit its choices.

    Attributes:
        choices: kinds by path.
        tables: how the tables are linked, None for records.
        records: the statistics of the records.
    """

    choices: dict[str, str]
    records: FieldProfile
    tables: Links | None = None


def write(path: PathLike, saved: Saved) -> None:
    """Write it to a file."""
    write_json(Path(path), {"format": _FORMAT, **encode(saved)})


def read(path: PathLike) -> Saved:
    """Read what `write` wrote; ValueError, with the place, if the file holds something else."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        found = content.pop("format", None) if isinstance(content, dict) else content
        if found != _FORMAT:
            raise ValueError(f"format={found!r:.80}, not {_FORMAT}: infer the schema again")
        saved = decode(Saved, content)
        _check(saved.records, "records")
        links = saved.tables
        return replace(saved, tables=links and Links.of(**vars(links)))
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"Expected a schema in {path}. Received: {error}") from error


def _check(profile: FieldProfile, where: str) -> None:
    for type_, seen in profile.by_type.items():
        here = f"{where}.by_type.{type_}"
        require(type_ in profiling.TYPES, here, seen)
        kind = {"record": Records, "bag": Bags}.get(type_, Values)
        require(isinstance(seen, kind), here, seen)
        _check_seen(type_, seen, here)
        require(seen.count > 0, f"{here}.count", seen.count)
    require(0 <= profile.n_present <= profile.count, f"{where}.count", profile.count)


def _check_seen(type_: str, seen: Seen, where: str) -> None:
    if isinstance(seen, Bags):
        _check_bags(seen, where)
    elif isinstance(seen, Values):
        _check_values(type_, seen, where)
    elif seen.by_key is not None:
        require(not seen.fields, f"{where}.fields", [*seen.fields])
        keys, each = seen.by_key.keys, seen.by_key.each
        _check_values("text", keys, f"{where}.by_key.keys")
        _check(each, f"{where}.by_key.each")
        require(each.count == keys.count, f"{where}.by_key.each.count", each.count)
    for name, part in seen.fields.items() if isinstance(seen, Records) else ():
        _check(part, f"{where}.fields.{name}")
        require(part.count == seen.count, f"{where}.fields.{name}.count", part.count)


def _check_bags(bags: Bags, where: str) -> None:
    _check_values("number", bags.lengths, f"{where}.lengths")
    ends = [*bags.lengths.smallest, bags.lengths.largest, *(bags.lengths.counts or ())]
    require(all(type(x) is int and x >= 0 for x in ends), f"{where}.lengths", ends)
    _check(bags.members, f"{where}.members")
    n = len(bags.positions)
    require(n in (0, bags.largest), f"{where}.positions", n)
    for i, each in enumerate(bags.positions):
        here = f"{where}.positions[{i}]"
        _check(each, here)
        require(each.count * n == bags.members.count, f"{here}.count", each.count)
        require(each.by_type.keys() <= bags.members.by_type.keys(), here, [*each.by_type])


def _check_values(type_: str, values: Values, where: str) -> None:
    for name in ("count", "n_integers", "n_wide", "n_words"):
        require(getattr(values, name) >= 0, f"{where}.{name}", getattr(values, name))
    smallest, largest, counts = values.smallest, values.largest, values.counts
    if counts is not None:
        _check_counts(type_, counts, f"{where}.counts")
        require(len(counts) <= profiling.MAX_VALUES, f"{where}.counts", f"{len(counts)} values")
        require(sum(counts.values()) == values.count, f"{where}.count", values.count)
        ordered = sorted(counts)
        are_first = [*smallest] == ordered[: profiling.N_SMALLEST]
        require(are_first and largest == max(ordered, default=None), f"{where}.smallest", smallest)
        require(not values.readings, f"{where}.readings", values.readings)
        return
    require(0 < len(smallest) <= profiling.N_SMALLEST, f"{where}.smallest", smallest)
    for value in (*smallest, largest):
        require(_is_value(type_, value), f"{where}.smallest", value)
    for form, reading in values.readings.items():
        here = f"{where}.readings.{form}"
        require(form in FORMS and type_ == "text", here, reading)
        _check_values(FORMS[form], reading.values, f"{here}.values")
        n, others = reading.values.count, reading.others
        require(0 < n <= values.count, f"{here}.values.count", n)
        if others is not None:
            _check_counts("text", others, f"{here}.others")
            require(len(others) <= profiling.MAX_OTHERS, f"{here}.others", f"{len(others)} texts")
            require(n + sum(others.values()) == values.count, f"{here}.others", others)
            is_first = reading.example == min(others, default="")
            require(is_first, f"{here}.example", reading.example)


def _check_counts(type_: str, counts: Mapping[Scalar, int], where: str) -> None:
    for value, n in counts.items():
        require(_is_value(type_, value) and n > 0, where, [value, n])


def _is_value(type_: str, value: object) -> bool:
    is_right = isinstance(value, _PYTHON[type_]) and (type_ == "boolean") == isinstance(value, bool)
    return is_right and (not isinstance(value, float) or math.isfinite(value))

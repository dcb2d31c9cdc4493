"""Saved state: dataclasses as JSON and arrays, and JSON files with a format and a checksum."""

import functools
import math
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from keras_mmil._support.digests import checksum_of_json
from keras_mmil._support.files import parse_json, write_json
from keras_mmil._support.types import Array, Config, PathLike
from keras_mmil._version import __version__

__all__ = ["decode", "encode", "peek_state", "read_state", "require", "write_state"]

_MOST_BYTES = 2**28  # of a file
_PAIRS = "pairs"  # the only key of a mapping whose keys are not texts
_ERRORS = (RecursionError, UnicodeDecodeError, ValueError)
_SCALARS = (bool, int, float, str)
_LONGEST = 80  # characters that an error shows of what is wrong
_T = TypeVar("_T")


# Values -----------------------------------------------------------------------------------------


def encode(value: object, arrays: dict[str, Array] | None = None, where: str = "") -> Any:
    """A value as JSON content: what `decode` turns back into the value.

    Of a dataclass, fields that have their default are left out. Enums are their values, tuples
    are lists, and a mapping whose keys are not all texts is a list of pairs.

    Args:
        value: a dataclass, or anything that one may hold: mappings, lists, tuples, enums, arrays,
            numbers, texts and None.
        arrays: to which arrays are added, by their places in `value`, which stand in the JSON; None
            to write arrays as lists.
        where: the place of the value, for errors.

    Raises:
        ValueError: for anything else, or numbers that are not finite, where they are no defaults.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"Expected a finite number. Received: {where or 'value'}={value!r}")
    if value is None or isinstance(value, _SCALARS):
        return value
    if isinstance(value, np.ndarray):
        if arrays is None:
            return value.tolist()
        arrays[where] = value
        return where
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        parts = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        kind: Any = type(value)
        defaults = _defaults(kind)
        return {
            name: encode(part, arrays, _place(where, name))
            for name, part in parts.items()
            if name not in defaults or not _is_default(part, defaults[name])
        }
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and key != _PAIRS for key in value):
            return {key: encode(x, arrays, _place(where, key)) for key, x in value.items()}
        return {_PAIRS: [encode(pair, arrays, where) for pair in value.items()]}
    if isinstance(value, list | tuple):
        return [encode(each, arrays, f"{where}[{i}]") for i, each in enumerate(value)]
    raise ValueError(f"Expected what JSON can hold. Received: {where or 'value'}={value!r}")


def decode(
    hint: type[_T], content: Any, arrays: dict[str, Array] | None = None, where: str = ""
) -> _T:
    """The inverse of `encode`, for content that may be damaged or written by hand.

    Args:
        hint: the type of the value, such as a dataclass, whose annotations say how to read the
            rest. Where they allow anything, lists become tuples. Of several dataclasses, content is
            the first whose keys it has.
        content: of JSON.
        arrays: out of which arrays are taken.
        where: the place of the value, for errors.

    Raises:
        ValueError: names the place of what is missing, superfluous or of another type.
    """
    decoded: _T = _decode(hint, content, {} if arrays is None else arrays, where)
    return decoded


def _decode(hint: Any, content: Any, arrays: dict[str, Array], where: str) -> Any:
    hint = getattr(hint, "__value__", hint)  # of a `TypeAliasType`, as NumPy 2.5 has them
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        chosen = [each for each in parts if _may_be(each, content)]
        require(bool(chosen), where, content)
        return _decode(chosen[0], content, arrays, where)
    if is_dataclass(origin) and isinstance(content, dict):
        return _decode_dataclass(hint, content, arrays, where)
    require(_may_be(hint, content), where, content)
    if origin is np.ndarray:
        require(content == where and where in arrays, where, content)
        return arrays.pop(where)
    if origin is tuple:
        hints = parts[:1] * len(content) if parts[-1] is ... else parts
        require(len(hints) == len(content), where, content)
        members = enumerate(zip(hints, content, strict=True))
        return tuple(_decode(each, part, arrays, f"{where}[{i}]") for i, (each, part) in members)
    if origin is list:
        return [_decode(parts[0], part, arrays, f"{where}[{i}]") for i, part in enumerate(content)]
    if origin is Any and isinstance(content, list):
        return tuple(_decode(Any, part, arrays, where) for part in content)
    if isinstance(content, dict):
        of_key, of_value = parts or (Any, Any)
        pairs = content[_PAIRS] if content.keys() == {_PAIRS} else [*content.items()]
        require(isinstance(pairs, list) and all(map(_is_pair, pairs)), where, content)
        require(len(dict(pairs)) == len(pairs), where, "repeated keys")
        return {
            _decode(of_key, key, arrays, where): _decode(of_value, x, arrays, _place(where, key))
            for key, x in pairs
        }
    if isinstance(origin, type) and issubclass(origin, Enum):
        return origin(content)
    return float(content) if origin is float else content


def _is_pair(pair: object) -> bool:
    is_pair = isinstance(pair, list | tuple) and len(pair) == 2
    return is_pair and isinstance(pair[0], _SCALARS)  # type: ignore[index]


def _decode_dataclass(hint: Any, content: Config, arrays: dict[str, Array], where: str) -> Any:
    kind = get_origin(hint) or hint
    hints, defaults = _hints(kind), _defaults(kind)
    for name in hints.keys() - content.keys() - defaults.keys():
        raise ValueError(f"{_place(where, name)} is missing")
    parts = {}
    for name, part in content.items():
        place = _place(where, name)
        require(name in hints, place, part)
        of_part = hints[name]
        if getattr(of_part, "__parameters__", ()):  # type variables, in place of which hint has
            of_part = of_part[get_args(hint)]
        parts[name] = _decode(of_part, part, arrays, place)
    try:
        return kind(**parts)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where or kind.__name__}: {error}") from error


def _may_be(hint: Any, content: Any) -> bool:
    """Whether content looks like a value of a type."""
    origin: Any = get_origin(hint) or hint
    if origin is Any:
        return True
    if origin is Literal:
        return content in get_args(hint)
    if is_dataclass(origin):
        kind: Any = origin
        required = _hints(kind).keys() - _defaults(kind).keys()
        return isinstance(content, dict) and required <= content.keys()
    if issubclass(origin, Enum):
        return content in [each.value for each in origin]
    if issubclass(origin, Mapping):
        return isinstance(content, dict)
    if origin is float:
        is_number = isinstance(content, int | float) and not isinstance(content, bool)
        return is_number and abs(content) <= sys.float_info.max  # no NaN, and no huge int
    expected = {tuple: list, np.ndarray: str}.get(origin, origin)
    return isinstance(content, expected) and (expected is not int or not isinstance(content, bool))


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """The type of each field of a dataclass that its constructor takes."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if each.init}


@functools.cache
def _defaults(kind: Any) -> dict[str, Any]:
    """The defaults of the fields of a dataclass."""
    return {
        each.name: each.default if each.default_factory is MISSING else each.default_factory()
        for each in fields(kind)
        if each.default is not MISSING or each.default_factory is not MISSING
    }


def _is_default(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not isinstance(value, np.ndarray) and value == default


def _place(where: str, name: object) -> str:
    return f"{where}.{name}" if where else str(name)


def require(is_right: bool, where: str, received: object) -> None:
    """Raise ValueError, with the place and what is there, unless it is right."""
    if not is_right:
        shown = repr(received)
        shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
        raise ValueError(f"{where or 'content'}={shown}")


# Files ------------------------------------------------------------------------------------------


def write_state(path: PathLike, format: str, version: int, content: Config) -> None:
    """Write content to a JSON file below its format, version and checksum, atomically."""
    sealed = {"library": __version__, **content}
    head = {"format": format, "version": version, "sha256": checksum_of_json(sealed)}
    write_json(path, head | sealed)


def read_state(path: PathLike, format: str, version: int) -> Config:
    """The content of a file that `write_state` wrote; white space and order do not matter.

    Raises:
        FileNotFoundError: if there is no file.
        ValueError: if it is of another format or version, or damaged; names the file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"Expected a file of {format!r}. Received: no file {str(path)!r}")
    try:
        content = _read(path, format)
        found, checksum = content.pop("version", None), content.pop("sha256", None)
        if found != version:
            raise ValueError(f"of version {found!r}, not {version}: make it again")
        if checksum != checksum_of_json(content):
            raise ValueError("damaged: its checksum differs")
    except (RecursionError, ValueError) as error:
        raise ValueError(
            f"Expected a file of {format!r}. Received: {str(path)!r}, {error}"
        ) from error
    content.pop("library", None)
    return content


def peek_state(path: PathLike, format: str) -> Config | None:
    """The content of a file of a format, of any version, damaged or not; None for other files."""
    try:
        return _read(Path(path), format)
    except (OSError, ValueError):
        return None


def _read(path: Path, format: str) -> Config:
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"larger than {_MOST_BYTES:,} bytes")
    try:
        # NaN and infinity would have the checksum of null.
        content = parse_json(path.read_bytes().decode("utf-8"))
    except _ERRORS as error:
        raise ValueError(f"damaged: {error}") from error
    if not isinstance(content, dict) or content.pop("format", None) != format:
        raise ValueError("of another format, such as that of version 0.1: make it again")
    return content

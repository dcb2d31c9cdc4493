"""The body of a request, from bytes that nobody vouches for to records within the limits."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import numpy as np
from starlette.requests import ClientDisconnect, Request

from service.limits import Limits
from service.problem import Problem

__all__ = ["records_of", "whole_body"]

_LARGEST = float(np.finfo(np.float32).max)
_DROPPED = 4  # times as much as is allowed


async def whole_body(request: Request, limits: Limits) -> bytes:
    """The body, of which never more than allowed is held.

    One that is refused is read and dropped up to a limit, as a client that still sends would find
    the connection reset, and no answer.

    Raises:
        Problem: if it is no JSON by its head, too large, too slow or cut.
    """
    refusal = _refused_by_head(request.headers, limits)
    body, n_bytes = bytearray(), 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                n_bytes += len(chunk)
                if n_bytes > limits.body_bytes:
                    refusal = refusal or _too_large(limits)
                if n_bytes > _DROPPED * limits.body_bytes:
                    raise refusal.with_unread_body()
                if refusal is None:
                    body += chunk
    except TimeoutError:
        message = f"Expected the whole body within {limits.body_seconds:g} s"
        raise Problem(408, "too_slow", message).with_unread_body() from None
    except ClientDisconnect:
        raise Problem(400, "cut", "Expected the whole body").with_unread_body() from None
    if refusal is not None:
        raise refusal
    return bytes(body)


def records_of(body: bytes, is_batch: bool, limits: Limits) -> tuple[list[Any], int]:
    """The records in a body, and the number of values in it.

    Args:
        body: `{"record": ...}`, or of a batch `{"records": [...]}`.
        is_batch: which of the two.
        limits: what is allowed.

    Raises:
        Problem: if it is something else, or more than is allowed.
    """
    content = _parsed(body)
    n_values = _checked_size(content, limits)
    name = "records" if is_batch else "record"
    if not isinstance(content, dict) or content.keys() != {name}:
        raise Problem(422, "wrong_envelope", f'Expected an object with "{name}" and nothing else')
    if not is_batch:
        return [content[name]], n_values
    records = content[name]
    if not isinstance(records, list) or not 1 <= len(records) <= limits.records:
        message = f"Expected a list of 1 to {limits.records} records"
        raise Problem(422, "wrong_number", message, name)
    return records, n_values


def _refused_by_head(headers: Mapping[str, str], limits: Limits) -> Problem | None:
    kind, *parameters = headers.get("content-type", "").lower().replace(" ", "").split(";")
    if kind != "application/json" or not set(parameters) <= {"", "charset=utf-8"}:
        message = "Expected content-type: application/json, in UTF-8"
        return Problem(415, "wrong_content_type", message)
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        message = "Expected a body that is not compressed"
        return Problem(415, "wrong_content_encoding", message)
    length = headers.get("content-length", "0").lstrip("0")
    if len(length) > len(str(limits.body_bytes)) or int(length or 0) > limits.body_bytes:
        return _too_large(limits)  # the server has checked that it is a number
    return None


def _too_large(limits: Limits) -> Problem:
    message = f"Expected a body of at most {limits.body_bytes} bytes"
    return Problem(413, "too_large", message)


def _parsed(body: bytes) -> Any:
    """What JSON says; unlike Python's own reader, nothing that only looks like JSON."""
    try:
        return json.loads(
            body.decode(), object_pairs_hook=_distinct_keys, parse_constant=_no_constant
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Problem(400, "no_json", f"Expected JSON: {error.msg}", where) from None
    except RecursionError:
        raise Problem(422, "too_deep", "Expected fewer levels of objects and lists") from None
    except UnicodeDecodeError as error:
        raise Problem(400, "no_utf_8", "Expected UTF-8", f"byte {error.start}") from None
    except ValueError as error:  # of the hooks, and of integers with thousands of digits
        raise Problem(400, "no_json", f"Expected JSON: {error}") from None


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice!r} is there twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number; what is missing is null")


def _checked_size(content: Any, limits: Limits) -> int:
    """The number of values in a body, which is not entered deeper than allowed."""
    n_values, layer = 1, [content]
    for _ in range(limits.depth):
        layer = [member for each in layer for member in _members(each)]
        n_values += len(layer)
        if n_values > limits.values:
            raise Problem(422, "too_many_values", f"Expected at most {limits.values} values")
        for each in layer:
            _check_number(each)
    if any(isinstance(each, dict | list) for each in layer):
        message = f"Expected at most {limits.depth} levels of objects and lists"
        raise Problem(422, "too_deep", message)
    return n_values


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _check_number(value: Any) -> None:
    """Refuse a number that the network would read as missing."""
    if isinstance(value, int | float) and not abs(value) <= _LARGEST:
        raise Problem(422, "too_large_number", f"Expected numbers up to {_LARGEST:.1e} in size")

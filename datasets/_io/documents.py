"""JSON documents, read and checked: every error names the file and the document."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from keras_mmil._support.files import open_text

__all__ = ["Document", "check", "read_array", "read_lines"]

Document = dict[str, Any]


def read_array(path: Path, is_right: Callable[[Document], bool], what: str) -> list[Document]:
    """The documents of a JSON file that is an array of objects.

    Args:
        path: the file.
        is_right: whether a document is of the form of this data set.
        what: this form in words, for the error message.

    Raises:
        ValueError: if the file is no JSON, no array of objects, or one of them is of another form.
    """
    with open_text(path) as file:
        found = _parsed(file.read(), path)
    if not isinstance(found, list) or not found:
        raise ValueError(f"Expected an array of documents. Received: {path} without")
    return [check(each, i, path, is_right, what) for i, each in enumerate(found)]


def read_lines(path: Path, is_right: Callable[[Document], bool], what: str) -> list[Document]:
    """The documents of a file with one JSON object a line; empty lines are left out.

    Args:
        path, is_right, what: as for `read_array`.

    Raises:
        ValueError: if a line is no JSON object, or of another form, or there is none.
    """
    found = [
        check(_parsed(line, f"{path}, line {i + 1}"), i, path, is_right, what)
        for i, line in _lines(path)
    ]
    if not found:
        raise ValueError(f"Expected a document a line. Received: {path} without")
    return found


def check(
    found: Any, i: int, path: Path, is_right: Callable[[Document], bool], what: str
) -> Document:
    """A document, which must be of the form of its data set.

    Raises:
        ValueError: if it is not; names the file and the number of the document, from 0.
    """
    if not isinstance(found, dict) or not is_right(found):
        raise ValueError(f"Expected {what}. Received: {path} with another document {i}")
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with open_text(path) as file:
        for i, line in enumerate(file):
            if line.strip():
                yield i, line


def _parsed(text: str, place: object) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Expected JSON. Received: {place} ({error})") from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")

"""Paths of the parts of records, such as `orders.items.price`."""

import json
import re

__all__ = ["ITEM", "alternative", "child", "item", "place", "position"]

ITEM = "[]"
_PLAIN = re.compile(r'[^\s."\[\]<>]+')
_TYPE = re.compile(r"<\w+>$")


def child(path: str, name: str) -> str:
    """The path of a field of a record; a name that would be ambiguous is quoted, as in JSON."""
    quoted = name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    return f"{path}.{quoted}" if path else quoted


def item(path: str) -> str:
    """The path of values and bags in a bag: `tags[]`. Records in it have the bag's own path."""
    return path + ITEM


def position(path: str, index: int) -> str:
    """The path of a position of a vector: `location[0]`, and in a bag of vectors `line[][0]`."""
    return f"{path}[{index}]"


def alternative(path: str, type_: str) -> str:
    """The path of the values of one type, where there are several types: `rating<number>`."""
    return f"{path}<{type_}>"


def place(path: str) -> str:
    """The path without the type of `alternative`."""
    return _TYPE.sub("", path)

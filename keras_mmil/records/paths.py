"""Paths of the parts of records, such as `orders.items.price`."""

import json
import re

__all__ = ["ITEM", "alternative", "child", "item", "place", "position"]

ITEM = "[]"
_PLAIN = re.compile(r'[^\s."\[\]<>]+')
_TYPE = re.compile(r"<\w+>$")


def child(path: str, name: str) -> str:
    """The path of a field of a record; a name that would be unclear in it is quoted, as in JSON.

    >>> child("orders", "price"), child("", "a.b")
    ('orders.price', '"a.b"')
    """
    shown = name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    return f"{path}.{shown}" if path else shown


def item(path: str) -> str:
    """The path of the members of a bag, where they are values or bags: `ingredients[]`.

    Records in a bag have the path of the bag itself, so that their fields are `orders.price`.
    """
    return path + ITEM


def position(path: str, index: int) -> str:
    """The path of a position of a vector: `location[0]`, and in a bag of vectors `line[][0]`."""
    return f"{path}[{index}]"


def alternative(path: str, type_: str) -> str:
    """The path of the values of one type, where values of several types have been seen."""
    return f"{path}<{type_}>"


def place(path: str) -> str:
    """The path without the type, if it has one: where values of several types are.

    >>> place("rating<number>"), place("rating")
    ('rating', 'rating')
    """
    return _TYPE.sub("", path)

"""The class of a record, by rules that are data. It needs nothing but Python 3.11.

`RuleBook.to_python` writes this file with the rules. `_runtime.js` does the same in JavaScript.
"""

import datetime
import math
import re
import struct
import unicodedata
from typing import Any

_DAY = 86_400
_FARTHEST = 3e11  # seconds from 1970
_LARGEST = 3.4028234663852886e38  # of float32, which is what the network reads
_WHOLE = 2.0**53  # below it, floats tell integers apart
_LONGEST = 64  # characters of what may be a number or a time
_NUMBER = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_THOUSANDS = re.compile(r"[+-]?(0|[1-9][0-9]{0,2}(,[0-9]{3})*)(\.[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_ISO = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01])"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?"
    r"(Z|[+-][0-9]{2}(:?[0-5][0-9])?)?)?)?"
)
_TRUE, _FALSE = ("true", "yes", "y", "t", "1"), ("false", "no", "n", "f", "0")


def rule_of(rules: dict[str, Any], record: dict[str, Any]) -> dict[str, Any] | None:
    """The rule that holds for a record, a dict: with its "label", its "number" and its "text"."""
    if not isinstance(record, dict):
        raise TypeError(f"Expected a dict. Received: {type(record).__name__}")
    return _rule(rules, rules["kinds"][-1], record)


def _rule(rules: dict[str, Any], kind: dict[str, Any], node: Any) -> dict[str, Any] | None:
    known: dict[Any, Any] = {}
    for rule in kind["rules"]:
        if all(_holds(rules, kind, node, each, known) for each in rule["all"]):
            return rule
    return None


def _holds(rules: Any, kind: Any, node: Any, condition: Any, known: dict[Any, Any]) -> bool:
    """Whether a condition holds; what is `known` of the node is computed once."""
    is_of_members = "members" in condition
    key = (is_of_members, condition["members" if is_of_members else "column"])
    if key not in known:
        known[key] = (
            _labels(rules, rules["kinds"][key[1]], node)
            if is_of_members
            else _column(node, kind["columns"][key[1]])
        )
    x = known[key]
    if is_of_members:
        n = x.count(condition["label"])
        x = n if condition["measure"] != "frequency" else n / len(x) if n else 0.0
    if "wanted" in condition:
        if is_of_members:
            found = x > 0
        elif condition["value"] is None:
            found = x is None
        elif condition["measure"] == "token":
            found = x is not None and condition["value"] in x
        else:
            found = x == condition["value"]
        return found == condition["wanted"]
    if x is None:
        return condition["missing"]
    if isinstance(x, dict):  # a time
        x = x[condition["value"]]
    low, high = condition["above"], condition["at_most"]
    return condition["present"] and (low is None or x > low) and (high is None or x <= high)


def _labels(rules: Any, kind: Any, node: Any) -> list[str | None]:
    """The clusters that the members of a bag are in."""
    found = [_rule(rules, kind, member) for member in _members(node, kind["bag"])]
    return [rule["label"] if rule else None for rule in found]


# Values -------------------------------------------------------------------------------------------


def _column(node: Any, column: dict[str, Any]) -> Any:
    if "of" in column:
        return _statistic(node, column)
    x = _value(node, column)
    if x is None:
        return None
    if column["kind"] == "text":
        return set(re.findall(r"[^\W_]+", x.lower()))
    return _parts(x) if column["kind"] == "time" else x


def _at(node: Any, steps: list[Any]) -> Any:
    """What steps lead to from a dict or a list: a key, or a position in a list of some length."""
    for step in steps:
        if isinstance(step, str):
            node = node.get(step) if isinstance(node, dict) else None
        else:
            index, length = step
            is_right = isinstance(node, list | tuple) and len(node) == length
            node = node[index] if is_right else None
    return node


def _members(node: Any, bag: dict[str, Any]) -> Any:
    """The members of a bag; of an object whose keys are data, pairs of key and value."""
    found = _at(node, bag["at"])
    if bag["by_key"]:
        pairs = found.items() if isinstance(found, dict) else ()
        return [pair for pair in pairs if pair[1] is not None]
    return found if isinstance(found, list | tuple) else []


def _value(node: Any, read: dict[str, Any]) -> Any:
    """A number, a boolean as 1.0 or 0.0, a text, or a time in seconds; None if it is missing."""
    x = _at(node, read["at"])
    type_ = _type(x) or ""
    if type_ not in read["types"]:
        return None
    kind, form = read["kind"], read["form"]
    if kind == "category" and type_ == "number":
        return str(int(x)) if x == int(x) else str(x)
    if kind in ("category", "text"):
        return None if x == "\0" else x
    if kind == "time":
        return _time(x, type_, form)
    if type_ == "text":
        x = _parsed(x.strip(), kind, form) if len(x) <= _LONGEST else None
    if kind == "boolean":
        return float(x) if x in (0, 1) else None
    return None if x is None else struct.unpack("f", struct.pack("f", x))[0]


def _type(x: Any) -> str | None:
    if isinstance(x, bool):
        return "boolean"
    if isinstance(x, str):
        return "text"
    if isinstance(x, datetime.date):
        return "time"
    try:
        return "number" if abs(float(x)) <= _LARGEST else None
    except (TypeError, ValueError, OverflowError):
        return None


def _parsed(text: str, kind: str, form: str) -> float | None:
    if kind == "boolean":
        text = text.lower()
        return 1.0 if text in _TRUE else 0.0 if text in _FALSE else None
    if not (_THOUSANDS if form == "thousands" else _NUMBER).fullmatch(text):
        return None
    x = float(text.replace(",", ""))
    is_wide = _INTEGER.fullmatch(text.replace(",", "")) and abs(x) >= _WHOLE
    return None if is_wide or abs(x) > _LARGEST else x


def _time(x: Any, type_: str, form: str) -> float | None:
    """Seconds since 1970 (UTC)."""
    if type_ == "number":
        return x / (1000 if form == "milliseconds" else 1)
    try:
        if type_ == "text":
            text = x.strip()
            if len(x) > _LONGEST or not _ISO.fullmatch(text):
                return None
            x = datetime.datetime.fromisoformat(f"{text}-01" if len(text) == 7 else text)
        elif not isinstance(x, datetime.datetime):
            x = datetime.datetime(x.year, x.month, x.day)
        return (x if x.tzinfo else x.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _parts(seconds: float) -> dict[str, float]:
    seconds = min(max(seconds, -_FARTHEST), _FARTHEST)
    days = math.floor(seconds / _DAY)
    year, month = _year_and_month(days)
    return {
        "day": seconds / _DAY,
        "year": year,
        "month": month,
        "weekday": (days + 3) % 7 + 1,
        "hour": seconds % _DAY // 3600,
    }


def _year_and_month(days: int) -> tuple[int, int]:
    """Of days since 1970, also before the year 1 and after 9999 (Hinnant, "chrono", 2013)."""
    era, day = divmod(days + 719_468, 146_097)
    of_era = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    of_year = day - (365 * of_era + of_era // 4 - of_era // 100)
    month = (5 * of_year + 2) // 153  # from March
    return of_era + era * 400 + (month >= 10), month + 3 if month < 10 else month - 9


# Statistics of bags -------------------------------------------------------------------------------


def _statistic(node: Any, column: dict[str, Any]) -> float | None:
    """A number, share, mean, minimum, maximum, standard deviation or sum of members of a bag."""
    members = [node]
    for bag in column["in"]:
        members = [inner for each in members for inner in _members(each, bag)]
    if column["read"] is None:
        counted = column["test"] is None
        n = sum(counted or _is_true(each, column["test"]) for each in members)
        if column["of"] == "number":
            return n
        return n / len(members) if members else None
    values = [x for x in (_value(each, column["read"]) for each in members) if x is not None]
    if not values:
        return None
    total = math.fsum(values)
    mean = total / len(values)
    if column["of"] == "standard deviation":
        return math.sqrt(math.fsum((x - mean) ** 2 for x in values) / len(values))
    return {"mean": mean, "minimum": min(values), "maximum": max(values), "sum": total}[
        column["of"]
    ]


def _is_true(node: Any, test: dict[str, Any]) -> bool:
    """Whether something is true of a member."""
    if "all" in test:
        return all(_is_true(node, each) for each in test["all"])
    if "holds" in test:
        members = _members(node, test["bag"])
        return len(members) == sum(n for n, _ in test["holds"]) and all(
            sum(_is_true(each, inner) for each in members) == n for n, inner in test["holds"]
        )
    x = _value(node, test["read"])
    if "other" in test:
        return x not in test["other"]
    if "above" in test:
        return x is not None and x > test["above"]
    if "at_most" in test:
        return x is not None and x <= test["at_most"]
    if "word" in test:
        return x is not None and test["word"] in _words(x)
    return x == test["is"]


def _words(text: str) -> list[str]:
    """Letters, with their marks, and digits."""
    return "".join(c if _is_of_word(c) else " " for c in text.lower()).split()


def _is_of_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"

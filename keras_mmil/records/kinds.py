"""What the parts of records are taken for, and why."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from keras_mmil.records.statistics import (
    MAX_POSITIONS,
    Bags,
    Observed,
    Records,
    Scalar,
    Values,
)

__all__ = ["KINDS", "LEFT_OUT", "SCALARS", "Decision", "decide", "is_keyed", "of_lists", "possible"]

SCALARS = ("number", "category", "boolean", "text", "time")
KINDS = (*SCALARS, "record", "vector", "bag")
LEFT_OUT = ("constant", "identifier", "dropped", "empty")

_MANY = 100  # distinct values of a category, unless they come again and again
_FEW_KEYS = 8  # keys that a record may have without being looked at as a bag by key
_OFTEN = 0.5  # of the records have a key, on average, or a field
_SELDOM = 0.1  # of the records have a key whose values may be of a type of its own
_NAMES_OF_FIELDS = ("id", "name")
_IS_ID = re.compile(r"(?i:(^|[_.\- ])(u?u?id|guid|key|hash|nr|number)$)|[a-z]I[dD]$")
_IS_CODE = re.compile(r"(type|code|class|kind|category|status|group|zip|postcode)$", re.IGNORECASE)
_IN_NAMES = 1.5  # words, on average, of what may be an identifier, at most
_LISTS = 10  # of one length, from which on the length is no accident
_MOSTLY = 0.9  # of the lists, whose length is worth a word where others have another
_IN_TEXTS = 3  # words, on average, of what is no category where there are many


class Decision(NamedTuple):
    """What a part is taken for.

    Attributes:
        kind: one of `KINDS` or `LEFT_OUT`.
        why: a few words.
    """

    kind: str
    why: str


@dataclass(frozen=True)
class _Looked:
    """Scalar values, and what is around them."""

    name: str
    seen: Values
    is_always_there: bool

    @property
    def n_distinct(self) -> int | None:
        return self.seen.n_distinct

    @property
    def comes_again(self) -> float:
        """How often a value was seen, on average; 0 if that is not known."""
        return self.seen.count / self.n_distinct if self.n_distinct else 0.0


def decide(name: str, type_: str, seen: Values, is_always_there: bool) -> Decision:
    """What values are taken for.

    Args:
        name: of their field.
        type_: "number", "boolean", "text" or "time".
        seen: their statistics.
        is_always_there: whether nothing else was seen there, and nothing was missing.
    """
    looked = _Looked(name, seen, is_always_there)
    if looked.n_distinct == 1 and is_always_there:
        return Decision("constant", f"always {_shown(seen.smallest[0])}")
    return _DECIDE[type_](looked)


def possible(type_: str, seen: Values) -> tuple[str, ...]:
    """The kinds that a user may choose for values of a type."""
    kinds: list[str] = []
    if type_ == "number":
        kinds = ["number"]
        if seen.counts is not None and _are_integers(seen):
            kinds.append("category")
        if seen.counts is not None and seen.counts.keys() <= {0, 1}:
            kinds.append("boolean")
    elif type_ == "boolean":
        kinds = ["boolean"]
    elif type_ == "text":
        kinds = ["text"] + ["category"] * (seen.counts is not None)
        kinds += ["time"] * (seen.n_times == seen.count)
    elif type_ == "time":
        kinds = ["time"]
    return tuple(kinds)


def is_keyed(seen: Records) -> Decision:
    """Whether records are bags of values by key, such as a dict from ids to records, and why.

    Keys that are data vary from record to record, and the types of their values do not depend on
    the key. What most records have is a field, and so are `id`, `name` and the keys of links.
    """
    if seen.by_key is not None:
        return Decision("bag", f"by key: {_n_keys(seen.by_key.keys)} different keys")
    as_record = Decision("record", f"{len(seen.fields)} fields")
    present = {name: part.n_present for name, part in seen.fields.items() if part.n_present}
    if len(present) <= _FEW_KEYS or any(part.key for part in seen.fields.values()):
        return as_record
    if any(present.get(name, 0) >= _OFTEN * seen.count for name in _NAMES_OF_FIELDS):
        return as_record
    share = sum(present.values()) / (seen.count * len(present))
    if share >= _OFTEN:
        return as_record
    types = {type_ for part in seen.fields.values() for type_ in part.by_type}
    are_rare = share < _SELDOM and max(present.values()) < _OFTEN * seen.count
    if not (are_rare and len(types) <= 2) and _types_depend_on_keys(seen):
        return as_record
    return Decision(
        "bag", f"by key: {len(present)} keys, each in {share * 100:.0f} % of the records"
    )


def _types_depend_on_keys(seen: Records) -> bool:
    """Whether the type of a value is told by the other values of its key, far better than without.

    Of each value, the type is guessed: as the most frequent one of the others of its key, where
    there are such, or else as the most frequent one of all.
    """
    of_keys = [
        Counter({t: x.count for t, x in each.by_type.items()}) for each in seen.fields.values()
    ]
    total = sum(of_keys, Counter())
    ((usual, n_usual),) = total.most_common(1)
    n_right = 0
    for counts in of_keys:
        (_, first), (_, second) = [*counts.most_common(2), ("", 0), ("", 0)][:2]
        n_right += first if first - 1 > second else counts[usual]
    return 2 * (total.total() - n_right) < total.total() - n_usual


def of_lists(seen: Bags) -> Decision:
    """Whether lists are vectors, whose members mean something by their positions, or bags.

    Lists of equal length are vectors of numbers, or of values whose types differ by position: in
    bags of at least `_LISTS` such lists by chance no two lengths would differ. Texts alike may as
    well be a choice of so many, and stay bags.
    """
    n, n_filled = seen.largest, _n_filled(seen)
    if not n:
        return Decision("empty", "no member was ever there")
    types = [_scalar_types(each) for each in seen.positions]
    words = _members_in_words(types) if types else _members_in_words([_scalar_types(seen.members)])
    if types and seen.is_fixed:
        return Decision("vector", f"{n} {words}, by the type of the lists")
    may_be = all(len(each) <= 1 for each in types) and words not in ("texts", "members")
    if types and may_be and n_filled >= _LISTS:
        return Decision("vector", f"always {n} {words}")
    if types and may_be:
        lists = "1 list" if n_filled == 1 else f"{n_filled} lists"
        return Decision("bag", f"always {n} {words}, but in only {lists}")
    usual = _usual_length(seen)
    if usual and words not in ("texts", "members"):
        length, share = usual
        if length == n > MAX_POSITIONS and length * n_filled == seen.members.count:
            return Decision("bag", f"always {n} {words}, over {MAX_POSITIONS}: too many positions")
        if length > 1 and _MOSTLY <= share < 1:
            shown = f"{length} {words} in {share * 100:.3g} % of the lists"
            return Decision("bag", f"{shown}, up to {n}" if n > length else shown)
    return Decision("bag", f"up to {n} members")


def _scalar_types(seen: Observed) -> tuple[str, ...]:
    """The types of values, texts of ISO 8601 being times."""
    return tuple(
        "time" if isinstance(x, Values) and type_ == "text" and x.n_times == x.count else type_
        for type_, x in seen.by_type.items()
    )


def _members_in_words(types: list[tuple[str, ...]]) -> str:
    """ "numbers", or "values: text, number, number"."""
    found = dict.fromkeys(type_ for each in types for type_ in each)
    if len(found) == 1:
        (type_,) = found
        return f"{type_}s" if type_ in SCALARS else "members"
    if not found or any(len(each) > 1 for each in types):
        return "members"
    shown = [*("/".join(each) or "nothing" for each in types[:4]), *["…"][: len(types) > 4]]
    return f"values: {', '.join(shown)}"


def _n_filled(seen: Bags) -> int:
    """How many lists are not empty, of such as have one length otherwise."""
    return seen.members.count // seen.largest if seen.largest else 0


def _usual_length(seen: Bags) -> tuple[int, float] | None:
    """The most frequent length, and the share of the lists that have it."""
    if not seen.lengths.counts:
        return None
    length, n = max(seen.lengths.counts.items(), key=lambda pair: (pair[1], pair[0]))
    return length, n / seen.count


def _number(looked: _Looked) -> Decision:
    seen, n = looked.seen, looked.n_distinct
    is_integer = seen.n_integers == seen.count
    if seen.counts is not None and seen.counts.keys() <= {0, 1}:
        return Decision("boolean", "only 0 and 1")
    is_distinct = n is None or 1 < n == seen.count
    if is_integer and is_distinct and looked.is_always_there and _IS_ID.search(looked.name):
        return Decision("identifier", "by its name, and no value comes twice")
    is_code = _are_integers(seen) and _IS_CODE.search(looked.name)
    if is_code and n is not None and n <= _MANY:
        return Decision("category", f"by its name: {n} different integers")
    return Decision("number", "integers" if is_integer else "numbers")


def _boolean(looked: _Looked) -> Decision:
    return Decision("boolean", "true and false")


def _time(looked: _Looked) -> Decision:
    return Decision("time", "dates and times")


def _text(looked: _Looked) -> Decision:
    seen, n = looked.seen, looked.n_distinct
    n_words = seen.n_words / seen.count
    if seen.n_times == seen.count:
        return Decision("time", "dates and times of ISO 8601")
    if n_words < _IN_NAMES and looked.is_always_there:
        if n is None and _IS_ID.search(looked.name):
            return Decision("identifier", "by its name, and there are very many values")
        if n is not None and 1 < n == seen.count and (n > _MANY or _IS_ID.search(looked.name)):
            return Decision("identifier", "single words, of which none comes twice")
    if n is not None and looked.comes_again >= 2 and (n <= _MANY or n_words < _IN_TEXTS):
        return Decision("category", f"{n} different texts, each {looked.comes_again:.0f} times")
    if n == 1:
        return Decision("category", "one text, or missing")
    return Decision("text", f"{n or 'many'} different texts of {n_words:.1f} words")


_DECIDE: dict[str, Callable[[_Looked], Decision]] = {
    "number": _number,
    "boolean": _boolean,
    "time": _time,
    "text": _text,
}


def _n_keys(keys: Values) -> str:
    return "very many" if keys.n_distinct is None else str(keys.n_distinct)


def _are_integers(seen: Values) -> bool:
    """Whether values are integers that floats tell apart, too."""
    return seen.n_integers == seen.count and not any(
        isinstance(x, float) for x in seen.counts or ()
    )


def _form(seen: Observed) -> tuple[str, ...]:
    """What is alike in values of the same form: their types."""
    return tuple(seen.by_type)


def _shown(value: Scalar) -> str:
    return repr(value) if isinstance(value, str) else str(value)

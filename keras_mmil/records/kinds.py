"""What the parts of records are taken for, and why."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from keras_mmil.records import forms
from keras_mmil.records.statistics import (
    MAX_POSITIONS,
    Bags,
    Observed,
    Reading,
    Records,
    Scalar,
    Values,
)

__all__ = [
    "DIGITS",
    "EPOCHS",
    "KINDS",
    "LEFT_OUT",
    "OF_TEXTS",
    "SCALARS",
    "Decision",
    "decide",
    "form_chosen",
    "is_keyed",
    "of_lists",
    "possible",
    "with_texts",
]

SCALARS = ("number", "category", "boolean", "text", "time")
OF_TEXTS = ("number", "boolean", "time")  # what texts may be read as
KINDS = (*SCALARS, "record", "vector", "bag")
LEFT_OUT = ("constant", "identifier", "dropped", "empty")
DIGITS = "digits"  # the form of categories that are the digits of whole numbers
EPOCHS = {"seconds": 1.0, "milliseconds": 1e3}  # since 1970: forms of times that are integers

_MANY = 100  # distinct values of a category, unless they come again and again
_FEW_KEYS = 8  # keys that a record may have without being looked at as a bag by key
_OFTEN = 0.5  # of the records have a key, on average, or a field
_SELDOM = 0.1  # of the records have a key whose values may be of a type of its own
_NAMES_OF_FIELDS = ("id", "name")
_IS_ID = re.compile(r"(?i:(^|[_.\- ])(u?u?id|guid|key|hash|nr|number)$)|[a-z]I[dD]$")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")  # in names, also of camelCase
_IDS = {"id", "key", "uuid"}
_CODES = {"type", "code", "class", "kind", "category", "status", "group", "zip", "zipcode"}
_CODES |= {"postcode"}
_MEASURES = {"size", "sizeof", "length", "n", "num", "number", "count", "total", "mean", "sum"}
_MOMENTS = {"timestamp", "datetime", "date", "at", "ts", "epoch"}
_RECENT = 1e9, 4.2e9  # seconds since 1970: the years 2001 to 2103
_FEW_EACH = 5  # records, in the median, of an identifier's values
_SOME_IDS, _MANY_IDS = 10, 50  # distinct values of what may be an identifier though they repeat
_WIDE = 2**62  # integers from which on categories are texts of their digits
_NEARLY_ALL, _MOST = 0.99, 0.95  # of the texts, which are read in a form, or could be
_FEW_OTHERS = 10  # distinct texts that are none of a form in which the others are read
_DIGITS_OF_IDS = 7  # in all of some whole numbers that are written as texts
_IN_NAMES = 1.5  # words, on average, of what may be an identifier, at most
_LISTS = 10  # of one length, from which on the length is no accident
_MOSTLY = 0.9  # of the lists, whose length is worth a word where others have another
_SHOWN = 3  # texts that are shown
_IN_TEXTS = 3  # words, on average, of what is no category where there are many


class Decision(NamedTuple):
    """What a part is taken for.

    Attributes:
        kind: one of `KINDS` or `LEFT_OUT`.
        why: a few words.
        form: the form in which its texts are read, of `forms.FORMS`; or `DIGITS`, of categories
            that are whole numbers, or one of `EPOCHS`, of times that are; else empty.
    """

    kind: str
    why: str
    form: str = ""


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


def with_texts(name: str, type_: str, seen: Values, texts: Values) -> Decision | None:
    """What values are taken for with texts beside them, if nearly all of these are such values.

    Args:
        name: of their field.
        type_: "number", "boolean" or "time".
        seen: the statistics of the values that are no texts.
        texts: those of the texts.
    """
    reading = texts.as_forms.get(type_) or texts.none_read()
    if not _is_nearly_all(reading, seen.count + texts.count):
        return None
    decision = decide(name, type_, seen.merged(reading.values), is_always_there=False)
    if decision.kind not in OF_TEXTS:
        return None
    why = decision.why + _strangers(reading, seen.count + texts.count, decision.kind)
    return Decision(decision.kind, why, type_)


def form_of(kind: str, texts: Values) -> str:
    """The form in which most of some texts are of a kind; "" if none is, or two are as many."""
    found = {
        form: reading.values.count
        for form, reading in texts.as_forms.items()
        if forms.FORMS[form] == kind
    }
    most = [form for form, n in found.items() if n == max(found.values())]
    if len(most) == 2 and kind == "time":  # of dates, day and month cannot be told apart
        return ""
    return most[0] if most else ""


def form_chosen(kind: str, type_: str, seen: Values, texts: Values | None = None) -> str:
    """The form in which texts are read, or whole numbers, whose kind was chosen: see `Decision`."""
    if texts is not None or type_ == "text":
        return form_of(kind, seen) if texts is None else type_
    if (kind, type_) == ("time", "number"):
        return _epoch(seen)
    return DIGITS if (kind, type_) == ("category", "number") and _needs_digits(seen) else ""


def possible(type_: str, seen: Values, texts: Values | None = None) -> tuple[str, ...]:
    """The kinds that a user may choose for values of a type, and texts that are beside them."""
    kinds: list[str] = []
    if type_ == "number":
        kinds = ["number"]
        if seen.counts is not None and _are_integers(seen) and texts is None:
            kinds.append("category")
        if seen.counts is not None and seen.counts.keys() <= {0, 1}:
            kinds.append("boolean")
        if texts is None and _epoch(seen):
            kinds.append("time")
    elif type_ == "boolean":
        kinds = ["boolean"]
    elif type_ == "text":
        kinds = ["text"] + ["category"] * (seen.counts is not None)
        kinds += [kind for kind in OF_TEXTS if form_of(kind, seen)]
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
    """The types of values, texts that are all times or numbers being such."""
    return tuple(
        _type_of_texts(x) if isinstance(x, Values) and type_ == "text" else type_
        for type_, x in seen.by_type.items()
    )


def _type_of_texts(seen: Values) -> str:
    for type_ in ("time", "number"):
        form = form_of(type_, seen)
        if form and seen.as_forms[form].values.count == seen.count:
            return type_
    return "text"


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
    if is_integer and _is_of_few_each(looked):
        return Decision("identifier", _of_few_each(looked))
    if (form := _epoch(seen)) and _is_moment(looked.name, form):
        return Decision("time", f"by its name: integers as {form} since 1970", form)
    if is_integer and 2 * seen.n_wide > seen.count:
        return _of_digits(looked)
    is_code = _are_integers(seen) and _is_code(looked.name)
    if is_code and n is not None and n <= _MANY:
        form = DIGITS if _needs_digits(seen) else ""
        return Decision("category", f"by its name: {n} different integers", form)
    why = "integers" if is_integer else "numbers"
    if seen.n_wide:
        why += f"; {seen.n_wide:,} of {seen.count:,} have more digits than floats"
    return Decision("number", why)


def _epoch(seen: Values) -> str:
    """The form in which all of some integers are times of our days; "" if there is none."""
    for form, per_second in EPOCHS.items():
        first, last = (each * per_second for each in _RECENT)
        if seen.n_integers == seen.count and first <= seen.smallest[0] <= seen.largest < last:
            return form
    return ""


def _is_moment(name: str, form: str) -> bool:
    """Whether a name is that of moments; "time" may also be how long something takes."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(words) and (
        words[-1] in _MOMENTS or (words[-1] == "time" and form == "milliseconds")
    )


def _of_digits(looked: _Looked) -> Decision:
    """Whole numbers that floats would make equal: nobody measures with so many digits."""
    n = looked.n_distinct
    if n is not None and looked.comes_again >= 2:
        why = f"{n} different integers above 2^53, each {looked.comes_again:.0f} times"
        return Decision("category", why, DIGITS if _needs_digits(looked.seen) else "")
    return Decision("identifier", "integers above 2^53, which hardly come twice")


def _needs_digits(seen: Values) -> bool:
    """Whether integers are too large to be categories as int64, in which two are set aside."""
    return any(abs(x) >= _WIDE for x in seen.counts or ())


def _is_code(name: str) -> bool:
    """Whether a name is that of codes: its last word says so, and no word speaks of a measure."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return bool(words) and words[-1] in _CODES and _MEASURES.isdisjoint(words)


def _is_of_few_each(looked: _Looked) -> bool:
    """Whether values have the name of identifiers, and each of them comes in few records."""
    counts, words = looked.seen.counts, _WORDS.findall(looked.name)
    if not counts or not words or words[-1].lower() not in _IDS:
        return False
    n, in_order = len(counts), sorted(counts.values())
    if n > _MANY_IDS and in_order[n // 2] <= _FEW_EACH:
        return True
    return n > _SOME_IDS and 3 * n > looked.seen.count


def _of_few_each(looked: _Looked) -> str:
    return f"by its name: {looked.n_distinct} values, each {looked.comes_again:.1f} times"


def _boolean(looked: _Looked) -> Decision:
    return Decision("boolean", "true and false")


def _time(looked: _Looked) -> Decision:
    return Decision("time", "dates and times")


def _text(looked: _Looked) -> Decision:
    note = ""
    for type_ in ("time", "boolean", "number"):
        form = form_of(type_, looked.seen)
        if form and not (type_ == "number" and _are_codes(looked)):
            reading = looked.seen.as_forms[form]
            decision = _read_in(form, reading, looked)
            if decision is not None:
                return decision
            if reading.values.count >= _MOST * looked.seen.count:
                note = _strangers(reading, looked.seen.count, type_)
        elif type_ == "time" and _are_open_dates(looked.seen):
            note = "; dates, but none tells whether the day or the month is first"
    kind, why, _ = _of_words(looked)
    if note and kind == "identifier" and not _IS_ID.search(looked.name):
        kind = "text"
    return Decision(kind, why + note)


def _read_in(form: str, reading: Reading, looked: _Looked) -> Decision | None:
    """The decision to read texts in a form; None where too few are of it."""
    type_ = forms.FORMS[form]
    if not _is_nearly_all(reading, looked.seen.count):
        return None
    if type_ == "boolean" and reading.values.n_distinct != 2:
        return None
    kind, why = type_, _IN_FORM.get(form, "")
    if type_ == "number":
        kind, why, _ = decide(looked.name, "number", reading.values, is_always_there=False)
        if kind not in ("number", "boolean"):
            return None
        why = f"texts of {why}" + (", with commas between thousands" if form == "thousands" else "")
    return Decision(kind, why + _strangers(reading, looked.seen.count, kind), form)


def _are_open_dates(seen: Values) -> bool:
    """Whether texts are dates such as 1/2/2020, of which none has a day above 12."""
    reading = seen.as_forms.get("month first")
    return reading is not None and reading.values.count >= _NEARLY_ALL * seen.count


def _is_nearly_all(reading: Reading, count: int) -> bool:
    """Whether values are of a form, but for few others, and such as stand for nothing."""
    others = reading.others
    if others is None:
        return False
    strangers = {text: n for text, n in others.items() if text.strip() not in forms.MISSING}
    n_strangers = sum(strangers.values())
    is_few = n_strangers <= (1 - _NEARLY_ALL) * (count - sum(others.values()) + n_strangers)
    return is_few and len(strangers) <= _FEW_OTHERS and not any(map(forms.is_code, strangers))


def _strangers(reading: Reading, count: int, kind: str) -> str:
    """What is said of texts that are not of the form in which the others are read."""
    n = count - reading.values.count if reading.others is None else sum(reading.others.values())
    if not n:
        return ""
    others = reading.others or {reading.example: n}
    shown = sorted(others, key=lambda text: (-others[text], text))[:_SHOWN]
    each = ", ".join(f"'{text}'" for text in shown) + (", …" if len(others) > _SHOWN else "")
    return f"; {n:,} of {count:,} {'is' if n == 1 else 'are'} no {kind}: {each}"


def _are_codes(looked: _Looked) -> bool:
    """Whether texts are whole numbers that nobody counts with: ids, codes, telephone numbers."""
    values = looked.seen.as_forms[form_of("number", looked.seen)].values
    if values.n_integers < values.count:
        return False
    if _IS_ID.search(looked.name) or _is_code(looked.name):
        return True
    least, most = str(int(values.smallest[0])), str(int(values.largest))
    is_once = values.n_distinct in (None, values.count)
    return is_once and values.count > 1 and len(least) == len(most) >= _DIGITS_OF_IDS


def _of_words(looked: _Looked) -> Decision:
    seen, n = looked.seen, looked.n_distinct
    n_words = seen.n_words / seen.count
    if n_words < _IN_NAMES and looked.is_always_there:
        if n is None and _IS_ID.search(looked.name):
            return Decision("identifier", "by its name, and there are very many values")
        if n is not None and 1 < n == seen.count and (n > _MANY or _IS_ID.search(looked.name)):
            return Decision("identifier", "single words, of which none comes twice")
    if n_words < _IN_NAMES and _is_of_few_each(looked):
        return Decision("identifier", _of_few_each(looked))
    if n is not None and looked.comes_again >= 2 and (n <= _MANY or n_words < _IN_TEXTS):
        return Decision("category", f"{n} different texts, each {looked.comes_again:.0f} times")
    if n == 1:
        return Decision("category", "one text, or missing")
    return Decision("text", f"{n or 'many'} different texts of {n_words:.1f} words")


_IN_FORM = {
    "boolean": "texts such as 'true' and 'no'",
    "time": "dates and times of ISO 8601",
    "month first": "dates with the month first",
    "day first": "dates with the day first",
}
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


def _shown(value: Scalar) -> str:
    return repr(value) if isinstance(value, str) else str(value)

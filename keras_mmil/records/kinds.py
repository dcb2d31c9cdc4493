"""What the parts of records are taken for, and why."""

import re
from collections import Counter
from typing import NamedTuple

from keras_mmil.records import scalars
from keras_mmil.records.profiling import MAX_POSITIONS, Bags, FieldProfile, Reading, Records, Values
from keras_mmil.records.scalars import DIGITS, EPOCHS

__all__ = [
    "LEFT_OUT",
    "OF_TEXTS",
    "SCALARS",
    "Decision",
    "are_many",
    "decide",
    "form_chosen",
    "of_lists",
    "of_records",
    "possible",
    "with_texts",
]

SCALARS = ("number", "category", "boolean", "text", "time")
OF_TEXTS = ("number", "boolean", "time")  # what texts may be read as
LEFT_OUT = ("constant", "identifier", "dropped", "empty")

_MANY = 100  # distinct values of a category, unless they repeat often
_FEW_KEYS = 8  # records with fewer keys are never bags by key
_OFTEN = 0.5  # share of the records that have a key, on average, or a field
_SELDOM = 0.1  # share of the records that have a key whose values may have a type of its own
_NAMES_OF_FIELDS = ("id", "name")
_IS_ID = re.compile(r"(?i:(^|[_.\- ])(u?u?id|guid|key|hash|nr|number)$)|[a-z]I[dD]$")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")  # in names, also of camelCase
_IDS = {"id", "key", "uuid"}
_CODES = {"type", "code", "class", "kind", "category", "status", "group", "zip", "zipcode"}
_CODES |= {"postcode"}
_MEASURES = {"size", "sizeof", "length", "n", "num", "number", "count", "total", "mean", "sum"}
_MOMENTS = {"timestamp", "datetime", "date", "at", "ts", "epoch"}
_RECENT = 1e9, 4.2e9  # seconds since 1970: the years 2001 to 2103
_FEW_EACH = 5  # records, in the median, with each value of an identifier
_SOME_IDS, _MANY_IDS = 10, 50  # distinct values of what may be an identifier though they repeat
_WIDE = 2**62  # integers from which on categories are texts of their digits
_NEARLY_ALL, _MOST = 0.99, 0.95  # share of texts that have a form
_FEW_OTHERS = 10  # distinct texts without the form that the others have
_DIGITS_OF_IDS = 7  # of whole numbers, all of one length, that are written as texts
_WORDS_OF_IDS, _WORDS_OF_CATEGORIES = 1.5, 1.5  # on average, at most
_LISTS = 10  # of one length, from which on the length is no accident
_MOSTLY = 0.9  # share of lists of one length that is mentioned where others differ
_N_SHOWN = 3  # texts


class Decision(NamedTuple):
    """What a part is taken for.

    Attributes:
        kind: of `SCALARS` or `LEFT_OUT`, or "record", "vector" or "bag".
        why: a few words.
        form: of texts that are read otherwise, one of `scalars.FORMS`; `DIGITS` of categories that
            are whole numbers, one of `EPOCHS` of times that are; else empty.
    """

    kind: str
    why: str
    form: str = ""


def decide(name: str, type_: str, seen: Values, is_always: bool) -> Decision:
    """What the values of a field are taken for.

    Args:
        name: of the field.
        type_: "number", "boolean", "text" or "time".
        seen: their statistics.
        is_always: whether such a value is at every place.
    """
    if seen.n_distinct == 1 and is_always:
        value = seen.smallest[0]
        return Decision("constant", f"always {repr(value) if isinstance(value, str) else value}")
    if type_ == "number":
        return _number(name, seen, is_always)
    if type_ == "text":
        return _text(name, seen, is_always)
    return Decision(type_, "true and false" if type_ == "boolean" else "dates and times")


def are_many(seen: Values) -> bool:
    """Whether there are so many distinct values that what is true of all is no accident."""
    return seen.n_distinct is None or seen.n_distinct >= _SOME_IDS


def with_texts(name: str, type_: str, seen: Values, texts: Values) -> Decision | None:
    """What numbers, booleans or times and the texts beside them are taken for, read together.

    None unless nearly all of the texts are such values.
    """
    reading = texts.as_forms.get(type_) or texts.none_read()
    if not _is_nearly_all(reading, seen.count + texts.count):
        return None
    decision = decide(name, type_, seen.merged(reading.values), is_always=False)
    if decision.kind not in OF_TEXTS:
        return None
    why = decision.why + _strangers(reading, seen.count + texts.count, decision.kind)
    return Decision(decision.kind, why, type_)


def _form_of(kind: str, texts: Values) -> str:
    """The form in which most of some texts are of a kind; "" if none is, or two are as many."""
    counts = {
        form: reading.values.count
        for form, reading in texts.as_forms.items()
        if scalars.FORMS[form] == kind
    }
    most = [form for form, n in counts.items() if n == max(counts.values())]
    if len(most) == 2 and kind == "time":  # dates whose day and month cannot be told apart
        return ""
    return most[0] if most else ""


def form_chosen(kind: str, type_: str, seen: Values, texts: Values | None = None) -> str:
    """The form of values whose kind was chosen: see `Decision`."""
    if texts is not None or type_ == "text":
        return _form_of(kind, seen) if texts is None else type_
    if (kind, type_) == ("time", "number"):
        return _epoch(seen)
    return _digits(seen) if (kind, type_) == ("category", "number") else ""


def possible(type_: str, seen: Values, texts: Values | None = None) -> tuple[str, ...]:
    """The kinds that a user may choose for values of a type, and for texts beside them."""
    if type_ == "text":
        kinds = ["text"] + ["category"] * (seen.counts is not None)
        return (*kinds, *(kind for kind in OF_TEXTS if _form_of(kind, seen)))
    if type_ != "number":
        return (type_,)
    kinds = ["number"]
    if seen.counts is not None and _are_integers(seen) and texts is None:
        kinds.append("category")
    if seen.counts is not None and seen.counts.keys() <= {0, 1}:
        kinds.append("boolean")
    if texts is None and _epoch(seen):
        kinds.append("time")
    return tuple(kinds)


def of_records(seen: Records) -> Decision:
    """Whether records are bags of values by key, such as a dict from ids to records.

    Keys that are data vary from record to record, and the types of their values do not depend on
    the key. What most records have is a field, and so are `id`, `name` and the keys of links.
    """
    if seen.by_key is not None:
        n = seen.by_key.keys.n_distinct
        return Decision("bag", f"by key: {'very many' if n is None else n} different keys")
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
    """Whether the other values of its key tell the type of a value far better than all values do.

    The guess is the most frequent type of the other values of the key, or, if there are none, of
    all values.
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
    """Whether lists are vectors, whose members have a meaning by their positions, or bags.

    Lists of equal length are vectors of numbers, or of values whose types differ by position: in
    `_LISTS` bags or more, lengths would differ by chance. Texts may also be a choice of so many,
    and stay bags.
    """
    n, n_filled = seen.largest, seen.members.count // seen.largest if seen.largest else 0
    if not n:
        return Decision("empty", "no member was ever there")
    types = [_scalar_types(each) for each in seen.positions]
    words = _in_words(types or [_scalar_types(seen.members)])
    if types and seen.is_fixed:
        return Decision("vector", f"{n} {words}, by the type of the lists")
    is_candidate = words not in ("texts", "members")
    if types and is_candidate and all(len(each) <= 1 for each in types):
        if n_filled >= _LISTS:
            return Decision("vector", f"always {n} {words}")
        lists = "1 list" if n_filled == 1 else f"{n_filled} lists"
        return Decision("bag", f"always {n} {words}, but in only {lists}")
    if is_candidate and seen.lengths.counts:
        pairs = seen.lengths.counts.items()
        length, n_usual = max(pairs, key=lambda pair: (pair[1], pair[0]))
        share = n_usual / seen.count
        if length == n > MAX_POSITIONS and length * n_filled == seen.members.count:
            return Decision("bag", f"always {n} {words}, over {MAX_POSITIONS}: too many positions")
        if length > 1 and _MOSTLY <= share < 1:
            why = f"{length} {words} in {share * 100:.3g} % of the lists"
            return Decision("bag", f"{why}, up to {n}" if n > length else why)
    return Decision("bag", f"up to {n} members")


def _scalar_types(seen: FieldProfile) -> tuple[str, ...]:
    """The types of values; texts that are all times or numbers count as such."""
    return tuple(
        _type_of_texts(x) if isinstance(x, Values) and type_ == "text" else type_
        for type_, x in seen.by_type.items()
    )


def _type_of_texts(seen: Values) -> str:
    for type_ in ("time", "number"):
        form = _form_of(type_, seen)
        if form and seen.as_forms[form].values.count == seen.count:
            return type_
    return "text"


def _in_words(types: list[tuple[str, ...]]) -> str:
    """The members of lists: "numbers", or "values: text, number, number"."""
    distinct = {type_ for each in types for type_ in each}
    if len(distinct) == 1:
        (type_,) = distinct
        return f"{type_}s" if type_ in SCALARS else "members"
    if not distinct or any(len(each) > 1 for each in types):
        return "members"
    words = [*("/".join(each) or "nothing" for each in types[:4]), *["…"][: len(types) > 4]]
    return f"values: {', '.join(words)}"


def _number(name: str, seen: Values, is_always: bool) -> Decision:
    n, is_integer = seen.n_distinct, seen.n_integers == seen.count
    if seen.counts is not None and seen.counts.keys() <= {0, 1}:
        return Decision("boolean", "only 0 and 1")
    is_distinct = n is None or 1 < n == seen.count
    if is_integer and is_distinct and is_always and _IS_ID.search(name):
        return Decision("identifier", "by its name, and no value comes twice")
    if is_integer and (identifier := _of_few_each(name, seen)):
        return identifier
    if (form := _epoch(seen)) and _is_moment(name, form):
        return Decision("time", f"by its name: integers as {form} since 1970", form)
    if is_integer and 2 * seen.n_wide > seen.count:  # nobody measures with so many digits
        if n is not None and seen.repeats >= 2:
            why = f"{n} different integers above 2^53, each {seen.repeats:.0f} times"
            return Decision("category", why, _digits(seen))
        return Decision("identifier", "integers above 2^53, which hardly come twice")
    if n is not None and n <= _MANY and _is_code(name) and _are_integers(seen):
        return Decision("category", f"by its name: {n} different integers", _digits(seen))
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


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _is_moment(name: str, form: str) -> bool:
    """Whether a name is that of moments; "time" may also be a duration."""
    last = _words(name)[-1:]
    return bool(last) and (last[0] in _MOMENTS or (last[0] == "time" and form == "milliseconds"))


def _digits(seen: Values) -> str:
    """`DIGITS` for integers too large for categories as int64, which has reserved values."""
    return DIGITS if any(abs(x) >= _WIDE for x in seen.counts or ()) else ""


def _is_code(name: str) -> bool:
    """Whether a name is that of codes: its last word says so, and no word is that of a measure."""
    words = _words(name)
    return bool(words) and words[-1] in _CODES and _MEASURES.isdisjoint(words)


def _of_few_each(name: str, seen: Values) -> Decision | None:
    """An identifier, if values have the name of one, and each of them is in few records."""
    counts, words = seen.counts, _words(name)
    if not counts or not words or words[-1] not in _IDS:
        return None
    n, in_order = len(counts), sorted(counts.values())
    are_few = n > _MANY_IDS and in_order[n // 2] <= _FEW_EACH
    if not are_few and (n <= _SOME_IDS or 3 * n <= seen.count):
        return None
    return Decision("identifier", f"by its name: {n} values, each {seen.repeats:.1f} times")


def _text(name: str, seen: Values, is_always: bool) -> Decision:
    note = ""
    for type_ in ("time", "boolean", "number"):
        form = _form_of(type_, seen)
        if form and not (type_ == "number" and _are_codes(name, seen)):
            reading = seen.as_forms[form]
            decision = _read_in(form, reading, name, seen)
            if decision is not None:
                return decision
            if reading.values.count >= _MOST * seen.count:
                note = _strangers(reading, seen.count, type_)
        elif type_ == "time" and _are_open_dates(seen):
            note = "; dates, but none tells whether the day or the month is first"
    kind, why, _ = _of_words(name, seen, is_always)
    if note and kind == "identifier" and not _IS_ID.search(name):
        kind = "text"
    return Decision(kind, why + note)


def _read_in(form: str, reading: Reading, name: str, seen: Values) -> Decision | None:
    """The decision to read texts in a form; None if too few have it."""
    kind, why = scalars.FORMS[form], _IN_FORM.get(form, "")
    if not _is_nearly_all(reading, seen.count):
        return None
    if kind == "boolean" and reading.values.n_distinct != 2:
        return None
    if kind == "number":
        kind, why, _ = decide(name, "number", reading.values, is_always=False)
        if kind not in ("number", "boolean"):
            return None
        why = f"texts of {why}" + (", with commas between thousands" if form == "thousands" else "")
    return Decision(kind, why + _strangers(reading, seen.count, kind), form)


def _are_open_dates(seen: Values) -> bool:
    """Whether texts are dates such as 1/2/2020, none of them with a day above 12."""
    reading = seen.as_forms.get("month first")
    return reading is not None and reading.values.count >= _NEARLY_ALL * seen.count


def _is_nearly_all(reading: Reading, count: int) -> bool:
    """Whether values have a form, except for few others, and for those that stand for nothing."""
    others = reading.others
    if others is None:
        return False
    strangers = {text: n for text, n in others.items() if text.strip() not in scalars.NOTHING}
    n_strangers = sum(strangers.values())
    is_few = n_strangers <= (1 - _NEARLY_ALL) * (count - sum(others.values()) + n_strangers)
    return is_few and len(strangers) <= _FEW_OTHERS and not any(map(scalars.is_code, strangers))


def _strangers(reading: Reading, count: int, kind: str) -> str:
    """A note about texts that do not have the form that the others have."""
    n = count - reading.values.count if reading.others is None else sum(reading.others.values())
    if not n:
        return ""
    others = reading.others or {reading.example: n}
    first = sorted(others, key=lambda text: (-others[text], text))[:_N_SHOWN]
    shown = ", ".join(f"'{text}'" for text in first) + (", …" if len(others) > _N_SHOWN else "")
    return f"; {n:,} of {count:,} {'is' if n == 1 else 'are'} no {kind}: {shown}"


def _are_codes(name: str, seen: Values) -> bool:
    """Whether texts are whole numbers that nobody counts with: ids, codes, telephone numbers."""
    values = seen.as_forms[_form_of("number", seen)].values
    if values.n_integers < values.count:
        return False
    if _IS_ID.search(name) or _is_code(name):
        return True
    least, most = str(int(values.smallest[0])), str(int(values.largest))
    is_once = values.n_distinct in (None, values.count)
    return is_once and values.count > 1 and len(least) == len(most) >= _DIGITS_OF_IDS


def _of_words(name: str, seen: Values, is_always: bool) -> Decision:
    n, n_words = seen.n_distinct, seen.n_words / seen.count
    if n_words < _WORDS_OF_IDS and is_always:
        if n is None and _IS_ID.search(name):
            return Decision("identifier", "by its name, and there are very many values")
        if n is not None and 1 < n == seen.count and (n > _MANY or _IS_ID.search(name)):
            return Decision("identifier", "single words, of which none comes twice")
    if n_words < _WORDS_OF_IDS and (identifier := _of_few_each(name, seen)):
        return identifier
    if n is not None and seen.repeats >= 2 and (n <= _MANY or n_words < _WORDS_OF_CATEGORIES):
        return Decision("category", f"{n} different texts, each {seen.repeats:.0f} times")
    if n == 1:
        return Decision("category", "one text, or missing")
    return Decision("text", f"{n or 'many'} different texts of {n_words:.1f} words")


_IN_FORM = {
    "boolean": "texts such as 'true' and 'no'",
    "time": "dates and times of ISO 8601",
    "month first": "dates with the month first",
    "day first": "dates with the day first",
}


def _are_integers(seen: Values) -> bool:
    """Whether values are integers that floats tell apart, too."""
    return seen.n_integers == seen.count and not any(
        isinstance(x, float) for x in seen.counts or ()
    )

"""Scalars of records: texts parsed as numbers, booleans or times; values as tensors without holes.

A form is one of the ways in which people write numbers, booleans and times.
"""

import datetime
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import tensorflow as tf

from keras_mmil._support.types import MISSING_INT, MISSING_TEXT, Array, Floats, Ints
from keras_mmil.records.arrow import LARGEST, WHOLE, Present, as_floats, as_numpy

if TYPE_CHECKING:
    from keras_mmil.records.fields import Field

__all__ = [
    "ACCEPTED",
    "DIGITS",
    "DTYPES",
    "EPOCHS",
    "FORMS",
    "NOTHING",
    "UNKNOWN_INT",
    "candidates",
    "is_code",
    "lost",
    "parse",
    "read",
    "values",
]

FORMS = {  # and the kind of what is written so
    "number": "number",  # 12.50
    "thousands": "number",  # 4,762
    "boolean": "boolean",
    "time": "time",  # ISO 8601
    "month first": "time",  # 12/31/2020
    "day first": "time",  # 31/12/2020, 31.12.2020
}
DIGITS = "digits"  # the form of categories that are the digits of whole numbers
EPOCHS = {"seconds": 1.0, "milliseconds": 1e3}  # since 1970: forms of times that are integers
# Stands for a missing number, boolean or time: as in Arrow, and in databases.
NOTHING = frozenset(
    [*pyarrow.csv.ConvertOptions().null_values, "", "-", "--", "?", "None", "none", "\\N"]
)
UNKNOWN_INT = MISSING_INT + 1  # a number that is no integer, where categories are integers
DTYPES = {"number": "float32", "boolean": "float32", "text": "string", "time": "float64"}
# Types that are read at a place of each kind, besides the type that was seen there.
ACCEPTED = {
    "number": {"number", "text"},
    "boolean": {"boolean", "number", "text"},
    "time": {"time", "text"},
}
_ALL_TAKEN = {"number": {"number", "boolean"}, "boolean": {"boolean"}, "time": {"time"}}
_LOST = {
    ("boolean", "number"): "numbers other than 0 and 1",
    ("boolean", "text"): "texts that are neither true nor false",
    ("number", "text"): "texts that are no numbers",
    ("time", "text"): "texts that are no times",
}

_LONGEST = 64  # characters of what may be a number or a time
_BEGIN = "^([0-9+.-]|(?i:true|false|yes|no|[tfyn])$)"
_INTEGER = "^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_THOUSANDS = r"^[+-]?(0|[1-9][0-9]{0,2}(,[0-9]{3})*)(\.[0-9]+)?$"
_CODE = re.compile(r"[+-]?0[0-9]+$")
_WORDS = {"true": 1, "false": 0, "yes": 1, "no": 0, "y": 1, "n": 0, "t": 1, "f": 0, "1": 1, "0": 0}
_CLOCK = r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?"
_DAY, _MONTH = "(0?[1-9]|[12][0-9]|3[01])", "(0?[1-9]|1[0-2])"
_TAIL = rf"([0-9]{{4}})(?: +{_CLOCK}(?: ?([AaPp])[Mm])?)?$"
_ISO = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01])"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?"
    r"(Z|[+-][0-9]{2}(:?[0-5][0-9])?)?)?)?$"
)


def parse(texts: pa.Array, form: str) -> Floats:
    """Texts as what they hold.

    Args:
        texts: large strings without nulls; blanks around them make no difference.
        form: one of `FORMS`.

    Returns:
        float64 [texts]: numbers, 0 and 1 for false and true, or seconds since 1970 (UTC). NaN for
        other forms, for whole numbers from 2⁵³ on, and for what is infinite as float32.
    """
    x = np.full(len(texts), math.nan)
    at = np.flatnonzero(as_numpy(pc.less_equal(pc.utf8_length(texts), _LONGEST)))
    if len(at):
        x[at] = _PARSERS[form](pc.utf8_trim_whitespace(texts.take(pa.array(at))))
    return x


def candidates(texts: pa.Array) -> Ints:
    """The positions of texts that may have a form, by their lengths and first characters."""
    at = np.flatnonzero(as_numpy(pc.less_equal(pc.utf8_length(texts), _LONGEST)))
    some = texts if len(at) == len(texts) else texts.take(pa.array(at))
    return at[as_numpy(pc.match_substring_regex(pc.utf8_trim_whitespace(some), _BEGIN))]


def is_code(text: str) -> bool:
    """Whether a text is a whole number with leading zeros, or one that floats do not hold."""
    text = text.strip()
    is_wide = re.match(_INTEGER, text) and len(text) < 400 and abs(float(text)) >= WHOLE
    return bool(_CODE.match(text) or is_wide)


def _parse_numbers(texts: pa.Array, pattern: str) -> Floats:
    is_number = pc.match_substring_regex(texts, pattern)
    plain = pc.utf8_ltrim(pc.replace_substring(texts, ",", ""), "+")
    numbers = pc.if_else(is_number, plain, pa.scalar(None, plain.type)).cast(pa.float64())
    x = np.array(numbers.fill_null(math.nan))
    is_whole = as_numpy(pc.match_substring_regex(plain, _INTEGER))
    x[(np.abs(x) > LARGEST) | (is_whole & (np.abs(x) >= WHOLE))] = math.nan
    return x


def _parse_booleans(texts: pa.Array) -> Floats:
    index = pc.index_in(pc.utf8_lower(texts), pa.array(list(_WORDS), texts.type))
    values = np.array([*_WORDS.values(), math.nan])
    return values[as_numpy(index.fill_null(-1))]


def _parse_times(texts: pa.Array, pattern: str, read: Callable[[str], float]) -> Floats:
    x = np.full(len(texts), math.nan)
    at = np.flatnonzero(as_numpy(pc.match_substring_regex(texts, pattern)))
    x[at] = [read(text) for text in texts.take(pa.array(at)).to_pylist()]
    return x


def _iso_time(text: str) -> float:
    full = f"{text}-01" if len(text) == len("2020-07") else text  # the first of the month
    try:
        time = datetime.datetime.fromisoformat(full)
        # Never as local time: what a network sees must not depend on where it runs.
        return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp()
    except (OverflowError, ValueError):
        return math.nan


def _other_time(text: str, pattern: re.Pattern[str], is_month_first: bool) -> float:
    match = pattern.match(text)
    if match is None:
        return math.nan
    one, two, year, hour, minute, second, half = match.groups()
    month, day = (one, two) if is_month_first else (two, one)
    hours = int(hour or 0)
    if half:
        if not 1 <= hours <= 12:
            return math.nan
        hours = hours % 12 + 12 * (half in "Pp")
    parts = int(year), int(month), int(day), hours, int(minute or 0), int(second or 0)
    try:
        return datetime.datetime(*parts, tzinfo=datetime.UTC).timestamp()
    except (OverflowError, ValueError):
        return math.nan


def _parser_of_dates(pattern: str, is_month_first: bool) -> Callable[[pa.Array], Floats]:
    read = partial(_other_time, pattern=re.compile(pattern), is_month_first=is_month_first)
    return partial(_parse_times, pattern=pattern, read=read)


_PARSERS: dict[str, Callable[[pa.Array], Floats]] = {
    "number": partial(_parse_numbers, pattern=_NUMBER),
    "thousands": partial(_parse_numbers, pattern=_THOUSANDS),
    "boolean": _parse_booleans,
    "time": partial(_parse_times, pattern=_ISO, read=_iso_time),
    "month first": _parser_of_dates(f"^{_MONTH}/{_DAY}/{_TAIL}", True),
    "day first": _parser_of_dates(f"^{_DAY}[/.]{_MONTH}[/.]{_TAIL}", False),
}


def read(part: "Field", by_type: Mapping[str, Present], n: int, exact: bool = False) -> tf.Tensor:
    """The values of a part at n places.

    Args:
        part: of a scalar kind.
        by_type: the values that are present.
        n: number of places.
        exact: whether numbers are read as float64.

    Returns:
        Tensor [n] of the kind's dtype in `DTYPES`; NaN, `MISSING_INT` or `MISSING_TEXT` where
        nothing is.
    """
    if part.kind == "category":
        return _read_categories(part, by_type, n)
    if part.kind == "text":
        return _read_texts(by_type, n)
    is_double = part.kind == "time" or (exact and part.kind == "number")
    x = _filled(part, by_type, n, np.float64 if is_double else np.float32)
    if part.kind == "boolean":
        x[(x != 0) & (x != 1)] = np.nan
    return tf.constant(x)


def values(part: "Field", by_type: Mapping[str, Present], n: int) -> Present:
    """The values of a part that has a form, as `read`, without what is missing."""
    if part.form == DIGITS:
        each = by_type[part.type]
        return Present(_digits(each.values), each.at)
    x = _filled(part, by_type, n, np.float64)
    at = np.flatnonzero(~np.isnan(x))
    array = pa.array(x[at])
    return Present(array.cast(pa.bool_()) if part.kind == "boolean" else array, at)


def lost(part: "Field", by_type: Mapping[str, Present], x: tf.Tensor) -> tuple[int, str]:
    """How many values `read` has given as missing in x although something is there, and what."""
    taken = {*_ALL_TAKEN.get(part.kind, by_type), *([part.type] if part.form in EPOCHS else [])}
    doubtful = [type_ for type_ in by_type if type_ not in taken]
    if not doubtful:
        return 0, ""
    n = sum(len(each.values) for each in by_type.values())
    if "text" in by_type:  # some stand for nothing
        stripped = pc.utf8_trim_whitespace(by_type["text"].values.cast(pa.large_string()))
        nothing = pa.array(sorted(NOTHING), stripped.type)
        n -= pc.sum(pc.is_in(stripped, nothing), min_count=0).as_py()
    return n - int(np.count_nonzero(~np.isnan(x))), " or ".join(
        _LOST.get((part.kind, type_), f"{type_}s") for type_ in doubtful
    )


def _read_categories(part: "Field", by_type: Mapping[str, Present], n: int) -> tf.Tensor:
    if part.form == DIGITS:
        by_type = {t: Present(_digits(each.values), each.at) for t, each in by_type.items()}
    if part.type == "text" or part.form == DIGITS:
        return _read_texts(by_type, n)
    x: Ints = np.full(n, MISSING_INT, np.int64)
    for each in by_type.values():
        values = as_numpy(each.values)
        if values.dtype == object:  # decimals
            is_int = np.array([value == int(value) and abs(value) < 2**62 for value in values])
        else:
            is_int = (values > -(2**62)) & (values < 2**62)
        if values.dtype.kind == "f":
            is_int &= values == np.floor(values)
        x[_at(each)] = np.where(is_int, np.where(is_int, values, 0).astype(np.int64), UNKNOWN_INT)
    return tf.constant(x)


def _digits(numbers: pa.Array) -> pa.Array:
    """Numbers as texts, whole ones with all digits."""
    encoded = pc.dictionary_encode(numbers)
    distinct = encoded.dictionary.to_pylist()
    texts = pa.array([str(int(x) if x == int(x) else x) for x in distinct], pa.large_string())
    return texts.take(encoded.indices)


def _read_texts(by_type: Mapping[str, Present], n: int) -> tf.Tensor:
    if not by_type:
        return tf.fill([n], MISSING_TEXT)
    (each,) = by_type.values()
    # TensorFlow makes a string of each Python string: so only of the distinct ones.
    encoded = _encoded(each.values)
    distinct = tf.constant([MISSING_TEXT, *encoded.dictionary.to_pylist()], tf.string)
    index = np.zeros(n, np.int32)
    index[_at(each)] = encoded.indices.to_numpy().astype(np.int32) + 1
    return tf.gather(distinct, index)


def _filled(part: "Field", by_type: Mapping[str, Present], n: int, dtype: npt.DTypeLike) -> Array:
    """Values as floats [n], NaN where there are none."""
    x: Array = np.full(n, np.nan, dtype)
    for type_, each in by_type.items():
        if type_ == "text":
            encoded = _encoded(each.values)
            form = part.form if part.form in FORMS else part.kind
            parsed = parse(encoded.dictionary.cast(pa.large_string()), form)
            values = parsed[as_numpy(encoded.indices)]
            is_there = ~np.isnan(values)  # elsewhere may be values of another type
            at = np.arange(n) if each.at is None else each.at
            x[at[is_there]] = values[is_there]
        else:
            per_second = EPOCHS.get(part.form, 1) if type_ == part.type else 1
            values = as_floats(each.values) / per_second
            x[_at(each)] = np.where(np.abs(values) <= LARGEST, values, np.nan)
    return x


def _at(part: Present) -> slice | Array:
    return slice(None) if part.at is None else part.at


def _encoded(texts: pa.Array) -> pa.DictionaryArray:
    """Texts as a dictionary that holds about as many as there are different ones."""
    if pa.types.is_dictionary(texts.type) and len(texts.dictionary) > len(texts):
        texts = texts.cast(pa.large_string())  # a slice, and the dictionary of all
    return pc.dictionary_encode(texts)

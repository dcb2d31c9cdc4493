"""Texts that hold numbers, booleans or times: the forms in which people write them."""

import datetime
import math
import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from keras_mmil._support.arrow_lists import as_numpy
from keras_mmil._support.types import Floats, Ints

__all__ = ["FORMS", "MISSING", "candidates", "is_code", "parsed"]

# What each form is of.
FORMS = {
    "number": "number",  # 12.50
    "thousands": "number",  # 4,762
    "boolean": "boolean",
    "time": "time",  # ISO 8601
    "month first": "time",  # 12/31/2020
    "day first": "time",  # 31/12/2020, 31.12.2020
}
# What stands for nothing among numbers, booleans and times: Arrow's, and those of databases.
MISSING = frozenset(
    [*pyarrow.csv.ConvertOptions().null_values, "", "-", "--", "?", "None", "none", "\\N"]
)

_LONGEST = 64  # characters of what may be a number or a time
_LARGEST = float(np.finfo(np.float32).max)
_EXACT = 2.0**53  # up to there floats tell integers apart
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


def parsed(texts: pa.Array, form: str) -> Floats:
    """Texts as what they hold.

    Args:
        texts: large strings, without nulls; blanks around them are of no account.
        form: one of `FORMS`.

    Returns:
        float64 [texts]: numbers, 0 and 1 for false and true, or seconds since 1970 (UTC); NaN where
        a text has another form, or is a number that floats do not hold: a whole one from 2⁵³ on, or
        one that is infinite as float32.
    """
    x = np.full(len(texts), math.nan)
    at = np.flatnonzero(as_numpy(pc.less_equal(pc.utf8_length(texts), _LONGEST)))
    if len(at):
        x[at] = _PARSED[form](pc.utf8_trim_whitespace(texts.take(pa.array(at))))
    return x


def candidates(texts: pa.Array) -> Ints:
    """The positions of texts that may be of some form, by their lengths and first characters.

    Args:
        texts: large strings, without nulls.
    """
    at = np.flatnonzero(as_numpy(pc.less_equal(pc.utf8_length(texts), _LONGEST)))
    some = texts if len(at) == len(texts) else texts.take(pa.array(at))
    return at[as_numpy(pc.match_substring_regex(pc.utf8_trim_whitespace(some), _BEGIN))]


def is_code(text: str) -> bool:
    """Whether a text is a whole number with zeros in front, or one that floats do not hold."""
    text = text.strip()
    is_wide = re.match(_INTEGER, text) and len(text) < 400 and abs(float(text)) >= _EXACT
    return bool(_CODE.match(text) or is_wide)


def _numbers(texts: pa.Array, pattern: str) -> Floats:
    is_number = pc.match_substring_regex(texts, pattern)
    plain = pc.utf8_ltrim(pc.replace_substring(texts, ",", ""), "+")
    found = pc.if_else(is_number, plain, pa.scalar(None, plain.type)).cast(pa.float64())
    x = np.array(found.fill_null(math.nan))
    is_whole = as_numpy(pc.match_substring_regex(plain, _INTEGER))
    x[(np.abs(x) > _LARGEST) | (is_whole & (np.abs(x) >= _EXACT))] = math.nan
    return x


def _booleans(texts: pa.Array) -> Floats:
    index = pc.index_in(pc.utf8_lower(texts), pa.array(list(_WORDS), texts.type))
    values = np.array([*_WORDS.values(), math.nan])
    return values[as_numpy(index.fill_null(-1))]


def _times(texts: pa.Array, pattern: str, read: Callable[[str], float]) -> Floats:
    x = np.full(len(texts), math.nan)
    at = np.flatnonzero(as_numpy(pc.match_substring_regex(texts, pattern)))
    x[at] = [read(text) for text in texts.take(pa.array(at)).to_pylist()]
    return x


def _of_iso(text: str) -> float:
    whole = f"{text}-01" if len(text) == len("2020-07") else text  # the first of the month
    try:
        time = datetime.datetime.fromisoformat(whole)
        # Never as local time: what a network sees must not depend on where it runs.
        return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp()
    except (OverflowError, ValueError):
        return math.nan


def _of_parts(text: str, pattern: re.Pattern[str], is_month_first: bool) -> float:
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
    try:
        return datetime.datetime(
            int(year), int(month), int(day), hours, int(minute or 0), int(second or 0), tzinfo=_UTC
        ).timestamp()
    except (OverflowError, ValueError):
        return math.nan


def _dates(pattern: str, is_month_first: bool) -> Callable[[pa.Array], Floats]:
    read = partial(_of_parts, pattern=re.compile(pattern), is_month_first=is_month_first)
    return partial(_times, pattern=pattern, read=read)


_UTC = datetime.UTC
_PARSED: dict[str, Callable[[pa.Array], Floats]] = {
    "number": partial(_numbers, pattern=_NUMBER),
    "thousands": partial(_numbers, pattern=_THOUSANDS),
    "boolean": _booleans,
    "time": partial(_times, pattern=_ISO, read=_of_iso),
    "month first": _dates(f"^{_MONTH}/{_DAY}/{_TAIL}", True),
    "day first": _dates(f"^{_DAY}[/.]{_MONTH}[/.]{_TAIL}", False),
}

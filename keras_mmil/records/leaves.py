"""Values of records as tensors without holes: each kind has a value that stands for missing."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from keras_mmil._support.types import MISSING_INT, MISSING_TEXT, Array, Floats, Ints
from keras_mmil.records import forms
from keras_mmil.records.arrow import Part, as_floats, as_numpy
from keras_mmil.records.fields import Field
from keras_mmil.records.kinds import DIGITS, EPOCHS

__all__ = [
    "ACCEPTED",
    "DTYPES",
    "MISSING_INT",
    "MISSING_TEXT",
    "UNKNOWN_INT",
    "lost",
    "of_texts",
    "read",
    "values",
]

UNKNOWN_INT = MISSING_INT + 1  # a number that is no integer, where categories are integers

# What is taken at a place of each kind besides values of the type that was seen there.
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
_LARGEST = float(np.finfo(np.float32).max)


def read(part: Field, found: Mapping[str, Part], n: int, *, exact: bool = False) -> tf.Tensor:
    """The values of a part, one for each of n places.

    Args:
        part: of one of the kinds of values.
        found: what is there, by type.
        n: number of places.
        exact: whether numbers are read as float64.

    Returns:
        Tensor [n] of the dtype that `DTYPES` has for the kind: NaN, `MISSING_INT` or `MISSING_TEXT`
        where nothing is.
    """
    if exact and part.kind == "number":
        return tf.constant(_filled(part, found, n, np.float64))
    return _READ[part.kind](part, found, n)


def values(part: Field, found: Mapping[str, Part], n: int) -> Part:
    """The values of a part that are there, where texts or integers are read in some form.

    Args:
        part, found, n: as of `read`.
    """
    if part.form == DIGITS:
        each = found[part.type]
        return Part(_digits(each.values), each.at)
    x = _filled(part, found, n, np.float64)
    at = np.flatnonzero(~np.isnan(x))
    read = pa.array(x[at])
    return Part(read.cast(pa.bool_()) if part.kind == "boolean" else read, at)


def lost(part: Field, found: Mapping[str, Part], values: tf.Tensor) -> tuple[int, str]:
    """How many values are read as missing although something is there, and what they are.

    Args:
        part, found: as of `read`.
        values: what it gave.
    """
    taken = {*_ALL_TAKEN.get(part.kind, found), *([part.type] if part.form in EPOCHS else [])}
    doubtful = [type_ for type_ in found if type_ not in taken]
    if not doubtful:
        return 0, ""
    n = sum(len(each.values) for each in found.values())
    if "text" in found:  # of which some stand for nothing
        stripped = pc.utf8_trim_whitespace(found["text"].values.cast(pa.large_string()))
        nothing = pa.array(sorted(forms.MISSING), stripped.type)
        n -= pc.sum(pc.is_in(stripped, nothing), min_count=0).as_py()
    return n - int(np.count_nonzero(~np.isnan(values))), " or ".join(
        _LOST.get((part.kind, type_), f"{type_}s") for type_ in doubtful
    )


def of_texts(texts: pa.Array, form: str) -> Floats:
    """Texts as numbers, booleans or times: see `forms.parsed`."""
    encoded = _encoded(texts)
    x = forms.parsed(encoded.dictionary.cast(pa.large_string()), form)
    return x[as_numpy(encoded.indices)]


def _numbers(part: Field, found: Mapping[str, Part], n: int) -> tf.Tensor:
    return tf.constant(_filled(part, found, n, np.float32))


def _booleans(part: Field, found: Mapping[str, Part], n: int) -> tf.Tensor:
    x = _filled(part, found, n, np.float32)
    x[(x != 0) & (x != 1)] = np.nan
    return tf.constant(x)


def _times(part: Field, found: Mapping[str, Part], n: int) -> tf.Tensor:
    return tf.constant(_filled(part, found, n, np.float64))


def _categories(part: Field, found: Mapping[str, Part], n: int) -> tf.Tensor:
    if part.form == DIGITS:
        found = {type_: Part(_digits(each.values), each.at) for type_, each in found.items()}
    if part.type == "text" or part.form == DIGITS:
        return _texts(part, found, n)
    x: Ints = np.full(n, MISSING_INT, np.int64)
    for each in found.values():
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
    """Numbers as texts, of all digits of whole ones."""
    encoded = pc.dictionary_encode(numbers)
    distinct = encoded.dictionary.to_pylist()
    shown = pa.array([str(int(x) if x == int(x) else x) for x in distinct], pa.large_string())
    return shown.take(encoded.indices)


def _texts(part: Field, found: Mapping[str, Part], n: int) -> tf.Tensor:
    if not found:
        return tf.fill([n], MISSING_TEXT)
    (each,) = found.values()
    # TensorFlow makes a string of each Python string: so only of the distinct ones.
    encoded = _encoded(each.values)
    distinct = tf.constant([MISSING_TEXT, *encoded.dictionary.to_pylist()], tf.string)
    index = np.zeros(n, np.int32)
    index[_at(each)] = encoded.indices.to_numpy().astype(np.int32) + 1
    return tf.gather(distinct, index)


def _filled(part: Field, found: Mapping[str, Part], n: int, dtype: npt.DTypeLike) -> Array:
    x: Array = np.full(n, np.nan, dtype)
    for type_, each in found.items():
        if type_ == "text":
            values = of_texts(each.values, part.form if part.form in forms.FORMS else part.kind)
            is_there = ~np.isnan(values)  # elsewhere may be values of another type
            at = np.arange(n) if each.at is None else each.at
            x[at[is_there]] = values[is_there]
        else:
            per_second = EPOCHS.get(part.form, 1) if type_ == part.type else 1
            values = as_floats(each.values) / per_second
            x[_at(each)] = np.where(np.abs(values) <= _LARGEST, values, np.nan)
    return x


def _at(part: Part) -> slice | Array:
    return slice(None) if part.at is None else part.at


def _encoded(texts: pa.Array) -> pa.DictionaryArray:
    """Texts as a dictionary that holds about as many as there are different ones."""
    if pa.types.is_dictionary(texts.type) and len(texts.dictionary) > len(texts):
        texts = texts.cast(pa.large_string())  # a slice, and the dictionary of all
    return pc.dictionary_encode(texts)


_READ: dict[str, Callable[[Field, Mapping[str, Part], int], tf.Tensor]] = {
    "number": _numbers,
    "boolean": _booleans,
    "category": _categories,
    "text": _texts,
    "time": _times,
}
DTYPES = {"number": "float32", "boolean": "float32", "text": "string", "time": "float64"}

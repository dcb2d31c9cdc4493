"""Values of records as tensors without holes: each kind has a value that stands for missing."""

import datetime
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from keras_mmil._support.missing import MISSING_INT, MISSING_TEXT
from keras_mmil._support.types import Array, Ints
from keras_mmil.records.arrow import Part, as_numpy
from keras_mmil.records.fields import Field

__all__ = ["ACCEPTED", "DTYPES", "MISSING_INT", "MISSING_TEXT", "UNKNOWN_INT", "read", "seconds"]

UNKNOWN_INT = MISSING_INT + 1  # a number that is no integer, where categories are integers

# What is taken at a place of each kind besides values of the type that was seen there.
ACCEPTED = {
    "boolean": {"boolean", "number"},
    "time": {"time", "text"},
}


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
        return tf.constant(_filled(found, n, np.float64))
    return _READ[part.kind](part, found, n)


def _numbers(part: Field, found: Mapping[str, Part], n: int) -> tf.Tensor:
    return tf.constant(_filled(found, n, np.float32))


def _booleans(part: Field, found: Mapping[str, Part], n: int) -> tf.Tensor:
    x = _filled(found, n, np.float32)
    x[(x != 0) & (x != 1)] = np.nan
    return tf.constant(x)


def _times(part: Field, found: Mapping[str, Part], n: int) -> tf.Tensor:
    as_times = {}
    for type_, each in found.items():
        if type_ != "text":
            as_times[type_] = each
            continue
        seconds = _parsed(each.values)
        is_time = np.isfinite(seconds)
        at = np.arange(n) if each.at is None else each.at
        as_times[type_] = Part(pa.array(seconds[is_time]), at[is_time])
    return tf.constant(_filled(as_times, n, np.float64))


def _categories(part: Field, found: Mapping[str, Part], n: int) -> tf.Tensor:
    if part.type == "text":
        return _texts(part, found, n)
    x: Ints = np.full(n, MISSING_INT, np.int64)
    for each in found.values():
        values = each.values.to_numpy()
        is_int = (values > -(2**62)) & (values < 2**62)
        if values.dtype.kind == "f":
            is_int &= values == np.floor(values)
        x[_at(each)] = np.where(is_int, np.where(is_int, values, 0).astype(np.int64), UNKNOWN_INT)
    return tf.constant(x)


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


def _filled(found: Mapping[str, Part], n: int, dtype: npt.DTypeLike) -> Array:
    x: Array = np.full(n, np.nan, dtype)
    for each in found.values():
        x[_at(each)] = as_numpy(each.values)
    return x


def _at(part: Part) -> slice | Array:
    return slice(None) if part.at is None else part.at


def _encoded(texts: pa.Array) -> pa.DictionaryArray:
    """Texts as a dictionary that holds about as many as there are different ones."""
    if pa.types.is_dictionary(texts.type) and len(texts.dictionary) > len(texts):
        texts = texts.cast(pa.large_string())  # a slice, and the dictionary of all
    return pc.dictionary_encode(texts)


def _parsed(texts: pa.Array) -> Array:
    """Texts of ISO 8601 as seconds since 1970 (UTC); NaN for others."""
    encoded = _encoded(texts)
    times = np.array([seconds(text) for text in encoded.dictionary.to_pylist()], np.float64)
    return times[encoded.indices.to_numpy()]


def seconds(text: str) -> float:
    """A time in the form of ISO 8601 in seconds since 1970 (UTC); NaN for other texts."""
    try:
        time = datetime.datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp()
    except (OverflowError, ValueError):
        return np.nan


_READ: dict[str, Callable[[Field, Mapping[str, Part], int], tf.Tensor]] = {
    "number": _numbers,
    "boolean": _booleans,
    "category": _categories,
    "text": _texts,
    "time": _times,
}
DTYPES = {"number": "float32", "boolean": "float32", "text": "string", "time": "float64"}

"""Values of keys, compared exactly: no two different ones are ever made equal."""

import warnings
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil.records import arrow

__all__ = ["WIDE", "beyond_int64", "comparable"]

WIDE = pa.decimal256(76, 0)  # the widest integers
_WHOLE = 2.0**53  # up to there floats tell integers apart
_INTEGER = "^(0|-?[1-9][0-9]*)$"  # as an integer is written
_PREFIX = "^.*[/:]"  # such as "Encounter/", of references in FHIR
_UNITS = ("s", "ms", "us", "ns")


def comparable(one: pa.Array, two: pa.Array, where: str) -> tuple[pa.Array, pa.Array]:
    """Two arrays as arrays of one type, whose values are equal only where the given ones are.

    Args:
        one: what refers: numbers, texts, times or booleans. Null, NaN and infinite are missing.
        two: what it refers to, likewise.
        where: what they are, for errors: a column and what it refers to.

    Raises:
        TypeError: if they are of different types.
        ValueError: if a float may stand for several numbers, or numbers have too many digits.

    Warns:
        UserWarning: if texts are compared with integers: all of them are written as such; and if
            texts that refer are compared without what all of them begin with, such as
            "Encounter/": none of them is referred to as it is.
    """
    found = [arrow.alternatives(array, where) for array in (one, two)]
    types = list(dict.fromkeys(type_ for each in found for type_ in each))
    if any(len(each) > 1 for each in found) or not set(types) <= _EXACT.keys():
        raise _differ(types, where)
    arrays = [next(iter(each.values()), None) for each in found]
    present = [array for array in arrays if array is not None]
    if len(types) == 2:
        alike = _texts_of_integers(found[0], found[1], types, where)
    elif len({array.type for array in present}) == 1 and not _is_inexact(present[0].type):
        alike = present
    else:
        alike = _EXACT[types[0]](present, where) if types else []
    left = iter(alike)
    type_ = alike[0].type if alike else pa.null()
    one, two = (
        pa.nulls(len(given), type_) if array is None else next(left)
        for given, array in zip((one, two), arrays, strict=True)
    )
    return (_without_prefix(one, two, where) if types == ["text"] else one), two


def beyond_int64(array: pa.Array) -> bool:
    """Whether there are floats at some place that may have been integers beyond int64.

    Args:
        array: from Arrow's parser of JSON, which makes floats of such integers.
    """
    if pa.types.is_struct(array.type):
        return any(map(beyond_int64, array.flatten()))
    if pa.types.is_list(array.type):
        return beyond_int64(array.flatten())
    if not pa.types.is_floating(array.type):
        return False
    return bool(pc.any(pc.greater_equal(pc.abs(array), 2.0**63), min_count=0).as_py())


def _differ(types: list[str], where: str, detail: str = "") -> TypeError:
    return TypeError(
        "Expected keys of one type, numbers, texts, times or booleans. "
        f"Received: {' and '.join(types)} in {where}{detail}"
    )


def _is_inexact(type_: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type_) or pa.types.is_dictionary(type_))


def _texts_of_integers(
    one: dict[str, pa.Array], two: dict[str, pa.Array], types: list[str], where: str
) -> list[pa.Array]:
    """Texts and integers as texts."""
    if set(types) != {"number", "text"}:
        raise _differ(types, where)
    (texts,) = _texts([(one | two)["text"]], where)
    is_integer = pc.match_substring_regex(texts, _INTEGER)
    others = texts.filter(pc.invert(is_integer)).drop_null()
    if len(others):
        raise _differ(types, where, f", such as the text {others[0].as_py()!r}")
    (numbers,) = _numbers([(one | two)["number"]], where)
    if not pa.types.is_integer(numbers.type) and numbers.type != WIDE:
        raise _differ(types, where, f", such as the number {numbers.drop_null()[0].as_py()}")
    warnings.warn(
        f"Texts and integers are compared, as all texts are integers: {where}.", stacklevel=2
    )
    numbers = numbers.cast(pa.large_string())
    return [texts, numbers] if "text" in one else [numbers, texts]


def _texts(arrays: list[pa.Array], where: str) -> list[pa.Array]:
    found = []
    for array in arrays:
        part = arrow.present(array, where)
        values = part.values.cast(pa.large_string())
        found.append(values if part.at is None else arrow.spread(values, part.at, len(array)))
    return found


def _without_prefix(references: pa.Array, ids: pa.Array, where: str) -> pa.Array:
    """The references without what all begin with, if as they are none is to any of the ids."""
    known = ids.drop_null()
    if pc.any(pc.is_in(references, value_set=known), min_count=0).as_py():
        return references
    ends = pc.replace_substring_regex(references, _PREFIX, "")
    if not pc.any(pc.is_in(ends, value_set=known), min_count=0).as_py():
        return references
    lengths = pc.subtract(pc.utf8_length(references), pc.utf8_length(ends)).drop_null()
    prefix = pc.utf8_slice_codeunits(references.drop_null(), 0, lengths[0].as_py()).unique()
    if len(prefix) > 1 or len(lengths.unique()) > 1:
        return references
    warnings.warn(
        f"References are compared without {prefix[0].as_py()!r}, which all begin with: {where}.",
        stacklevel=2,
    )
    return ends


def _numbers(arrays: list[pa.Array], where: str) -> list[pa.Array]:
    if any(pa.types.is_temporal(array.type) for array in arrays):  # of a day, or durations
        return _of_one_unit(arrays, where)
    found = [_exact(array, where) for array in arrays]
    if all(array.type == found[0].type for array in found):
        return found
    scale = max(array.type.scale for array in found if pa.types.is_decimal(array.type))
    try:
        return [array.cast(pa.decimal256(76, scale)) for array in found]
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"Expected keys of at most 76 digits. Received: others in {where}: {error}"
        ) from error


def _exact(array: pa.Array, where: str) -> pa.Array:
    """Numbers as int64 if they all are, as wider integers if these all are, or as decimals."""
    if pa.types.is_floating(array.type):
        array = _of_floats(array, where)
    for type_ in (pa.int64(), WIDE):
        try:
            return array.cast(type_)
        except pa.ArrowInvalid:
            pass  # others are among them
    return array


def _of_floats(array: pa.Array, where: str) -> pa.Array:
    """Floats as the numbers that they stand for, if no others are written as the same floats."""
    x = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    is_there = np.isfinite(x)
    different = np.unique(x[is_there])
    is_whole = different == np.floor(different)
    for value in different[is_whole & (np.abs(different) > _WHOLE)]:
        raise _ambiguous(value, where)
    if is_whole.all():
        return pa.array(np.where(is_there, x, 0).astype(np.int64), mask=~is_there)
    texts = {value: f"{value:.15g}" for value in different.tolist()}
    for value, text in texts.items():
        if float(text) != value:
            raise _ambiguous(value, where)
    numbers = [
        Decimal(texts[value]) if there else None
        for value, there in zip(x.tolist(), is_there, strict=True)
    ]
    try:
        return pa.array(numbers)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"Expected keys of at most 76 digits. Received: others in {where}: {error}"
        ) from error


def _ambiguous(value: float, where: str) -> ValueError:
    return ValueError(
        "Expected keys that are exact, such as integers, decimals or texts. "
        f"Received: the float {float(value)!r} in {where}, which may stand for several numbers"
    )


def _times(arrays: list[pa.Array], where: str) -> list[pa.Array]:
    stamps = [
        array.cast(pa.timestamp("ms")) if pa.types.is_date(array.type) else array
        for array in arrays
    ]
    unit = max((array.type.unit for array in stamps), key=_UNITS.index)
    try:
        return [array.cast(pa.timestamp(unit)) for array in stamps]
    except pa.ArrowInvalid:  # such as the year 9999 in nanoseconds
        return [_nanoseconds(array) for array in stamps]


def _nanoseconds(stamps: pa.Array) -> pa.Array:
    """Since 1970 (UTC), as decimals."""
    factor = 1000 ** (3 - _UNITS.index(stamps.type.unit))
    units = stamps.cast(pa.int64()).cast(pa.decimal128(19, 0))
    product = pc.multiply(units, pa.scalar(Decimal(factor), pa.decimal128(10, 0)))
    return product.cast(pa.decimal128(30, 0))


def _of_one_unit(arrays: list[pa.Array], where: str) -> list[pa.Array]:
    """Times of the day, or durations."""
    for is_it, make in ((pa.types.is_time, pa.time64), (pa.types.is_duration, pa.duration)):
        if all(is_it(array.type) for array in arrays):
            return [array.cast(make("ns")) for array in arrays]
    shown = " and ".join(str(array.type) for array in arrays)
    raise TypeError(f"Expected keys of one type. Received: {shown} in {where}")


def _booleans(arrays: list[pa.Array], where: str) -> list[pa.Array]:
    return arrays


_EXACT = {"number": _numbers, "text": _texts, "time": _times, "boolean": _booleans}

"""Points in time as vectors."""

from typing import Any, ClassVar, NamedTuple

import keras
import tensorflow as tf

from keras_mmil._support.checks import check_number
from keras_mmil._support.types import Config
from keras_mmil.layers.encoders.base import FieldEncoder
from keras_mmil.layers.encoders.number import standardized

__all__ = ["Calendar", "TimeEncoder", "calendar"]

_DAY = 86_400  # seconds
_YEAR = 365.2425 * _DAY
_LIMIT = 3e11  # seconds, over 9,000 years; what is farther from 1970 is taken to be there


class Calendar(NamedTuple):
    """Parts of points in time (UTC), each int64 [n].

    Attributes:
        year: of the Gregorian calendar.
        month: 0 for January to 11.
        weekday: 0 for Monday to 6.
        hour: 0 to 23.
    """

    year: tf.Tensor
    month: tf.Tensor
    weekday: tf.Tensor
    hour: tf.Tensor


def calendar(seconds: tf.Tensor) -> Calendar:
    """The parts of points in time, given as float64 seconds since 1970 (UTC) [n].

    Reference:
        Hinnant, chrono-Compatible Low-Level Date Algorithms, 2021: `civil_from_days`.
    """
    total = tf.cast(tf.math.floor(tf.clip_by_value(seconds, -_LIMIT, _LIMIT)), tf.int64)
    days = total // _DAY
    era, day_of_era = _divided(days + 719_468, 146_097)  # from 1 March of the year 0
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * day + 2) // 153
    month = (from_march + 2) % 12
    year = 400 * era + year_of_era + tf.cast(month < 2, tf.int64)
    return Calendar(year, month, weekday=(days + 3) % 7, hour=total % _DAY // 3600)


@keras.saving.register_keras_serializable("keras_mmil")
class TimeEncoder(FieldEncoder):
    """A point in time: when it is, standardised, and its year, month, weekday and hour (UTC).

    The year is standardised, too; months, weekdays and hours are one-hot vectors.

    Args:
        mean, variance: of the times, in seconds since 1970.
        field: path of the field.

    Input shape:
        Floats [n], or in bags: float64 seconds since 1970 (UTC), NaN where they are missing.

    Output shape:
        The same with a last axis of 46.
    """

    kind: ClassVar[str] = "time"

    def __init__(
        self, mean: float = 0.0, variance: float = _YEAR**2, field: str = "", **kwargs: Any
    ) -> None:
        super().__init__(field, **kwargs)
        self.mean = check_number("mean", mean)
        self.variance = check_number("variance", variance, least=0)

    @property
    def n_features(self) -> int:
        return 2 + 12 + 7 + 24

    def features(self, values: tf.Tensor) -> tf.Tensor:
        seconds = tf.cast(values, tf.float64)
        mean = tf.constant(self.mean, tf.float64)
        seconds = tf.where(tf.math.is_nan(seconds), mean, seconds)
        parts = calendar(seconds)
        begun = tf.cast(parts.year - 1970, tf.float64) * _YEAR
        numbers = [standardized(x, self.mean, self._variance) for x in (seconds, begun)]
        one_hot = [
            tf.one_hot(part, n, dtype=self.compute_dtype)
            for part, n in ((parts.month, 12), (parts.weekday, 7), (parts.hour, 24))
        ]
        return tf.concat([tf.cast(tf.stack(numbers, axis=1), self.compute_dtype), *one_hot], axis=1)

    @property
    def _variance(self) -> float:
        """A day, at least, squared: times that hardly differ do so by the hour."""
        return max(self.variance, float(_DAY) ** 2)

    def get_config(self) -> Config:
        return {**super().get_config(), "mean": self.mean, "variance": self.variance}


def _divided(x: tf.Tensor, by: int) -> tuple[tf.Tensor, tf.Tensor]:
    return x // by, x % by

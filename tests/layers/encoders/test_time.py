"""Points in time as vectors."""

import datetime
import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_mmil.layers import TimeEncoder
from keras_mmil.layers.encoders.time import calendar
from keras_mmil.testing import run_layer_test

START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
YEAR = 365.2425 * 86_400


def seconds_of(time):
    return (time - START) / datetime.timedelta(seconds=1)


@pytest.mark.slow
@given(st.lists(st.datetimes(timezones=st.just(datetime.UTC)), min_size=1))
def test_parts_are_those_of_python(times):
    found = calendar(tf.constant([seconds_of(time) for time in times], tf.float64))
    rows = [tuple(map(int, row)) for row in zip(*found, strict=True)]
    for time, row in zip(times, rows, strict=True):
        assert row == (time.year, time.month - 1, time.weekday(), time.hour)


def features(time, mean, deviation):
    if time is None:
        return [0.0] * 45 + [1.0]
    numbers = [
        (seconds_of(time) - mean) / deviation,
        ((time.year - 1970) * YEAR - mean) / deviation,
    ]
    one_hot = [
        float(found == i)
        for found, n in ((time.month - 1, 12), (time.weekday(), 7), (time.hour, 24))
        for i in range(n)
    ]
    return [*numbers, *one_hot, 0.0]


@pytest.mark.slow
def test_time_encoder_is_a_layer():
    times = [
        datetime.datetime(2026, 11, 23, 21, 59, tzinfo=datetime.UTC),
        None,
        datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC),
    ]
    values = [math.nan if time is None else seconds_of(time) for time in times]
    bags = tf.ragged.constant([values[:2], [], values[2:]], dtype=tf.float64)
    arguments = {"mean": 1.75e9, "variance": YEAR**2, "field": "orders.paid_on"}
    expected = bags.with_flat_values([features(time, 1.75e9, YEAR) for time in times])
    run_layer_test(TimeEncoder, arguments, {"values": bags}, expected)


@pytest.mark.parametrize("second", [math.inf, -math.inf, 1e300, -1e300])
def test_far_times_are_finite(second):
    found = TimeEncoder()(tf.constant([second], tf.float64))
    assert np.isfinite(found).all()


def test_times_that_hardly_differ_are_not_blown_up():
    found = TimeEncoder(mean=0.0, variance=0.0)(tf.constant([0.0, 86_400.0], tf.float64))
    assert found[:, 0].numpy().tolist() == [0.0, 1.0]

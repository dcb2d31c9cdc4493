"""Conditions and rules."""

import numpy as np
import pytest

from keras_mmil.interpretation.rules.columns import Column
from keras_mmil.interpretation.rules.rule import Condition


@pytest.mark.parametrize(
    ("feature", "condition", "text"),
    [
        ("occurrence", Condition(0, low=0.5), "o_u1=1"),
        ("occurrence", Condition(1, high=0.5), "o_u2=0"),
        ("frequency", Condition(1, low=0.125), "f_u2 > 12.5 %"),
        ("frequency", Condition(1, high=float(np.float32(0.0603))), "f_u2 ≤ 6.03 %"),
        (
            "frequency",
            Condition(0, *map(float, np.float32([0.0277, 0.1259]))),
            "f_u1 ∈ (2.77, 12.59] %",
        ),
        ("count", Condition(0, low=2.5), "c_u1 ≥ 3"),
        ("count", Condition(0, high=2.5), "c_u1 ≤ 2"),
        ("count", Condition(0, high=0.5), "c_u1 ≤ 0"),
        ("count", Condition(0, low=2.0, high=4.5), "c_u1 ∈ [3, 4]"),
        ("count", Condition(0, low=0.5, high=1.5), "c_u1 = 1"),
        ("weight", Condition(0, low=0.5, high=1.5), "c_u1 ∈ (0.5, 1.5]"),
        ("weight", Condition(0, low=0.75), "c_u1 > 0.75"),
    ],
)
def test_text_of_conditions(feature, condition, text):
    assert condition.text((Column(feature, "u1"), Column(feature, "u2"))) == text
    assert Condition.from_dict(condition.to_dict()) == condition


def test_bounds_are_compared_as_the_tree_compares_them():
    """A float64 threshold between two neighbouring float32 must not be rounded to either."""
    below = np.float32(0.3)
    above = np.nextafter(below, np.float32(1))
    middle = (float(below) + float(above)) / 2
    bags = np.array([[below], [above]])
    np.testing.assert_array_equal(Condition(0, low=middle).holds(bags), [False, True])

"""Made-up data whose rules are known: for tests, examples, and the first steps."""

import importlib

from keras_mmil.datasets.synthetic.points import (
    load_offside,
    load_three_level,
    load_zero_and_no_two,
    offside_image_labels,
    offside_labels,
    three_level_labels,
    zero_and_no_two_labels,
)

__all__ = [
    "load_offside",
    "load_three_level",
    "load_zero_and_no_two",
    "offside_image_labels",
    "offside_labels",
    "opinions",
    "three_level_labels",
    "zero_and_no_two_labels",
]


def __getattr__(name):
    if name != "opinions":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.opinions")

"""Nested multisets in compressed form."""

from keras_mmil.bags.bags import Bags, inputs_of, instances_of
from keras_mmil.bags.components import LevelNames, check_keys, input_names, level_names

__all__ = [
    "Bags",
    "LevelNames",
    "check_keys",
    "input_names",
    "inputs_of",
    "instances_of",
    "level_names",
]

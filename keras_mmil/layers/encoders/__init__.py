"""Layers that encode the fields of records: values in, vectors out, also where they are missing."""

from keras_mmil.layers.encoders.base import FieldEncoder
from keras_mmil.layers.encoders.category import CategoryEncoder
from keras_mmil.layers.encoders.number import BooleanEncoder, NumberEncoder
from keras_mmil.layers.encoders.text import TextEncoder
from keras_mmil.layers.encoders.time import TimeEncoder

__all__ = [
    "BooleanEncoder",
    "CategoryEncoder",
    "FieldEncoder",
    "NumberEncoder",
    "TextEncoder",
    "TimeEncoder",
]

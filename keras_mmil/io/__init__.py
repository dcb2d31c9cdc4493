"""Nested bags in files, for data that do not fit in memory."""

from keras_mmil.io.manifest import Info, info
from keras_mmil.io.reading import read
from keras_mmil.io.writing import write

__all__ = ["Info", "info", "read", "write"]

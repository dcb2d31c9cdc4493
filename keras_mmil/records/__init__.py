"""Nested records: JSON documents, linked tables and Parquet files."""

from keras_mmil.records.fields import Field
from keras_mmil.records.files import Files
from keras_mmil.records.linking import link
from keras_mmil.records.schema import Schema

__all__ = ["Field", "Files", "Schema", "link"]

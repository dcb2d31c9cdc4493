"""Nested records: JSON documents, linked tables and Parquet files."""

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(
        "Expected pyarrow for nested records: pip install 'keras-mmil[records]'"
    ) from error

from keras_mmil.records.fields import Field
from keras_mmil.records.linking import link
from keras_mmil.records.schema import Schema

__all__ = ["Field", "Schema", "link"]

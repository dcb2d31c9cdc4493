"""Nested records: JSON documents, linked tables and Parquet files."""

from typing import TYPE_CHECKING

from keras_mmil._support.lazy import lazy
from keras_mmil.records.fields import Field
from keras_mmil.records.files import Files
from keras_mmil.records.keys import find_keys
from keras_mmil.records.linking import link
from keras_mmil.records.moments import as_of
from keras_mmil.records.schema import Schema

if TYPE_CHECKING:
    from keras_mmil.records.database import from_database
    from keras_mmil.records.network import Labels, records_model
    from keras_mmil.records.relbench import from_relbench

__all__ = [
    "Field",
    "Files",
    "Labels",
    "Schema",
    "as_of",
    "find_keys",
    "from_database",
    "from_relbench",
    "link",
    "records_model",
]

# Only those who build a network need its layers, and databases are read by few.
_HOMES = {
    "Labels": "network",
    "from_database": "database",
    "from_relbench": "relbench",
    "records_model": "network",
}
__getattr__, __dir__ = lazy(__name__, _HOMES, __all__)

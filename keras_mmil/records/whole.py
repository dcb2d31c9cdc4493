"""All records of a source as one array."""

from typing import Any

import pyarrow as pa

from keras_mmil.records.keyed import joined
from keras_mmil.records.sources import batches

__all__ = ["whole"]


def whole(source: Any) -> pa.Array:
    """All records of a source, an array of structs or maps, which can be taken apart.

    Args:
        source: as of `sources.batches`.

    Raises:
        FileNotFoundError, TypeError, ValueError: as `sources.batches`.
    """
    return joined([batch.records for batch in batches(source)], "")

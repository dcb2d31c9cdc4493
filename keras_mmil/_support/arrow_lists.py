"""Arrow arrays of lists as NumPy has them. The only module of the ground that needs pyarrow."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.types import Array


def as_numpy(array: pa.Array) -> Array:
    """An array without nulls as NumPy's, a copy where the layouts differ, as those of booleans."""
    return array.to_numpy(zero_copy_only=False)


def lengths_and_members(lists: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Lists, none of them null, taken apart: RaggedTensors are made of this.

    Args:
        lists: array of lists, large lists or lists of a fixed size; may be a slice.

    Returns:
        Numbers of members, and the members of all lists, one list after the other.
    """
    return as_numpy(pc.list_value_length(lists)).astype(np.int64), lists.flatten()

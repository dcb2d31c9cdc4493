"""Top-bags in Parquet files: a column for each tensor, lists in lists for nested bags."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import tensorflow as tf

from keras_mmil._support.arrow_lists import as_numpy, lengths_and_members
from keras_mmil._support.rows import rebatch, row_splits
from keras_mmil._support.types import Array
from keras_mmil.io.layout import FlatTensor, Layout, TensorLayout
from keras_mmil.io.reading import BLOCK, CYCLE, READ, Batching, Check, asserted, shuffled_rows

__all__ = ["READ_ARGUMENTS", "ROWS", "WRITTEN", "epoch", "writer"]

ROWS = 2**10  # of a batch of Arrow
WRITTEN = {"compression": "zstd", "write_page_checksum": True}
# A column is read piece by piece, and no groups ahead.
READ_ARGUMENTS = {"pre_buffer": False, "buffer_size": 2**16, "page_checksum_verification": True}


@contextlib.contextmanager
def writer(path: Path, layout: Layout) -> Iterator[Callable[[Sequence[FlatTensor]], None]]:
    """A function that appends columns of equally many top-bags to a new file."""
    schema = _schema(layout)
    with pa.parquet.ParquetWriter(path, schema, **WRITTEN) as file:

        def write(columns: Sequence[FlatTensor]) -> None:
            pairs = zip(columns, schema, strict=True)
            arrays = [_lists(column, field.type) for column, field in pairs]
            table = pa.Table.from_arrays(arrays, schema=schema)
            file.write_table(table, row_group_size=max(1, len(table)))

        yield write


def epoch(
    layout: Layout, files: tf.Tensor, key: tf.Tensor, batching: Batching, check: Check
) -> tf.data.Dataset:
    """Dataset of the batches of an epoch: tuples of tensors in the order of `layout.parts`.

    `files` are strings [files, 1] or [files, 2], in the order of the epoch: the path, and the mask
    if not all top-bags are read. `key` is that of the epoch, int64 [2].
    """
    nothing = [part for each in layout.parts for part in _empty(each)]

    def batches(files: Array, key: Array) -> Iterator[Any]:
        try:
            opened = (
                _chosen(_checked(Path(path.decode()), layout, check), *mask)
                for path, *mask in files
            )
            for batch in _in_order(opened, batching, key):
                yield ("", *_taken_apart(batch, layout))
        except (pa.ArrowException, OSError, ValueError) as error:
            yield (str(error), *nothing)

    signature = [tf.TensorSpec([], tf.string)]
    for part in layout.parts:
        signature.append(tf.TensorSpec([None, *part.inner_shape], part.dtype))
        signature += [tf.TensorSpec([None], tf.int64)] * part.ragged_rank

    def assembled(message: tf.Tensor, *components: tf.Tensor) -> tuple[Any, ...]:
        left = iter(asserted(message, components))
        tensors = []
        for part in layout.parts:
            values = next(left)
            splits = [next(left) for _ in range(part.ragged_rank)]
            if splits:
                values = tf.RaggedTensor.from_nested_row_splits(values, splits, validate=False)
            tensors.append(values)
        return tuple(tensors)

    return tf.data.Dataset.from_generator(
        batches, output_signature=tuple(signature), args=(files, key)
    ).map(assembled)


def _in_order(
    opened: Iterable[Iterator[pa.RecordBatch]], batching: Batching, key: Array
) -> Iterator[pa.RecordBatch]:
    """The batches of an epoch."""
    if not batching.window:
        found = (batch for file in opened for batch in file)
        yield from map(_joined, _pieces(found, batching.batch_size))
        return
    for number, window in enumerate(_pieces(_interleaved(opened), batching.window)):
        whole = _joined(window)
        window.clear()  # Neither the pieces nor this window are held while the next is read.
        order = shuffled_rows(len(whole), key, number)
        for start in range(0, len(order), batching.batch_size):
            yield whole.take(pa.array(order[start : start + batching.batch_size]))
        del whole


def _interleaved(opened: Iterable[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Blocks of several files in turns, exactly like `tf.data.Dataset.interleave`."""
    waiting = iter(opened)
    active: list[Iterator[pa.RecordBatch] | None] = [None] * CYCLE
    is_left = True
    while is_left or any(active):
        for i in range(CYCLE):
            if active[i] is None and is_left:
                file = next(waiting, None)
                is_left = file is not None
                active[i] = None if file is None else _blocks(file)
            found = active[i]
            if found is None:
                continue
            block = next(found, None)
            if block is not None:
                yield block
            if block is None or len(block) < BLOCK:
                active[i] = None


def _blocks(file: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return map(_joined, _pieces(file, BLOCK))


def _pieces(found: Iterable[pa.RecordBatch], size: int) -> Iterator[list[pa.RecordBatch]]:
    return rebatch(found, size, len, lambda batch, rows: batch[rows])


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def _checked(path: Path, layout: Layout, check: Check) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in batches of Arrow's own sizes."""
    shard = check(path)
    schema = _schema(layout)
    try:
        with pa.parquet.ParquetFile(path, **READ_ARGUMENTS) as file:
            if not file.schema_arrow.equals(schema):
                raise ValueError(f"its columns are {file.schema_arrow.names}")
            if file.metadata.num_rows != shard.top_bags:
                raise ValueError(f"it has {file.metadata.num_rows} rows, not {shard.top_bags}")
            yield from file.iter_batches(ROWS)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(
            f"Expected a Parquet file that `keras_mmil.io.write` made. Received: {path}: {error}"
        ) from error


# Columns ----------------------------------------------------------------------------------------


def _schema(layout: Layout) -> pa.Schema:
    return pa.schema([_field(part.name, _type(part)) for part in layout.parts])


def _field(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, nullable=False)


def _type(part: TensorLayout) -> pa.DataType:
    type_ = pa.from_numpy_dtype(part.dtype) if part.dtype != "string" else pa.large_binary()
    if part.inner_shape:
        type_ = pa.list_(_field("element", type_), part.size)
    for _ in range(part.ragged_rank):
        type_ = pa.large_list(_field("element", type_))
    return type_


def _lists(column: FlatTensor, type_: pa.DataType) -> pa.Array:
    """A tensor as an Arrow array of a type."""
    types = deque([type_])
    while pa.types.is_nested(types[-1]):
        types.append(types[-1].value_type)
    array = pa.array(column.values.reshape(-1), types.pop())
    if column.values.ndim > 1:
        array = pa.FixedSizeListArray.from_arrays(array, type=types.pop())
    for splits in reversed(column.splits):
        array = pa.LargeListArray.from_arrays(pa.array(splits), array, type=types.pop())
    return array


def _chosen(found: Iterator[pa.RecordBatch], mask: bytes | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a file that its mask selects."""
    if mask is None:
        yield from found
        return
    is_read = np.frombuffer(mask, "S1") == READ
    start = 0
    for batch in found:
        chosen = batch.filter(pa.array(is_read[start : start + len(batch)]))
        start += len(batch)
        if len(chosen):
            yield chosen


def _taken_apart(batch: pa.RecordBatch, layout: Layout) -> Iterator[Array]:
    """For each part its values, and then its row splits."""
    for part, array in zip(layout.parts, batch.columns, strict=True):
        splits = []
        for _ in range(part.ragged_rank):
            lengths, array = lengths_and_members(array)
            splits.append(row_splits(lengths))
        if part.inner_shape:
            array = array.flatten()
        yield as_numpy(array).reshape(-1, *part.inner_shape)
        yield from splits


def _empty(part: TensorLayout) -> list[Array]:
    dtype = object if part.dtype == "string" else part.dtype
    return [np.zeros((0, *part.inner_shape), dtype), *[np.zeros(1, np.int64)] * part.ragged_rank]

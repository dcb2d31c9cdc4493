"""Top-bags in TFRecord files: an Example each, parsed in the graph, batch by batch."""

import contextlib
import functools
import itertools
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array, Ints
from keras_mmil.io.layout import FlatTensor, Layout, TensorLayout
from keras_mmil.io.reading import BLOCK, CYCLE, READ, Batching, Check, asserted, shuffled

__all__ = ["epoch", "writer"]

_BUFFER = 2**18  # bytes of a file that are read at a time
# What is before a record, its length and a checksum of that, and a checksum behind it.
_HEAD, _FOOT = struct.Struct("<QI"), 4


@contextlib.contextmanager
def writer(path: Path, layout: Layout) -> Iterator[Callable[[Sequence[FlatTensor]], None]]:
    """A function that appends columns of equally many top-bags to a new file."""
    with tf.io.TFRecordWriter(str(path)) as file:

        def write(columns: Sequence[FlatTensor]) -> None:
            features = [
                feature
                for part, column in zip(layout.parts, columns, strict=True)
                for feature in _features(part, column)
            ]
            names = [name for name, _ in features]
            for values in zip(*(values for _, values in features), strict=True):
                example = tf.train.Example(
                    features=tf.train.Features(feature=dict(zip(names, values, strict=True)))
                )
                file.write(example.SerializeToString(deterministic=True))

        yield write


def epoch(
    layout: Layout, files: tf.Tensor, key: tf.Tensor, batching: Batching, check: Check | None
) -> tf.data.Dataset:
    """Batches of an epoch; see `parquet.epoch`. Without a check it is a graph of TensorFlow."""
    opened = tf.data.Dataset.from_tensor_slices(files)
    if check is not None:
        opened = opened.map(lambda file: _checked(file, check))
    records = opened.interleave(
        _records,
        cycle_length=CYCLE if batching.window else 1,
        block_length=BLOCK,
    )
    if batching.window:
        windows = records.batch(batching.window).enumerate()
        records = windows.map(lambda number, some: shuffled(some, key, number))
        batches = records.rebatch(batching.batch_size)
    else:
        batches = records.batch(batching.batch_size)
    return batches.map(
        lambda some: _parsed(some, layout),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def _records(file: tf.Tensor) -> tf.data.Dataset:
    """The records of a file that are to be read."""
    records = tf.data.TFRecordDataset(file[0], buffer_size=_BUFFER)
    if file.shape[0] == 1:
        return records
    mask = tf.data.Dataset.from_tensor_slices(tf.io.decode_raw(file[1], tf.uint8))
    chosen = tf.data.Dataset.zip(records, mask).filter(lambda _, byte: byte == ord(READ))
    return chosen.map(lambda record, _: record)


def _checked(file: tf.Tensor, check: Check) -> tf.Tensor:
    def message(encoded: bytes) -> bytes:
        path = Path(encoded.decode())
        try:
            shard = check(path)
        except ValueError as error:
            return str(error).encode()
        n = _n_records(path, shard.sha256)
        if n == shard.top_bags:
            return b""
        return f"Expected {shard.top_bags:,} top-bags. Received: {path} with {n:,}".encode()

    return asserted(tf.numpy_function(message, [file[0]], tf.string), file)


@functools.cache
def _n_records(path: Path, sha256: str) -> int:
    """Number of records in a file of this checksum; the last may be cut off."""
    n, end = 0, path.stat().st_size
    with open(path, "rb") as file:
        while file.tell() < end:
            head = file.read(_HEAD.size)
            length = _HEAD.unpack(head)[0] if len(head) == _HEAD.size else end
            file.seek(min(length + _FOOT, end), os.SEEK_CUR)
            n += 1
    return n


# Examples ---------------------------------------------------------------------------------------
# Files hold texts, float32 and int64 only. What fits neither is kept bit by bit.

_FLOATS = (tf.float16, tf.float32)
_BITS = (tf.float64, tf.uint64)


def _features(
    part: TensorLayout, column: FlatTensor
) -> Iterator[tuple[str, Iterator[tf.train.Feature]]]:
    """For each feature its name, and its values in each top-bag."""
    bounds = np.arange(column.top_bags + 1)  # of the members of each top-bag
    for level, splits in enumerate(column.splits):
        if level:
            yield _lengths_of(part, level), _in_top_bags(np.diff(splits), bounds)
        bounds = splits[bounds]
    values = column.values.reshape(-1)
    dtype = tf.as_dtype(part.dtype)
    if dtype in _BITS:
        values = values.view(np.int64)
    elif dtype == tf.bool:
        values = values.view(np.uint8)
    yield part.name, _in_top_bags(values, bounds * part.size, dtype)


def _in_top_bags(values: Array, bounds: Ints, dtype: tf.DType = tf.int64) -> Iterator[Any]:
    """The values of each top-bag, as a feature."""
    listed = values.tolist()
    for start, stop in itertools.pairwise(bounds.tolist()):
        some = listed[start:stop]
        if dtype == tf.string:
            yield tf.train.Feature(bytes_list=tf.train.BytesList(value=some))
        elif dtype in _FLOATS:
            yield tf.train.Feature(float_list=tf.train.FloatList(value=some))
        else:
            yield tf.train.Feature(int64_list=tf.train.Int64List(value=some))


def _parsed(serialized: tf.Tensor, layout: Layout) -> tuple[Any, ...]:
    """The tensors of a batch of Examples."""
    found = tf.io.parse_example(serialized, {part.name: _wanted(part) for part in layout.parts})
    return tuple(_restored(found[part.name], part) for part in layout.parts)


def _wanted(part: TensorLayout) -> Any:
    """What `parse_example` needs to know of a part."""
    dtype = tf.as_dtype(part.dtype)
    if dtype != tf.string:
        dtype = tf.float32 if dtype in _FLOATS else tf.int64
    if not part.ragged_rank:
        return tf.io.FixedLenFeature(part.inner_shape, dtype)
    partitions: list[Any] = [
        tf.io.RaggedFeature.RowLengths(_lengths_of(part, level))
        for level in range(1, part.ragged_rank)
    ]
    if part.inner_shape:
        partitions.append(tf.io.RaggedFeature.UniformRowLength(part.size))
    return tf.io.RaggedFeature(
        dtype, part.name, partitions, row_splits_dtype=tf.int64, validate=True
    )


def _restored(
    tensor: tf.Tensor | tf.RaggedTensor, part: TensorLayout
) -> tf.Tensor | tf.RaggedTensor:
    """A parsed tensor with its dtype and the shape of its instances."""
    if isinstance(tensor, tf.RaggedTensor):
        values = tf.reshape(tensor.flat_values, [-1, *part.inner_shape])
        return tensor.with_flat_values(_restored(values, part))
    dtype = tf.as_dtype(part.dtype)
    if dtype in _BITS:
        return tf.bitcast(tensor, dtype)
    return tensor if tensor.dtype == dtype else tf.cast(tensor, dtype)


def _lengths_of(part: TensorLayout, level: int) -> str:
    """The name of the feature with the sizes of the bags of a level, which is not the outermost."""
    return f"{part.name}:lengths_{level}"

"""Files of top-bags as a `tf.data.Dataset`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.types import Ints, PathLike
from keras_mmil.io.manifest import Manifest, Shard, check_content, check_size, module_of

__all__ = [
    "BLOCK",
    "CYCLE",
    "READ",
    "Batching",
    "Check",
    "asserted",
    "read",
    "shuffled",
    "shuffled_rows",
]

CYCLE = 4  # files that are read in turns
BLOCK = 16  # top-bags of a turn
READ = b"R"  # in the mask of a file: a byte for each top-bag, this one if it is to be read

# Of the path of a shard. It raises ValueError if the file is not as it was written.
Check: TypeAlias = Callable[[Path], Shard]

_HELD = 2**25  # bytes of the tensors of the top-bags that are held to be shuffled


def read(
    folder: PathLike,
    batch_size: int = 32,
    *,
    shuffle: bool = False,
    seed: int | None = None,
    first_epoch: int | None = None,
    shard: tuple[int, int] = (0, 1),
    buffer_size: int | None = None,
    rows: Ints | Sequence[int] | None = None,
    verify: bool = True,
) -> tf.data.Dataset:
    """Batches of whole top-bags from the files of `write`, as a Dataset.

    It can be iterated repeatedly, and holds few top-bags at a time. `Bags` come as the dict of
    their inputs, which `Model.fit` takes.

    With `shuffle`, the files are in another order each epoch, four of them are read in turns, and
    `buffer_size` top-bags at a time are shuffled. The order depends on the seed and the number of
    top-bags in each file: it is the same in both formats.

    Args:
        folder: that of `write`.
        batch_size: number of top-bags in a batch; the last batch of an epoch may have fewer.
        shuffle: whether the top-bags are in another random order each epoch.
        seed: integer that makes the orders the same in every run.
        first_epoch: None for a Dataset of one epoch, an integer for an endless one that begins with
            this epoch, as in `batches.to_dataset`.
        shard: `(i, n)` for every n-th file from file i on, for worker i of n. Together the workers
            read every top-bag once an epoch, but not equally many each.
        buffer_size: number of top-bags that are held to be shuffled; None for 32 MiB of them, but
            at least a batch. If it is the number of all, all orders are equally likely.
        rows: indices of the top-bags to read, such as those of a fold, in the order in which they
            were written; None for all. The order of `rows` does not matter.
        verify: whether to compare each file with its checksum before this process first reads it.
            Otherwise only sizes are compared, and the Dataset of TFRecord files is a graph of
            TensorFlow alone, as `tf.data.experimental.service` needs.

    Returns:
        Dataset of `x`, or of tuples `(x, y)` or `(x, y, sample_weight)`, as they were written.
        Its cardinality is the number of batches.

    Raises:
        FileNotFoundError: if nothing was written to the folder.
        ValueError: if not all data were written, the manifest is damaged, or files are missing or
            of another size; if `rows` are not distinct indices, or none is in the files of `shard`.
            If a checksum differs, the iteration raises `tf.errors.InvalidArgumentError`, with a
            message that names the file.

    Example:

    >>> io.write("reviews", bags, y)
    >>> dataset = io.read("reviews", batch_size=20, shuffle=True, seed=0)
    >>> model.fit(dataset, epochs=10)
    """
    batch_size = positive_int("batch_size", batch_size)
    seed = check_int("seed", seed, optional=True)
    first_epoch = check_int("first_epoch", first_epoch, optional=True)
    folder = Path(folder).absolute()
    manifest = _complete(folder)
    masks = _masks(manifest, rows)
    shards = _own(manifest.shards, shard)
    shards = [each for each in shards if masks is None or READ in masks[each.file]]
    for each in shards:
        check_size(folder / each.file, each)
    n = sum(masks[each.file].count(READ) if masks else each.top_bags for each in shards)
    if n == 0:
        raise ValueError(f"Expected rows that are in these files. Received: {shard=}, other rows")
    batching = Batching(batch_size, _window(shards, n, batch_size, buffer_size) if shuffle else 0)
    module = module_of(manifest.format)
    is_graph = manifest.format == "tfrecord" and not verify  # of TensorFlow alone
    check = None if is_graph else _checks_of(folder, shards, verify)
    opened = [
        [str(folder / each.file).encode(), *([masks[each.file]] if masks else [])]
        for each in shards
    ]

    @tf.autograph.experimental.do_not_convert
    def epoch(key: tf.Tensor) -> tf.data.Dataset:
        files = tf.constant(opened)
        if shuffle:
            files = tf.random.experimental.stateless_shuffle(files, key)
        return module.epoch(manifest.layout, files, key, batching, check)

    n_batches = -(-n // batch_size) if first_epoch is None else tf.data.INFINITE_CARDINALITY
    dataset = (
        _epoch_keys(seed, first_epoch, shuffle)
        .flat_map(epoch)
        .map(lambda *tensors: manifest.layout.pack(tensors))
        .apply(tf.data.experimental.assert_cardinality(n_batches))
        # Otherwise tf.data appends a buffer that grows whenever the reader is slower than its user.
        .prefetch(1)
    )
    return dataset if shard[1] == 1 else dataset.with_options(_as_sharded())


def _complete(folder: Path) -> Manifest:
    manifest = Manifest.read(folder)
    if not manifest.is_complete:
        raise ValueError(
            "Expected data that were written to their end; `write(…, resume=True)` continues. "
            f"Received: {folder}, with the first {manifest.top_bags:,} top-bags"
        )
    return manifest


def _masks(manifest: Manifest, rows: Ints | Sequence[int] | None) -> dict[str, bytes] | None:
    """By file, a byte for each top-bag, `READ` if it is to be read; None if all are."""
    if rows is None:
        return None
    indices = np.asarray(rows)
    n = manifest.top_bags
    if indices.size == 0 or indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise ValueError(
            f"Expected indices of {n:,} top-bags, some at least. "
            f"Received: rows, {indices.dtype} of shape {indices.shape}"
        )
    if indices.min() < 0 or indices.max() >= n:
        raise ValueError(
            f"Expected indices of {n:,} top-bags. "
            f"Received: rows from {indices.min()} to {indices.max()}"
        )
    counts = np.bincount(indices, minlength=n)
    if counts.max() > 1:
        raise ValueError(f"Expected each index once. Received: rows with {counts.argmax()} again")
    ends = np.cumsum([shard.top_bags for shard in manifest.shards])
    masks = np.split(np.where(counts, READ, b"-"), ends[:-1])
    return {shard.file: mask.tobytes() for shard, mask in zip(manifest.shards, masks, strict=True)}


def _own(shards: Sequence[Shard], shard: tuple[int, int]) -> Sequence[Shard]:
    index, count = shard
    count = check_int("shard[1]", count, 1, len(shards))
    return shards[check_int("shard[0]", index, 0, count - 1) :: count]


def _window(shards: Sequence[Shard], n: int, batch_size: int, buffer_size: int | None) -> int:
    """Number of the n top-bags that are held to be shuffled, in whole batches."""
    if buffer_size is None:
        n_in_files = sum(each.top_bags for each in shards)
        buffer_size = max(1, _HELD * n_in_files // sum(each.tensor_bytes for each in shards))
    wanted = min(positive_int("buffer_size", buffer_size), n)
    return -(-wanted // batch_size) * batch_size


def _as_sharded() -> Any:
    """Options with which tf.distribute does not leave out further files."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return options


def _checks_of(folder: Path, shards: Sequence[Shard], verify: bool) -> Check:
    """A check of the shards of a folder: by checksum with `verify`, or else by size."""
    by_name = {shard.file: shard for shard in shards}

    def check(path: Path) -> Shard:
        shard = by_name[path.name]
        (check_content if verify else check_size)(path, shard)
        return shard

    return check


def asserted(message: tf.Tensor, x: Any) -> Any:
    """Tensors of a graph that fails with a message, without a traceback, unless this is empty."""
    with tf.control_dependencies([tf.debugging.Assert(message == "", [message])]):
        return tf.nest.map_structure(tf.identity, x)


# Orders -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batching:
    """How top-bags are batched.

    Attributes:
        batch_size: number of top-bags in a batch.
        window: number of top-bags that are held to be shuffled, a multiple of `batch_size`; 0 for
            the order of the data.
    """

    batch_size: int
    window: int


def _epoch_keys(seed: int | None, first_epoch: int | None, shuffle: bool) -> tf.data.Dataset:
    """Dataset of keys, int64 [2], that orders of epochs depend on.

    It has one key, another one in each iteration; or with `first_epoch`, all keys from there on.
    """
    if first_epoch is not None:
        start = tf.constant(seed or 0, tf.int64)
        return tf.data.Dataset.counter(first_epoch).map(lambda epoch: tf.stack([start, epoch]))
    if not shuffle:
        return tf.data.Dataset.from_tensors(tf.zeros([2], tf.int64))
    numbers = tf.data.Dataset.random(seed, rerandomize_each_iteration=True)
    return numbers.batch(2, drop_remainder=True).take(1)


def shuffled(x: tf.Tensor, key: tf.Tensor, number: int | tf.Tensor) -> tf.Tensor:
    """The rows of a tensor in the random order of an epoch's key and a number."""
    key = tf.random.experimental.stateless_fold_in(key, tf.cast(number, tf.int64))
    return tf.random.experimental.stateless_shuffle(x, key)


def shuffled_rows(n: int, key: Ints, number: int) -> Ints:
    """Indices of n rows in the order of `shuffled`."""
    with tf.device("CPU"):
        return shuffled(tf.range(n), tf.constant(key, tf.int64), number).numpy()

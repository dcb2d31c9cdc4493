"""Files of top-bags as a `tf.data.Dataset`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.types import Ints, PathLike
from keras_mmil.io.formats import module_of
from keras_mmil.io.manifest import Manifest, Shard
from keras_mmil.io.orders import READ, Plan, epoch_keys
from keras_mmil.io.shards import check_size, checks_of

__all__ = ["read"]

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
    """Batches of whole top-bags from the files that `write` made.

    The Dataset can be iterated again and again, and holds few top-bags at a time. `Bags` come as
    the dict of their inputs, in the form that `Model.fit` takes.

    The files are put in another order each epoch if `shuffle`, four of them are read in turns, and
    of what is read `buffer_size` top-bags at a time are put in a random order. An order follows
    from the seed and the files' number of top-bags: it is the same for both formats.

    Args:
        folder: what `write` was given.
        batch_size: number of top-bags in a batch; the last batch of an epoch may have fewer.
        shuffle: whether the top-bags are put in another random order each epoch.
        seed: integer that makes the orders the same in every run.
        first_epoch: None for a Dataset of one epoch, an integer for an endless one that begins with
            the epoch of that number, as in `batches.to_dataset`.
        shard: `(i, n)` for every n-th file from file i on, as for worker i of n. Together the
            workers read every top-bag once an epoch, but not equally many.
        buffer_size: number of top-bags that are held to be shuffled; None for 32 MiB of them, and a
            batch at least. If it is that of the data, all orders are equally likely.
        rows: indices of the top-bags to read, such as those of a fold, from 0 in the order in which
            they were written; None for all. The order of `rows` makes no difference.
        verify: whether to compare each file with its checksum before it is read for the first time
            in this process. Without, the Dataset of TFRecord files is a graph of TensorFlow alone,
            for `tf.data.experimental.service`; then only the sizes of the files are compared.

    Returns:
        Dataset of `x`, or of tuples `(x, y)` or `(x, y, sample_weight)`, as they were written.
        Its cardinality is the number of batches.

    Raises:
        FileNotFoundError: if nothing was written to the folder.
        ValueError: if not all was written, the manifest is damaged, or files are missing or of
            another size; if `rows` are not indices that are all different, or none of them is in
            the files of `shard`. Where a checksum differs, the iteration raises
            `tf.errors.InvalidArgumentError`, as tf.data does, with a message that names the file.

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
    plan = Plan(batch_size, _window(shards, n, batch_size, buffer_size) if shuffle else 0)
    module = module_of(manifest.format)
    is_graph = manifest.format == "tfrecord" and not verify  # of TensorFlow alone
    check = None if is_graph else checks_of(folder, shards, verify)
    opened = [
        [str(folder / each.file).encode(), *([masks[each.file]] if masks else [])]
        for each in shards
    ]

    @tf.autograph.experimental.do_not_convert
    def epoch(key: tf.Tensor) -> tf.data.Dataset:
        files = tf.constant(opened)
        if shuffle:
            files = tf.random.experimental.stateless_shuffle(files, key)
        return module.epoch(manifest.layout, files, key, plan, check)

    n_batches = -(-n // batch_size) if first_epoch is None else tf.data.INFINITE_CARDINALITY
    dataset = (
        epoch_keys(seed, first_epoch, shuffle)
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
    """By file, a byte for each top-bag, `READ` where it is to be read; None where all are."""
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
    """Number of the n top-bags that are held: whole batches, but no more than there are."""
    if buffer_size is None:
        n_in_files = sum(each.top_bags for each in shards)
        buffer_size = max(1, _HELD * n_in_files // sum(each.tensor_bytes for each in shards))
    wanted = min(positive_int("buffer_size", buffer_size), n)
    return -(-wanted // batch_size) * batch_size


def _as_sharded() -> Any:
    """Options that keep tf.distribute from leaving out further files."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return options
